package eval

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/text"
)

// HippoName is how the comparison is shown.
const HippoName = "hipporag2-style"

// Hippo is a walk in the style of HippoRAG2 on a recording that has triples: phrases,
// passages and facts, synonyms, seeds from the five nearest facts and, weakly, from all passages. It has the built-in
// embedder and no model's filter of facts, so it shows the graph, not that system. It runs in this process, beside
// the index.
type Hippo struct {
	embed    builtin.Embedder
	passages []string // ids
	pvec     [][]float32
	facts    []fact
	phrases  int
	df       []float64 // passages of each phrase
	to       [][]edge  // phrases, then passages
}

type fact struct {
	s, o int
	vec  []float32
}

type edge struct {
	to int
	w  float64
}

// Parameters of the comparison.
const (
	hippoFacts   = 5
	hippoPhrases = 5
	hippoPassage = 0.05
	hippoSynonym = 0.8
	hippoDamping = 0.5
	hippoRounds  = 40
)

func normalise(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		return ' '
	}, strings.ToLower(s))), " ")
}

// tripleRow is what a recording says of a passage.
type tripleRow struct {
	Chunk   string     `json:"chunk_id"`
	Triples [][]string `json:"triples"`
}

// triples reads a recording; none where there is no recording, or one without triples.
func triples(d *Dataset) ([]tripleRow, error) {
	path := filepath.Join(d.Dir, "extractions.jsonl")
	if _, err := os.Stat(path); err != nil {
		return nil, nil //nolint:nilerr // nothing to compare
	}
	var rows []tripleRow
	n := 0
	err := lines(path, func(_ int, b []byte) error {
		var r tripleRow
		err := json.Unmarshal(b, &r)
		rows = append(rows, r)
		n += len(r.Triples)
		return err
	})
	if n == 0 {
		rows = nil
	}
	return rows, err
}

// NewHippo reads the recording; nil where it has no triples.
func NewHippo(dataset *Dataset) (*Hippo, error) {
	rows, err := triples(dataset)
	if err != nil || rows == nil {
		return nil, err
	}
	hippo := &Hippo{}
	for id := range dataset.Texts {
		hippo.passages = append(hippo.passages, id)
	}
	sort.Strings(hippo.passages)
	at := map[string]int{}
	df := map[string]float64{}
	for i, id := range hippo.passages {
		at[id] = i
		seen := map[string]bool{}
		for _, t := range text.Surface(dataset.Texts[id]) {
			if !seen[t] {
				seen[t] = true
				df[t]++
			}
		}
	}
	total := float64(len(hippo.passages))
	hippo.embed = builtin.Embedder{IDF: func(t string) float64 { return math.Log(1 + (total+1)/(df[t]+0.5)) }}
	for _, id := range hippo.passages {
		hippo.pvec = append(hippo.pvec, hippo.embed.Vector(dataset.Texts[id]))
	}
	hippo.connect(rows, at)
	return hippo, nil
}

// connect makes the graph of the triples: phrases that share a fact, phrases that are alike, passages of phrases. at is
// the place of each passage.
func (h *Hippo) connect(rows []tripleRow, at map[string]int) {
	number := map[string]int{}
	var names []string
	phrase := func(name string) int {
		i, ok := number[name]
		if !ok {
			i = len(names)
			number[name] = i
			names = append(names, name)
		}
		return i
	}
	weights := map[[2]int]float64{}
	in := map[[2]int]float64{}
	for _, row := range rows {
		passage, ok := at[row.Chunk]
		for _, triple := range row.Triples {
			if len(triple) != 3 || !ok {
				continue
			}
			subject, object := normalise(triple[0]), normalise(triple[2])
			if subject == "" || object == "" {
				continue
			}
			known := fact{phrase(subject), phrase(object), h.embed.Vector(strings.Join(triple, " "))}
			h.facts = append(h.facts, known)
			weights[[2]int{min(known.s, known.o), max(known.s, known.o)}] += 2 // stored in both directions
			in[[2]int{known.s, passage}], in[[2]int{known.o, passage}] = 1, 1
		}
	}
	h.phrases = len(names)
	h.df = make([]float64, h.phrases)
	h.to = make([][]edge, h.phrases+len(h.passages))
	h.synonyms(names, weights)
	for _, pair := range sortedPairs(weights) {
		if pair[0] != pair[1] {
			h.join(pair[0], pair[1], weights[pair])
		}
	}
	for _, pair := range sortedPairs(in) {
		h.df[pair[0]]++
		h.join(pair[0], h.phrases+pair[1], 1)
	}
}

// join adds an edge in both directions.
func (h *Hippo) join(a, b int, weight float64) {
	h.to[a] = append(h.to[a], edge{b, weight})
	h.to[b] = append(h.to[b], edge{a, weight})
}

// sortedPairs gives the keys in one order: sums of floats depend on it.
func sortedPairs(pairs map[[2]int]float64) [][2]int {
	return slices.SortedFunc(maps.Keys(pairs), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
}

// synonyms joins phrases of similar vectors that share a word; as in the original, the weight replaces that of facts.
func (h *Hippo) synonyms(names []string, weights map[[2]int]float64) {
	vec := make([][]float32, len(names))
	by := map[string][]int{}
	for i, n := range names {
		if len(strings.ReplaceAll(n, " ", "")) <= 2 {
			continue
		}
		vec[i] = h.embed.Vector(n)
		for _, t := range text.Surface(n) {
			by[t] = append(by[t], i)
		}
	}
	for _, l := range by {
		if len(l) > 300 { // a word of so many phrases makes none of them alike
			continue
		}
		for a, i := range l {
			for _, j := range l[a+1:] {
				if c := dot(vec[i], vec[j]); c >= hippoSynonym {
					weights[[2]int{min(i, j), max(i, j)}] = c
				}
			}
		}
	}
}

func dot(a, b []float32) float64 {
	s := float32(0)
	for i, x := range a {
		s += x * b[i]
	}
	return float64(s)
}

func scaled(v []float64) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, x := range v {
		lo, hi = min(lo, x), max(hi, x)
	}
	for i := range v {
		if v[i] -= lo; hi > lo {
			v[i] /= hi - lo
		}
	}
}

// Rank gives the best passages for a question.
func (h *Hippo) Rank(question string, n int) []string {
	vector := h.embed.Vector(question)
	score := make([]float64, len(h.facts))
	order := make([]int, len(h.facts))
	for i, f := range h.facts {
		score[i], order[i] = dot(vector, f.vec), i
	}
	scaled(score)
	sort.SliceStable(order, func(i, j int) bool { return score[order[i]] > score[order[j]] })
	sum, times := map[int]float64{}, map[int]float64{}
	for _, f := range order[:min(hippoFacts, len(order))] {
		for _, p := range []int{h.facts[f].s, h.facts[f].o} {
			sum[p] += score[f] / h.df[p]
			times[p]++
		}
	}
	var best []int
	for p := range sum {
		sum[p] /= times[p]
		best = append(best, p)
	}
	sort.Slice(best, func(i, j int) bool {
		return sum[best[i]] > sum[best[j]] || (sum[best[i]] == sum[best[j]] && best[i] < best[j])
	})
	start := make([]float64, len(h.to))
	for _, p := range best[:min(hippoPhrases, len(best))] {
		start[p] = sum[p]
	}
	dense := make([]float64, len(h.passages))
	for i, v := range h.pvec {
		dense[i] = dot(vector, v)
	}
	scaled(dense)
	all := 0.0
	for i, x := range dense {
		start[h.phrases+i] = hippoPassage * x
	}
	for _, x := range start {
		all += x
	}
	x := h.walk(start, all)
	ids := make([]int, len(h.passages))
	for i := range ids {
		ids[i] = i
	}
	sort.SliceStable(ids, func(i, j int) bool { return x[h.phrases+ids[i]] > x[h.phrases+ids[j]] })
	var out []string
	for _, i := range ids[:min(n, len(ids))] {
		out = append(out, h.passages[i])
	}
	return out
}

func (h *Hippo) walk(start []float64, all float64) []float64 {
	x := make([]float64, len(start))
	for i := range x {
		start[i] /= all
		x[i] = start[i]
	}
	for range hippoRounds {
		next := make([]float64, len(x))
		lost := 0.0
		for u, m := range x {
			deg := 0.0
			for _, e := range h.to[u] {
				deg += e.w
			}
			if deg == 0 {
				lost += m
				continue
			}
			for _, e := range h.to[u] {
				next[e.to] += hippoDamping * m * e.w / deg
			}
		}
		for i := range next {
			next[i] += (1 - hippoDamping + hippoDamping*lost) * start[i]
		}
		x = next
	}
	return x
}

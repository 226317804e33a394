package eval

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/unweaver/unweaver/internal/lang/text"
	"github.com/unweaver/unweaver/internal/model/builtin"
)

// HippoName is how the comparison is shown.
const HippoName = "hipporag2-style"

// Hippo is a walk in the style of HippoRAG2 (specs/unweaver.md, appendix B) on a recording that has triples: phrases,
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

// Parameters of the appendix.
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
	phrase := map[string]int{}
	var names []string
	number := func(s string) int {
		i, ok := phrase[s]
		if !ok {
			i = len(names)
			phrase[s] = i
			names = append(names, s)
		}
		return i
	}
	weights := map[[2]int]float64{}
	in := map[[2]int]bool{}
	for _, r := range rows {
		p, ok := at[r.Chunk]
		for _, t := range r.Triples {
			if len(t) != 3 || !ok {
				continue
			}
			s, o := normalise(t[0]), normalise(t[2])
			if s == "" || o == "" {
				continue
			}
			f := fact{number(s), number(o), hippo.embed.Vector(strings.Join(t, " "))}
			hippo.facts = append(hippo.facts, f)
			weights[[2]int{min(f.s, f.o), max(f.s, f.o)}] += 2 // stored in both directions
			in[[2]int{f.s, p}], in[[2]int{f.o, p}] = true, true
		}
	}
	hippo.phrases = len(names)
	hippo.df = make([]float64, hippo.phrases)
	hippo.to = make([][]edge, hippo.phrases+len(hippo.passages))
	join := func(a, b int, w float64) {
		hippo.to[a] = append(hippo.to[a], edge{b, w})
		hippo.to[b] = append(hippo.to[b], edge{a, w})
	}
	hippo.synonyms(names, weights)
	for k, w := range weights {
		if k[0] != k[1] {
			join(k[0], k[1], w)
		}
	}
	for k := range in {
		hippo.df[k[0]]++
		join(k[0], hippo.phrases+k[1], 1)
	}
	return hippo, nil
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

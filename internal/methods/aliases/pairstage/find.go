package pairstage

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/methods/aliases"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/text/names"
)

// In says where pairs are looked for, and how.
type In struct {
	Cache    *localfile.Cache
	Index    artifact.Index
	Manifest *core.Manifest
	Vectors  vectors.Store
	// Lost gives the vectors of classes that the store has not; nil: that is an error.
	Lost func(ctx context.Context, texts []embed.Item) ([][]float32, error)

	File    aliases.File // what people said before: nothing that it forbids is found
	Classes int          // how many are compared, those with the most mentions
	Cosine  float64      // the least of a pair; 0: aliases.DefaultLimits
	Before  *File        // what was compared before, which is not compared again; nil: nothing
	Touch   func()       // called as it gets on; nil: no caller waits for it
}

// Side is a class of a pair.
type Side struct {
	Name string
	Text string // the beginning of what is said of it
}

// Pair is one that may be one thing. The second is mentioned more often.
type Pair struct {
	A, Of   Side
	Cosine  float64 // of the vectors of the two classes
	Spelled bool    // they have the same letters and digits
	Refused string  // why it is not suggested
}

// Found is what a search came to.
type Found struct {
	Suggested []Pair // the nearest first; none that the file pins already
	Refused   []Pair
	Searched  core.AliasSearch
	Compared  Compared
}

const (
	// readClasses is how many ids of classes are held while their rows are read.
	readClasses = 20_000
	// fetchVectors is how many vectors a request asks for.
	fetchVectors = 500
	// fetchWidth is how many requests are in flight.
	fetchWidth = 8
	// blockRows is how many classes are compared with all others before the context is looked at.
	blockRows = 64
	// leastLetters is how many letters and digits names have that are one by their spelling: us is not U.S.
	leastLetters = 4
	// mostText is how many bytes of what is said of a class are held, and shown to a model.
	mostText = 600
)

// MostNear bounds the pairs that are near enough, of which the nearest stay: a corpus that says one thing of a thousand
// classes has half a million, and groups are made of them pair by pair.
const MostNear = 50_000

// Find looks for pairs among the classes of a generation, or of the draft of one. Memory is bounded by how many classes
// are compared; time grows with its square, where nothing was compared before.
func Find(ctx context.Context, in In) (Found, error) {
	began := time.Now()
	s := search{In: in, limits: aliases.DefaultLimits}
	if in.Cosine > 0 {
		s.limits = aliases.Limits{Pair: in.Cosine, Complete: min(s.limits.Complete, in.Cosine)}
	}
	if s.Touch == nil {
		s.Touch = func() {}
	}
	var found Found
	if err := s.loadClasses(ctx); err != nil {
		return found, err
	}
	if err := s.loadVectors(ctx); err != nil {
		return found, err
	}
	near, err := s.findNearPairs(ctx)
	if err != nil {
		return found, err
	}
	found.Compared = s.listCompared(near)
	s.decidePairs(near, &found)
	found.Searched.Of, found.Searched.Classes = in.Manifest.Counts.Classes, len(s.classes)
	found.Searched.Seconds = time.Since(began).Seconds()
	return found, nil
}

type search struct {
	In
	limits  aliases.Limits
	classes mostMentioned
	vectors [][]float32
}

type named struct {
	id       core.ID
	name     string
	text     string
	whole    string // all that is said of it, until its vector is there
	vector   core.Digest
	mentions int64
}

// compareMentions has the class with more mentions first.
func compareMentions(a, b named) int {
	return cmp.Or(cmp.Compare(b.mentions, a.mentions), bytes.Compare(a.id[:], b.id[:]))
}

// mostMentioned is a heap of which the least mentioned goes first.
type mostMentioned []named

func (m mostMentioned) Len() int           { return len(m) }
func (m mostMentioned) Less(i, j int) bool { return compareMentions(m[i], m[j]) > 0 }
func (m mostMentioned) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *mostMentioned) Push(one any)      { *m = append(*m, one.(named)) } //nolint:forcetypeassert // always named
func (m *mostMentioned) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

// loadClasses finds the classes with the most mentions.
func (s *search) loadClasses(ctx context.Context) error {
	table, err := segments.OpenClasses(ctx, s.Cache, s.Index, s.Manifest)
	if err != nil {
		return err
	}
	defer table.Release()
	ids := make([]core.ID, 0, readClasses)
	take := func() error {
		s.Touch()
		for row, err := range table.ClassRows(ctx, s.Index, s.Manifest.Segments.Classes, ids) {
			if err != nil {
				return err
			}
			if len(s.classes) == s.Classes && row.Mentions < s.classes[0].mentions {
				continue
			}
			record, err := rows.DecodeRecord(row.Record)
			if err != nil {
				return err
			}
			heap.Push(&s.classes, named{
				id: row.ID, name: record.Name, text: truncateText(record.Text), whole: s.keepText(record.Text), vector: row.Vector,
				mentions: row.Mentions,
			})
			if len(s.classes) > s.Classes {
				heap.Pop(&s.classes)
			}
		}
		ids = ids[:0]
		return ctx.Err()
	}
	for id := range table.ClassesIn("", "") {
		if ids = append(ids, id); len(ids) == cap(ids) {
			if err := take(); err != nil {
				return err
			}
		}
	}
	if err := take(); err != nil {
		return err
	}
	slices.SortFunc(s.classes, compareMentions)
	return nil
}

// keepText returns what to hold of a text in case the store has lost its vector: all, or nothing without Lost.
func (s *search) keepText(text string) string {
	if s.Lost == nil {
		return ""
	}
	return text
}

// truncateText returns the beginning of a text, at most mostText bytes: it cuts at the end of a word where it can.
func truncateText(text string) string {
	if len(text) <= mostText {
		return text
	}
	cut := strings.ToValidUTF8(text[:mostText], "")
	if space := strings.LastIndexFunc(cut, unicode.IsSpace); space > mostText/2 {
		cut = cut[:space]
	}
	return strings.Clone(cut)
}

func (s *search) loadVectors(ctx context.Context) error {
	s.vectors = make([][]float32, len(s.classes))
	requests := (len(s.classes) + fetchVectors - 1) / fetchVectors
	err := parallel.Each(ctx, requests, fetchWidth, func(ctx context.Context, n int) error {
		from := n * fetchVectors
		part := s.classes[from:min(from+fetchVectors, len(s.classes))]
		keys := make([]string, len(part))
		for i, class := range part {
			keys[i] = core.ClassRow(class.id, class.vector)
		}
		found, err := s.Vectors.Fetch(ctx, s.Manifest.Collections.Classes, keys)
		if err != nil {
			return err
		}
		var lost []embed.Item
		var at []int
		for i, vector := range found {
			if s.vectors[from+i] = vector; vector == nil {
				lost = append(lost, embed.Item{Key: keys[i], Digest: part[i].vector, Text: part[i].whole})
				at = append(at, from+i)
			}
		}
		s.Touch()
		if len(lost) == 0 {
			return nil
		}
		if s.Lost == nil {
			return fault.StoreDown.At("read vector", lost[0].Key).Because("the store of vectors has lost it").
				Advise("run: unweaver restore " + s.Index.Name)
		}
		again, err := s.Lost(ctx, lost)
		for i, vector := range again {
			s.vectors[at[i]] = vector
		}
		return err
	})
	for i := range s.classes {
		s.classes[i].whole = ""
	}
	return err
}

// computeCosine returns the cosine of two classes: the product of their vectors, which have length one.
func (s *search) computeCosine(a, b int) float64 {
	left, right := s.vectors[a], s.vectors[b]
	var one, two, three, four float32
	i := 0
	for ; i+4 <= len(left); i += 4 {
		one += left[i] * right[i]
		two += left[i+1] * right[i+1]
		three += left[i+2] * right[i+2]
		four += left[i+3] * right[i+3]
	}
	for ; i < len(left); i++ {
		one += left[i] * right[i]
	}
	return float64(one + two + three + four)
}

// normalizeSpelling returns what names of the same spelling share; empty for a name with too few letters to compare.
func normalizeSpelling(name string) string {
	count := 0
	out := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			count++
			return r
		case unicode.IsSymbol(r), r == '#', r == '%', r == '&', r == '/':
			return r // C++ is not C
		}
		return -1
	}, names.Key(name, false))
	if count < leastLetters {
		return ""
	}
	return out
}

// findNearPairs returns the pairs of vectors that are near enough, at most the nearest MostNear. It leaves out names
// without a letter: 9 is not 9 %. It takes over what is known of two classes that were compared before.
func (s *search) findNearPairs(ctx context.Context) ([]aliases.Pair, error) {
	worded := make([]bool, len(s.classes))
	for i, class := range s.classes {
		worded[i] = strings.ContainsFunc(class.name, unicode.IsLetter)
	}
	known, out := s.findUnchanged()
	var mu sync.Mutex
	blocks := (len(s.classes) + blockRows - 1) / blockRows
	err := parallel.Each(ctx, blocks, fetchWidth, func(ctx context.Context, n int) error {
		var found []aliases.Pair
		for b := range len(s.classes) {
			if !worded[b] {
				continue
			}
			for a := n * blockRows; a < min((n+1)*blockRows, b); a++ {
				if !worded[a] || known[a] && known[b] {
					continue
				}
				if cosine := s.computeCosine(a, b); cosine >= s.limits.Pair {
					found = append(found, aliases.Pair{A: a, B: b, Cosine: cosine})
				}
			}
			if len(found) > 2*MostNear {
				found = s.keepNearest(found)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if out = append(out, found...); len(out) > 2*MostNear {
			out = s.keepNearest(out)
		}
		s.Touch()
		return ctx.Err()
	})
	return s.keepNearest(out), err
}

// keepNearest sorts pairs, the nearest first, and keeps MostNear of them.
func (s *search) keepNearest(pairs []aliases.Pair) []aliases.Pair {
	ends := func(pair aliases.Pair) []byte { // both ids, the lesser first
		a, b := s.classes[pair.A].id[:], s.classes[pair.B].id[:]
		if bytes.Compare(a, b) > 0 {
			a, b = b, a
		}
		return slices.Concat(a, b)
	}
	slices.SortFunc(pairs, func(a, b aliases.Pair) int {
		if a.Cosine != b.Cosine {
			return cmp.Compare(b.Cosine, a.Cosine)
		}
		return bytes.Compare(ends(a), ends(b))
	})
	return pairs[:min(len(pairs), MostNear)]
}

// decidePairs decides the candidates. Names that are spelled the same come first, and are near enough whatever their
// vectors say: these are of what was said beside the names.
func (s *search) decidePairs(near []aliases.Pair, found *Found) {
	all := make([]aliases.Name, len(s.classes))
	spelled := make([]string, len(all))
	for i, class := range s.classes {
		all[i].Text, spelled[i] = class.name, normalizeSpelling(class.name)
	}
	sameSpelling := func(a, b int) bool { return spelled[a] != "" && spelled[a] == spelled[b] }
	looks := 0
	judged := func(a, b int) float64 {
		if looks++; looks%10_000 == 0 {
			s.Touch()
		}
		if sameSpelling(a, b) {
			return 1
		}
		return s.computeCosine(a, b)
	}
	candidates := slices.Clone(near)
	candidates = append(candidates, pairSpellings(all, spelled)...)
	for i, pair := range candidates {
		candidates[i].Cosine = judged(pair.A, pair.B)
	}
	result := aliases.Merge(all, candidates, s.File, s.limits, judged)
	found.Suggested = s.suggestGroups(result.Of, sameSpelling)
	found.Searched.Pairs, found.Searched.Refused = len(result.Decisions), map[string]int{}
	for _, decision := range result.Decisions {
		if decision.Merged {
			continue
		}
		found.Searched.Refused[decision.Why]++
		one := s.newPair(max(decision.A, decision.B), min(decision.A, decision.B), sameSpelling)
		one.Refused = decision.Why
		found.Refused = append(found.Refused, one)
	}
	for _, list := range [][]Pair{found.Suggested, found.Refused} {
		slices.SortFunc(list, func(a, b Pair) int {
			return cmp.Or(cmp.Compare(a.Refused, b.Refused), cmp.Compare(b.Cosine, a.Cosine),
				cmp.Compare(a.Of.Name, b.Of.Name), cmp.Compare(a.A.Name, b.A.Name))
		})
	}
}

// pairSpellings pairs names of one spelling, each with the first of them by key.
func pairSpellings(all []aliases.Name, spelled []string) (out []aliases.Pair) {
	keys, order := make([]string, len(all)), make([]int, len(all))
	for i, name := range all {
		keys[i], order[i] = names.Key(name.Text, false), i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	first := map[string]int{}
	for _, i := range order {
		at, known := first[spelled[i]]
		switch {
		case spelled[i] == "":
		case known:
			out = append(out, aliases.Pair{A: at, B: i})
		default:
			first[spelled[i]] = i
		}
	}
	return out
}

func (s *search) newPair(a, of int, sameSpelling func(a, b int) bool) Pair {
	side := func(i int) Side { return Side{s.classes[i].name, s.classes[i].text} }
	return Pair{A: side(a), Of: side(of), Cosine: s.computeCosine(a, of), Spelled: sameSpelling(a, of)}
}

// suggestGroups names, for each group, who stands for it: whom the file says, else who is mentioned most. What the file
// pins is not suggested again.
func (s *search) suggestGroups(of []int, sameSpelling func(a, b int) bool) (out []Pair) {
	members := map[int][]int{}
	for i, to := range of {
		members[to] = append(members[to], i) // the most mentioned first
	}
	targets := map[string]bool{}
	for _, to := range s.File.Pinned {
		targets[to] = true
	}
	for _, group := range members {
		stands := group[0]
		for _, member := range group {
			key := names.Key(s.classes[member].name, false)
			_, pinned := s.File.Pinned[key]
			if s.File.Preferred[key] || targets[key] && !pinned {
				stands = member
				break
			}
		}
		for _, member := range group {
			if _, pinned := s.File.Pinned[names.Key(s.classes[member].name, false)]; member != stands && !pinned {
				out = append(out, s.newPair(member, stands, sameSpelling))
			}
		}
	}
	return out
}

package releases

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/unweaver/unweaver/internal/apr/consolidate"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/lang/names"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/localfile"
	"github.com/unweaver/unweaver/internal/store/segments"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/par"
)

// Suggest says how pairs of names are looked for.
type Suggest struct {
	File    []byte  // what people said before: nothing that it forbids is suggested
	Classes int     // how many are compared, those with the most mentions
	Cosine  float64 // the least of a pair; 0: consolidate.DefaultLimits
	Refused bool    // also list the pairs that a guard refuses
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
)

// Aliases lists the names that are mapped in the current generation; with suggest it also looks for pairs of classes
// that may be one. Memory is bounded by how many classes are compared.
func Aliases(
	ctx context.Context, cache *localfile.Cache, index artifact.Index, store vectors.Store, suggest *Suggest,
) (corpus.AliasList, error) {
	out := corpus.AliasList{Index: index.Name, Aliases: []corpus.MappedName{}}
	current, _, err := index.Current(ctx)
	if err != nil {
		return out, err
	}
	if current.Generation == "" {
		return out, fault.UnknownGen.At("list aliases of", index.Name).
			Because("no generation of it was published").
			Advise("run: unweaver index CORPUS --index " + index.Name)
	}
	manifest, err := index.Manifest(ctx, current.Manifest)
	if err != nil {
		return out, err
	}
	out.Generation = manifest.Generation
	for _, name := range slices.Sorted(maps.Keys(manifest.Aliases)) {
		out.Aliases = append(out.Aliases, corpus.MappedName{Name: name, StandsFor: manifest.Aliases[name]})
	}
	if suggest == nil {
		return out, nil
	}
	began := time.Now()
	file, err := consolidate.ParseFile(bytes.NewReader(suggest.File))
	if err != nil {
		return out, err
	}
	s := search{index: index, manifest: manifest, store: store, file: file, asked: *suggest}
	s.limits = consolidate.DefaultLimits
	if s.asked.Cosine > 0 {
		s.limits = consolidate.Limits{Pair: s.asked.Cosine, Complete: min(s.limits.Complete, s.asked.Cosine)}
	}
	if err := s.read(ctx, cache); err != nil {
		return out, err
	}
	if err := s.fetch(ctx); err != nil {
		return out, err
	}
	if out.Suggested, err = s.pairs(ctx); err != nil {
		return out, err
	}
	s.told.Of, s.told.Classes = manifest.Counts.Classes, len(s.classes)
	s.told.Seconds = time.Since(began).Seconds()
	out.Searched = s.told
	return out, nil
}

type search struct {
	index    artifact.Index
	manifest *corpus.Manifest
	store    vectors.Store
	file     consolidate.File
	asked    Suggest
	limits   consolidate.Limits
	classes  mostMentioned
	vectors  [][]float32
	told     corpus.AliasSearch
}

type named struct {
	id       corpus.ID
	name     string
	vector   corpus.Digest
	mentions int64
}

// order has the class with more mentions first.
func order(a, b named) int {
	return cmp.Or(cmp.Compare(b.mentions, a.mentions), bytes.Compare(a.id[:], b.id[:]))
}

// mostMentioned is a heap of which the least mentioned goes first.
type mostMentioned []named

func (m mostMentioned) Len() int           { return len(m) }
func (m mostMentioned) Less(i, j int) bool { return order(m[i], m[j]) > 0 }
func (m mostMentioned) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *mostMentioned) Push(one any)      { *m = append(*m, one.(named)) } //nolint:forcetypeassert // its own
func (m *mostMentioned) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

// read finds the classes with the most mentions.
func (s *search) read(ctx context.Context, cache *localfile.Cache) error {
	table, err := segments.OpenClasses(ctx, cache, s.index, s.manifest)
	if err != nil {
		return err
	}
	defer table.Release()
	if table.Files == nil {
		return fault.UnknownGen.At("suggest aliases of", s.manifest.Generation).
			Because("it is of a release that wrote no class runs").
			Advise("make it anew: unweaver index --index " + s.index.Name + " --rebuild")
	}
	ids := make([]corpus.ID, 0, readClasses)
	take := func() error {
		for row, err := range table.ClassRows(ctx, s.index, s.manifest.Segments.Classes, ids) {
			if err != nil {
				return err
			}
			record, err := rows.DecodeRecord(row.Record)
			if err != nil {
				return err
			}
			heap.Push(&s.classes, named{row.ID, record.Name, row.Vector, row.Mentions})
			if len(s.classes) > s.asked.Classes {
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
	slices.SortFunc(s.classes, order)
	return nil
}

func (s *search) fetch(ctx context.Context) error {
	s.vectors = make([][]float32, len(s.classes))
	requests := (len(s.classes) + fetchVectors - 1) / fetchVectors
	return par.Each(ctx, requests, fetchWidth, func(ctx context.Context, n int) error {
		part := s.classes[n*fetchVectors : min((n+1)*fetchVectors, len(s.classes))]
		keys := make([]string, len(part))
		for i, class := range part {
			keys[i] = corpus.ClassRow(class.id, class.vector)
		}
		found, err := s.store.Fetch(ctx, s.manifest.Collections.Classes, keys)
		if err != nil {
			return err
		}
		for i, vector := range found {
			if vector == nil {
				return fault.StoreDown.At("read vector", keys[i]).Because("the store of vectors has lost it").
					Advise("run: unweaver restore --index " + s.index.Name)
			}
			s.vectors[n*fetchVectors+i] = vector
		}
		return nil
	})
}

// cosine of two classes: their vectors have length one.
func (s *search) cosine(a, b int) float64 {
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

// letters are what names that are spelled alike share; empty for a name that spelling tells too little of.
func letters(name string) string {
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

// near are the pairs of vectors that are near enough, of all but names without a letter: 9 is not 9 %.
func (s *search) near(ctx context.Context) ([]consolidate.Pair, error) {
	var mu sync.Mutex
	var out []consolidate.Pair
	worded := make([]bool, len(s.classes))
	for i, class := range s.classes {
		worded[i] = strings.ContainsFunc(class.name, unicode.IsLetter)
	}
	blocks := (len(s.classes) + blockRows - 1) / blockRows
	err := par.Each(ctx, blocks, fetchWidth, func(ctx context.Context, n int) error {
		var found []consolidate.Pair
		for b := range len(s.classes) {
			if !worded[b] {
				continue
			}
			for a := n * blockRows; a < min((n+1)*blockRows, b); a++ {
				if !worded[a] {
					continue
				}
				if cosine := s.cosine(a, b); cosine >= s.limits.Pair {
					found = append(found, consolidate.Pair{A: a, B: b, Cosine: cosine})
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		out = append(out, found...)
		return ctx.Err()
	})
	return out, err
}

// pairs decides the candidates. Names that are spelled alike come first, and are near enough whatever their vectors
// say: these are of what was said beside the names.
func (s *search) pairs(ctx context.Context) ([]corpus.SuggestedOne, error) {
	all := make([]consolidate.Name, len(s.classes))
	spelled := make([]string, len(all))
	for i, class := range s.classes {
		all[i].Text, spelled[i] = class.name, letters(class.name)
	}
	alike := func(a, b int) bool { return spelled[a] != "" && spelled[a] == spelled[b] }
	judged := func(a, b int) float64 {
		if alike(a, b) {
			return 1
		}
		return s.cosine(a, b)
	}
	candidates, err := s.near(ctx)
	if err != nil {
		return nil, err
	}
	for _, pair := range consolidate.Spelled(all, judged) {
		if alike(pair.A, pair.B) {
			candidates = append(candidates, pair)
		}
	}
	for i, pair := range candidates {
		candidates[i].Cosine = judged(pair.A, pair.B)
	}
	result := consolidate.Merge(all, candidates, s.file, s.limits, judged)
	out := s.groups(result.Of, alike)
	s.told.Pairs, s.told.Refused = len(result.Decisions), map[string]int{}
	for _, decision := range result.Decisions {
		if decision.Merged {
			continue
		}
		s.told.Refused[decision.Why]++
		if s.asked.Refused {
			one := s.suggestion(max(decision.A, decision.B), min(decision.A, decision.B), alike)
			one.Refused = decision.Why
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b corpus.SuggestedOne) int {
		return cmp.Or(cmp.Compare(a.Refused, b.Refused), cmp.Compare(b.Cosine, a.Cosine), cmp.Compare(a.Of, b.Of),
			cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

func (s *search) suggestion(a, of int, alike func(a, b int) bool) corpus.SuggestedOne {
	return corpus.SuggestedOne{
		Name: s.classes[a].name, Of: s.classes[of].name, Cosine: s.cosine(a, of), Spelled: alike(a, of),
	}
}

// groups names, for each group, who stands for it: whom the file says, else who is mentioned most. What the file pins
// is not suggested again.
func (s *search) groups(of []int, alike func(a, b int) bool) (out []corpus.SuggestedOne) {
	members := map[int][]int{}
	for i, to := range of {
		members[to] = append(members[to], i) // the most mentioned first
	}
	targets := map[string]bool{}
	for _, to := range s.file.Pinned {
		targets[to] = true
	}
	for _, group := range members {
		stands := group[0]
		for _, member := range group {
			key := names.Key(s.classes[member].name, false)
			_, pinned := s.file.Pinned[key]
			if s.file.Preferred[key] || targets[key] && !pinned {
				stands = member
				break
			}
		}
		for _, member := range group {
			if _, pinned := s.file.Pinned[names.Key(s.classes[member].name, false)]; member != stands && !pinned {
				out = append(out, s.suggestion(member, stands, alike))
			}
		}
	}
	return out
}

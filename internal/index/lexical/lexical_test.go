package lexical_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/index/lexical"
)

// build searches documents of terms.
func build(t testing.TB, docs [][]string) *lexical.Index { return lexical.New(open(t, docs)) }

// zipf gives documents whose words are spread as in language.
func zipf(r *rand.Rand, docs, vocabulary, length int) [][]string {
	z := rand.NewZipf(r, 1.1, 2, uint64(vocabulary-1))
	out := make([][]string, docs)
	for i := range out {
		for range 1 + r.IntN(2*length) {
			out[i] = append(out[i], fmt.Sprint("t", z.Uint64()))
		}
	}
	return out
}

// brute scores every document by the formula.
func brute(docs [][]string, terms []string, n int, allow func(uint32) bool) []lexical.Hit {
	total := 0
	df := map[string]int{}
	for _, d := range docs {
		total += len(d)
		seen := map[string]bool{}
		for _, t := range d {
			if !seen[t] {
				df[t]++
			}
			seen[t] = true
		}
	}
	avg := float64(total) / float64(len(docs))
	var hits []lexical.Hit
	for i, names := range docs {
		if allow != nil && !allow(uint32(i)) {
			continue
		}
		tf := map[string]float64{}
		for _, t := range names {
			tf[t]++
		}
		s, used := 0.0, map[string]bool{}
		for _, t := range terms {
			if tf[t] == 0 || used[t] {
				continue
			}
			used[t] = true
			idf := math.Log(1 + (float64(len(docs))-float64(df[t])+0.5)/(float64(df[t])+0.5))
			s += idf * tf[t] * 2.2 / (tf[t] + 1.2*(0.25+0.75*float64(len(names))/avg))
		}
		if s > 0 {
			hits = append(hits, lexical.Hit{Doc: uint32(i), Score: s})
		}
	}
	sort.SliceStable(hits, func(i, j int) bool { return hits[i].Score > hits[j].Score })
	return hits[:min(n, len(hits))]
}

func TestSearchEqualsScoringEveryDocument(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	docs := zipf(r, 1500, 1200, 20)
	index := build(t, docs)
	for q := range 120 {
		var terms []string
		for range 1 + r.IntN(8) {
			terms = append(terms, docs[r.IntN(len(docs))][0])
		}
		var allow func(uint32) bool
		if q%3 == 0 {
			allow = func(d uint32) bool { return d%7 == 0 }
		}
		n := []int{1, 10, 100, 2000}[q%4]
		got, want := index.Search(terms, n, allow, nil), brute(docs, terms, n, allow)
		require.Len(t, got, len(want), "%v", terms)
		var ids []uint32
		for i := range got {
			ids = append(ids, got[i].Doc)
			require.True(t, math.Abs(got[i].Score-want[i].Score) <= 1e-5,
				"%v: place %d has %v, want %v", terms, i, got[i], want[i])
		}
		for i, s := range index.ScoreRows(terms, ids) {
			require.True(t, math.Abs(s-got[i].Score) <= 1e-9,
				"score of %d alone is %g, in the search %g", ids[i], s, got[i].Score)
		}
	}
	assert.True(t, !index.HasAnyTerm([]string{"no-such-term"}) && index.HasAnyTerm([]string{"no-such-term", docs[0][0]}),
		"Known is wrong")
}

// inOrder returns the n best hits by the scores of all documents, each summed by itself.
func inOrder(index *lexical.Index, terms []string, docs, n int) []lexical.Hit {
	all := make([]uint32, docs)
	for i := range all {
		all[i] = uint32(i)
	}
	var hits []lexical.Hit
	for i, score := range index.ScoreRows(terms, all) {
		if score > 0 {
			hits = append(hits, lexical.Hit{Doc: uint32(i), Score: score})
		}
	}
	sort.SliceStable(hits, func(i, j int) bool { return hits[i].Score > hits[j].Score })
	return hits[:min(n, len(hits))]
}

func TestOverManyWindowsNoBitOfAScoreDiffersFromItsOwnSum(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const documents = 40_000 // of several windows, in which lists and windows are left out
	docs := zipf(r, documents, 4000, 6)
	index := build(t, docs)
	for range 12 {
		var terms []string
		for range 1 + r.IntN(40) {
			doc := docs[r.IntN(documents)]
			terms = append(terms, doc[r.IntN(len(doc))])
		}
		n := 1 + r.IntN(120)
		got, want := index.Search(terms, n, nil, nil), inOrder(index, terms, documents, n)
		require.True(t, slices.Equal(got, want), "%d best for %v:\n%v, want\n%v", n, terms, got, want)
	}
}

func TestWorkersBesideEachOtherFindWhatOneFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	const documents = 60_000
	docs := make([][]string, documents) // with so many postings that several workers share them
	for i := range docs {
		for range 7 {
			docs[i] = append(docs[i], fmt.Sprint("t", r.IntN(9)))
		}
	}
	index := build(t, docs)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	terms := []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"}
	for _, n := range []int{1, 100, 5000} { // most scores are equal
		want := inOrder(index, terms, documents, n)
		got := index.Search(terms, n, nil, nil)
		require.True(t, slices.Equal(got, want), "%d best: they differ", n)
		every := func(uint32) bool { return true } // one worker alone
		got = index.Search(terms, n, every, nil)
		require.True(t, slices.Equal(got, want), "%d best by one worker: they differ", n)
	}
}

func TestEqualScoresStandInOrderOfRank(t *testing.T) {
	docs := make([][]string, 300)
	for i := range docs {
		docs[i] = []string{"same"}
	}
	x := build(t, docs)
	got := x.Search([]string{"same"}, 3, nil, func(d uint32) uint32 { return 299 - d })
	assert.True(t, len(got) == 3 && got[0].Doc == 299 && got[2].Doc == 297, "got %v", got)
}

func TestHoldsAndWeightsAreThoseOfTheDocuments(t *testing.T) {
	index := build(t, [][]string{{"a", "b"}, {"a"}, {"c", "c"}})
	got := fmt.Sprint(index.Holds([]string{"c", "none", "a"}, []uint32{2, 0, 1}))
	want := "[[true false false] [false false false] [false true true]]"
	assert.True(t, got == want, "%s, want %s", got, want)
	rare, common := index.Weight("b"), index.Weight("a")
	assert.True(t, index.Weight("none") == 0 && rare > common && index.UnknownWeight() > rare,
		"rare %g, common %g, unknown %g", rare, common, index.UnknownWeight())
}

func TestAnEmptySideFindsNothing(t *testing.T) {
	x := build(t, nil)
	got := x.Search([]string{"a"}, 5, nil, nil)
	assert.True(t, len(got) == 0, "got %v", got)
}

func BenchmarkSearch(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	docs := zipf(r, 100_000, 60_000, 80)
	index := build(b, docs)
	var qs [][]string
	for range 64 {
		var names []string
		d := docs[r.IntN(len(docs))]
		for range 10 {
			names = append(names, d[r.IntN(len(d))])
		}
		qs = append(qs, names)
	}
	i := 0
	for b.Loop() {
		index.Search(qs[i%len(qs)], 100, nil, nil)
		i++
	}
}

// Package lexical is BM25 over the postings of the search segment: the exact top n, by sums over windows of documents
// that leave out the lists and the windows that cannot matter (window.go).
package lexical

import (
	"slices"
	"sort"

	"github.com/unweaver/unweaver/internal/format/postings"
)

// MaxTerms of a question are looked up; of more, the rarest.
const MaxTerms = 32

// Weights of up to so many occurrences in documents of less than so many terms are looked up, not divided out.
const (
	tabledCounts  = 8
	tabledLengths = 1024
)

// Index searches one side of an open search segment. It is safe for concurrent use.
type Index struct {
	side    *postings.Side
	weights [tabledCounts * tabledLengths]float32
}

// New searches a side.
func New(side *postings.Side) *Index {
	index := &Index{side: side}
	for i := range index.weights {
		count, length := uint8(1+i/tabledLengths), uint32(i%tabledLengths)
		index.weights[i] = postings.Weight(count, length, side.Average)
	}
	return index
}

// weight of a term that a document holds count times, without its idf.
func (x *Index) weight(count uint8, doc uint32) float64 {
	length := x.side.Lengths[doc]
	if row := int(count - 1); row < tabledCounts && length < tabledLengths { // count 0 is row 255
		return float64(x.weights[row*tabledLengths+int(length)])
	}
	return float64(postings.Weight(count, length, x.side.Average))
}

// Hit is a document with its score.
type Hit struct {
	Doc   uint32
	Score float64
}

// list is the postings of one term of a question.
type list struct {
	postings.List
	idf   float64
	upper float64 // no document has more from this term
}

// lists opens the terms of a question, each once, in the question's order: sums go by it, so that they do not depend
// on the path.
func (x *Index) lists(terms []string) []list {
	seen := map[string]bool{}
	var out []list
	for _, term := range terms {
		if seen[term] {
			continue
		}
		seen[term] = true
		found, ok := x.side.Find(term)
		if !ok {
			continue
		}
		one := list{List: found, idf: x.side.IDF(len(found.Docs))}
		for _, largest := range found.Largest {
			one.upper = max(one.upper, one.idf*float64(largest))
		}
		out = append(out, one)
	}
	if len(out) > MaxTerms {
		rare := make([]int, len(out))
		for i := range rare {
			rare[i] = i
		}
		sort.SliceStable(rare, func(i, j int) bool { return out[rare[i]].idf > out[rare[j]].idf })
		rare = rare[:MaxTerms]
		slices.Sort(rare)
		kept := make([]list, MaxTerms)
		for i, place := range rare {
			kept[i] = out[place]
		}
		out = kept
	}
	return out
}

// Known tells whether any of the terms is indexed.
func (x *Index) Known(terms []string) bool {
	for _, t := range terms {
		if x.side.Has(t) {
			return true
		}
	}
	return false
}

// Weight is the idf of a term; 0 where it is not indexed.
func (x *Index) Weight(term string) float64 {
	list, ok := x.side.Find(term)
	if !ok {
		return 0
	}
	return x.side.IDF(len(list.Docs))
}

// Unknown is the idf of a term that is not indexed: it would be the rarest.
func (x *Index) Unknown() float64 { return x.side.IDF(0) }

// Holds tells of each term which of the documents have it. Documents are given in any order.
func (x *Index) Holds(terms []string, docs []uint32) [][]bool {
	out := make([][]bool, len(terms))
	for i, term := range terms {
		out[i] = make([]bool, len(docs))
		list, ok := x.side.Find(term)
		if !ok {
			continue
		}
		for j, doc := range docs {
			_, out[i][j] = slices.BinarySearch(list.Docs, doc)
		}
	}
	return out
}

// Score gives the scores of chosen documents, in their order.
func (x *Index) Score(terms []string, docs []uint32) []float64 {
	out := make([]float64, len(docs))
	lists := x.lists(terms)
	for i := range lists {
		one := &lists[i]
		for j, doc := range docs {
			if at, ok := slices.BinarySearch(one.Docs, doc); ok {
				out[j] += one.idf * x.weight(one.Counts[at], doc)
			}
		}
	}
	return out
}

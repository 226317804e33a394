// Package lexical searches by BM25 over the postings of one or more sides, and returns the exact top n. It sums scores
// over windows of documents, and skips the lists and the windows that cannot change the result (window.go).
//
// Sides are immutable, number their rows from 0, and may hold dead rows. An answer over many sides equals, bit for bit,
// the answer over one side of the live rows alone: statistics are sums of integers over the sides, less those of the
// dead rows (compose.go), and a score is summed in the order of the question's terms.
package lexical

import (
	"slices"
	"sort"

	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/text"
)

// MaxTerms of a question are looked up; of more, the rarest.
const MaxTerms = 32

// Weights of up to so many occurrences in documents of less than so many terms are looked up, not divided out.
const (
	tabledCounts  = 8
	tabledLengths = 1024
)

// exactShare is the part of its idf that a word with its accents counts, beside the word without them: enough to come
// before passages that lack them, too little to count for more than other words.
const exactShare = 0.25

// Hit is a row with its score.
type Hit struct {
	Doc   uint32
	Score float64
}

// weighTerm returns the weight of a term that a document of a length holds count times, without its idf.
func (x *Index) weighTerm(count uint8, length uint32) float64 {
	if row := int(count - 1); row < tabledCounts && length < tabledLengths { // count 0 is row 255
		return float64(x.weights[row*tabledLengths+int(length)])
	}
	return float64(postings.Weight(count, length, x.average))
}

// question is the terms that are looked up, each once, in the order that they were asked in: sums go by it, so that
// they do not depend on the path.
type question struct {
	idf      []float64
	words    []*word
	postings int
}

// openQuestion opens the terms that a live row holds.
func (x *Index) openQuestion(terms []string) question {
	var idf []float64
	var held []*word
	for _, word := range x.lookUpWords(uniqueTerms(terms)) {
		if word.live > 0 {
			weight := x.totals.IDF(word.live)
			if text.IsExact(word.term) {
				weight *= exactShare
			}
			idf, held = append(idf, weight), append(held, word)
		}
	}
	asked := question{}
	for _, j := range pickRarest(idf) {
		asked.idf, asked.words = append(asked.idf, idf[j]), append(asked.words, held[j])
		for i := range held[j].lists {
			asked.postings += held[j].lists[i].Len()
		}
	}
	return asked
}

// uniqueTerms gives each of the terms once.
func uniqueTerms(terms []string) []string {
	seen := make(map[string]bool, len(terms))
	out := make([]string, 0, len(terms))
	for _, term := range terms {
		if !seen[term] {
			seen[term] = true
			out = append(out, term)
		}
	}
	return out
}

// pickRarest gives the places of MaxTerms terms at most, in their order.
func pickRarest(idf []float64) []int {
	chosen := make([]int, len(idf))
	for i := range chosen {
		chosen[i] = i
	}
	if len(chosen) > MaxTerms {
		sort.SliceStable(chosen, func(i, j int) bool { return idf[chosen[i]] > idf[chosen[j]] })
		chosen = chosen[:MaxTerms]
		slices.Sort(chosen)
	}
	return chosen
}

// HasAnyTerm reports whether a live row holds any of the terms.
func (x *Index) HasAnyTerm(terms []string) bool {
	return slices.ContainsFunc(x.lookUpWords(terms), func(one *word) bool { return one.live > 0 })
}

// Weight returns the idf of a term; 0 where no live row holds it.
func (x *Index) Weight(term string) float64 {
	if df := x.lookUpWords([]string{term})[0].live; df > 0 {
		return x.totals.IDF(df)
	}
	return 0
}

// UnknownWeight returns the idf of a term that is not indexed: it would be the rarest.
func (x *Index) UnknownWeight() float64 { return x.totals.IDF(0) }

// Holds reports each term which of the rows have it; a dead row has none. Rows are given in any order.
func (x *Index) Holds(terms []string, rows []uint32) [][]bool {
	places := x.placesOf(rows)
	cursor := new(postings.Cursor)
	out := make([][]bool, len(terms))
	for i, word := range x.lookUpWords(terms) {
		out[i] = make([]bool, len(rows))
		for side, list := range word.lists {
			if list.Len() == 0 {
				continue
			}
			cursor.Reset(list)
			for j, place := range places {
				if place.side == side {
					_, out[i][j] = cursor.Seek(place.row)
				}
			}
		}
	}
	return out
}

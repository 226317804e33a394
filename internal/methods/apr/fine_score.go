package apr

import (
	"cmp"
	"math"
	"slices"
)

// Variant says which reading of the fine score is meant.
type Variant int

const (
	// Raw takes the cosines as they are, the covered share of the query's triples, and the logarithm of the pairs.
	Raw Variant = iota
	// CodeCompat is the authors' program: cosines are divided by the number of the query's triples before they are
	// compared with thresholds, so that the term of distinct pairs vanishes as soon as there are two.
	CodeCompat
	// Paper counts the covered triples and takes no logarithm.
	Paper
)

// Thresholds and weights of the fine score as published.
const (
	topPairs     = 3
	coverAt      = 0.45
	pairAt       = 0.55
	pairSpread   = 0.10
	distinctAt   = 0.50
	wholeAt      = 0.55
	wholeSpread  = 0.15
	coverWeight  = 0.10
	pairWeight   = 0.20
	singleWeight = 0.10
	wholeWeight  = 0.10
	floorOfBest  = 0.6
)

// Terms are what a fine score is made of.
type Terms struct {
	Top      float64 // mean of the largest cosines
	Cover    float64 // triples of the query that something matches
	Pairs    float64 // how many pairs match, softly
	Distinct float64 // pairs of which no triple is in two
	Whole    float64 // the whole texts, gated
}

// Score returns the weighted sum.
func (t Terms) Score() float64 {
	return t.Top + coverWeight*t.Cover + pairWeight*t.Pairs + singleWeight*t.Distinct + wholeWeight*t.Whole
}

// ScoreFine gives the terms of one candidate: cosines[i][j] is of the query's triple i and the candidate's triple j,
// whole that of the whole texts; rows are of one length. Without triples on either side all terms but that of whole are
// 0, and without those of the candidate that is too.
func ScoreFine(cosines [][]float64, whole float64, variant Variant) Terms {
	rows := len(cosines)
	if rows == 0 || len(cosines[0]) == 0 {
		return Terms{}
	}
	columns := len(cosines[0])
	scale := 1.0
	if variant == CodeCompat {
		scale = 1 / float64(rows)
	}
	var terms Terms
	pairs := make([]pair, 0, rows*columns)
	for i, row := range cosines {
		if slices.Max(row) >= coverAt {
			terms.Cover++
		}
		for j, cosine := range row {
			value := scale * cosine
			pairs = append(pairs, pair{i, j, value})
			terms.Pairs += sigmoid((value - pairAt) / pairSpread)
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.row, b.row), cmp.Compare(a.column, b.column))
	})
	top := pairs[:min(topPairs, len(pairs))]
	for _, p := range top {
		terms.Top += p.value / float64(len(top))
	}
	terms.Pairs /= math.Sqrt(float64(rows * columns))
	if variant != Paper {
		terms.Cover /= float64(rows)
		terms.Pairs = math.Log1p(terms.Pairs)
	}
	terms.Distinct = sumDistinct(pairs, rows, columns)
	terms.Whole = sigmoid((whole-wholeAt)/wholeSpread) * whole / math.Sqrt(float64(columns))
	return terms
}

type pair struct {
	row, column int
	value       float64
}

// sumDistinct takes pairs from the largest on, of each row and column at most one.
func sumDistinct(sorted []pair, rows, columns int) float64 {
	usedRow, usedColumn := make([]bool, rows), make([]bool, columns)
	sum, taken := 0.0, 0
	for _, p := range sorted {
		if p.value < distinctAt {
			break
		}
		if usedRow[p.row] || usedColumn[p.column] {
			continue
		}
		usedRow[p.row], usedColumn[p.column] = true, true
		sum += p.value
		taken++
	}
	if taken == 0 {
		return 0
	}
	return sum / math.Sqrt(float64(taken))
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// KeepBest gives the best m candidates, without those whose score is far below the best, where that is above 0. The
// order given does not matter.
func KeepBest(candidates []Candidate, m int) []Candidate {
	sorted := slices.SortedFunc(slices.Values(candidates), byScore)
	sorted = sorted[:min(len(sorted), max(m, 0))]
	for i, one := range sorted {
		if best := sorted[0].Score; best > 0 && one.Score < floorOfBest*best {
			return sorted[:i]
		}
	}
	return sorted
}

package retrieve_test

import (
	"math"
	"slices"
	"sort"

	"github.com/unweaver/unweaver/internal/format/postings"
	"github.com/unweaver/unweaver/internal/retrieve/lexical"
)

// side is one of many that are searched as one.
type side struct {
	*postings.Side
	dead func(row int) bool
}

// summed scores every row of many sides by BM25 with the statistics of what is live: slow, and bit by bit what
// lexical.Index gives of one side that has the live rows alone.
type summed struct {
	sides []side
	base  []uint32
	live  int
	avg   float64
}

func compose(sides []side) summed {
	out := summed{sides: sides}
	total, rows := uint64(0), uint32(0)
	for _, one := range sides {
		out.base = append(out.base, rows)
		for row, length := range one.Lengths {
			if !one.dead(row) {
				out.live++
				total += uint64(length)
			}
		}
		rows += uint32(len(one.Lengths))
	}
	out.base = append(out.base, rows)
	out.avg = postings.Average(postings.Stats{Documents: uint32(out.live), Terms: total})
	return out
}

func (s summed) holding(term string) (rows []uint32, weights []float64) {
	for i, one := range s.sides {
		list, ok := one.Find(term)
		if !ok {
			continue
		}
		for at, doc := range list.Docs {
			if !one.dead(int(doc)) {
				rows = append(rows, s.base[i]+doc)
				weights = append(weights, float64(postings.Weight(list.Counts[at], one.Lengths[doc], s.avg)))
			}
		}
	}
	return rows, weights
}

func (s summed) idf(df int) float64 {
	return math.Log(1 + (float64(s.live)-float64(df)+0.5)/(float64(df)+0.5))
}

func (s summed) Search(terms []string, n int, allow func(uint32) bool, rank func(uint32) uint32) []lexical.Hit {
	score, seen := map[uint32]float64{}, map[string]bool{}
	for _, term := range terms {
		if seen[term] {
			continue
		}
		seen[term] = true
		rows, weights := s.holding(term)
		for i, row := range rows {
			score[row] += s.idf(len(rows)) * weights[i]
		}
	}
	var hits []lexical.Hit
	for row, score := range score {
		if allow == nil || allow(row) {
			hits = append(hits, lexical.Hit{Doc: row, Score: score})
		}
	}
	sort.Slice(hits, func(i, j int) bool {
		if hits[i].Score != hits[j].Score {
			return hits[i].Score > hits[j].Score
		}
		return rank(hits[i].Doc) < rank(hits[j].Doc)
	})
	return hits[:min(n, len(hits))]
}

func (s summed) Known(terms []string) bool {
	return slices.ContainsFunc(terms, func(term string) bool { return s.Weight(term) > 0 })
}

func (s summed) Weight(term string) float64 {
	rows, _ := s.holding(term)
	if len(rows) == 0 {
		return 0
	}
	return s.idf(len(rows))
}

func (s summed) Unknown() float64 { return s.idf(0) }

func (s summed) Holds(terms []string, docs []uint32) [][]bool {
	out := make([][]bool, len(terms))
	for i, term := range terms {
		rows, _ := s.holding(term)
		for _, doc := range docs {
			out[i] = append(out[i], slices.Contains(rows, doc))
		}
	}
	return out
}

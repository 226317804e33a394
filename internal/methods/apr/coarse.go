package apr

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"
	"strconv"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Symbols are the distinct numbers that the runs of a codebook have of one sort, entities or relations.
type Symbols struct {
	starts []int // where the numbers of a run begin, and the end
	of     []uint32
}

// Add appends the numbers of the next run; equal ones are kept once.
func (s *Symbols) Add(numbers ...uint32) {
	if len(s.starts) == 0 {
		s.starts = append(s.starts, 0)
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(numbers)))
	s.of = append(s.of, sorted...)
	s.starts = append(s.starts, len(s.of))
}

// Coarse finds candidates among runs: the score of a run is the best cosine of any of its entities with any of the
// query's, and the same of relations, weighted. A side without vectors counts nothing.
type Coarse struct {
	Entities, Relations   Table   // of the codebook
	RunEntities, RunLinks Symbols // of each run
}

// RelWeight is the weight of relations in the coarse score as published, beside 1 of entities.
const RelWeight = 0.3

// NewCoarse has the published weights. Runs are given by their edges. Tables that lack a vector of what a run names are
// of another codebook: SegmentDamage.
func NewCoarse(entities, relations Table, runs [][]Edge) (*Coarse, error) {
	c := &Coarse{Entities: entities, Relations: relations}
	nodesThere, linksThere := entities.Len(), relations.Len()
	for i, edges := range runs {
		for _, edge := range edges {
			if int(max(edge.Head, edge.Tail)) >= nodesThere || int(edge.Relation) >= linksThere {
				return nil, fault.SegmentDamage.At("read", "codebook").
					Because("run " + strconv.Itoa(i) + " names what there is no vector of").
					Advise("build the index again with: unweaver index")
			}
		}
		nodes, links := make([]uint32, 0, 2*len(edges)), make([]uint32, 0, len(edges))
		for _, edge := range edges {
			nodes, links = append(nodes, edge.Head, edge.Tail), append(links, edge.Relation)
		}
		c.RunEntities.Add(nodes...)
		c.RunLinks.Add(links...)
	}
	return c, nil
}

// Candidate is a run and its score.
type Candidate struct {
	Run   int
	Score float64
}

// FindTop gives the k best runs that allow lets in (nil: all), the best first, of equal ones the lower. Each symbol of
// the codebook is compared with the query once, whatever the number of runs that have it, and the result is that of
// comparing every pair. A vector of another dimension than the codebook's is compared with nothing. Once stopped, it
// soon returns what it has.
func (c *Coarse) FindTop(
	entities, relations [][]float32, k int, allow func(run int) bool, stopped func() bool,
) []Candidate {
	if k <= 0 {
		return nil
	}
	bestEntity, bestRelation := scoreRows(c.Entities, entities, stopped), scoreRows(c.Relations, relations, stopped)
	runs := max(len(c.RunEntities.starts)-1, 0)
	kept := make([]Candidate, 0, min(k, runs)+1)
	for run := range runs {
		if run%blockRows == 0 && stopped() {
			break
		}
		score := c.RunEntities.maxScore(run, bestEntity) + RelWeight*c.RunLinks.maxScore(run, bestRelation)
		if len(kept) == k && score <= kept[k-1].Score || allow != nil && !allow(run) {
			continue
		}
		at, _ := slices.BinarySearchFunc(kept, score, func(one Candidate, score float64) int {
			if one.Score >= score { // an equal one is of a lower run
				return -1
			}
			return 1
		})
		kept = slices.Insert(kept, at, Candidate{run, score})
		kept = kept[:min(len(kept), k)]
	}
	return kept
}

// Query is a question as vectors of unit length: of the entities and relations of its triples, and of its whole text.
type Query struct {
	Entities, Relations [][]float32
	Whole               []float32
}

// Ask returns the k best runs for a question, as FindTop does. It compares a question without triples as a whole with
// the entities, and linked reports so; without triples and without a vector of the whole text it finds nothing.
func (c *Coarse) Ask(
	q Query, k int, allow func(run int) bool, stopped func() bool,
) (candidates []Candidate, linked bool) {
	entities := q.Entities
	if linked = len(q.Entities)+len(q.Relations) == 0; linked {
		if len(q.Whole) == 0 {
			return nil, true
		}
		entities = [][]float32{q.Whole}
	}
	return c.FindTop(entities, q.Relations, k, allow, stopped), linked
}

// maxScore returns the highest score of the symbols of a run; 0 where there are no symbols or no scores.
func (s *Symbols) maxScore(run int, score []float32) float64 {
	of := s.of[s.starts[run]:s.starts[run+1]]
	if len(of) == 0 || len(score) == 0 {
		return 0
	}
	top := float32(math.Inf(-1))
	for _, number := range of {
		top = max(top, score[number])
	}
	return float64(top)
}

const blockRows = 4096

// scoreRows returns the highest cosine of each row with the vectors of the query, nil where none has the dimension.
// Rows that a stop leaves out have 0.
func scoreRows(table Table, query [][]float32, stopped func() bool) []float32 {
	probes := probesOf(query, table.Dim)
	if len(probes) == 0 {
		return nil
	}
	out := make([]float32, table.Len())
	blocks := (len(out) + blockRows - 1) / blockRows
	err := parallel.Each(context.Background(), blocks, runtime.GOMAXPROCS(0), func(_ context.Context, n int) error {
		if stopped() {
			return nil
		}
		for i := n * blockRows; i < min((n+1)*blockRows, len(out)); i++ {
			top := float32(math.Inf(-1))
			for _, one := range probes {
				top = max(top, table.dot(i, one))
			}
			out[i] = top
		}
		return nil
	})
	if err != nil {
		panic(err) // caught in a block: scores that lack it would be read as results
	}
	return out
}

// dot returns the product of two vectors. It adds up four sums, which the processor computes side by side, always in
// the same order.
func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

// byScore orders candidates: the best first, of equal ones the lower run.
func byScore(a, b Candidate) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Run, b.Run))
}

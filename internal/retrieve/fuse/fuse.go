// Package fuse makes the start of the hybrid walk from search results. After the walk it makes the final ranking from
// the mass of the walk (docs/explain/retrieval.md).
package fuse

import (
	"container/heap"
	"math"
	"slices"
	"sort"

	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

// Params of the method.
type Params struct {
	List      int     // N, the longest a list can be
	Classes   int     // seeds taken
	Chunks    int     // seeds taken
	PowClass  float64 // sharpening
	PowChunk  float64
	Share     float64 // of the restart on chunks
	Damping   float64
	Mix       float64 // of the fused passage score in the final score
	VetFloor  float64
	Tolerance float64 // of ties

	Hashed     float64 // weight of a list of chunks by the built-in embedder, of words beside it 1
	Title      float64 // weight of the step from a class to the chunk whose title it is, of others 1
	ChunkFloor float64 // weight of a step to a chunk without a word of the question, beside 1 to the best more
	ClassFloor float64 // and to a class
}

// Default of the specification: the setting of linked indexes, but for what titles name.
var Default = Params{
	List:      100,
	Classes:   20,
	Chunks:    10,
	PowClass:  6,
	PowChunk:  12,
	Share:     0.7,
	Damping:   0.7,
	Mix:       0.1,
	VetFloor:  0.001,
	Tolerance: 1e-9,

	Hashed:     0.3,
	Title:      5,
	ChunkFloor: 0.3,
	ClassFloor: 0.1,
}

// Kinds of indexes, each of which has a setting (docs/explain/retrieval.md, Setting by index).
const (
	Linked = "linked" // documents name the titles of others, as articles of an encyclopaedia do
	Short  = "short"  // they do not
	Long   = "long"   // nor do they, and chunks are so long that each has many words and names of any question
)

// ParamsFor returns the setting of a kind of index. Its chunks are embedded by a model, or hashed by the built-in
// embedder.
func ParamsFor(kind string, hashed bool) Params {
	params := Default
	switch kind {
	case Linked:
		if !hashed { // the best of two lists that agree is seldom wrong
			params.PowChunk = 16
		}
	case Short:
		params.Mix = 0.6
	case Long:
		params.Mix, params.Damping, params.Hashed = 5, 0.3, 0.03
	}
	return params
}

// Eps is the shipped precision of the walk.
const Eps = 1e-6

// Hit is one result; ids are places in chunk or class order.
type Hit struct {
	ID    uint32
	Score float64
}

// List is a search's results by decreasing score.
type List struct {
	Lexical bool
	Hits    []Hit
	Weight  float64 // of its scaled scores; 0 is as good as 1
}

// ScaleList maps a list's scores to 0..1 by its floor and its best; entries at 0 are left out.
func ScaleList(list List, n int) []Hit {
	if len(list.Hits) == 0 {
		return nil
	}
	best, floor := list.Hits[0].Score, list.Hits[len(list.Hits)-1].Score
	if list.Lexical && len(list.Hits) < n {
		floor = 0
	}
	out := make([]Hit, 0, len(list.Hits))
	for _, hit := range list.Hits {
		v := 1.0
		if best-floor > 1e-9 {
			v = (hit.Score - floor) / (best - floor)
		}
		if v > 0 {
			out = append(out, Hit{hit.ID, v})
		}
	}
	return out
}

// Fuse sums scaled lists; the result is in order: score, then id.
func Fuse(lists []List, n int) []Hit {
	sum := map[uint32]float64{}
	for _, l := range lists {
		weight := l.Weight
		if weight == 0 {
			weight = 1
		}
		for _, h := range ScaleList(l, n) {
			sum[h.ID] += float64(weight * h.Score)
		}
	}
	out := make([]Hit, 0, len(sum))
	for id, s := range sum {
		out = append(out, Hit{id, s})
	}
	Sort(out, Default.Tolerance)
	return out
}

// Sort orders by decreasing score; scores that are equal to a tolerance stand in order of the id.
func Sort(hs []Hit, tolerance float64) {
	sort.Slice(hs, func(i, j int) bool {
		if hs[i].Score != hs[j].Score {
			return hs[i].Score > hs[j].Score
		}
		return hs[i].ID < hs[j].ID
	})
	for lo := 0; lo < len(hs); {
		hi := lo + 1
		for hi < len(hs) && hs[hi-1].Score-hs[hi].Score <= tolerance {
			hi++
		}
		if hi-lo > 1 {
			g := hs[lo:hi]
			sort.Slice(g, func(i, j int) bool { return g[i].ID < g[j].ID })
		}
		lo = hi
	}
}

// Seeds are the fused sides and what becomes of them.
type Seeds struct {
	P, C  []Hit // fused chunks and classes, all of them
	Start walk.Start
}

// Titles are what is named by title; the zero value names nothing.
type Titles struct {
	Asked []uint32                           // chunks of documents that the question names
	Named func(chunk uint32) []walk.Weighted // chunks of documents that a chunk names, with weights of the steps there
}

// leastNaming is the share of the heaviest seed that a seed must have for what it names to count.
const leastNaming = 0.05

// addTo adds titles to the seeds among chunks, of which the best weighs 1: what the question names weighs as much as
// that, and what a seed names is a step further.
func (t Titles) addTo(seeds []walk.Weighted) []walk.Weighted {
	if t.Named == nil {
		return seeds
	}
	place := map[uint32]int{}
	add := func(chunk uint32) *walk.Weighted {
		at, ok := place[chunk]
		if !ok {
			at = len(seeds)
			place[chunk], seeds = at, append(seeds, walk.Weighted{ID: chunk})
		}
		return &seeds[at]
	}
	for i, seed := range seeds {
		place[seed.ID] = i
	}
	for _, chunk := range t.Asked {
		add(chunk).Weight = 1
	}
	for _, from := range slices.Clone(seeds) {
		if from.Weight >= leastNaming {
			for _, to := range t.Named(from.ID) {
				add(to.ID).Weight += from.Weight * to.Weight
			}
		}
	}
	return seeds
}

// MakeSeeds gives the restart distribution. chunksOf lists the (allowed) chunks of a class.
func MakeSeeds(params Params, chunks, classes []List, chunksOf func(class uint32) []uint32, titles Titles) Seeds {
	var asked List
	for _, chunk := range titles.Asked {
		asked.Hits = append(asked.Hits, Hit{chunk, 1})
	}
	seeds := Seeds{P: Fuse(append(chunks, asked), params.List), C: Fuse(classes, params.List)}
	score := make(map[uint32]float64, len(seeds.P))
	for _, h := range seeds.P {
		score[h.ID] = h.Score / seeds.P[0].Score
	}
	for _, h := range seeds.P[:min(params.Chunks, len(seeds.P))] {
		seeds.Start.Chunks = append(
			seeds.Start.Chunks,
			walk.Weighted{ID: h.ID, Weight: math.Pow(h.Score/seeds.P[0].Score, params.PowChunk)},
		)
	}
	seeds.Start.Chunks = titles.addTo(seeds.Start.Chunks)
	for _, hit := range seeds.C[:min(params.Classes, len(seeds.C))] {
		vet := params.VetFloor
		for _, k := range chunksOf(hit.ID) {
			vet = max(vet, score[k])
		}
		seeds.Start.Classes = append(
			seeds.Start.Classes,
			walk.Weighted{ID: hit.ID, Weight: math.Pow(hit.Score/seeds.C[0].Score, params.PowClass) * vet},
		)
	}
	share := params.Share
	if len(seeds.Start.Classes) == 0 {
		share = 1
	}
	if len(seeds.Start.Chunks) == 0 {
		share = 0
	}
	scaleWeights(seeds.Start.Chunks, share)
	scaleWeights(seeds.Start.Classes, 1-share)
	return seeds
}

func scaleWeights(ws []walk.Weighted, to float64) {
	sum := 0.0
	for _, w := range ws {
		sum += w.Weight
	}
	for i := range ws {
		ws[i].Weight *= to / sum
	}
}

// Rank scores chunks by the root of their mass and a share of their fused passage score, and gives the best n (0 =
// all of them), those that tie with the last included. Chunks of score 0 are left out.
func Rank(params Params, mass []walk.Weighted, fused []Hit, n int) []Hit {
	xmax := 0.0
	for _, m := range mass {
		xmax = max(xmax, m.Weight)
	}
	share := make(map[uint32]float64, len(fused))
	for _, hit := range fused {
		share[hit.ID] = params.Mix * hit.Score / fused[0].Score
	}
	out := make([]Hit, 0, len(mass)+len(fused))
	for _, weighted := range mass {
		s := math.Sqrt(weighted.Weight / xmax)
		if f, ok := share[weighted.ID]; ok {
			s += f
			delete(share, weighted.ID)
		}
		if s > 0 {
			out = append(out, Hit{weighted.ID, s})
		}
	}
	for id, s := range share {
		if s > 0 {
			out = append(out, Hit{id, s})
		}
	}
	if n > 0 && n < len(out) {
		least := nthScore(out, n) - params.Tolerance
		out = slices.DeleteFunc(out, func(hit Hit) bool { return hit.Score < least })
	}
	Sort(out, params.Tolerance)
	return out
}

// lowest is a heap with the lowest score on top, which keeps its length.
type lowest struct{ sort.Float64Slice }

func (lowest) Push(any) {}
func (lowest) Pop() any { return nil }

// nthScore returns the n-th best score, of n or more.
func nthScore(hs []Hit, n int) float64 {
	h := &lowest{make([]float64, n)}
	for i, hit := range hs {
		if i < n {
			h.Float64Slice[i] = hit.Score
		} else if i == n {
			heap.Init(h)
		}
		if i >= n && hit.Score > h.Float64Slice[0] {
			h.Float64Slice[0] = hit.Score
			heap.Fix(h, 0)
		}
	}
	return slices.Min(h.Float64Slice)
}

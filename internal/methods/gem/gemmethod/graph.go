package gemmethod

import (
	"slices"

	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// memoryGraph is the similarity graph of a memory, by the nodes of the memory: numbers of chunks that count, behind
// them summaries.
type memoryGraph struct {
	*spectral.File
	release func()
	nodes   []int32 // of the file's; -1: a chunk that does not count
	places  []int32 // in the file, of nodes; -1: there is none
}

// placeGraph gives the nodes of a file the numbers of the generation.
func placeGraph(g *retrieve.Generation, file *spectral.File, release func()) *memoryGraph {
	_, chunks, _ := g.Live.Counts()
	out := &memoryGraph{
		File: file, release: release, nodes: make([]int32, len(file.Chunks)+file.Summaries),
		places: slices.Repeat([]int32{-1}, chunks+file.Summaries),
	}
	for at, id := range file.Chunks {
		out.nodes[at] = -1
		if chunk := g.Live.FindChunk(id); chunk != nil {
			out.nodes[at], out.places[chunk.Number] = int32(chunk.Number), int32(at)
		}
	}
	for k := range file.Summaries {
		out.nodes[len(file.Chunks)+k] = int32(chunks + k)
		out.places[chunks+k] = int32(len(file.Chunks) + k)
	}
	return out
}

// Len returns the number of nodes.
func (g *memoryGraph) Len() int { return len(g.places) }

// Neighbours implements gem.Neighbourhood.
func (g *memoryGraph) Neighbours(node int) (to []int32, weights []float64) {
	if node >= len(g.places) || g.places[node] < 0 {
		return nil, nil
	}
	places, found := g.Edges(int(g.places[node]))
	for i, place := range places {
		if other := g.nodes[place]; other >= 0 {
			to, weights = append(to, other), append(weights, float64(found[i]))
		}
	}
	return to, weights
}

// walkEdges orders nodes by a search along edges, most of them. ranked are the best of all, every the match of each
// node.
func (g *memoryGraph) walkEdges(ranked, every []gem.Match, members gem.MembersOf, alpha float64, most int) []gem.Step {
	return gem.Search{
		Graph: g, Heaviest: g.MaxWeight(), Alpha: alpha, Summaries: members,
		Match: func(node int) (gem.Match, bool) {
			if node >= len(every) || every[node].Question < 0 {
				return gem.Match{}, false
			}
			return every[node], true
		},
	}.OrderNodes(ranked, most)
}

package walk_test

import (
	"fmt"

	"github.com/unweaver/unweaver/internal/index/graph"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

// Two classes share chunk 1: a walk that starts at class 0 reaches chunk 2, which does not mention it.
func ExampleGraph_Run() {
	var g walk.Graph
	g.Adjacency = graph.Adjacency{
		ClassOff: []uint64{0, 2, 4}, ClassTo: []uint32{0, 1, 1, 2}, // class 0: chunks 0, 1; class 1: chunks 1, 2
		ChunkOff: []uint64{0, 1, 3, 4}, ChunkTo: []uint32{0, 0, 1, 1},
	}
	start := walk.Start{Classes: []walk.Weighted{{ID: 0, Weight: 1}}}
	mass := g.Run(start, 0.5, 1e-9, walk.View{})
	for _, chunk := range mass.Chunks {
		fmt.Printf("chunk %d: %.2f\n", chunk.ID, chunk.Weight)
	}
	// Output:
	// chunk 0: 0.15
	// chunk 1: 0.17
	// chunk 2: 0.01
}

package graph_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/graph"
)

func triangle() graph.Adjacency {
	return graph.Adjacency{
		ClassOff: []uint64{0, 2, 3}, ClassTo: []uint32{0, 2, 1},
		ChunkOff: []uint64{0, 1, 2, 3}, ChunkTo: []uint32{0, 1, 0},
	}
}

func TestNeighboursAreTheListsBetweenOffsets(t *testing.T) {
	adjacency := triangle()
	if adjacency.Classes() != 2 || adjacency.Chunks() != 3 {
		t.Errorf("%d classes, %d chunks", adjacency.Classes(), adjacency.Chunks())
	}
	if !slices.Equal(adjacency.ChunksOf(0), []uint32{0, 2}) || !slices.Equal(adjacency.ClassesOf(2), []uint32{0}) {
		t.Errorf("%v %v", adjacency.ChunksOf(0), adjacency.ClassesOf(2))
	}
	if empty := new(graph.Adjacency); empty.Classes() != 0 || empty.Chunks() != 0 {
		t.Error("an empty graph has nodes")
	}
}

func TestAGraphWhoseNodesCannotBeNumberedIsRefused(t *testing.T) {
	for _, size := range [][2]int{{0, 0}, {7_000_000, 1_000_000}, {graph.MaxNodes - 5, 5}} {
		assert.NoError(t, graph.CheckRoom("docs", size[0], size[1]), "%d", size)
	}
	if err := graph.CheckRoom("docs", graph.MaxNodes-5, 6); !fault.Is(err, fault.TooLarge) {
		t.Errorf("one too many: %v", err)
	}
}

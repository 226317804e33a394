package graph_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/graph"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func triangle() graph.Adjacency {
	return graph.Adjacency{
		ClassOff: []uint64{0, 2, 3}, ClassTo: []uint32{0, 2, 1}, ChunkOff: []uint64{0, 1, 2, 3}, ChunkTo: []uint32{0, 1, 0},
	}
}

func TestNeighboursAreTheListsBetweenOffsets(t *testing.T) {
	adjacency := triangle()
	assert.True(t, adjacency.Classes() == 2 && adjacency.Chunks() == 3, "%d, %d", adjacency.Classes(), adjacency.Chunks())
	assert.Equal(t, []uint32{0, 2}, adjacency.ChunksOf(0))
	assert.Equal(t, []uint32{0}, adjacency.ClassesOf(2))
	empty := new(graph.Adjacency)
	assert.True(t, empty.Classes() == 0 && empty.Chunks() == 0, "an empty graph has nodes")
}

func TestAGraphWhoseNodesCannotBeNumberedIsRefused(t *testing.T) {
	for _, size := range [][2]int{{0, 0}, {7_000_000, 1_000_000}, {graph.MaxNodes - 5, 5}} {
		assert.NoError(t, graph.CheckRoom("docs", size[0], size[1]), "%d", size)
	}
	musttest.Code(t, graph.CheckRoom("docs", graph.MaxNodes-5, 6), fault.TooLarge, "one too many")
}

// Package graph holds the bipartite graph of classes and chunks, as adjacency lists in both directions.
package graph

import (
	"fmt"

	"github.com/unweaver/unweaver/internal/fault"
)

// MaxNodes is how many classes and chunks a graph has together, at most: a walk numbers them in 32 bits, classes first,
// and the postings of each side have fewer still.
const MaxNodes = 1 << 31

// CheckRoom reports whether a graph of so many classes and chunks can be numbered: fault.TooLarge where it cannot.
func CheckRoom(index string, classes, chunks int) error {
	if classes+chunks <= MaxNodes {
		return nil
	}
	return fault.TooLarge.At("number the graph of", index).
		Because(fmt.Sprintf("it has %d classes and %d chunks; the limit is %d", classes, chunks, MaxNodes)).
		Advise("split the corpus into several indexes")
}

// Adjacency has, of class c, the chunks ClassTo[ClassOff[c]:ClassOff[c+1]], and so of chunks. Lists are increasing.
type Adjacency struct {
	ClassOff, ChunkOff []uint64
	ClassTo, ChunkTo   []uint32
}

// Classes returns how many there are.
func (a *Adjacency) Classes() int { return max(0, len(a.ClassOff)-1) }

// Chunks returns how many there are.
func (a *Adjacency) Chunks() int { return max(0, len(a.ChunkOff)-1) }

// ChunksOf returns the chunks of a class.
func (a *Adjacency) ChunksOf(class uint32) []uint32 {
	return a.ClassTo[a.ClassOff[class]:a.ClassOff[class+1]]
}

// ClassesOf returns the classes of a chunk.
func (a *Adjacency) ClassesOf(chunk uint32) []uint32 {
	return a.ChunkTo[a.ChunkOff[chunk]:a.ChunkOff[chunk+1]]
}

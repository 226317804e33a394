// Package graph is the bipartite graph of classes and chunks as the search segment holds it: adjacency lists in both
// directions.
package graph

// Adjacency has, of class c, the chunks ClassTo[ClassOff[c]:ClassOff[c+1]], and so of chunks. Lists are increasing and
// the slices may be mapped files.
type Adjacency struct {
	ClassOff, ChunkOff []uint64
	ClassTo, ChunkTo   []uint32
}

// Classes is how many there are.
func (a *Adjacency) Classes() int { return max(0, len(a.ClassOff)-1) }

// Chunks is how many there are.
func (a *Adjacency) Chunks() int { return max(0, len(a.ChunkOff)-1) }

// ChunksOf a class.
func (a *Adjacency) ChunksOf(class uint32) []uint32 {
	return a.ClassTo[a.ClassOff[class]:a.ClassOff[class+1]]
}

// ClassesOf a chunk.
func (a *Adjacency) ClassesOf(chunk uint32) []uint32 {
	return a.ChunkTo[a.ChunkOff[chunk]:a.ChunkOff[chunk+1]]
}

// Fits tells whether the offsets end where the lists do and both directions have the same number of edges.
func (a *Adjacency) Fits() bool {
	return ends(a.ClassOff, len(a.ClassTo)) && ends(a.ChunkOff, len(a.ChunkTo)) && len(a.ClassTo) == len(a.ChunkTo)
}

func ends(offsets []uint64, edges int) bool {
	return len(offsets) > 0 && offsets[len(offsets)-1] == uint64(edges)
}

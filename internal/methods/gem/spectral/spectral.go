// Package spectral is the file of the similarity graph of a graphical eigen memory (internal/methods/gem) and of what
// its spectrum says of each chunk: what a search along edges and the list of themes read.
// Nodes are the chunks, by rising id, and behind them the summaries of themes, in the order of themes.
//
//	chunks   ids in increasing order, 16 bytes each      starts  u64 first edge of each node, and one for the end
//	to       u32 the other end, rising within a node     weights f32 of each edge; an edge is written from both ends
//	degrees  f32 of chunks, in the graph that the spectrum is of
//	vectors  f32 component of each chunk in each eigenvector, eigenvector by eigenvector
package spectral

import (
	"io"
	"strconv"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// Kind and Version of the file.
// 1: edges, degrees and eigenvectors.
const (
	Kind    = "spectral"
	Version = 1
)

// Content is what a file says.
type Content struct {
	Chunks    []core.ID // by rising id
	Summaries int       // nodes behind the chunks
	Starts    []uint64  // of nodes
	To        []uint32
	Weights   []float32
	Degrees   []float32 // of chunks
	Pairs     int       // eigenvectors
	Vectors   []float32 // Pairs times as many as chunks
}

// File is an open file. It may be read by many at once until it is closed.
type File struct {
	Content
	file     *mapped.File
	heaviest float64
}

// Open maps a file and checks its lengths. Errors are those of mapped.Open.
func Open(path string) (*File, error) {
	file, err := mapped.Open(path, Kind, Version)
	if err != nil {
		return nil, err
	}
	f := &File{file: file, Content: Content{
		Chunks:  mapped.ViewSection[core.ID](file, "chunks"),
		Starts:  mapped.ViewSection[uint64](file, "starts"),
		To:      mapped.ViewSection[uint32](file, "to"),
		Weights: mapped.ViewSection[float32](file, "weights"),
		Degrees: mapped.ViewSection[float32](file, "degrees"),
		Vectors: mapped.ViewSection[float32](file, "vectors"),
	}}
	why := "its numbers of summaries and eigenvectors are none"
	summaries, unread := strconv.Atoi(file.Meta("summaries"))
	pairs, also := strconv.Atoi(file.Meta("pairs"))
	if unread == nil && also == nil {
		f.Summaries, f.Pairs = summaries, pairs
		why = f.checkFit()
	}
	if why != "" {
		err := file.UnfitError(why)
		file.Close()
		return nil, err
	}
	for _, weight := range f.Weights {
		f.heaviest = max(f.heaviest, float64(weight))
	}
	return f, nil
}

// checkFit says what does not fit, if anything.
func (c Content) checkFit() string {
	chunks := len(c.Chunks)
	const most = 1 << 20 // themes and eigenvectors are a few dozen
	if c.Summaries < 0 || c.Summaries > most || c.Pairs < 0 || c.Pairs > most {
		return "its numbers of summaries and eigenvectors are none"
	}
	nodes := chunks + c.Summaries
	if len(c.Starts) != nodes+1 || len(c.Weights) != len(c.To) {
		return "its edges do not fit its nodes"
	}
	if len(c.Degrees) != chunks || len(c.Vectors) != c.Pairs*chunks {
		return "its eigenvectors do not fit its chunks"
	}
	return ""
}

// Close unmaps it.
func (f *File) Close() { f.file.Close() }

// MaxWeight returns the weight of the heaviest edge; 0 where there is none.
func (f *File) MaxWeight() float64 { return f.heaviest }

// Edges returns the edges of a node: the other ends, rising, and their weights.
func (c *Content) Edges(node int) (to []uint32, weights []float32) {
	from, end := c.Starts[node], c.Starts[node+1]
	return c.To[from:end], c.Weights[from:end]
}

// Vector returns the component of each chunk in an eigenvector.
func (c *Content) Vector(pair int) []float32 {
	return c.Vectors[pair*len(c.Chunks) : (pair+1)*len(c.Chunks)]
}

// Write writes a file. Equal content is equal bytes. Content that Open would refuse is fault.Internal.
func (c Content) Write(writer io.Writer) error {
	why := c.checkFit()
	for _, numbers := range [][]float32{c.Weights, c.Degrees, c.Vectors} {
		for _, x := range numbers {
			if x-x != 0 {
				why = "it holds what is no finite number"
			}
		}
	}
	if why != "" {
		return fault.Internal.At("write", "the graph of a memory").Because(why).
			Advise("this is a fault of the program: report it with this text")
	}
	out := mapped.NewWriter(writer, Kind, Version,
		map[string]string{"summaries": strconv.Itoa(c.Summaries), "pairs": strconv.Itoa(c.Pairs)})
	out.BeginSection("chunks")
	mapped.Put(out, c.Chunks)
	out.BeginSection("starts")
	mapped.Put(out, c.Starts)
	out.BeginSection("to")
	mapped.Put(out, c.To)
	out.BeginSection("weights")
	mapped.Put(out, c.Weights)
	out.BeginSection("degrees")
	mapped.Put(out, c.Degrees)
	out.BeginSection("vectors")
	mapped.Put(out, c.Vectors)
	return out.Close()
}

// Package search is the search segment: what hybrid retrieval maps into memory besides the live segment. It holds the
// inverted indexes of chunks and of classes, the adjacency of classes and chunks in both directions, the order of
// classes, and what filters look at (DESIGN §7). Chunks go by their number in chunk order, classes by their place in
// the live segment; ties of classes go by rank, their place in class order.
package search

import (
	"encoding/json"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/mapped"
	"github.com/unweaver/unweaver/internal/retrieve/lexical"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

// Kind and Version of the file.
const (
	Kind    = "search"
	Version = 1
)

// Meta of the file, under "search".
type Meta struct {
	Analyser string        `json:"analyser"`
	Language string        `json:"language"`
	Chunks   lexical.Stats `json:"chunks"`
	Classes  lexical.Stats `json:"classes"`
}

// Prefixes of the two sides.
const (
	ChunkSide = "k_"
	ClassSide = "c_"
)

// File is an open search segment.
type File struct {
	f        *mapped.File
	Meta     Meta
	Graph    *walk.Graph
	Chunks   *lexical.Index
	Classes  *lexical.Index
	Rank     []uint32 // place of a class -> rank
	Place    []uint32 // rank -> place
	modified []int64  // of documents, unix milliseconds
	meta     []byte
	metaEnd  []uint64
}

// Open maps a segment and checks that it fits the live segment's counts.
func Open(path string, documents, chunks, classes int) (*File, error) {
	file, err := mapped.Open(path, Kind, Version)
	if err != nil {
		return nil, err
	}
	x := &File{
		f:        file,
		Rank:     mapped.Slice[uint32](file, "rank"),
		Place:    mapped.Slice[uint32](file, "place"),
		modified: mapped.Slice[int64](file, "modified"),
		meta:     file.Bytes("meta"),
		metaEnd:  mapped.Slice[uint64](file, "meta_end"),
		Graph: &walk.Graph{
			ClassOff: mapped.Slice[uint64](file, "class_off"),
			ClassTo:  mapped.Slice[uint32](file, "class_to"),
			ChunkOff: mapped.Slice[uint64](file, "chunk_off"),
			ChunkTo:  mapped.Slice[uint32](file, "chunk_to"),
		},
	}
	if err := json.Unmarshal(file.Bytes("stats"), &x.Meta); err != nil || x.Graph.Chunks() != chunks || x.Graph.Classes() != classes || len(x.Rank) != classes ||
		len(x.Place) != classes || len(x.modified) != documents || len(x.metaEnd) != documents ||
		int(x.Meta.Chunks.Documents) != chunks ||
		int(x.Meta.Classes.Documents) != classes {
		file.Close()
		return nil, fault.SegmentDamage.At("open segment", path).
			Because("it does not fit the generation's live segment").
			Advise("run: unweaver restore")
	}
	x.Chunks, x.Classes = lexical.Open(file, ChunkSide, x.Meta.Chunks), lexical.Open(file, ClassSide, x.Meta.Classes)
	return x, nil
}

// Close unmaps it.
func (x *File) Close() { x.f.Close() }

// Document gives the metadata and time of document i.
func (x *File) Document(i int) (map[string]string, time.Time) {
	lo := uint64(0)
	if i > 0 {
		lo = x.metaEnd[i-1]
	}
	var m map[string]string
	if b := x.meta[lo:x.metaEnd[i]]; len(b) > 0 {
		_ = json.Unmarshal(b, &m) // checksummed, and written by us
	}
	return m, time.UnixMilli(x.modified[i]).UTC()
}

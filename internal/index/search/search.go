// Package search is the search segment: what retrieval maps into memory besides the live segment. It holds the
// inverted indexes of chunks and of classes, the adjacency of classes and chunks in both directions, the order of
// classes, and what filters look at. Chunks go by their number in chunk order, classes by their place in the live
// segment; ties of classes go by rank, their place in class order.
package search

import (
	"context"
	"encoding/json"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/graph"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/index/title"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// Kind and Version of the file.
// 1: two sides of postings, adjacency, order of classes, times and metadata of documents.
// 2: postings are packed. Both are read.
const (
	Kind    = "search"
	Version = 2
	flat    = 1
)

// Meta of the file, in the section "stats".
type Meta struct {
	Analyser string         `json:"analyser"` // the rules that made the terms; questions must be cut by the same
	Language string         `json:"language"`
	Chunks   postings.Stats `json:"chunks"`
	Classes  postings.Stats `json:"classes"`
}

// metaSection holds Meta as JSON.
const metaSection = "stats"

// Prefixes of the two sides.
const (
	ChunkSide = "k_"
	ClassSide = "c_"
)

// Expect is what a segment must be to serve: made by this analyser, for a live segment of these counts.
type Expect struct {
	Analyser                   string
	Documents, Chunks, Classes int
}

// File is an open search segment. It is safe for concurrent use until Close.
type File struct {
	f        *mapped.File
	Meta     Meta
	Graph    *graph.Adjacency
	Chunks   *postings.Side
	Classes  *postings.Side
	Rank     []uint32      // place of a class -> rank
	Place    []uint32      // rank -> place
	Titles   []title.Named // of documents; nil: not known
	modified []int64       // of documents, unix milliseconds
	meta     []byte
	metaEnd  []uint64
}

// Open maps a segment and checks that it fits. Errors: those of mapped.Open, fault.FormatUnknown where another analyser
// made its terms, and fault.SegmentDamage where it belongs to another live segment.
func Open(path string, expect Expect) (*File, error) {
	file, err := mapped.Open(path, Kind, Version, flat)
	if err != nil {
		return nil, err
	}
	x := &File{
		f:        file,
		Rank:     mapped.Slice[uint32](file, "rank"),
		Place:    mapped.Slice[uint32](file, "place"),
		Titles:   mapped.Slice[title.Named](file, title.Section),
		modified: mapped.Slice[int64](file, "modified"),
		meta:     file.Bytes("meta"),
		metaEnd:  mapped.Slice[uint64](file, "meta_end"),
		Graph: &graph.Adjacency{
			ClassOff: mapped.Slice[uint64](file, "class_off"),
			ClassTo:  mapped.Slice[uint32](file, "class_to"),
			ChunkOff: mapped.Slice[uint64](file, "chunk_off"),
			ChunkTo:  mapped.Slice[uint32](file, "chunk_to"),
		},
	}
	if err := json.Unmarshal(file.Bytes(metaSection), &x.Meta); err != nil {
		file.Close()
		return nil, unfit(path, err)
	}
	if x.Meta.Analyser != expect.Analyser {
		file.Close()
		return nil, fault.FormatUnknown.At("open segment", path).
			Because("its words were cut by analyser " + x.Meta.Analyser + ", questions are cut by " + expect.Analyser).
			Advise("build the index again with: unweaver index, or use the program version that built it")
	}
	x.Chunks = postings.Open(file, ChunkSide, x.Meta.Chunks)
	x.Classes = postings.Open(file, ClassSide, x.Meta.Classes)
	if !x.fits(expect) {
		file.Close()
		return nil, unfit(path, "it does not fit the generation's live segment")
	}
	return x, nil
}

func unfit(path string, why any) error {
	return fault.SegmentDamage.At("open segment", path).Because(why).Advise("run: unweaver restore")
}

// fits tells whether the sections have the lengths that the counts ask for, and name nothing that is not there: what
// is read by a number of the live segment must lie inside.
func (x *File) fits(expect Expect) bool {
	return x.Graph.Chunks() == expect.Chunks && x.Graph.Classes() == expect.Classes && x.Graph.Fits() &&
		len(x.Rank) == expect.Classes && len(x.Place) == expect.Classes && x.ranked() &&
		len(x.modified) == expect.Documents && len(x.metaEnd) == expect.Documents &&
		(len(x.Titles) == 0 || len(x.Titles) == expect.Documents) && mapped.Ends(x.metaEnd, len(x.meta)) &&
		x.Chunks.Documents() == expect.Chunks && x.Chunks.Fits() &&
		x.Classes.Documents() == expect.Classes && x.Classes.Fits()
}

// ranked tells whether every class has a rank of its own.
func (x *File) ranked() bool {
	for place, rank := range x.Rank {
		if int64(rank) >= int64(len(x.Place)) || x.Place[rank] != uint32(place) {
			return false
		}
	}
	return true
}

// ReadMeta reads what a stored segment says of itself with three small reads: which analyser made it, before it is
// decided whether it may be kept. Errors: those of the store and of Open.
func ReadMeta(ctx context.Context, store blob.Store, key string) (Meta, error) {
	var meta Meta
	info, err := store.Stat(ctx, key)
	if err != nil {
		return meta, err
	}
	where := store.Location(key)
	raw, err := mapped.ReadSection(artifact.ReaderAt(ctx, store, key), info.Size, where, Kind, metaSection, Version, flat)
	if err != nil {
		return meta, err
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return meta, unfit(where, err)
	}
	return meta, nil
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

// Package split writes and maps the file of one split: a set of whole documents with everything that belongs to them.
// It holds the tables of documents and of chunks, the classes that the chunks mention, and the postings of their texts.
// The file is never changed. It numbers documents, chunks and classes by their place in it and refers to no other file,
// so a split can be used beside any others.
//
//	documents  records in the order of keys      keys, meta   bytes of their keys and metadata (JSON)
//	titles     which classes their titles name
//	chunks     records in chunk order            by_id        u32 places of chunks in the order of ids
//	class_ids  ids of classes, in order          class_off    u32 first chunk of each class, and the end
//	class_to   u32 chunks of each class          class_at     u16 of each of these, where the chunk mentions it first
//	more       chunks that mention a class more than once, as records
//	k_*        postings of the texts of chunks (package postings)
//	labels     sets of labels of documents as JSON
//	stats      Meta as JSON
package split

import (
	"bytes"
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/index/title"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// Kind and Version of the file.
const (
	Kind    = "split"
	Version = 1
)

// Side is the prefix of the postings.
const Side = "k_"

const (
	// metaSection holds Meta as JSON.
	metaSection = "stats"
	// labelSection holds the sets of labels of documents as JSON; without any there is no such section.
	labelSection = "labels"
)

// Document is one record of the documents section, in the order of keys.
type Document struct {
	Key      uint64 // end of its key in the bytes of keys
	Meta     uint64 // end of its metadata
	Modified int64  // unix milliseconds
	Part     uint32 // of the split's own files of documents and texts, from 0
	Frame    uint32 // in the file of documents
	Chunks   uint32 // its first chunk
	Count    uint32 // of its chunks
	Label    uint32 // place in the labels section, from 1; 0: everybody may read it
	_        uint32
}

// Chunk is one record of the chunks section, in chunk order.
type Chunk struct {
	ID         core.ID
	Digest     core.Digest
	Document   uint32
	Ordinal    uint32 // in its document
	Start, End uint32 // code points
	Tokens     uint32
	Text       uint32 // part of the split's own files of texts, from 0
	TextFrame  uint32
	Extract    uint32 // part of the split's own files of extractions, from 0
	ExtFrame   uint32
	Windows    uint32
	Label      uint32 // that of its document
}

// More is one record of the section "more": a chunk that mentions a class more than once.
type More struct {
	Edge  uint32 // place in class_to
	Count uint32
}

// MaxPlace is the last place of a mention in its chunk that is distinguished from those behind it.
const MaxPlace = math.MaxUint16

// placeOf makes a place of the position of a mention: that of a title comes first.
func placeOf(position int) uint16 { return uint16(min(max(position+1, 0), MaxPlace)) }

// Meta of the file, in the section "stats".
type Meta struct {
	Analyser string         `json:"analyser"` // the rules that made the terms; questions must be cut by the same
	Language string         `json:"language"`
	Words    postings.Stats `json:"words"`
}

// Expect is what a split must be to serve: what the manifest says of it.
type Expect struct {
	Analyser                   string // empty: of any, for who looks up no word
	Documents, Chunks, Classes int
}

// File is an open split. It is safe for concurrent use until Close.
type File struct {
	Meta      Meta
	Documents []Document
	Chunks    []Chunk
	ByID      []uint32 // chunks in the order of ids
	ClassIDs  []core.ID
	Words     *postings.Side // of chunks, by their place
	Titles    []title.Named  // of documents

	f        *mapped.File
	classOff []uint32
	classTo  []uint32
	classAt  []uint16
	more     []More
	keys     []byte
	meta     []byte
	labels   []core.LabelSet // by Document.Label, from 1
}

// Open maps a split and checks that it is what is expected.
// Errors: those of mapped.Open, fault.FormatUnknown where another analyser made its terms, fault.SegmentDamage where
// its counts are not those.
func Open(path string, expect Expect) (*File, error) {
	file, err := mapped.Open(path, Kind, Version)
	if err != nil {
		return nil, err
	}
	x := &File{
		f:         file,
		Documents: mapped.ViewSection[Document](file, "documents"),
		Chunks:    mapped.ViewSection[Chunk](file, "chunks"),
		ByID:      mapped.ViewSection[uint32](file, "by_id"),
		ClassIDs:  mapped.ViewSection[core.ID](file, "class_ids"),
		classOff:  mapped.ViewSection[uint32](file, "class_off"),
		classTo:   mapped.ViewSection[uint32](file, "class_to"),
		classAt:   mapped.ViewSection[uint16](file, "class_at"),
		more:      mapped.ViewSection[More](file, "more"),
		keys:      file.Bytes("keys"),
		meta:      file.Bytes("meta"),
		Titles:    mapped.ViewSection[title.Named](file, title.Section),
	}
	if err := x.checkMeta(path, expect); err != nil {
		file.Close()
		return nil, err
	}
	return x, nil
}

func (x *File) checkMeta(path string, expect Expect) error {
	if err := json.Unmarshal(x.f.Bytes(metaSection), &x.Meta); err != nil {
		return x.f.UnfitError(err.Error())
	}
	if err := x.CheckExpected(path, expect); err != nil {
		return err
	}
	x.Words = postings.Open(x.f, Side, x.Meta.Words)
	if x.Words.Documents() != len(x.Chunks) || len(x.ByID) != len(x.Chunks) || len(x.Titles) != len(x.Documents) ||
		len(x.classOff) != len(x.ClassIDs)+1 || len(x.classAt) != len(x.classTo) {
		return x.f.UnfitError("its sections are of different lengths")
	}
	if raw := x.f.Bytes(labelSection); raw != nil {
		if err := json.Unmarshal(raw, &x.labels); err != nil {
			return x.f.UnfitError(err.Error())
		}
		known := map[core.LabelSet]bool{core.Everybody: true}
		for _, set := range x.labels {
			if known[set] || !set.IsCanonical() {
				return x.f.UnfitError(fmt.Sprintf("it lists labels %.80q, which stand there twice or in another order", set))
			}
			known[set] = true
		}
	}
	for i := range x.Documents {
		if x.Documents[i].Label > uint32(len(x.labels)) {
			return x.f.UnfitError(fmt.Sprintf("its document %d has labels of a number that it does not list", i))
		}
	}
	return nil
}

// LabelsOf returns who may read document i.
func (x *File) LabelsOf(i int) core.LabelSet {
	if number := x.Documents[i].Label; number > 0 {
		return x.labels[number-1]
	}
	return core.Everybody
}

// LabelSets returns the sets of labels of its documents, but for core.Everybody.
func (x *File) LabelSets() []core.LabelSet { return x.labels }

// CheckExpected reports whether it is what is expected: for a caller that shares it with its opener. Errors are those
// of Open.
func (x *File) CheckExpected(path string, expect Expect) error {
	if err := postings.CheckAnalyser("split", path, x.Meta.Analyser, expect.Analyser); err != nil {
		return err
	}
	for _, count := range []struct {
		of         string
		have, want int
	}{
		{"documents", len(x.Documents), expect.Documents},
		{"chunks", len(x.Chunks), expect.Chunks},
		{"classes", len(x.ClassIDs), expect.Classes},
	} {
		if count.have != count.want {
			return x.f.UnfitError(fmt.Sprintf("it has %d %s, the manifest says %d", count.have, count.of, count.want))
		}
	}
	return nil
}

// Close unmaps it.
func (x *File) Close() { x.f.Close() }

// UnfitError returns the error of a reader that found that it does not fit what lies beside it.
func (x *File) UnfitError(why string) error { return x.f.UnfitError(why) }

// KeyBytes returns the key of document i, without a copy: they are valid until Close.
func (x *File) KeyBytes(i int) []byte {
	start := uint64(0)
	if i > 0 {
		start = x.Documents[i-1].Key
	}
	return x.keys[start:x.Documents[i].Key]
}

// DocumentFrom returns the place of the first document whose key is not less than one.
func (x *File) DocumentFrom(key string) int {
	return sort.Search(len(x.Documents), func(i int) bool { return string(x.KeyBytes(i)) >= key })
}

// FilterFields gives what filters look at: the metadata and the time of document i.
func (x *File) FilterFields(i int) (map[string]string, time.Time) {
	var meta map[string]string
	if raw := x.MetaBytes(i); len(raw) > 0 {
		_ = json.Unmarshal(raw, &meta) // checksummed, and written by us
	}
	return meta, time.UnixMilli(x.Documents[i].Modified).UTC()
}

// MetaBytes returns the metadata of document i as JSON, without a copy: they are valid until Close.
func (x *File) MetaBytes(i int) []byte {
	start := uint64(0)
	if i > 0 {
		start = x.Documents[i-1].Meta
	}
	return x.meta[start:x.Documents[i].Meta]
}

// chunkRange returns where the chunks of a class lie in class_to.
func (x *File) chunkRange(class int) (from, to uint64) {
	return uint64(x.classOff[class]), uint64(x.classOff[class+1])
}

// ChunksOf gives the chunks that mention the class at a place of ClassIDs, increasing.
func (x *File) ChunksOf(class int) []uint32 {
	from, to := x.chunkRange(class)
	return x.classTo[from:to]
}

// PlacesOf gives, of each of ChunksOf, the place among the chunk's mentions at which the class comes first: its
// position in the model's list and one, 0 of a title. All at MaxPlace or behind it have that one.
func (x *File) PlacesOf(class int) []uint16 {
	from, to := x.chunkRange(class)
	return x.classAt[from:to]
}

// MentionsOf counts the mentions of a class by those of its chunks that count.
func (x *File) MentionsOf(class int, counts func(chunk uint32) bool) (mentions int64) {
	from, to := x.chunkRange(class)
	at := sort.Search(len(x.more), func(i int) bool { return uint64(x.more[i].Edge) >= from })
	for edge := from; edge < to; edge++ {
		times := int64(1)
		if at < len(x.more) && uint64(x.more[at].Edge) == edge {
			times = int64(x.more[at].Count)
			at++
		}
		if counts(x.classTo[edge]) {
			mentions += times
		}
	}
	return mentions
}

// ClassFrom returns the place of the first class whose id is not less than one.
func (x *File) ClassFrom(id core.ID) int {
	return sort.Search(len(x.ClassIDs), func(i int) bool { return bytes.Compare(x.ClassIDs[i][:], id[:]) >= 0 })
}

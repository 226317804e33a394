// Package live is the live segment: which class and which chunk counts in a generation, and where its parts lie. A row
// that a vector store returns counts only if this table has its digest.
package live

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// Kind and Version of the file.
// 1: documents, chunks and classes as fixed-width records, names in order.
const (
	Kind    = "live"
	Version = 1
)

// Class is one record of the classes section, sorted by id.
type Class struct {
	ID         core.ID
	Vector     core.Digest
	Record     core.Digest
	FirstChunk uint32 // number of the chunk of its first mention
	FirstPos   int32
	Chunks     uint32 // total
	Name       uint32 // its place in the order of names
}

// Chunk is one record of the chunks section, sorted by id.
type Chunk struct {
	ID         core.ID
	Digest     core.Digest
	Number     uint32 // place in chunk order
	Document   uint32 // place in the order of document keys
	Ordinal    uint32
	Start, End uint32
	Tokens     uint32
	Text       uint32 // part of the text segments
	TextFrame  uint32
	Extract    uint32 // part of the extract segments
	ExtFrame   uint32
	Windows    uint32
	_          uint32
}

// Document is one record of the documents section, in key order.
type Document struct {
	Key    uint64 // end of its key in the bytes of keys
	Part   uint32 // of the documents segments
	Frame  uint32
	Chunks uint32 // number of its first chunk
	Count  uint32
}

// File is an open live segment.
type File struct {
	f         *mapped.File
	Classes   []Class
	Chunks    []Chunk
	order     []uint32 // chunk number -> place in Chunks
	Documents []Document
	keys      []byte
	names     mapped.Strings
	nameClass []uint32 // name order -> place in Classes
}

// Open maps a live segment and checks that what its records say of each other lies within it. Errors are those of
// mapped.Open.
func Open(path string) (*File, error) {
	file, err := mapped.Open(path, Kind, Version)
	if err != nil {
		return nil, err
	}
	table := &File{
		f:         file,
		Classes:   mapped.Slice[Class](file, "classes"),
		Chunks:    mapped.Slice[Chunk](file, "chunks"),
		order:     mapped.Slice[uint32](file, "order"),
		Documents: mapped.Slice[Document](file, "documents"),
		keys:      file.Bytes("keys"),
		names:     mapped.StringsOf(file, "names", "name_ends"),
		nameClass: mapped.Slice[uint32](file, "name_class"),
	}
	if why := table.unfit(); why != "" {
		err := file.Unfit(why)
		file.Close()
		return nil, err
	}
	return table, nil
}

// unfit says what does not fit, if anything: a checksum can be made right for any content.
func (l *File) unfit() string {
	if len(l.order) != len(l.Chunks) || !mapped.Below(l.order, len(l.Chunks)) {
		return "the order of chunks names others"
	}
	for i := range l.Chunks {
		chunk := &l.Chunks[i]
		if int64(chunk.Number) >= int64(len(l.order)) || l.order[chunk.Number] != uint32(i) ||
			int64(chunk.Document) >= int64(len(l.Documents)) || chunk.Start > chunk.End {
			return fmt.Sprintf("chunk %d is out of place", i)
		}
	}
	end := uint64(0)
	for i := range l.Documents {
		document := &l.Documents[i]
		if document.Key < end || uint64(document.Chunks)+uint64(document.Count) > uint64(len(l.Chunks)) {
			return fmt.Sprintf("document %d is out of place", i)
		}
		end = document.Key
	}
	if end != uint64(len(l.keys)) {
		return "the keys of documents end elsewhere"
	}
	if !l.names.Fits() || l.names.Len() != len(l.nameClass) || !mapped.Below(l.nameClass, len(l.Classes)) {
		return "the names of classes do not fit them"
	}
	return ""
}

// Close unmaps it.
func (l *File) Close() { l.f.Close() }

// Class finds a class; nil when it is not live.
func (l *File) Class(id core.ID) *Class {
	if i := l.ClassPlace(id); i >= 0 {
		return &l.Classes[i]
	}
	return nil
}

// ClassPlace is where a class lies in Classes; -1 when it is not live.
func (l *File) ClassPlace(id core.ID) int {
	i := sort.Search(len(l.Classes), func(i int) bool { return bytes.Compare(l.Classes[i].ID[:], id[:]) >= 0 })
	if i < len(l.Classes) && l.Classes[i].ID == id {
		return i
	}
	return -1
}

// Chunk finds a chunk; nil when it is not live.
func (l *File) Chunk(id core.ID) *Chunk {
	want := binary.BigEndian.Uint64(id[:])
	i := sort.Search(len(l.Chunks), func(i int) bool {
		if have := binary.BigEndian.Uint64(l.Chunks[i].ID[:]); have != want {
			return have > want
		}
		return bytes.Compare(l.Chunks[i].ID[:], id[:]) >= 0
	})
	if i < len(l.Chunks) && l.Chunks[i].ID == id {
		return &l.Chunks[i]
	}
	return nil
}

// ByNumber is the chunk at a place of chunk order.
func (l *File) ByNumber(n int) *Chunk {
	if n < 0 || n >= len(l.order) {
		return nil
	}
	return &l.Chunks[l.order[n]]
}

// Key is the key of document i.
func (l *File) Key(i int) string {
	start := uint64(0)
	if i > 0 {
		start = l.Documents[i-1].Key
	}
	return string(l.keys[start:l.Documents[i].Key])
}

// Document finds a document by key, or -1.
func (l *File) Document(key string) int {
	i := sort.Search(len(l.Documents), func(i int) bool { return l.Key(i) >= key })
	if i < len(l.Documents) && l.Key(i) == key {
		return i
	}
	return -1
}

// Name is the i-th class name in order.
func (l *File) Name(i int) string { return l.names.At(i) }

// NamedFrom is the place of the first folded name >= prefix in the order of names.
func (l *File) NamedFrom(prefix string) int { return l.names.From(prefix) }

// Names is how many classes have a name: all of them.
func (l *File) Names() int { return l.names.Len() }

// ByName is the class at a place of the order of names.
func (l *File) ByName(i int) *Class { return &l.Classes[l.nameClass[i]] }

// Place is where a chunk of this file lies in Chunks.
func (l *File) Place(c *Chunk) uint32 { return l.order[c.Number] }

// DocumentFrom is the place of the first document whose key is >= key.
func (l *File) DocumentFrom(key string) int {
	return sort.Search(len(l.Documents), func(i int) bool { return l.Key(i) >= key })
}

// Counts of documents, chunks and classes.
func (l *File) Counts() (documents, chunks, classes int) {
	return len(l.Documents), len(l.Chunks), len(l.Classes)
}

// DocumentAt is document i.
func (l *File) DocumentAt(i int) *Document { return &l.Documents[i] }

// DocumentOf is the document of the chunk of a number.
func (l *File) DocumentOf(number uint32) uint32 { return l.Chunks[l.order[number]].Document }

// ClassAt is the class at a place.
func (l *File) ClassAt(place uint32) *Class { return &l.Classes[place] }

// ClassID is the id of the class at a place.
func (l *File) ClassID(place uint32) core.ID { return l.Classes[place].ID }

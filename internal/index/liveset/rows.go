package liveset

import "github.com/unweaver/unweaver/internal/core"

// Class is a class by its place in the order of ids. Of the digest of its vector it has what the vector's key has.
type Class struct {
	ID         core.ID
	Row        core.ID // of its row, which its record and its vector are stored under
	Vector     core.Digest
	Record     core.Digest
	FirstChunk uint32 // number of the chunk of its first mention
	Chunks     uint32 // total
	Name       uint32 // its place in the order of names
}

// Chunk is a chunk by its number in chunk order.
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
}

// Document is a document by its place in the order of keys.
type Document struct {
	Part   uint32 // of the documents segments
	Frame  uint32
	Chunks uint32 // number of its first chunk
	Count  uint32
}

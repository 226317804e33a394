package rows

import (
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/core"
)

// SplitChunk is a row of the chunks segments, which splits are made from, keyed by chunk id, in chunk order. It names
// no place outside its own shard.
type SplitChunk struct {
	Document   string
	Digest     core.Digest
	Ordinal    int
	Start, End int
	Tokens     int
	TextFrame  int
	ExtFrame   int
	Windows    int
}

// Encode gives the row's bytes.
func (c SplitChunk) Encode() []byte {
	enc := startRow()
	enc.S(c.Document)
	putDigest(&enc, c.Digest)
	for _, field := range c.listFields() {
		enc.U(uint64(*field))
	}
	return enc.B
}

// listFields returns the fields of one width, in the order in which they are written.
func (c *SplitChunk) listFields() []*int {
	return []*int{
		&c.Ordinal, &c.Start, &c.End, &c.Tokens, &c.TextFrame, &c.ExtFrame, &c.Windows,
	}
}

// DecodeSplitChunk reads a row.
func DecodeSplitChunk(b []byte) (SplitChunk, error) {
	dec := rowfile.Dec{B: b}
	if err := readVersion(&dec, "chunk of a split"); err != nil {
		return SplitChunk{}, err
	}
	chunk := SplitChunk{Document: dec.S(), Digest: readDigest(&dec)}
	for _, field := range chunk.listFields() {
		*field = int(dec.U())
	}
	return chunk, dec.End()
}

package rows

import (
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/core"
)

// LiveChunk is a scratch row for the live segment, keyed by chunk id, in chunk order.
type LiveChunk struct {
	Document   string
	Digest     core.Digest
	Number     int64
	Ordinal    int
	Start, End int
	Tokens     int
	Text       int
	TextFrame  int
	Extract    int
	ExtFrame   int
	Windows    int
}

// Encode gives the row's bytes.
func (c LiveChunk) Encode() []byte {
	enc := start()
	enc.S(c.Document)
	putDigest(&enc, c.Digest)
	enc.U(uint64(c.Number))
	for _, field := range c.fields() {
		enc.U(uint64(*field))
	}
	return enc.B
}

// fields are those of one width, in the order in which they are written.
func (c *LiveChunk) fields() []*int {
	return []*int{
		&c.Ordinal, &c.Start, &c.End, &c.Tokens, &c.Text, &c.TextFrame, &c.Extract, &c.ExtFrame, &c.Windows,
	}
}

// DecodeLiveChunk reads a row.
func DecodeLiveChunk(b []byte) (LiveChunk, error) {
	dec := rowfile.Dec{B: b}
	if err := begin(&dec, "live chunk"); err != nil {
		return LiveChunk{}, err
	}
	chunk := LiveChunk{Document: dec.S(), Digest: digest(&dec), Number: int64(dec.U())}
	for _, field := range chunk.fields() {
		*field = int(dec.U())
	}
	return chunk, dec.End()
}

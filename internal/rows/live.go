package rows

import (
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/wire"
)

// LiveChunk is a scratch row for the live segment, keyed by chunk id, in chunk order.
type LiveChunk struct {
	Document   string
	Digest     corpus.Digest
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
	var e wire.Enc
	e.S(c.Document)
	e.Raw(c.Digest[:])
	for _, v := range []int{int(c.Number), c.Ordinal, c.Start, c.End, c.Tokens, c.Text, c.TextFrame, c.Extract, c.ExtFrame, c.Windows} {
		e.U(uint64(v))
	}
	return e.B
}

// DecodeLiveChunk reads a row.
func DecodeLiveChunk(b []byte) (LiveChunk, error) {
	d := wire.Dec{B: b}
	c := LiveChunk{Document: d.S(), Digest: corpus.Digest(d.Raw(32)), Number: int64(d.U())}
	for _, p := range []*int{&c.Ordinal, &c.Start, &c.End, &c.Tokens, &c.Text, &c.TextFrame, &c.Extract, &c.ExtFrame, &c.Windows} {
		*p = int(d.U())
	}
	return c, d.Err
}

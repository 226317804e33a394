package rows

import (
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/format/rowfile"
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
	var enc rowfile.Enc
	enc.S(c.Document)
	enc.Raw(c.Digest[:])
	for _, v := range []int{int(c.Number), c.Ordinal, c.Start, c.End, c.Tokens, c.Text, c.TextFrame, c.Extract, c.ExtFrame, c.Windows} {
		enc.U(uint64(v))
	}
	return enc.B
}

// DecodeLiveChunk reads a row.
func DecodeLiveChunk(b []byte) (LiveChunk, error) {
	dec := rowfile.Dec{B: b}
	chunk := LiveChunk{Document: dec.S(), Digest: corpus.Digest(dec.Raw(32)), Number: int64(dec.U())}
	for _, p := range []*int{&chunk.Ordinal, &chunk.Start, &chunk.End, &chunk.Tokens, &chunk.Text, &chunk.TextFrame, &chunk.Extract, &chunk.ExtFrame, &chunk.Windows} {
		*p = int(dec.U())
	}
	return chunk, dec.Err
}

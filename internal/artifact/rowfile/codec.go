package rowfile

import (
	"encoding/binary"

	"github.com/unweaver/unweaver/internal/fault"
)

// Enc appends fields of a row: unsigned and signed varints, length-prefixed bytes. A row is read back in the order in
// which it was written; the first field of every row kind is its version.
type Enc struct{ B []byte }

// U writes an unsigned varint.
func (e *Enc) U(v uint64) { e.B = binary.AppendUvarint(e.B, v) }

// I writes a signed varint.
func (e *Enc) I(v int64) { e.B = binary.AppendVarint(e.B, v) }

// S writes a string.
func (e *Enc) S(s string) { e.U(uint64(len(s))); e.B = append(e.B, s...) }

// Raw writes bytes of a length that the reader knows.
func (e *Enc) Raw(b []byte) { e.B = append(e.B, b...) }

// Dec reads a row. The first field that does not fit makes Err non-nil and every later read zero.
type Dec struct {
	B   []byte
	Err error
}

// End reports whether the row was read without an error and to its last byte.
func (d *Dec) End() error {
	if d.Err == nil && len(d.B) > 0 {
		d.Err = fault.SegmentDamage.At("decode row", "").
			Because("row is longer than its fields").
			Advise("restore the generation")
	}
	return d.Err
}

func (d *Dec) failDecode() {
	if d.Err == nil {
		d.Err = fault.SegmentDamage.At("decode row", "").
			Because("row is shorter than its fields").
			Advise("restore the generation")
	}
	d.B = nil
}

// U reads an unsigned varint.
func (d *Dec) U() uint64 {
	v, n := binary.Uvarint(d.B)
	if n <= 0 {
		d.failDecode()
		return 0
	}
	d.B = d.B[n:]
	return v
}

// I reads a signed varint.
func (d *Dec) I() int64 {
	v, n := binary.Varint(d.B)
	if n <= 0 {
		d.failDecode()
		return 0
	}
	d.B = d.B[n:]
	return v
}

// Bytes reads a length-prefixed field without copying.
func (d *Dec) Bytes() []byte {
	n := d.U()
	if uint64(len(d.B)) < n {
		d.failDecode()
		return nil
	}
	b := d.B[:n]
	d.B = d.B[n:]
	return b
}

// S reads a string.
func (d *Dec) S() string { return string(d.Bytes()) }

// Raw reads n bytes without copying. After an error it gives n zero bytes.
func (d *Dec) Raw(n int) []byte {
	if len(d.B) < n {
		d.failDecode()
		return make([]byte, n)
	}
	b := d.B[:n]
	d.B = d.B[n:]
	return b
}

package rowfile_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/fault"
)

func TestFieldsComeBackInTheirOrder(t *testing.T) {
	var enc rowfile.Enc
	enc.U(0)
	enc.U(math.MaxUint64)
	enc.I(math.MinInt64)
	enc.S("")
	enc.S("naïve\x00")
	enc.Raw([]byte{1, 2, 3})
	dec := rowfile.Dec{B: enc.B}
	if a, b, c := dec.U(), dec.U(), dec.I(); a != 0 || b != math.MaxUint64 || c != math.MinInt64 {
		t.Errorf("%d %d %d", a, b, c)
	}
	a, b := dec.S(), dec.S()
	assert.True(t, a == "" && b == "naïve\x00", "%q %q", a, b)
	if raw := dec.Raw(3); raw[2] != 3 || dec.End() != nil {
		t.Errorf("%v, %v", raw, dec.End())
	}
}

// Whatever is missing, the first field that does not fit is an error and later reads are zero, never a panic.
func TestAShortRowIsAnErrorAndReadsZero(t *testing.T) {
	var enc rowfile.Enc
	enc.U(300)
	enc.I(-300)
	enc.S("text")
	enc.Raw(make([]byte, 16))
	for n := range enc.B {
		dec := rowfile.Dec{B: enc.B[:n]}
		dec.U()
		dec.I()
		dec.S()
		if raw := dec.Raw(16); len(raw) != 16 || !fault.Is(dec.End(), fault.SegmentDamage) {
			t.Errorf("%d of %d bytes: %v, %d raw", n, len(enc.B), dec.Err, len(raw))
		}
		assert.True(t, dec.U() == 0 && dec.I() == 0 && dec.S() == "",
			"%d of %d bytes: something is read after the error", n, len(enc.B))
	}
	huge := rowfile.Dec{B: []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 'x'}}
	assert.True(t, huge.Bytes() == nil && huge.Err != nil, "a length beyond the row")
}

func TestALongRowIsAnError(t *testing.T) {
	dec := rowfile.Dec{B: []byte{1, 2}}
	assert.True(t, dec.U() == 1 && dec.Err == nil && fault.Is(dec.End(), fault.SegmentDamage), "%v", dec.Err)
}

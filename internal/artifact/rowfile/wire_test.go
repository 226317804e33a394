package rowfile_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

type row struct{ key, value string }

func write(t testing.TB, rows []row) []byte {
	var buffer bytes.Buffer
	writer := rowfile.NewWriter(&buffer)
	for _, r := range rows {
		writer.Append(r.key, []byte(r.value))
	}
	require.NoError(t, writer.Close())
	return buffer.Bytes()
}

func some(n, size int, compressible bool) []row {
	out, state := make([]row, n), uint32(1)
	for i := range out {
		value := bytes.Repeat([]byte{byte(i)}, size)
		for j := range value {
			if !compressible {
				state = state*1664525 + 1013904223
				value[j] = byte(state >> 24)
			}
		}
		out[i] = row{fmt.Sprintf("k%06d", i), string(value)}
	}
	return out
}

func read(b []byte) (rows []row, counted int64, err error) {
	footer, err := rowfile.ReadFooter(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, 0, err
	}
	for _, frame := range footer.Frames {
		raw, err := frame.Unpack(nil, b[frame.Offset:frame.Offset+int64(frame.Size)])
		if err != nil {
			return rows, footer.Rows, err
		}
		for {
			key, value, rest, ok := rowfile.NextRow(raw)
			if !ok {
				break
			}
			rows = append(rows, row{string(key), string(value)})
			raw = rest
		}
	}
	return rows, footer.Rows, nil
}

func TestRowsComeBackAndEqualRowsAreEqualBytes(t *testing.T) {
	for name, rows := range map[string][]row{
		"none": nil, "one without value": {{"key", ""}}, "one without key": {{"", "value"}},
		"larger than frames": some(1, 300_000, false), "many small": some(5000, 40, true),
		"each of a frame": some(3, rowfile.FrameBytes, true), "unsorted, repeated": {{"b", "1"}, {"a", "2"}, {"b", "3"}},
	} {
		raw := write(t, rows)
		if got, counted, err := read(raw); err != nil || !slices.Equal(got, rows) || counted != int64(len(rows)) {
			t.Errorf("%s: %d rows of %d, %v", name, len(got), len(rows), err)
		}
		assert.True(t, bytes.Equal(raw, write(t, rows)), "%s: other bytes", name)
	}
}

func TestAKeyIsFoundThroughItsFrame(t *testing.T) {
	raw := write(t, some(5000, 40, true))
	footer, err := rowfile.ReadFooter(bytes.NewReader(raw), int64(len(raw)))
	require.True(t, err == nil && len(footer.Frames) >= 3, "%d frames, %v", len(footer.Frames), err)
	next := int64(0)
	for i, frame := range footer.Frames {
		assert.True(t, frame.Raw <= rowfile.FrameBytes, "frame %d has %d bytes", i, frame.Raw)
		last := fmt.Sprintf("k%06d", next+frame.Rows-1)
		next += frame.Rows
		assert.True(t, footer.Find(frame.First) == i && footer.Find(last) == i && footer.Find(last+"x") == i,
			"frame %d is not found by its keys %s to %s", i, frame.First, last)
	}
	assert.True(t, footer.Find("a") == -1 && footer.Find("z") == len(footer.Frames)-1,
		"keys before the first and behind the last")
}

func TestCutStartsAFrame(t *testing.T) {
	var buffer bytes.Buffer
	writer := rowfile.NewWriter(&buffer)
	var frames []int
	writer.Cut() // nothing to end
	for _, key := range []string{"a", "b", "c"} {
		frames = append(frames, writer.Append(key, nil))
		if key == "b" {
			writer.Cut()
		}
	}
	if err := writer.Close(); err != nil || fmt.Sprint(frames) != "[0 0 1]" || writer.Rows() != 3 {
		t.Errorf("%v, %d rows, %v", frames, writer.Rows(), err)
	}
}

// A damaged file is an error or reads as the very rows that were written: every bit of it is flipped.
// Promises: 12.
func TestEveryFlippedBitIsSeenOrHarmless(t *testing.T) {
	for name, rows := range map[string][]row{
		"two frames": append(some(20, 30, true), some(1, rowfile.FrameBytes, true)...), "stored as it is": some(9, 40, false),
		"no rows": nil,
	} {
		good, harmless := write(t, rows), 0
		for i := range good {
			for bit := range 8 {
				bad := bytes.Clone(good)
				bad[i] ^= 1 << bit
				got, counted, err := read(bad)
				switch {
				case err != nil && !fault.Is(err, fault.SegmentDamage):
					t.Fatalf("%s: byte %d of %d: %v", name, i, len(good), err)
				case err == nil && (!slices.Equal(got, rows) || counted != int64(len(rows))):
					t.Fatalf("%s: byte %d of %d, bit %d: %d rows, counted %d, without an error",
						name, i, len(good), bit, len(got), counted)
				case err == nil:
					harmless++
				}
			}
		}
		if harmless > 8*len("UWROWS1\n") { // the header says nothing that the end does not
			t.Errorf("%s: %d flips of %d have no effect", name, harmless, 8*len(good))
		}
	}
}

func TestEveryCutIsSeen(t *testing.T) {
	good := write(t, some(200, 30, true))
	for n := range good {
		musttest.Code(t, musttest.Err2(read(good[:n])), fault.SegmentDamage, "cut to %d bytes", n)
	}
	musttest.Code(t, musttest.Err2(read(append(bytes.Clone(good), 'x'))), fault.SegmentDamage, "a byte more")
}

// A frame that is whole in itself and not what the footer counts: a loop over its rows would end early, or go on.
func TestAFrameMustHoldWhatTheFooterCounts(t *testing.T) {
	raw := write(t, some(10, 5, true))
	footer := musttest.Get(rowfile.ReadFooter(bytes.NewReader(raw), int64(len(raw))))(t)
	for name, change := range map[string]func(*rowfile.Frame){
		"fewer rows": func(f *rowfile.Frame) { f.Rows++ },
		"more rows":  func(f *rowfile.Frame) { f.Rows-- },
		"other size": func(f *rowfile.Frame) { f.Raw++ },
		"checksum":   func(f *rowfile.Frame) { f.CRC++ },
	} {
		frame := footer.Frames[0]
		change(&frame)
		_, err := frame.Unpack(nil, raw[frame.Offset:frame.Offset+int64(frame.Size)])
		assert.True(t, fault.Is(err, fault.SegmentDamage), "%s: %v", name, err)
	}
}

type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, fault.StoreFull.At("write", "disk")
	}
	return len(b), nil
}

func TestAWriteErrorIsToldByClose(t *testing.T) {
	for left := range 3 {
		writer := rowfile.NewWriter(&full{left: left * 20})
		for _, r := range some(3, rowfile.FrameBytes, false) {
			writer.Append(r.key, []byte(r.value))
		}
		musttest.Code(t, writer.Close(), fault.StoreFull, "room for %d bytes", left*20)
	}
}

func FuzzReadNeverPanics(f *testing.F) {
	f.Add([]byte("UWROWS1\n"))
	f.Add(write(f, some(20, 30, true)))
	f.Fuzz(func(t *testing.T, b []byte) { _, _, _ = read(b) })
}

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
	raw := dec.Raw(3)
	assert.True(t, raw[2] == 3 && dec.End() == nil, "%v, %v", raw, dec.End())
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

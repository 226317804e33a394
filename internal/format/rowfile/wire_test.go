package rowfile_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/rowfile"
)

func build(t *testing.T, n, size int) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer := rowfile.NewWriter(&buffer)
	for i := range n {
		writer.Append(fmt.Sprintf("k%06d", i), bytes.Repeat([]byte{byte(i)}, size))
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func read(b []byte) (int, error) {
	footer, err := rowfile.ReadFooter(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return 0, err
	}
	n := 0
	for _, fr := range footer.Frames {
		raw, err := fr.Unpack(nil, b[fr.Offset:fr.Offset+int64(fr.Size)])
		if err != nil {
			return n, err
		}
		for {
			_, _, rest, ok := rowfile.NextRow(raw)
			if !ok {
				break
			}
			raw = rest
			n++
		}
	}
	return n, nil
}

func TestRowsComeBackAndEqualRowsAreEqualBytes(t *testing.T) {
	for _, c := range [][2]int{{0, 0}, {1, 0}, {1, 300_000}, {5000, 40}, {3, rowfile.FrameBytes}} {
		raw := build(t, c[0], c[1])
		if n, err := read(raw); err != nil || n != c[0] {
			t.Errorf("%v: %d rows, %v", c, n, err)
		}
		if !bytes.Equal(raw, build(t, c[0], c[1])) {
			t.Errorf("%v: other bytes", c)
		}
	}
	footer, err := rowfile.ReadFooter(bytes.NewReader(build(t, 5000, 40)), int64(len(build(t, 5000, 40))))
	if err != nil || len(footer.Frames) < 3 {
		t.Fatal(err)
	}
	for i, fr := range footer.Frames {
		if footer.Find(fr.First) != i {
			t.Errorf("frame %d is not found by its first key", i)
		}
	}
	if footer.Find("a") != -1 {
		t.Error("a key before the first has a frame")
	}
}

// A damaged file is an error, never other rows: every byte is flipped, and every length is cut.
func TestDamageIsSeen(t *testing.T) {
	good := build(t, 200, 30)
	for i := len("UWROWS1\n"); i < len(good); i++ {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		if n, err := read(bad); err == nil && n == 200 && i < len(good)-16 {
			t.Fatalf("byte %d of %d was flipped unseen", i, len(good))
		}
	}
	for n := 0; n < len(good); n += 7 {
		if _, err := read(good[:n]); !fault.Is(err, fault.SegmentDamage) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

func FuzzReadNeverPanics(f *testing.F) {
	f.Add([]byte("UWROWS1\n"))
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = read(b) })
}

package deletions_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/deletions"
	"github.com/unweaver/unweaver/internal/testkit/mappedtest"
)

func of(rows int) deletions.Of {
	return deletions.Of{Segment: "5e9", Unit: deletions.Documents, Rows: rows}
}

func write(t testing.TB, rows int, dead func(int) bool) []byte {
	t.Helper()
	var content bytes.Buffer
	if err := deletions.Write(&content, of(rows), dead); err != nil {
		t.Fatal(err)
	}
	return content.Bytes()
}

func open(t testing.TB, content []byte, of deletions.Of) (*deletions.File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tomb")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := deletions.Open(path, of)
	if err == nil {
		t.Cleanup(file.Close)
	} else if fault.Is(err, fault.SegmentDamage) && !strings.Contains(err.Error(), path) {
		t.Errorf("damage that does not name the file: %v", err)
	}
	return file, err
}

func TestBitmapsSayOfEveryRowWhatWasWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, rows := range []int{0, 1, 63, 64, 65, 1000, 70_000} {
		dead, count := make([]bool, rows), 0
		for i := range dead {
			if dead[i] = r.IntN(3) == 0; dead[i] {
				count++
			}
		}
		content := write(t, rows, func(row int) bool { return dead[row] })
		bitmap, err := open(t, content, of(rows))
		if err != nil {
			t.Fatal(err)
		}
		if bitmap.Count() != count || bitmap.Rows() != rows {
			t.Errorf("%d of %d are dead, want %d of %d", bitmap.Count(), bitmap.Rows(), count, rows)
		}
		for i := range dead {
			if bitmap.Dead(i) != dead[i] {
				t.Fatalf("row %d of %d", i, rows)
			}
		}
	}
}

func TestWhatDiesLaterIsAddedAndOrderOfNightsDoesNotMatter(t *testing.T) {
	first, second := []uint32{3, 64, 99}, []uint32{0, 64, 65}
	var onceFirst, together bytes.Buffer
	if err := deletions.Add(&onceFirst, of(100), nil, first); err != nil {
		t.Fatal(err)
	}
	former, err := open(t, onceFirst.Bytes(), of(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := deletions.Add(&together, of(100), former, second); err != nil {
		t.Fatal(err)
	}
	want := write(t, 100, func(row int) bool {
		return slices.Contains(first, uint32(row)) || slices.Contains(second, uint32(row))
	})
	if !bytes.Equal(together.Bytes(), want) {
		t.Error("rows that died in two nights are other bytes than of one")
	}
	for name, err := range map[string]error{
		"out of order":      deletions.Add(&together, of(100), nil, []uint32{5, 4}),
		"out of range":      deletions.Add(&together, of(100), nil, []uint32{100}),
		"of another length": deletions.Add(&together, of(101), former, nil),
		"without a unit":    deletions.Write(&together, deletions.Of{Segment: "5e9", Rows: 1}, nil),
	} {
		if !fault.Is(err, fault.Internal) {
			t.Errorf("rows %s: %v", name, err)
		}
	}
	if err := deletions.Write(&together, of(deletions.MaxRows+1), nil); !fault.Is(err, fault.TooLarge) {
		t.Errorf("more rows than can be numbered: %v", err)
	}
}

func TestADocumentDiesWithItsChunks(t *testing.T) {
	documents, err := open(t, write(t, 4, func(row int) bool { return row == 1 || row == 3 }), of(4))
	if err != nil {
		t.Fatal(err)
	}
	chunks := deletions.Expand(documents, []uint32{0, 2, 70, 70, 71})
	dead := 0
	for row := range chunks.Rows() {
		if want := (row >= 2 && row < 70) || row == 70; chunks.Dead(row) != want {
			t.Errorf("chunk %d", row)
		} else if want {
			dead++
		}
	}
	if chunks.Rows() != 71 || chunks.Count() != dead {
		t.Errorf("%d of %d chunks", chunks.Count(), chunks.Rows())
	}
}

func TestABitmapOfAnotherSegmentIsRefused(t *testing.T) {
	content := write(t, 100, func(row int) bool { return row == 7 })
	for name, other := range map[string]deletions.Of{
		"segment":        {Segment: "5ea", Unit: deletions.Documents, Rows: 100},
		"unit":           {Segment: "5e9", Unit: deletions.Classes, Rows: 100},
		"number of rows": {Segment: "5e9", Unit: deletions.Documents, Rows: 101},
	} {
		if _, err := open(t, content, other); !fault.Is(err, fault.SegmentDamage) {
			t.Errorf("another %s: %v", name, err)
		}
	}
}

// A bit of every byte is flipped, and the file is cut at every place: an error, or the same rows.
func TestDamageIsSeenOrHarmless(t *testing.T) {
	dead := func(row int) bool { return row%5 == 0 }
	good := write(t, 130, dead)
	try := func(content []byte, what string, at int) {
		bitmap, err := open(t, content, of(130))
		if err != nil {
			if !fault.Is(err, fault.SegmentDamage) && !fault.Is(err, fault.FormatUnknown) {
				t.Fatalf("%s %d: %v", what, at, err)
			}
			return
		}
		for row := range 130 {
			if bitmap.Dead(row) != dead(row) {
				t.Fatalf("%s %d: row %d is another", what, at, row)
			}
		}
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		try(bad, "byte", i)
		try(good[:i], "cut to", i)
	}
}

// choices is a source of random numbers that the fuzzer writes.
type choices struct{ rest []byte }

// Uint64 implements rand.Source; behind the end of the input it is never 0, of which draws would be repeated for ever.
func (c *choices) Uint64() uint64 {
	var raw [8]byte
	n := copy(raw[:], c.rest)
	c.rest = c.rest[n:]
	if n == 0 {
		return 0x9e3779b97f4a7c15
	}
	return binary.LittleEndian.Uint64(raw[:])
}

// Content that is forged under checksums that are right is refused, or counts what it has.
func FuzzTomb(f *testing.F) {
	whole := write(f, 130, func(row int) bool { return row%5 == 0 })
	for _, seed := range []string{"", "\x01", "0123456789abcdef0123456789abcdef", "\xff\xff\xff\xff\xff\xff\xff\xff\x80"} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Add(whole, false)
	f.Fuzz(func(t *testing.T, input []byte, forged bool) {
		content := input
		if forged {
			content = mappedtest.Forge(whole, rand.New(&choices{input}))
		}
		bitmap, err := open(t, content, of(130))
		if err != nil {
			if !fault.Is(err, fault.SegmentDamage) && !fault.Is(err, fault.FormatUnknown) {
				t.Errorf("refused without its code: %v", err)
			}
			return
		}
		count := 0
		for row := range bitmap.Rows() {
			if bitmap.Dead(row) {
				count++
			}
		}
		if count != bitmap.Count() || bitmap.Rows() != 130 {
			t.Errorf("%d of %d rows are dead, it counts %d", count, bitmap.Rows(), bitmap.Count())
		}
	})
}

package forged_test

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/unweaver/unweaver/internal/fault"
)

// choices is a source of random numbers that the fuzzer writes: what is forged follows from its input.
type choices struct{ rest []byte }

// Uint64 implements rand.Source; behind the end of the input it counts on, so that loops over it end.
func (c *choices) Uint64() uint64 {
	var raw [8]byte
	n := copy(raw[:], c.rest)
	c.rest = c.rest[n:]
	if n == 0 {
		return 0x9e3779b97f4a7c15
	}
	return binary.LittleEndian.Uint64(raw[:])
}

// fuzz reads what the fuzzer has forged of a format.
func fuzz(f *testing.F, name string) {
	format := formats(f)[name]
	for _, seed := range []string{"", "\x01", "0123456789abcdef0123456789abcdef", "\xff\xff\xff\xff\xff\xff\xff\xff\x80"} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "file")
	f.Fuzz(func(t *testing.T, input []byte) {
		forged := format.forge(format.whole, rand.New(&choices{input}))
		if err := os.WriteFile(path, forged, 0o600); err != nil {
			t.Fatal(err)
		}
		err := format.read(t.Context(), path)
		if err != nil && !fault.Is(err, fault.SegmentDamage) && !fault.Is(err, fault.FormatUnknown) {
			t.Errorf("refused without its code: %v", err)
		}
	})
}

func FuzzLive(f *testing.F)   { fuzz(f, "live") }
func FuzzSearch(f *testing.F) { fuzz(f, "search") }
func FuzzIDF(f *testing.F)    { fuzz(f, "idf") }
func FuzzRows(f *testing.F)   { fuzz(f, "rows") }
func FuzzText(f *testing.F)   { fuzz(f, "text") }

package postings

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is unpacked is what was packed, of every width and number, whatever lies behind it.
func TestValuesOfEveryWidthAreUnpackedAsTheyWerePacked(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for bits := range 33 {
		for n := 1; n <= BlockSize; n++ {
			values, want := make([]uint32, n), make([]uint32, n)
			before := r.Uint32()
			doc := before
			for i := range values {
				values[i] = r.Uint32() & uint32(uint64(1)<<bits-1)
				doc += values[i] + 1
				want[i] = doc
			}
			raw := packValues(nil, values, bits)
			require.Len(t, raw, packedSize(n, bits), "%d values of %d bits take", n, bits)
			for range slack {
				raw = append(raw, byte(r.Uint32()))
			}
			var docs [BlockSize]uint32
			unpackRising(&docs, raw, n, bits, before)
			require.True(t, slices.Equal(docs[:n], want), "%d values of %d bits: %v, want %v", n, bits, docs[:n], want)
			if bits > 8 {
				continue
			}
			var counts [BlockSize]uint8
			unpackCounts(&counts, raw, n, bits)
			cursor := Cursor{packed: raw, countBits: bits}
			for i, value := range values {
				if want := uint8(value) + 1; counts[i] != want || cursor.Count(i) != want {
					t.Fatalf("count %d of %d in %d bits: %d and %d, want %d", i, n, bits, counts[i], cursor.Count(i), want)
				}
			}
		}
	}
	got := bitWidth([]uint32{0, 0})
	assert.True(t, got == 0 && bitWidth([]uint32{1, math.MaxUint32}) == 32, "zeros take %d bits", got)
}

func TestLengthsAreWhatTheyAre(t *testing.T) {
	side := &Side{Lengths: []uint32{0, 1, 254, 255, 256, 511, 70_000, 1 << 31}}
	lengths := side.ShortLengths()
	for doc, want := range side.Lengths {
		assert.Equal(t, want, lengths.LengthOf(uint32(doc)), "document %d", doc)
	}
}

package postings

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLengthsAreWhatTheyAre(t *testing.T) {
	side := &Side{Lengths: []uint32{0, 1, 254, 255, 256, 511, 70_000, 1 << 31}}
	lengths := side.ShortLengths()
	for doc, want := range side.Lengths {
		assert.Equal(t, want, lengths.LengthOf(uint32(doc)), "document %d", doc)
	}
}

package postings

import "testing"

func TestLengthsAreWhatTheyAre(t *testing.T) {
	side := &Side{Lengths: []uint32{0, 1, 254, 255, 256, 511, 70_000, 1 << 31}}
	lengths := side.Shortened()
	for doc, want := range side.Lengths {
		if got := lengths.Of(uint32(doc)); got != want {
			t.Errorf("document %d has %d, want %d", doc, got, want)
		}
	}
}

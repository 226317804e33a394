package liveset

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/unweaver/unweaver/internal/core"
)

// mostGuesses is after how many looks a search goes on by halves, as ids are not spread as digests are.
const mostGuesses = 8

// placeOf finds an id among n in order, of which at gives each; -1: it is not there. Ids are digests, so that their
// first bytes tell nearly where they lie: that takes about four looks where halving takes seventeen at 100,000, and
// each look waits for memory.
func placeOf(id *core.ID, n int, at func(i int) *core.ID) int {
	want := binary.BigEndian.Uint64(id[:])
	apart := func(difference uint64) int {
		places, _ := bits.Mul64(difference, uint64(n))
		return int(places)
	}
	i := apart(want)
	for low, high, looks := 0, n, 0; low < high; looks++ { // if it is there, it is from low on and before high
		if i = min(max(i, low), high-1); looks >= mostGuesses {
			i = low + (high-low)/2
		}
		found := at(i)
		order := bytes.Compare(found[:], id[:])
		have := binary.BigEndian.Uint64(found[:])
		switch {
		case order == 0:
			return i
		case order < 0:
			low = i + 1
			i += apart(want - have)
		default:
			high = i
			i -= apart(have - want)
		}
	}
	return -1
}

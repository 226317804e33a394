package join

import (
	"fmt"

	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/index/segments"
)

// EndedKey returns the scratch file of the rows of classes that do not count any more once those of this part are
// there: of each the id, then an Ended.
func EndedKey(scratch string, partition int) string {
	return fmt.Sprintf("%s/ended-%03d.rows", scratch, partition)
}

// Ended is a row of a class run of the parent that does not count any more.
type Ended struct {
	segments.Place
	Text string // of the class
}

// Encode gives the row's bytes.
func (x Ended) Encode() []byte {
	var enc rowfile.Enc
	enc.U(uint64(x.Segment))
	enc.U(uint64(x.Row))
	enc.S(x.Text)
	return enc.B
}

// DecodeEnded reads one.
func DecodeEnded(b []byte) (Ended, error) {
	dec := rowfile.Dec{B: b}
	ended := Ended{Place: segments.Place{Segment: int(dec.U()), Row: int(dec.U())}, Text: dec.S()}
	return ended, dec.End()
}

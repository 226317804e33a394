package retrieve

import (
	"bytes"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
)

// maxFrameBytes of unpacked frames are kept, of all generations that are open in this process: what is asked for is
// asked for again.
const maxFrameBytes = 64 << 20

// unpacked is shared by all generations, so that a replica with a thousand indexes keeps no more than one with one.
var unpacked = artifact.NewFrames(maxFrameBytes, newFrame, (*frame).countBytes)

// frame is an unpacked frame, with where its rows begin if they are in the order of their keys. What is cited lies
// anywhere in it, and the rows before that would be read each time.
type frame struct {
	raw  []byte
	rows []uint32 // nil: in another order
}

func newFrame(raw []byte) *frame {
	f := &frame{raw: raw}
	var before []byte
	for rest := raw; ; {
		key, _, next, ok := rowfile.NextRow(rest)
		if !ok {
			return f
		}
		if bytes.Compare(before, key) > 0 {
			f.rows = nil
			return f
		}
		f.rows = append(f.rows, uint32(len(raw)-len(rest)))
		before, rest = key, next
	}
}

// countBytes returns how many bytes it holds.
func (f *frame) countBytes() int { return len(f.raw) + 4*cap(f.rows) }

// rowsFrom gives the rows from the first one of a key on; all of them where none has it, or they are in another order.
func (f *frame) rowsFrom(key string) []byte {
	at, found := slices.BinarySearchFunc(f.rows, key, func(row uint32, key string) int {
		have, _, _, _ := rowfile.NextRow(f.raw[row:])
		return strings.Compare(string(have), key)
	})
	if !found {
		return f.raw
	}
	return f.raw[f.rows[at]:]
}

// valueOf gives the value of a key, or nil.
func (f *frame) valueOf(key string) []byte { return findRow(f.rowsFrom(key), key) }

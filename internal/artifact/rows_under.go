package artifact

import (
	"context"
	"iter"

	"github.com/unweaver/unweaver/internal/store/blob"
)

// gapBytes is how much of a file is read over rather than left out by another request: what a store gives in the time
// of one.
const gapBytes = 512 << 10

// RowsUnder streams the rows of a sorted file, of so many bytes, whose keys are among those given, which do not
// decrease. Frames that hold none are not read but where they lie between two that do and are small. A frame is in
// memory at a time, and the places of all.
func RowsUnder(
	ctx context.Context, store blob.Store, key string, bytes int64, keys iter.Seq[string],
) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		reader, err := OpenRowsOf(ctx, store, key, bytes)
		if err != nil {
			yield(Row{}, err)
			return
		}
		next, stop := iter.Pull(keys)
		defer stop()
		wanted, more := next()
		for _, part := range reader.framesOf(keys) {
			for row, err := range reader.Scan(ctx, part[0], part[1]) {
				if err != nil {
					yield(Row{}, err)
					return
				}
				for more && wanted < string(row.Key) {
					wanted, more = next()
				}
				if !more {
					return
				}
				if wanted == string(row.Key) && !yield(row, nil) {
					return
				}
			}
		}
	}
}

// framesOf gives the ranges [from, to) of frames that may hold rows of keys, which do not decrease. Rows of one key may
// lie in several frames.
func (r *Reader) framesOf(keys iter.Seq[string]) [][2]int {
	var out [][2]int
	next, stop := iter.Pull(keys)
	defer stop()
	wanted, more := next()
	gap := int64(0) // bytes since the last range
	for i := range r.Frames {
		for more && wanted < r.Frames[i].First {
			wanted, more = next()
		}
		last := i+1 == len(r.Frames)
		// The frame begins with First and holds nothing above the next one's, which it may end with.
		holds := more && (last || wanted <= r.Frames[i+1].First)
		if !more {
			break
		}
		if !holds {
			gap += int64(r.Frames[i].Size)
			continue
		}
		if end := len(out) - 1; end >= 0 && gap <= gapBytes {
			out[end][1] = i + 1
		} else {
			out = append(out, [2]int{i, i + 1})
		}
		gap = 0
	}
	return out
}

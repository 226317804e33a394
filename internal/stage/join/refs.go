package join

import (
	"context"
	"fmt"
	"iter"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// ChunksKey returns the scratch file of a unit's chunks, which its result may give another name.
func ChunksKey(scratch string, unit int) string {
	return fmt.Sprintf("%s/chunks-%05d.rows", scratch, unit)
}

// StreamRefs streams rows [lo, hi) of the file of a unit's chunks; hi < 0 means to the end.
func StreamRefs(ctx context.Context, s blob.Store, key string, lo, hi int) iter.Seq2[Ref, error] {
	return func(yield func(Ref, error) bool) {
		reader, err := artifact.OpenRows(ctx, s, key)
		if err != nil {
			yield(Ref{}, err)
			return
		}
		frame, at := 0, 0
		for frame < len(reader.Frames) && at+int(reader.Frames[frame].Rows) <= lo {
			at += int(reader.Frames[frame].Rows)
			frame++
		}
		for row, err := range reader.Scan(ctx, frame, -1) {
			if err != nil {
				yield(Ref{}, err)
				return
			}
			if at++; at <= lo {
				continue
			}
			if hi >= 0 && at > hi {
				return
			}
			c, err := rows.DecodeChunk(row.Value)
			if !yield(Ref{string(row.Key), c}, err) || err != nil {
				return
			}
		}
	}
}

package load

import (
	"context"
	"encoding/binary"
	"iter"
	"math"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
)

// Rewriting is what vectors segments are read and written for again: no vector is asked for. Counts reports the
// key of a row whether it counts; Alive is called as work gets on.
type Rewriting struct {
	Artifacts artifact.Index
	Counts    func(key string) bool
	Alive     func()
}

// rowsIn reads a segment, some rows at a time; they are valid until the next ones.
func (r Rewriting) rowsIn(
	ctx context.Context, segment core.Segment,
	read func(context.Context, *stage.VectorFile) iter.Seq2[[]stage.VectorRow, error],
) iter.Seq2[[]stage.VectorRow, error] {
	return func(yield func([]stage.VectorRow, error) bool) {
		file, err := stage.OpenVectors(ctx, r.Artifacts, segment)
		if err != nil {
			yield(nil, err)
			return
		}
		for batch, err := range read(ctx, file) {
			if r.Alive(); !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

// checkIntact refuses a segment whose bytes are not those that name it: what is written again gets another name, under
// which no damage would show.
func (r Rewriting) checkIntact(ctx context.Context, segment core.Segment) error {
	return stage.CheckVectors(ctx, r.Artifacts, segment, r.Alive)
}

// CountDead counts the rows of a segment that do not count. Of the file only keys are read.
func (r Rewriting) CountDead(ctx context.Context, segment core.Segment) (dead int64, err error) {
	for batch, err := range r.rowsIn(ctx, segment, stage.ReadKeys) {
		if err != nil {
			return 0, err
		}
		for _, row := range batch {
			if !r.Counts(row.Key) {
				dead++
			}
		}
	}
	return dead, nil
}

// DropDead writes a segment without the rows that do not count. It gives the segment as it is where all of them do, and
// none, without a name, where none does.
func (r Rewriting) DropDead(ctx context.Context, segment core.Segment) (out core.Segment, fresh bool, err error) {
	dead, err := r.CountDead(ctx, segment)
	switch {
	case err != nil || dead == 0:
		return segment, false, err
	case dead == segment.Rows: // it is left out, so that it must be the one that is named
		return core.Segment{}, false, r.checkIntact(ctx, segment)
	}
	return r.Merge(ctx, []core.Segment{segment})
}

// Merge writes the rows of segments that count into one, each key once, and gives none, without a name, where there are
// none. What was written is read back and compared with what was read.
func (r Rewriting) Merge(ctx context.Context, list []core.Segment) (out core.Segment, fresh bool, err error) {
	file, err := artifact.NewFile()
	if err != nil {
		return out, false, err
	}
	defer file.Discard()
	writer, sum, rows := newParquet(file), core.SetHash{}, int64(0)
	written := map[string]bool{}
	for _, segment := range list {
		if err := r.checkIntact(ctx, segment); err != nil {
			return out, false, err
		}
		for batch, err := range r.rowsIn(ctx, segment, stage.ReadVectors) {
			if err != nil {
				return out, false, err
			}
			var stay []stage.VectorRow
			for _, row := range batch {
				if r.Counts(row.Key) && !written[row.Key] {
					written[row.Key] = true
					stay = append(stay, row)
					sum.Add(rowEntry(row))
				}
			}
			rows += int64(len(stay))
			if _, err := writer.Write(stay); err != nil {
				return out, false, err
			}
		}
	}
	if err := writer.Close(); err != nil || rows == 0 {
		return out, false, err
	}
	if out, fresh, err = file.PutSegment(ctx, r.Artifacts); err != nil {
		return out, fresh, err
	}
	out.Rows, out.Part = rows, list[0].Part
	return out, fresh, r.compareSegment(ctx, out, sum)
}

// compareSegment reads a merged segment back from the store.
func (r Rewriting) compareSegment(ctx context.Context, merged core.Segment, want core.SetHash) error {
	var sum core.SetHash
	for batch, err := range r.rowsIn(ctx, merged, stage.ReadVectors) {
		if err != nil {
			return err
		}
		for _, row := range batch {
			sum.Add(rowEntry(row))
		}
	}
	if sum == want {
		return nil
	}
	return fault.Internal.At("merge vectors segments", merged.SHA256).
		Because("the result is not the sum of the merged rows").
		Advise("report this; " + r.Artifacts.AdviseRebuild())
}

// rowEntry returns what is compared of a row: its key and every bit of its vector.
func rowEntry(row stage.VectorRow) core.Digest {
	raw := make([]byte, 0, 4*len(row.Vector))
	for _, value := range row.Vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(value))
	}
	return core.Sum("row", row.Key, string(raw))
}

package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Rewriting is what vectors segments are read and written for again: no vector is asked for. Counts reports the
// key of a row whether it counts; Alive is called as work gets on.
type Rewriting struct {
	Artifacts artifact.Index
	Counts    func(key string) bool
	Alive     func()
}

// rowsAtOnce are read at once.
const rowsAtOnce = 1024

// keyRow is a row without its vector, which is not read.
type keyRow struct {
	Key string `parquet:"key"`
}

func (r Rewriting) damageFault(segment core.Segment, why error) error {
	return fault.SegmentDamage.At("read vectors segment", r.Artifacts.Store.Location(
		r.Artifacts.SegmentKey(segment.SHA256))).Because(why).Advise(r.Artifacts.AdviseRebuild())
}

// rowsIn reads a segment, some rows at a time; they are valid until the next ones. One that gives another number of
// rows than it has is damaged.
func rowsIn[T any](ctx context.Context, r Rewriting, segment core.Segment) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		fail := func(err error) {
			if fault.As(err) == nil && ctx.Err() == nil {
				err = r.damageFault(segment, err)
			}
			yield(nil, err)
		}
		body := artifact.SizedReaderAt(ctx, r.Artifacts.Store, r.Artifacts.SegmentKey(segment.SHA256), segment.Bytes)
		var reader *parquet.GenericReader[T]
		err := artifact.GuardRead(func() error {
			file, err := parquet.OpenFile(body, segment.Bytes, parquet.ReadBufferSize(1<<20))
			if err == nil {
				reader = parquet.NewGenericReader[T](file)
			}
			return err
		})
		if err != nil {
			fail(err)
			return
		}
		defer func() { _ = reader.Close() }()
		read := int64(0)
		for buffer := make([]T, rowsAtOnce); err == nil; r.Alive() {
			var n int
			err = artifact.GuardRead(func() (err error) {
				n, err = reader.Read(buffer)
				return err
			})
			if err != nil && !errors.Is(err, io.EOF) {
				fail(err)
				return
			}
			if read += int64(n); n > 0 && !yield(buffer[:n], nil) {
				return
			}
		}
		if read != segment.Rows {
			fail(fmt.Errorf("it gives %d of %d rows", read, segment.Rows))
		}
	}
}

// checkIntact refuses a segment whose bytes are not those that name it: Parquet has sums of its pages alone, and what
// is written again gets another name, under which no damage would show.
func (r Rewriting) checkIntact(ctx context.Context, segment core.Segment) error {
	intact, err := r.Artifacts.IsIntact(ctx, segment.SHA256, r.Alive)
	if err == nil && !intact {
		err = r.damageFault(segment, errors.New("it is missing, or its content differs from its name"))
	}
	return err
}

// CountDead counts the rows of a segment that do not count. Of the file only keys are read.
func (r Rewriting) CountDead(ctx context.Context, segment core.Segment) (dead int64, err error) {
	for batch, err := range rowsIn[keyRow](ctx, r, segment) {
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
		for batch, err := range rowsIn[VectorRow](ctx, r, segment) {
			if err != nil {
				return out, false, err
			}
			var stay []VectorRow
			for _, row := range batch {
				if r.Counts(row.Key) && !written[row.Key] {
					written[strings.Clone(row.Key)] = true // the batch is read over
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
	for batch, err := range rowsIn[VectorRow](ctx, r, merged) {
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
func rowEntry(row VectorRow) core.Digest {
	raw := make([]byte, 0, 4*len(row.Vector))
	for _, value := range row.Vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(value))
	}
	return core.Sum("row", row.Key, string(raw))
}

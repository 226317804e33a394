package load

import (
	"context"
	"errors"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/artifact"
)

// withoutRows are read at once.
const withoutRows = 1024

// Without writes a vectors segment without the rows that do not count. It gives the segment as it is where all of them
// do, and none, without a name, where none does. alive is called as it gets on.
func Without(
	ctx context.Context, index artifact.Index, segment corpus.Segment, counts func(key string) bool, alive func(),
) (out corpus.Segment, fresh bool, err error) {
	at := index.SegmentKey(segment.SHA256)
	damaged := func(err error) error {
		if err == nil || fault.As(err) != nil || ctx.Err() != nil {
			return err
		}
		return fault.SegmentDamage.At("read vectors segment", index.Store.Location(at)).
			Because(err).
			Advise(index.Rebuild())
	}
	body := artifact.SizedReaderAt(ctx, index.Store, at, segment.Bytes)
	source, err := parquet.OpenFile(body, segment.Bytes, parquet.ReadBufferSize(1<<20))
	if err != nil {
		return segment, false, damaged(err)
	}
	file, err := artifact.NewFile()
	if err != nil {
		return segment, false, err
	}
	defer file.Discard()
	writer, stay, all := newParquet(file), int64(0), int64(0)
	reader := parquet.NewGenericReader[VectorRow](source)
	defer func() { _ = reader.Close() }()
	for buffer := make([]VectorRow, withoutRows); err == nil; alive() {
		var n int
		if n, err = reader.Read(buffer); err != nil && !errors.Is(err, io.EOF) {
			return segment, false, damaged(err)
		}
		var rows []VectorRow
		for _, row := range buffer[:n] {
			if all++; counts(row.Key) {
				rows = append(rows, row)
			}
		}
		stay += int64(len(rows))
		if _, failed := writer.Write(rows); failed != nil {
			return segment, false, failed
		}
	}
	if stay == all {
		return segment, false, nil
	}
	if err := writer.Close(); err != nil || stay == 0 {
		return corpus.Segment{}, false, err
	}
	out, fresh, err = file.PutSegment(ctx, index)
	out.Rows, out.Part = stay, segment.Part
	return out, fresh, err
}

package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/parquet-go/parquet-go"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// VectorRow is a row of a vectors segment: Parquet with the columns that a bulk import needs.
type VectorRow struct {
	Key    string    `parquet:"key"`
	Vector []float32 `parquet:"vector,list"`
}

// VectorKey is a row without its vector, which is not read.
type VectorKey struct {
	Key string `parquet:"key"`
}

// VectorFile is an open vectors segment.
type VectorFile struct {
	index   artifact.Index
	segment core.Segment
	file    *parquet.File
}

// vectorsAtOnce are read at once.
const vectorsAtOnce = 1000

// OpenVectors opens a vectors segment.
func OpenVectors(ctx context.Context, index artifact.Index, segment core.Segment) (*VectorFile, error) {
	f := &VectorFile{index: index, segment: segment}
	body := artifact.SizedReaderAt(ctx, index.Store, index.SegmentKey(segment.SHA256), segment.Bytes)
	err := artifact.GuardRead(func() (err error) {
		f.file, err = parquet.OpenFile(body, segment.Bytes, parquet.ReadBufferSize(1<<20))
		return err
	})
	return f, f.DamageFault(ctx, err)
}

// CountRows returns how many rows the file says that it has.
func (f *VectorFile) CountRows() int64 { return f.file.NumRows() }

// DamageFault makes a fault of an error of reading the segment; errors of the store itself stay what they are.
func (f *VectorFile) DamageFault(ctx context.Context, err error) error {
	if err == nil || fault.As(err) != nil || ctx.Err() != nil {
		return err
	}
	return fault.SegmentDamage.At("read vectors segment", f.index.Store.Location(f.index.SegmentKey(f.segment.SHA256))).
		Because(err).
		Advise("publish another generation, or " + f.index.AdviseRebuild())
}

// CheckVectors refuses a vectors segment whose bytes are not those that name it: Parquet has sums of its pages alone,
// and none of what says where they are and how they are coded, so that a bit that is another there makes other vectors
// of it. alive is called as bytes come in.
func CheckVectors(ctx context.Context, index artifact.Index, segment core.Segment, alive func()) error {
	intact, err := index.IsIntact(ctx, segment.SHA256, alive)
	if err == nil && !intact {
		file := VectorFile{index: index, segment: segment}
		err = file.DamageFault(ctx, errors.New("it is missing, or its content differs from its name"))
	}
	return err
}

// ReadVectors reads the rows of a file, some at a time; they are valid until the next ones. A file that gives another
// number of rows than the segment has is damaged.
func ReadVectors[T any](ctx context.Context, f *VectorFile) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		reader, err := NewVectorReader[T](f)
		if err != nil {
			yield(nil, f.DamageFault(ctx, err))
			return
		}
		defer reader.Close()
		read := int64(0)
		for buffer := make([]T, vectorsAtOnce); err == nil; {
			var n int
			n, err = reader.Read(buffer)
			if err != nil && !errors.Is(err, io.EOF) {
				yield(nil, f.DamageFault(ctx, err))
				return
			}
			if read += int64(n); n > 0 && !yield(buffer[:n], nil) {
				return
			}
		}
		if read != f.segment.Rows {
			yield(nil, f.DamageFault(ctx, fmt.Errorf("it gives %d of %d rows", read, f.segment.Rows)))
		}
	}
}

// VectorReader reads rows of a file. Where the file is damaged so that the library panics, that is an error.
type VectorReader[T any] struct{ reader *parquet.GenericReader[T] }

// NewVectorReader reads a file from its first row. Close it.
func NewVectorReader[T any](f *VectorFile) (out VectorReader[T], err error) {
	err = artifact.GuardRead(func() error {
		out.reader = parquet.NewGenericReader[T](f.file)
		return nil
	})
	return out, err
}

// Close frees what the reader holds.
func (r VectorReader[T]) Close() { _ = r.reader.Close() }

// Read reads the next rows; io.EOF with the last of them, or behind it.
func (r VectorReader[T]) Read(rows []T) (n int, err error) {
	err = artifact.GuardRead(func() (err error) {
		n, err = r.reader.Read(rows)
		return err
	})
	return n, err
}

// SeekRow goes to a row.
func (r VectorReader[T]) SeekRow(row int64) error {
	return artifact.GuardRead(func() error { return r.reader.SeekToRow(row) })
}

package stage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// VectorRow is a row of a vectors segment: Parquet with the columns that a bulk import needs.
type VectorRow struct {
	Key    string    `parquet:"key"`
	Vector []float32 `parquet:"vector,list"`
}

// VectorFile is an open vectors segment. It is read as this program writes it: uncompressed, without dictionaries, in
// data pages of version 2, with vectors of one dimension. Images bring files of other people, so that nothing is
// believed of which there are no bytes.
type VectorFile struct {
	index   artifact.Index
	segment core.Segment
	body    io.ReaderAt
	groups  []vectorGroup
}

// vectorGroup is a row group, with the number of its first row.
type vectorGroup struct {
	first, rows   int64
	keys, vectors vectorColumn
}

// Of Parquet's enumerations what is read (its file parquet.thrift).
const (
	typeFloat        = 4
	typeByteArray    = 6
	encodingPlain    = 0
	encodingLengths  = 6 // DELTA_LENGTH_BYTE_ARRAY
	pageV2           = 3
	vectorsAtOnce    = 1000    // rows that are read at once
	mostFooter       = 1 << 20 // bytes; a row group has less than one KiB
	parquetMagic     = "PAR1"
	footerTailLength = 8
)

// OpenVectors opens a vectors segment.
func OpenVectors(ctx context.Context, index artifact.Index, segment core.Segment) (*VectorFile, error) {
	f := &VectorFile{index: index, segment: segment}
	f.body = artifact.SizedReaderAt(ctx, index.Store, index.SegmentKey(segment.SHA256), segment.Bytes)
	return f, f.DamageFault(ctx, f.readFooter())
}

// readFooter reads where the pages of each column lie.
func (f *VectorFile) readFooter() error {
	end := f.segment.Bytes - footerTailLength
	tail, err := f.readPart(end, footerTailLength)
	if err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(tail))
	if string(tail[4:]) != parquetMagic || length > min(end, mostFooter) {
		return errors.New("it does not end as Parquet")
	}
	raw, err := f.readPart(end-length, length)
	if err != nil {
		return err
	}
	meta, _, err := readStruct(raw)
	if err != nil {
		return err
	}
	first, pages := int64(0), int64(0)
	for _, group := range meta.at(4).parts {
		g := vectorGroup{first: first, rows: group.int(3)}
		if g.keys, err = newVectorColumn(group.at(1, 0), g.rows, typeByteArray, end); err != nil {
			return err
		}
		if g.vectors, err = newVectorColumn(group.at(1, 1), g.rows, typeFloat, end); err != nil {
			return err
		}
		if pages += g.keys.length + g.vectors.length; pages > end {
			return errors.New("its columns lie in each other")
		}
		f.groups = append(f.groups, g)
		first += g.rows
	}
	return nil
}

// readPart reads bytes of the file.
func (f *VectorFile) readPart(from, length int64) ([]byte, error) {
	if from < 0 || length < 0 || length > f.segment.Bytes-from {
		return nil, io.ErrUnexpectedEOF
	}
	raw := make([]byte, length)
	if n, err := f.body.ReadAt(raw, from); int64(n) < length {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return raw, nil
}

// CountRows returns how many rows the file says that it has.
func (f *VectorFile) CountRows() (rows int64) {
	for _, group := range f.groups {
		rows += group.rows
	}
	return rows
}

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

// ReadVectors reads the rows of a file, some at a time; their vectors are valid until the next ones. A file that gives
// another number of rows than the segment has is damaged.
func ReadVectors(ctx context.Context, f *VectorFile) iter.Seq2[[]VectorRow, error] {
	return readRows(ctx, f, NewVectorReader(f))
}

// ReadKeys does as ReadVectors, but reads no vectors.
func ReadKeys(ctx context.Context, f *VectorFile) iter.Seq2[[]VectorRow, error] {
	return readRows(ctx, f, &VectorReader{file: f, keysOnly: true})
}

func readRows(ctx context.Context, f *VectorFile, reader *VectorReader) iter.Seq2[[]VectorRow, error] {
	return func(yield func([]VectorRow, error) bool) {
		read := int64(0)
		for buffer := make([]VectorRow, vectorsAtOnce); ; {
			n, err := reader.Read(buffer)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				yield(nil, f.DamageFault(ctx, err))
				return
			}
			if read += int64(n); !yield(buffer[:n], nil) {
				return
			}
		}
		if read != f.segment.Rows {
			yield(nil, f.DamageFault(ctx, fmt.Errorf("it gives %d of %d rows", read, f.segment.Rows)))
		}
	}
}

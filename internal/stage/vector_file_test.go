package stage_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// vectorRows returns rows with keys of many lengths.
func vectorRows(count, dimension int) (out []stage.VectorRow) {
	for i := range count {
		row := stage.VectorRow{Key: fmt.Sprintf("%0*d", 1+i*i%150, i), Vector: make([]float32, dimension)}
		for j := range row.Vector {
			row.Vector[j] = float32(i*dimension+j) / 7
		}
		out = append(out, row)
	}
	return out
}

// writeVectors writes a file as the library does.
func writeVectors(t testing.TB, rows []stage.VectorRow, options ...parquet.WriterOption) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := parquet.NewGenericWriter[stage.VectorRow](&out, options...)
	_, err := writer.Write(rows)
	require.NoError(t, errors.Join(err, writer.Close()))
	return out.Bytes()
}

// oneFile is a store of one file.
type oneFile struct {
	blob.Store
	raw      []byte
	downFrom int64 // reads over this place fail
}

// Get implements blob.Store.
func (o oneFile) Get(_ context.Context, _ string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	if o.downFrom > 0 && part.Offset+part.Length > o.downFrom && part.Offset < o.downFrom {
		return nil, blob.Info{}, fault.StoreDown.At("read", "file")
	}
	if part.Offset < 0 || part.Offset > int64(len(o.raw)) || part.Length < 0 {
		return nil, blob.Info{}, fault.Precondition.At("read", "file").Because("it has no such part")
	}
	raw := o.raw[part.Offset:]
	return io.NopCloser(bytes.NewReader(raw[:min(part.Length, int64(len(raw)))])), blob.Info{}, nil
}

// Location implements blob.Store.
func (oneFile) Location(key string) string { return key }

// openVectors opens a file of some bytes.
func openVectors(t testing.TB, raw []byte, rows int) (*stage.VectorFile, error) {
	t.Helper()
	segment := core.Segment{SHA256: "file", Bytes: int64(len(raw)), Rows: int64(rows)}
	return stage.OpenVectors(t.Context(), artifact.Index{Store: oneFile{raw: raw}, Name: "docs"}, segment)
}

// readVectors reads a file twice: rows, and their keys alone.
func readVectors(t testing.TB, raw []byte, count int) (rows []stage.VectorRow, err error) {
	t.Helper()
	file, err := openVectors(t, raw, count)
	if err != nil {
		return nil, err
	}
	for batch, err := range stage.ReadVectors(t.Context(), file) {
		if err != nil {
			return rows, err
		}
		for _, row := range batch {
			rows = append(rows, stage.VectorRow{Key: row.Key, Vector: slices.Clone(row.Vector)})
		}
	}
	at := 0
	for batch, err := range stage.ReadKeys(t.Context(), file) {
		if err != nil {
			return rows, err
		}
		for _, row := range batch {
			require.True(t, row.Key == rows[at].Key && row.Vector == nil, "row %d: %+v", at, row)
			at++
		}
	}
	require.Len(t, rows, at)
	return rows, nil
}

func TestVectorsAreReadAsTheLibraryWroteThem(t *testing.T) {
	for _, c := range []struct{ rows, dimension, group, page int }{
		{1, 1, 8192, 0}, {3, 3, 2, 0}, {2500, 5, 700, 1 << 10}, {3000, 64, 8192, 16 << 10}, {130, 1024, 8192, 256 << 10},
	} {
		t.Run(fmt.Sprintf("%d rows of %d", c.rows, c.dimension), func(t *testing.T) {
			options := []parquet.WriterOption{parquet.MaxRowsPerRowGroup(int64(c.group))}
			if c.page > 0 {
				options = append(options, parquet.PageBufferSize(c.page))
			}
			want := vectorRows(c.rows, c.dimension)
			raw := writeVectors(t, want, options...)
			got, err := readVectors(t, raw, c.rows)
			require.NoError(t, err)
			require.Equal(t, want, got)

			file, err := openVectors(t, raw, c.rows)
			require.NoError(t, err)
			assert.EqualValues(t, c.rows, file.CountRows())
			reader, buffer := stage.NewVectorReader(file), make([]stage.VectorRow, 3)
			for from := c.rows; from >= 0; from -= max(1, c.rows/40) {
				require.NoError(t, reader.SeekRow(int64(from)))
				n, err := reader.Read(buffer)
				if rest := want[from:min(c.rows, from+3)]; len(rest) == 0 {
					require.ErrorIs(t, err, io.EOF)
				} else {
					require.NoError(t, err)
					require.Equal(t, rest, buffer[:n], "from row %d", from)
				}
			}
		})
	}
	_, err := readVectors(t, writeVectors(t, vectorRows(3, 2)), 4)
	assert.True(t, fault.Is(err, fault.SegmentDamage), "a row fewer than its segment has: %v", err)
	got, err := readVectors(t, writeVectors(t, nil), 0)
	assert.True(t, err == nil && len(got) == 0, "no rows: %v, %v", got, err)
}

// A store that fails in the middle of a file is no damage to it.
func TestAStoreThatFailsIsNoDamage(t *testing.T) {
	raw := writeVectors(t, vectorRows(3000, 256))
	segment := core.Segment{SHA256: "file", Bytes: int64(len(raw)), Rows: 3000}
	for _, from := range []int64{200_000, 1 << 20, 2 << 20, int64(len(raw)) - 20} {
		index := artifact.Index{Store: oneFile{raw: raw, downFrom: from}, Name: "docs"}
		file, err := stage.OpenVectors(t.Context(), index, segment)
		if err == nil {
			for _, failed := range stage.ReadVectors(t.Context(), file) {
				err = failed
			}
		}
		assert.True(t, fault.Is(err, fault.StoreDown), "down from %d: %v", from, err)
	}
}

// rewriteFooter changes what a file says of itself.
func rewriteFooter(t testing.TB, raw []byte, change func(*format.FileMetaData)) []byte {
	t.Helper()
	end := len(raw) - 8
	from := end - int(binary.LittleEndian.Uint32(raw[end:]))
	var meta format.FileMetaData
	require.NoError(t, thrift.Unmarshal(new(thrift.CompactProtocol), raw[from:end], &meta))
	change(&meta)
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &meta)
	require.NoError(t, err)
	return append(binary.LittleEndian.AppendUint32(slices.Concat(raw[:from], footer), uint32(len(footer))), "PAR1"...)
}

// The maker of an image made its files, too: what one says of itself takes no memory of which it has no bytes.
func TestAFileOfVectorsIsNotBelieved(t *testing.T) {
	rows := vectorRows(40, 8)
	raw, wide := writeVectors(t, rows), writeVectors(t, vectorRows(1, 1<<16))
	long := slices.Repeat([]byte{0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07}, 40) // lists of 2^31 structs
	for name, bad := range map[string][]byte{
		"zeros in a dictionary": writeVectors(t, []stage.VectorRow{{Key: "a", Vector: make([]float32, 1<<22)}},
			parquet.DefaultEncodingFor(parquet.Float, &parquet.RLEDictionary)),
		"compressed zeros": writeVectors(t, []stage.VectorRow{{Key: "a", Vector: make([]float32, 1<<22)}},
			parquet.Compression(&parquet.Zstd)),
		"keys in plain pages": writeVectors(t, rows, parquet.DefaultEncodingFor(parquet.ByteArray, &parquet.Plain)),
		"numbers in pages of another form": writeVectors(t, rows,
			parquet.DefaultEncodingFor(parquet.Float, &parquet.ByteStreamSplit)),
		"vectors of two dimensions": writeVectors(t, append(vectorRows(2, 3), vectorRows(1, 4)...)),
		"more rows than there are": rewriteFooter(t, raw, func(m *format.FileMetaData) {
			m.RowGroups[0].NumRows = 1 << 40
			m.RowGroups[0].Columns[0].MetaData.NumValues, m.RowGroups[0].Columns[1].MetaData.NumValues = 1<<40, 1<<43
		}),
		"a column before the file": rewriteFooter(t, raw, func(m *format.FileMetaData) {
			m.RowGroups[0].Columns[1].MetaData.DataPageOffset = -1 << 40
		}),
		"a column behind the file": rewriteFooter(t, raw, func(m *format.FileMetaData) {
			m.RowGroups[0].Columns[1].MetaData.TotalCompressedSize = 1 << 62
		}),
		"a page that is read a thousand times": rewriteFooter(t, wide, func(m *format.FileMetaData) {
			m.RowGroups = slices.Repeat(m.RowGroups, 1000)
		}),
		"lists without end": slices.Concat(raw[:len(raw)-8], long,
			binary.LittleEndian.AppendUint32(nil, uint32(len(long))), []byte("PAR1")),
		"structs in structs without end": slices.Concat(slices.Repeat([]byte{0x1c}, 1<<20),
			binary.LittleEndian.AppendUint32(nil, 1<<20), []byte("PAR1")),
		"a footer longer than the file": append(slices.Clone(raw[:len(raw)-8]), "\xff\xff\xff\x7fPAR1"...),
		"nothing":                       nil,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := readVectors(t, bad, len(rows))
			runtime.ReadMemStats(&after)
			assert.True(t, fault.Is(err, fault.SegmentDamage), "%v", err)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(20*len(bad)+8<<20))
		})
	}
}

// A bit that is another is found, or changes nothing, or the file reads well: only its name reports it then.
func TestNoBitOfAFileOfVectorsPanics(t *testing.T) {
	rows := vectorRows(30, 4)
	raw, found := writeVectors(t, rows, parquet.PageBufferSize(200)), 0
	for i := range 8 * len(raw) {
		bad := slices.Clone(raw)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := readVectors(t, bad, len(rows)); err != nil {
			require.True(t, fault.Is(err, fault.SegmentDamage), "bit %d: %v", i, err)
			found++
		}
	}
	assert.Greater(t, found, 4*len(raw), "of %d bits", 8*len(raw))
}

func FuzzVectorFile(f *testing.F) {
	f.Add(writeVectors(f, vectorRows(3, 2)))
	f.Add(writeVectors(f, vectorRows(40, 3), parquet.MaxRowsPerRowGroup(16), parquet.PageBufferSize(64)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if rows, err := readVectors(t, raw, 40); err == nil {
			require.Len(t, rows, 40)
		}
		if file, err := openVectors(t, raw, 40); err == nil {
			reader, buffer := stage.NewVectorReader(file), make([]stage.VectorRow, 2)
			for _, row := range []int64{1, file.CountRows() / 2, file.CountRows() - 1} {
				if reader.SeekRow(row) == nil {
					_, _ = reader.Read(buffer)
				}
			}
		}
	})
}

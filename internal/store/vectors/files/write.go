package files

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"unsafe"

	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// source gives writePart its rows, sorted, each key once. A section asks for one row after another, so that a merge
// holds one vector.
type source struct {
	rows   int
	key    func(row int) []byte // valid until the next call
	vector func(row int) []float32
	coarse func(row int) (scale float32, quantised []int8) // valid until the next call
	sum    func(row int) uint32                            // of the vector
}

// sourceOf gives new rows.
func sourceOf(rows []vectors.Row, dim int) source {
	scratch := make([]int8, dim)
	var key []byte
	return source{
		rows: len(rows),
		key: func(row int) []byte {
			key = append(key[:0], rows[row].Key...)
			return key
		},
		vector: func(row int) []float32 { return rows[row].Vector },
		coarse: func(row int) (float32, []int8) {
			clear(scratch)
			return quantiseVector(rows[row].Vector, scratch), scratch
		},
		sum: func(row int) uint32 { return rowSum(rows[row].Vector) },
	}
}

// writePart writes a part durably, under another name first.
func writePart(path string, dim int, rows source) error {
	if rows.rows > math.MaxInt32 {
		return fmt.Errorf("%d rows are too many for one part", rows.rows)
	}
	return wrapError("write", path, durable.Replace(path, durable.PrivateFile, func(file *os.File) error {
		writer := bufio.NewWriterSize(file, 1<<20)
		if err := writeSections(writer, placeOf(path), dim, rows); err != nil {
			return err
		}
		return writer.Flush()
	}))
}

func writeSections(writer io.Writer, place uint32, dim int, rows source) error {
	crc := crc32.New(castagnoli)
	out := &counter{w: io.MultiWriter(writer, crc)}
	out.put([]byte(magic))
	out.putWord(uint32(dim))
	out.putWord(uint32(rows.rows))
	end := uint32(0)
	for row := range rows.rows {
		end += uint32(len(rows.key(row)))
		out.putWord(end)
	}
	for row := range rows.rows {
		out.put(rows.key(row))
	}
	out.writePadding()
	for row := range rows.rows {
		scale, _ := rows.coarse(row)
		out.putWord(math.Float32bits(scale))
	}
	out.writePadding()
	for row := range rows.rows {
		_, quantised := rows.coarse(row)
		out.put(unsafe.Slice((*byte)(unsafe.Pointer(&quantised[0])), dim))
	}
	out.writePadding()
	for row := range rows.rows {
		out.putWord(rows.sum(row))
	}
	out.putWord(place)
	out.writePadding()
	sum := crc.Sum32()
	out.w = writer
	for row := range rows.rows {
		out.put(bytesOf(rows.vector(row)))
	}
	out.putWord(sum)
	return out.err
}

type counter struct {
	w      io.Writer
	n      int
	err    error
	number [4]byte // a buffer of putWord: a local one would be on the heap
}

func (c *counter) put(raw []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(raw)
	}
	c.n += len(raw)
}

func (c *counter) putWord(value uint32) {
	binary.LittleEndian.PutUint32(c.number[:], value)
	c.put(c.number[:])
}

func (c *counter) writePadding() { c.put(make([]byte, paddingOf(c.n))) }

// bytesOf views a vector as it is stored: the supported machines are little endian.
func bytesOf(vector []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&vector[0])), 4*len(vector))
}

package stage

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
)

// vectorColumn is where the pages of a column of a row group lie.
type vectorColumn struct {
	from, length    int64 // its pages
	indexAt, indexN int64 // what says where each of them begins
	perRow          int64 // values
	encoding        int64 // of its pages
}

// mostPerRow is how long a vector may be.
const mostPerRow = 1 << 16

// newVectorColumn reads the description of a column (ColumnChunk) of a row group.
func newVectorColumn(chunk thriftNode, rows, kind, end int64) (out vectorColumn, err error) {
	meta, values := chunk.at(3), chunk.int(3, 5)
	out = vectorColumn{
		from: meta.int(9), length: meta.int(7), indexAt: chunk.int(4), indexN: chunk.int(5),
		perRow: 1, encoding: encodingLengths,
	}
	if kind == typeFloat {
		out.perRow, out.encoding = values/max(rows, 1), encodingPlain
	}
	switch {
	case rows <= 0 || rows > end || out.perRow <= 0 || out.perRow > mostPerRow || values != rows*out.perRow:
		err = fmt.Errorf("a column has %d values for %d rows", values, rows)
	case meta.int(1) != kind || meta.int(4) != 0 || meta.int(11) != 0:
		err = errors.New("a column has another type, is compressed or has a dictionary")
	case out.from < 0 || out.length < 0 || out.from > end || out.length > end-out.from:
		err = io.ErrUnexpectedEOF
	}
	return out, err
}

// pageReader reads the values of a column, page after page.
type pageReader struct {
	column  vectorColumn
	in      *bufio.Reader
	rows    int64    // of the page that are not read yet
	values  []byte   // of these
	lengths []uint32 // of these, where they are keys
	raw     []byte   // of the page
}

// Bounds of a page: this program makes them of 256 KiB and a row.
const (
	mostHeader = 64 << 10
	mostPage   = 16 << 20
)

// openColumn reads a column from the page that begins at a place in it.
func (f *VectorFile) openColumn(column vectorColumn, skip int64) *pageReader {
	pages := io.NewSectionReader(f.body, column.from+skip, column.length-skip)
	ahead := min(1<<20, max(mostHeader, column.length-skip))
	return &pageReader{column: column, in: bufio.NewReaderSize(pages, int(ahead))}
}

// next returns the value of the next row; it is valid until the next one.
func (p *pageReader) next() (value []byte, err error) {
	for p.rows == 0 {
		if err := p.readPage(); err != nil {
			return nil, err
		}
	}
	length := 4 * p.column.perRow
	if p.column.encoding == encodingLengths {
		length = int64(p.lengths[0])
		p.lengths = p.lengths[1:]
	}
	value = p.values[:length]
	p.values, p.rows = p.values[length:], p.rows-1
	return value, nil
}

// skipRows goes on by rows of the page that comes next.
func (p *pageReader) skipRows(rows int64) error {
	for range rows {
		if _, err := p.next(); err != nil {
			return err
		}
	}
	return nil
}

// readPage reads a page with its header (PageHeader).
func (p *pageReader) readPage() error {
	head, err := p.in.Peek(mostHeader)
	if err != nil && (len(head) == 0 || !errors.Is(err, io.EOF)) {
		return errors.Join(io.ErrUnexpectedEOF, err)
	}
	header, length, err := readStruct(head)
	if err != nil {
		return err
	}
	size, rows, values := header.int(3), header.int(8, 3), header.int(8, 1)
	levels := header.int(8, 5) + header.int(8, 6) // they say that each row has its values, which is known
	if header.int(1) != pageV2 || size < 0 || size > mostPage || header.int(2) != size ||
		header.int(8, 5) < 0 || header.int(8, 6) < 0 || levels > size || header.int(8, 2) != 0 ||
		rows <= 0 || rows > size || values != rows*p.column.perRow {
		return fmt.Errorf("a page has %d rows and %d values in %d bytes", rows, values, size)
	}
	if _, err := p.in.Discard(length); err != nil {
		return err
	}
	p.raw = slices.Grow(p.raw[:0], int(size))[:size]
	if _, err := io.ReadFull(p.in, p.raw); err != nil {
		return errors.Join(io.ErrUnexpectedEOF, err)
	}
	if crc32.ChecksumIEEE(p.raw) != uint32(header.int(4)) {
		return errors.New("a page differs from its sum")
	}
	if encoding := header.int(8, 4); encoding != p.column.encoding {
		return fmt.Errorf("a page has encoding %d", encoding)
	}
	p.rows, p.values = rows, p.raw[levels:]
	sum := 4 * values
	if p.column.encoding == encodingLengths {
		sum, err = p.readLengths()
	}
	if err == nil && sum != int64(len(p.values)) {
		err = fmt.Errorf("a page has %d bytes of values for %d", len(p.values), sum)
	}
	return err
}

// readLengths reads the lengths of keys, which stand before them as DELTA_BINARY_PACKED, and returns their sum.
func (p *pageReader) readLengths() (sum int64, err error) {
	r := thriftReader{raw: p.values} // has the same numbers
	block, minis, total, last := r.readUint(), r.readUint(), r.readUint(), r.readInt()
	if total != uint64(p.rows) || minis == 0 || minis > 1<<10 || block > 1<<16 ||
		block%minis != 0 || block/minis%32 != 0 {
		return 0, errors.New("the lengths of keys cannot be read")
	}
	p.lengths = slices.Grow(p.lengths[:0], int(p.rows))
	add := func(delta int64) {
		last += delta
		p.lengths = append(p.lengths, uint32(last))
		sum += last
		if last < 0 || last > mostPage {
			r.err = fmt.Errorf("a key has %d bytes", last)
		}
	}
	for add(0); len(p.lengths) < int(p.rows) && r.err == nil; {
		least, widths := r.readInt(), r.take(minis)
		for _, width := range widths {
			left := int(p.rows) - len(p.lengths)
			if left == 0 || r.err != nil || width > 32 {
				break
			}
			bits := bitReader{raw: r.take(block / minis / 8 * uint64(width)), width: int(width)}
			for i := range min(left, int(block/minis)) {
				if r.err != nil {
					break
				}
				add(least + bits.at(i))
			}
		}
	}
	p.values = r.raw
	return sum, r.err
}

// bitReader reads numbers of some bits each, the lowest first.
type bitReader struct {
	raw   []byte
	width int
}

func (b bitReader) at(i int) (out int64) {
	for bit := range b.width {
		place := i*b.width + bit
		out |= int64(b.raw[place/8]>>(place%8)&1) << bit
	}
	return out
}

// VectorReader reads rows of a file.
type VectorReader struct {
	file     *VectorFile
	keysOnly bool
	group    int   // that is read next
	left     int64 // rows of the open one
	keys     *pageReader
	vectors  *pageReader
	floats   []float32 // of the rows that were read last
}

// NewVectorReader reads a file from its first row.
func NewVectorReader(f *VectorFile) *VectorReader { return &VectorReader{file: f} }

// Read reads the next rows; io.EOF behind the last. Their vectors are valid until the next call.
func (r *VectorReader) Read(rows []VectorRow) (n int, err error) {
	r.floats = r.floats[:0]
	for n < len(rows) {
		if r.left == 0 {
			if r.group == len(r.file.groups) {
				break
			}
			if err := r.openGroup(r.file.groups[r.group], 0); err != nil {
				return n, err
			}
		}
		key, err := r.keys.next()
		if err != nil {
			return n, err
		}
		rows[n] = VectorRow{Key: string(key)}
		if !r.keysOnly {
			value, err := r.vectors.next()
			if err != nil {
				return n, err
			}
			from := len(r.floats)
			for ; len(value) > 0; value = value[4:] {
				r.floats = append(r.floats, math.Float32frombits(binary.LittleEndian.Uint32(value)))
			}
			rows[n].Vector = r.floats[from:len(r.floats):len(r.floats)]
		}
		n, r.left = n+1, r.left-1
	}
	if n == 0 && len(rows) > 0 {
		err = io.EOF
	}
	return n, err
}

// openGroup opens a row group at one of its rows.
func (r *VectorReader) openGroup(group vectorGroup, row int64) (err error) {
	r.group, r.left = r.group+1, group.rows-row
	if r.keys, err = r.file.seekColumn(group.keys, row); err == nil && !r.keysOnly {
		r.vectors, err = r.file.seekColumn(group.vectors, row)
	}
	return err
}

// SeekRow goes to a row.
func (r *VectorReader) SeekRow(row int64) error {
	r.left, r.group = 0, len(r.file.groups)
	for i, group := range r.file.groups {
		if row >= group.first && row < group.first+group.rows {
			r.group = i
			return r.openGroup(group, row-group.first)
		}
	}
	return nil
}

// mostIndex is how long what says where the pages of a column begin may be, in bytes.
const mostIndex = 256 << 10

// seekColumn opens a column at one of its rows, at the page that has it as the column's index (OffsetIndex) says.
func (f *VectorFile) seekColumn(column vectorColumn, row int64) (*pageReader, error) {
	skip := int64(0)
	if row > 0 && column.indexN > 0 && column.indexN <= mostIndex {
		raw, err := f.readPart(column.indexAt, column.indexN)
		if err != nil {
			return nil, err
		}
		index, _, err := readStruct(raw)
		if err != nil {
			return nil, err
		}
		first := int64(0)
		for _, page := range index.at(1).parts {
			if begins := page.int(3); begins <= row && begins >= first {
				skip, first = page.int(1)-column.from, begins
			}
		}
		if row -= first; skip < 0 || skip > column.length {
			return nil, io.ErrUnexpectedEOF
		}
	}
	out := f.openColumn(column, skip)
	return out, out.skipRows(row)
}

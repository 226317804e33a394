package files

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"math"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An index of a part is derived from it: where it is missing or damaged, or of another part, the codes of all rows are
// scanned, and the next Load makes it anew.

const (
	indexMagic = "UWSIGN1\x00"
	indexEnd   = ".signs"
	indexHead  = 64
)

// indexedAsks are the numbers of best rows for which an index was measured. Whoever asks for more gets them from all
// rows.
var indexedAsks = [...]int{20, 150, 300, 1000}

// measures say for each of indexedAsks how many of the rows that are best by their signs have to be looked at by their
// codes; 0 where these are so many that all rows may be.
type measures [len(indexedAsks)]int

// index is a mapped file of signs of rows. Its slices point into the mapping.
type index struct {
	path    string
	data    []byte
	keep    measures
	factors []float32 // of the rows
	signs   []byte    // of 32 rows after each other, interleaved; the last ones are filled up
}

func (p *part) indexPath() string { return strings.TrimSuffix(p.path, partEnd) + indexEnd }

// checksum is what the part ends with: an index of other rows tells another one.
func (p *part) checksum() uint32 { return binary.LittleEndian.Uint32(p.data[len(p.data)-4:]) }

// blocks is how many times 32 rows there are.
func blocks(rows int) int { return (rows + rowsAtOnce - 1) / rowsAtOnce }

// openIndex maps the index of a part; nil where there is none that can be used.
func (p *part) openIndex() *index {
	x, err := p.mapIndex()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		slog.Warn("an index of vectors cannot be used: all rows are scanned until the next load makes it anew",
			"file", p.indexPath(), "why", err.Error())
	}
	return x
}

func (p *part) mapIndex() (*index, error) {
	path := p.indexPath()
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() < indexHead+4 {
		return nil, errors.New("it is too short")
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, wrap("map", path, err)
	}
	x := &index{path: path, data: data}
	if err := x.layout(p); err != nil {
		return nil, errors.Join(err, unix.Munmap(data))
	}
	return x, nil
}

// layout finds the sections and checks them: a header, the factors, the signs, a checksum.
func (x *index) layout(p *part) error {
	word := func(at int) int { return int(binary.LittleEndian.Uint32(x.data[at:])) }
	if string(x.data[:8]) != indexMagic || word(8) != p.dim || word(12) != p.n || word(16) != int(p.checksum()) {
		return errors.New("it is no index of this part")
	}
	for i := range x.keep {
		x.keep[i] = word(20 + 4*i)
	}
	end := len(x.data) - 4
	size := indexHead
	if x.useful() {
		signs := rowsAtOnce * signBytes(p.dim) * blocks(p.n)
		at := size + 4*p.n + pad(size+4*p.n)
		if size = at + signs; size == end {
			x.factors = unsafe.Slice((*float32)(unsafe.Pointer(&x.data[indexHead])), p.n)
			x.signs = x.data[at:size]
		}
	}
	if size != end {
		return errors.New("its size does not fit its header")
	}
	if crc32.Checksum(x.data[:end], castagnoli) != uint32(word(end)) {
		return errors.New("its checksum differs")
	}
	return nil
}

func (x *index) useful() bool { return x.keep != measures{} }

func (x *index) close() error {
	if x == nil {
		return nil
	}
	return unix.Munmap(x.data)
}

// keeps is how many rows a search for the n best looks at by their codes; 0 where it has to look at all.
func (x *index) keeps(n int) int {
	if x == nil {
		return 0
	}
	for i, most := range indexedAsks {
		if n <= most {
			return x.keep[i]
		}
	}
	return 0
}

// signed is the content of an index that is being made.
type signed struct {
	p       *part
	keep    measures
	factors []float32
	signs   []byte
}

// write writes the file; of an index that is of no use only that it is, so that none is made at each load.
func (s *signed) write(writer io.Writer) error {
	sum := crc32.New(castagnoli)
	out := &counter{w: io.MultiWriter(writer, sum)}
	out.put([]byte(indexMagic))
	for _, word := range []int{s.p.dim, s.p.n, int(s.p.checksum())} {
		out.word(uint32(word))
	}
	for _, n := range s.keep {
		out.word(uint32(n))
	}
	out.put(make([]byte, indexHead-out.n))
	if s.keep != (measures{}) {
		for _, factor := range s.factors {
			out.word(math.Float32bits(factor))
		}
		out.align()
		out.put(s.signs)
	}
	out.word(sum.Sum32())
	return out.err
}

package files

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"log/slog"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An index of a part is derived from it: where it is missing or damaged, or of another part, the codes of all rows are
// scanned, and the next Load makes it again. It is by columns where few numbers of a row say most of it, else by signs;
// which, the rows alone decide.

const (
	indexMagic = "UWSIGN1\x00"
	indexEnd   = ".signs"
	indexHead  = 64
)

// indexedAsks are the numbers of best rows for which an index was measured. Whoever asks for more gets them from all
// rows.
var indexedAsks = [...]int{20, 150, 300, 1000}

// measures say for each of indexedAsks how many of the rows that are best by an index have to be looked at by their
// codes; 0 where these are so many that all rows may be.
type measures [len(indexedAsks)]int

// index is a mapped file of signs or columns of rows. Its slices point into the mapping.
type index struct {
	path    string
	data    []byte
	keep    measures
	factors []float32 // of the rows
	signs   []byte    // of 32 rows after each other, interleaved; the last ones are filled up
	columns *columned // or these
	byDim   bool      // it is one of columns, also where it is of no use
}

// indexEnds are those of files of indexes. A part has one of them.
var indexEnds = [...]string{columnsEnd, indexEnd}

func (p *part) indexPath(end string) string { return strings.TrimSuffix(p.path, partEnd) + end }

// readChecksum returns what the part ends with: an index of other rows has another one.
func (p *part) readChecksum() uint32 { return binary.LittleEndian.Uint32(p.data[len(p.data)-4:]) }

// countBlocks returns how many times 32 rows there are.
func countBlocks(rows int) int { return (rows + rowsAtOnce - 1) / rowsAtOnce }

// openIndex maps the index of a part; nil where there is none that can be used.
func (p *part) openIndex() *index {
	for _, end := range indexEnds {
		x, err := p.mapIndex(end)
		if err == nil {
			return x
		}
		if !errors.Is(err, os.ErrNotExist) {
			slog.Warn("an index of vectors cannot be used: all rows are scanned until the next load makes it again",
				"file", p.indexPath(end), "why", err.Error())
		}
	}
	return nil
}

func (p *part) mapIndex(end string) (*index, error) {
	path := p.indexPath(end)
	data, err := mapFile(path, indexHead+4)
	if err != nil {
		return nil, err
	}
	x := &index{path: path, data: data, byDim: end == columnsEnd}
	if err := x.findSections(p); err != nil {
		return nil, errors.Join(err, unix.Munmap(data))
	}
	return x, nil
}

// findSections finds the sections and checks them: a header; the factors and the signs, or the levels and the stripes;
// a checksum.
func (x *index) findSections(p *part) error {
	word := func(at int) int { return int(binary.LittleEndian.Uint32(x.data[at:])) }
	magic := indexMagic
	if x.byDim {
		magic = columnsMagic
	}
	if string(x.data[:8]) != magic || word(8) != p.dim || word(12) != p.n || word(16) != int(p.readChecksum()) {
		return errors.New("it is no index of this part")
	}
	for i := range x.keep {
		x.keep[i] = word(20 + 4*i)
	}
	end := len(x.data) - 4
	size := indexHead
	switch {
	case !x.isUseful():
	case x.byDim:
		if size = columnsSize(p); size == end {
			x.columns = columnsIn(p, x.data)
		}
	default:
		if _, _, size = indexSections(p); size == end {
			made := signsIn(p, x.data)
			x.factors, x.signs = made.factors, made.signs
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

func (x *index) isUseful() bool { return x.keep != measures{} }

func (x *index) close() error {
	if x == nil {
		return nil
	}
	return unix.Munmap(x.data)
}

// countKept returns how many rows a search for the n best looks at by their codes; 0 where it has to look at all.
func (x *index) countKept(n int) int {
	if x == nil {
		return 0
	}
	for i, most := range indexedAsks {
		if n > most {
			continue
		}
		if i > 0 && x.byDim && x.keep[i] > 0 && x.keep[i-1] > 0 { // between what was measured
			before := indexedAsks[i-1]
			return x.keep[i-1] + (x.keep[i]-x.keep[i-1])*(n-before)/(most-before)
		}
		return x.keep[i]
	}
	return 0
}

// indexSections says where in the file of an index its sections begin, and where the checksum does.
func indexSections(p *part) (factors, signs, end int) {
	factors = indexHead
	signs = factors + 4*p.n + paddingOf(factors+4*p.n)
	return factors, signs, signs + rowsAtOnce*signBytes(p.dim)*countBlocks(p.n)
}

// signed is the content of an index by signs.
type signed struct {
	p       *part
	factors []float32
	signs   []byte
}

// signsIn views the sections of a mapped file.
func signsIn(p *part, data []byte) *signed {
	factors, signs, end := indexSections(p)
	return &signed{
		p: p, factors: unsafe.Slice((*float32)(unsafe.Pointer(&data[factors])), p.n), signs: data[signs:end:end],
	}
}

// headOf returns what the file of an index begins with.
func headOf(magic string, p *part, keep measures) []byte {
	out := []byte(magic)
	for _, word := range []int{p.dim, p.n, int(p.readChecksum())} {
		out = binary.LittleEndian.AppendUint32(out, uint32(word))
	}
	for _, n := range keep {
		out = binary.LittleEndian.AppendUint32(out, uint32(n))
	}
	return append(out, make([]byte, indexHead-len(out))...)
}

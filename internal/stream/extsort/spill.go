// Package extsort sorts more rows than fit into memory: sorted runs in temporary files, merged at the end.
package extsort

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"os"
	"slices"
	"unsafe"

	"github.com/unweaver/unweaver/internal/stream/merge"
	"github.com/unweaver/unweaver/internal/stream/scratch"
)

// RunBytes is how much is sorted in memory at once, where a Sorter does not say otherwise.
const RunBytes = 32 << 20

// rowBytes is what a row costs in memory beside its bytes.
const rowBytes = int(unsafe.Sizeof(row{}))

// Rows lie in blocks, of which the first is small: most sorters have few rows.
const (
	firstBlock = 4 << 10
	doublings  = 8
	mostBlock  = firstBlock << doublings // 1 MiB
)

// row is where one lies, without pointers: the collector passes over rows, and sorting looks at the bytes of those
// alone whose keys begin the same.
type row struct {
	prefix     uint64 // of the key: its first eight bytes, or fewer and zeros
	block, at  uint32 // together they tell the order in which rows came
	key, value uint32 // lengths
}

// pair is a row as it is given out.
type pair = [2][]byte

// Sorter collects rows and gives them back in byte order of the key; equal keys keep the order in which they came.
// A row is smaller than 4 GiB. It is not safe for concurrent use. Close it always.
type Sorter struct {
	// Run is how many bytes are sorted in memory at once; 0 means RunBytes.
	Run int

	rows   []row
	blocks [][]byte // their bytes are never moved; what lies behind block is of an earlier run, and is used again
	block  int
	size   int
	files  []*os.File
	err    error
}

// Err returns the error of an Add, after which rows are dropped.
func (s *Sorter) Err() error { return s.err }

// Add takes a row; the bytes are copied. Err and StreamSorted report errors; after one, rows are dropped.
func (s *Sorter) Add(key, value []byte) {
	if s.err != nil {
		return
	}
	length := len(key) + len(value)
	block := s.findBlock(max(length, 1)) // no two rows lie in one place
	at := len(*block)
	*block = append(append(*block, key...), value...)
	if length == 0 {
		*block = append(*block, 0)
	}
	s.rows = append(s.rows, row{
		prefix: prefixOf(key), block: uint32(s.block), at: uint32(at), key: uint32(len(key)), value: uint32(len(value)),
	})
	s.size += length + rowBytes
	limit := s.Run
	if limit == 0 {
		limit = RunBytes
	}
	if s.size >= limit {
		s.err = s.spillRows()
	}
}

// findBlock returns the block that has room for so many bytes, the last or one more.
func (s *Sorter) findBlock(length int) *[]byte {
	for ; s.block < len(s.blocks); s.block++ {
		if block := &s.blocks[s.block]; cap(*block)-len(*block) >= length {
			return block
		}
	}
	size := firstBlock << min(len(s.blocks), doublings)
	s.blocks = append(s.blocks, make([]byte, 0, max(size, length)))
	return &s.blocks[s.block]
}

func prefixOf(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var padded [8]byte
	copy(padded[:], key)
	return binary.BigEndian.Uint64(padded[:])
}

func (s *Sorter) pairOf(r row) pair {
	raw := s.blocks[r.block][r.at : r.at+r.key+r.value : r.at+r.key+r.value]
	return pair{raw[:r.key:r.key], raw[r.key:]}
}

func (s *Sorter) compareRows(a, b row) int {
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	if order := bytes.Compare(s.pairOf(a)[0], s.pairOf(b)[0]); order != 0 {
		return order
	}
	if a.block != b.block {
		return cmp.Compare(a.block, b.block)
	}
	return cmp.Compare(a.at, b.at)
}

func (s *Sorter) sortRows() { slices.SortFunc(s.rows, s.compareRows) }

func (s *Sorter) spillRows() error {
	s.sortRows()
	file, err := scratch.CreateFile()
	if err != nil {
		return err
	}
	s.files = append(s.files, file)
	writer := bufio.NewWriterSize(file, 256<<10)
	var lengths []byte
	for _, r := range s.rows {
		lengths = binary.AppendUvarint(binary.AppendUvarint(lengths[:0], uint64(r.key)), uint64(r.value))
		_, _ = writer.Write(lengths) // Flush reports errors
		_, _ = writer.Write(s.blocks[r.block][r.at : r.at+r.key+r.value])
	}
	if err := writer.Flush(); err != nil {
		return fullFault(err)
	}
	s.reuseBlocks()
	return nil
}

// reuseBlocks makes room for the next run in what the last one had. Blocks of large rows go.
func (s *Sorter) reuseBlocks() {
	s.rows, s.size, s.block = s.rows[:0], 0, 0
	s.blocks = slices.DeleteFunc(s.blocks, func(block []byte) bool { return cap(block) > mostBlock })
	for i := range s.blocks {
		s.blocks[i] = s.blocks[i][:0]
	}
}

func fullFault(err error) error { return scratch.FullError("sort", err) }

// readMemory gives the rows that never left it.
func (s *Sorter) readMemory() merge.Next[pair] {
	rows := s.rows
	return func() (pair, bool, error) {
		if len(rows) == 0 {
			return pair{}, false, nil
		}
		first := rows[0]
		rows = rows[1:]
		return s.pairOf(first), true, nil
	}
}

// readRun reads a sorted run back, into blocks that many rows share and that are never written to again.
func readRun(reader *bufio.Reader) merge.Next[pair] {
	var block []byte
	return func() (pair, bool, error) {
		keyLen, err := binary.ReadUvarint(reader)
		if errors.Is(err, io.EOF) {
			return pair{}, false, nil
		}
		if err != nil {
			return pair{}, false, fullFault(err)
		}
		valueLen, err := binary.ReadUvarint(reader)
		if err != nil {
			return pair{}, false, fullFault(err)
		}
		length := int(keyLen + valueLen)
		if length > len(block) {
			block = make([]byte, max(length, readBlock))
		}
		raw := block[:length:length]
		block = block[length:]
		if _, err = io.ReadFull(reader, raw); err != nil {
			return pair{}, false, fullFault(err)
		}
		return pair{raw[:keyLen:keyLen], raw[keyLen:]}, true, nil
	}
}

// readBlock is what rows of a run that is read back share.
const readBlock = 16 << 10

// StreamSorted gives all rows once; nothing may be added after. An error of Add comes here. What it gives may be kept.
func (s *Sorter) StreamSorted() iter.Seq2[[2][]byte, error] {
	return func(yield func([2][]byte, error) bool) {
		if s.err != nil {
			yield(pair{}, s.err)
			return
		}
		s.sortRows()
		if len(s.files) == 0 { // nothing to merge
			for _, r := range s.rows {
				if !yield(s.pairOf(r), nil) {
					return
				}
			}
			return
		}
		var sources []merge.Next[pair] // in the order in which rows came, which is the order of equal keys
		for _, file := range s.files {
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				yield(pair{}, fullFault(err))
				return
			}
			sources = append(sources, readRun(bufio.NewReaderSize(file, 128<<10)))
		}
		sources = append(sources, s.readMemory())
		byKey := func(a, b pair) int { return bytes.Compare(a[0], b[0]) }
		merge.MergeSorted(byKey, sources...)(yield)
	}
}

// Close removes the temporary files.
func (s *Sorter) Close() {
	for _, f := range s.files {
		_ = f.Close()
	}
	s.files, s.rows, s.blocks = nil, nil, nil
}

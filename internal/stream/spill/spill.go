// Package spill sorts more rows than fit into memory: sorted runs in temporary files, merged at the end.
package spill

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"os"
	"sort"

	"github.com/unweaver/unweaver/internal/stream/merge"
	"github.com/unweaver/unweaver/internal/stream/scratch"
)

// RunBytes is how much is sorted in memory at once, where a Sorter does not say otherwise.
const RunBytes = 32 << 20

// rowBytes is what a row costs in memory beside its bytes.
const rowBytes = 48

type row struct{ key, value []byte }

// Sorter collects rows and gives them back in byte order of the key; equal keys keep the order in which they came.
// It is not safe for concurrent use. Close it always.
type Sorter struct {
	// Run is how many bytes are sorted in memory at once; 0 means RunBytes.
	Run int

	rows  []row
	size  int
	files []*os.File
	err   error
}

// Add takes a row; the bytes are copied. Sorted tells of errors; after one, rows are dropped.
func (s *Sorter) Add(key, value []byte) {
	if s.err != nil {
		return
	}
	raw := make([]byte, len(key)+len(value))
	copy(raw, key)
	copy(raw[len(key):], value)
	s.rows = append(s.rows, row{raw[:len(key):len(key)], raw[len(key):]})
	s.size += len(raw) + rowBytes
	limit := s.Run
	if limit == 0 {
		limit = RunBytes
	}
	if s.size >= limit {
		s.err = s.spill()
	}
}

func (s *Sorter) sort() {
	sort.SliceStable(s.rows, func(i, j int) bool { return string(s.rows[i].key) < string(s.rows[j].key) })
}

func (s *Sorter) spill() error {
	s.sort()
	file, err := scratch.File()
	if err != nil {
		return err
	}
	s.files = append(s.files, file)
	writer := bufio.NewWriterSize(file, 256<<10)
	var lengths []byte
	for _, r := range s.rows {
		lengths = binary.AppendUvarint(binary.AppendUvarint(lengths[:0], uint64(len(r.key))), uint64(len(r.value)))
		_, _ = writer.Write(lengths) // Flush tells of errors
		_, _ = writer.Write(r.key)
		_, _ = writer.Write(r.value)
	}
	if err := writer.Flush(); err != nil {
		return full(err)
	}
	s.rows, s.size = nil, 0
	return nil
}

func full(err error) error { return scratch.Full("sort", err) }

// memory gives the rows that never left it.
func memory(rows []row) merge.Next[row] {
	return func() (row, bool, error) {
		if len(rows) == 0 {
			return row{}, false, nil
		}
		first := rows[0]
		rows = rows[1:]
		return first, true, nil
	}
}

// run reads a sorted run back.
func run(reader *bufio.Reader) merge.Next[row] {
	return func() (row, bool, error) {
		keyLen, err := binary.ReadUvarint(reader)
		if errors.Is(err, io.EOF) {
			return row{}, false, nil
		}
		if err != nil {
			return row{}, false, full(err)
		}
		valueLen, err := binary.ReadUvarint(reader)
		if err != nil {
			return row{}, false, full(err)
		}
		raw := make([]byte, keyLen+valueLen)
		if _, err = io.ReadFull(reader, raw); err != nil {
			return row{}, false, full(err)
		}
		return row{raw[:keyLen:keyLen], raw[keyLen:]}, true, nil
	}
}

// Sorted gives all rows once; nothing may be added after. An error of Add comes here.
func (s *Sorter) Sorted() iter.Seq2[[2][]byte, error] {
	return func(yield func([2][]byte, error) bool) {
		if s.err != nil {
			yield([2][]byte{}, s.err)
			return
		}
		s.sort()
		var sources []merge.Next[row] // in the order in which rows came, which is the order of equal keys
		for _, file := range s.files {
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				yield([2][]byte{}, full(err))
				return
			}
			sources = append(sources, run(bufio.NewReaderSize(file, 128<<10)))
		}
		sources = append(sources, memory(s.rows))
		byKey := func(a, b row) int { return bytes.Compare(a.key, b.key) }
		for sorted, err := range merge.Sorted(byKey, sources...) {
			if !yield([2][]byte{sorted.key, sorted.value}, err) || err != nil {
				return
			}
		}
	}
}

// Close removes the temporary files.
func (s *Sorter) Close() {
	for _, f := range s.files {
		_ = f.Close()
	}
	s.files, s.rows = nil, nil
}

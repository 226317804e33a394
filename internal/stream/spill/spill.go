// Package spill sorts more rows than fit into memory: sorted runs in temporary files, merged at the end.
package spill

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"os"
	"sort"

	"github.com/unweaver/unweaver/internal/fault"
)

// runBytes is how much is sorted in memory at once.
const runBytes = 32 << 20

type row struct{ key, value []byte }

// Sorter collects rows and gives them back in byte order of the key; equal keys keep the order in which they came.
// It is not safe for concurrent use. Close it always.
type Sorter struct {
	rows  []row
	size  int
	files []*os.File
	err   error
}

// Add takes a row; the bytes are copied.
func (s *Sorter) Add(key, value []byte) {
	raw := make([]byte, len(key)+len(value))
	copy(raw, key)
	copy(raw[len(key):], value)
	s.rows = append(s.rows, row{raw[:len(key):len(key)], raw[len(key):]})
	s.size += len(raw) + 48
	if s.size >= runBytes && s.err == nil {
		s.err = s.spill()
	}
}

func (s *Sorter) sort() {
	sort.SliceStable(s.rows, func(i, j int) bool { return string(s.rows[i].key) < string(s.rows[j].key) })
}

func (s *Sorter) spill() error {
	s.sort()
	file, err := os.CreateTemp("", "unweaver-sort-*")
	if err != nil {
		return full(err)
	}
	s.files = append(s.files, file)
	writer := bufio.NewWriterSize(file, 256<<10)
	var n []byte
	for _, r := range s.rows {
		n = binary.AppendUvarint(binary.AppendUvarint(n[:0], uint64(len(r.key))), uint64(len(r.value)))
		_, _ = writer.Write(n) // Flush tells of errors
		_, _ = writer.Write(r.key)
		_, _ = writer.Write(r.value)
	}
	if err := writer.Flush(); err != nil {
		return full(err)
	}
	s.rows, s.size = nil, 0
	return nil
}

func full(err error) error {
	return fault.StoreFull.At("sort in", os.TempDir()).Because(err).Advise("free space or set TMPDIR")
}

type source struct {
	r    *bufio.Reader
	mem  []row
	cur  row
	rank int
}

func (c *source) next() (bool, error) {
	if c.r == nil {
		if len(c.mem) == 0 {
			return false, nil
		}
		c.cur, c.mem = c.mem[0], c.mem[1:]
		return true, nil
	}
	k, err := binary.ReadUvarint(c.r)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	v, err := binary.ReadUvarint(c.r)
	if err != nil {
		return false, err
	}
	b := make([]byte, k+v)
	_, err = io.ReadFull(c.r, b)
	c.cur = row{b[:k:k], b[k:]}
	return true, err
}

type merge []*source

func (m merge) Len() int { return len(m) }
func (m merge) Less(i, j int) bool {
	a, b := string(m[i].cur.key), string(m[j].cur.key)
	return a < b || (a == b && m[i].rank < m[j].rank)
}
func (m merge) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *merge) Push(x any)   { *m = append(*m, x.(*source)) }
func (m *merge) Pop() any {
	o := *m
	x := o[len(o)-1]
	*m = o[:len(o)-1]
	return x
}

// Sorted gives all rows once; nothing may be added after.
func (s *Sorter) Sorted() iter.Seq2[[2][]byte, error] {
	return func(yield func([2][]byte, error) bool) {
		if s.err != nil {
			yield([2][]byte{}, s.err)
			return
		}
		s.sort()
		var m merge
		add := func(c *source) error {
			ok, err := c.next()
			if ok {
				m = append(m, c)
			}
			return err
		}
		for i, file := range s.files {
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				yield([2][]byte{}, full(err))
				return
			}
			if err := add(&source{r: bufio.NewReaderSize(file, 128<<10), rank: i}); err != nil {
				yield([2][]byte{}, full(err))
				return
			}
		}
		if err := add(&source{mem: s.rows, rank: len(s.files)}); err != nil {
			yield([2][]byte{}, full(err))
			return
		}
		heap.Init(&m)
		for len(m) > 0 {
			c := m[0]
			if !yield([2][]byte{c.cur.key, c.cur.value}, nil) {
				return
			}
			ok, err := c.next()
			switch {
			case err != nil:
				yield([2][]byte{}, full(err))
				return
			case ok:
				heap.Fix(&m, 0)
			default:
				heap.Pop(&m)
			}
		}
	}
}

// Close removes the temporary files.
func (s *Sorter) Close() {
	for _, f := range s.files {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
	s.files, s.rows = nil, nil
}

package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The layout of a bbolt file: pages with a header of 16 bytes (id, flags, count, overflow), two of them with a meta
// record, the others leaves and branches of trees.
const (
	pageHeader  = 16
	elementSize = 16
	metaSize    = 64
	metaMagic   = 0xED0CDAED

	branchPage = 1
	leafPage   = 2

	bucketEntry = 1 // flag of a leaf element whose value is the root of a tree
)

// check walks the pages that a file's newest meta record reaches. bbolt takes what a page says of itself for granted: a
// torn page makes it read outside of the file or panic where nobody can recover.
func check(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return nil //nolint:nilerr // there is none yet, or bbolt says why it cannot be opened
	}
	defer func() { _ = file.Close() }()
	if unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		return nil // another has it open and may be writing: bbolt will say so
	}
	st, err := file.Stat()
	if err != nil || st.Size() == 0 || !st.Mode().IsRegular() {
		return err
	}
	walk := walker{file: file, size: st.Size(), seen: map[uint64]bool{}}
	root, err := walk.meta()
	if err != nil {
		return err
	}
	return walk.page(root, nil, nil)
}

type walker struct {
	file  io.ReaderAt
	size  int64 // of the file
	psize int64
	pages uint64 // pages in use, by the meta record
	seen  map[uint64]bool
}

// meta finds the newest meta record and gives its root page.
func (w *walker) meta() (root uint64, err error) {
	var newest uint64
	found := false
	places := []int64{0} // the second lies one page on, and only the records know how long a page is
	for size := int64(1 << 10); size <= 1<<16; size *= 2 {
		places = append(places, size)
	}
	for _, at := range places {
		raw := make([]byte, pageHeader+metaSize)
		if _, err := w.file.ReadAt(raw, at); err != nil {
			continue
		}
		meta := raw[pageHeader:]
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:56])
		if binary.LittleEndian.Uint32(meta) != metaMagic || binary.LittleEndian.Uint64(meta[56:]) != sum.Sum64() {
			continue
		}
		psize := int64(binary.LittleEndian.Uint32(meta[8:]))
		if psize < 1<<10 || at != 0 && at != psize {
			continue
		}
		if txid := binary.LittleEndian.Uint64(meta[48:]); !found || txid > newest {
			found, newest = true, txid
			root = binary.LittleEndian.Uint64(meta[16:])
			w.psize, w.pages = psize, binary.LittleEndian.Uint64(meta[40:])
		}
	}
	if !found {
		return 0, errors.New("it has no valid meta page")
	}
	if w.pages > uint64(w.size/w.psize) {
		return 0, fmt.Errorf("it has %d pages and is cut to %d bytes", w.pages, w.size)
	}
	return root, nil
}

// page checks a page and what hangs on it: its keys lie from low to below high, where those are not nil.
func (w *walker) page(id uint64, low, high []byte) error {
	if id < 2 || id >= w.pages {
		return fmt.Errorf("page %d is outside of it", id)
	}
	if w.seen[id] {
		return fmt.Errorf("page %d is reached twice", id)
	}
	w.seen[id] = true
	header := make([]byte, pageHeader)
	if _, err := w.file.ReadAt(header, int64(id)*w.psize); err != nil {
		return err
	}
	if self := binary.LittleEndian.Uint64(header); self != id {
		return fmt.Errorf("page %d says that it is %d", id, self)
	}
	length := 1 + uint64(binary.LittleEndian.Uint32(header[12:]))
	if id+length > w.pages {
		return fmt.Errorf("page %d reaches outside of it", id)
	}
	raw := make([]byte, int64(length)*w.psize)
	if _, err := w.file.ReadAt(raw, int64(id)*w.psize); err != nil {
		return err
	}
	if err := w.elements(raw, low, high); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// elements checks the elements of a page, which may also lie inside a leaf.
func (w *walker) elements(raw, low, high []byte) error {
	flags, count := binary.LittleEndian.Uint16(raw[8:]), int(binary.LittleEndian.Uint16(raw[10:]))
	if flags != branchPage && flags != leafPage {
		return fmt.Errorf("it is no leaf and no branch (%#x)", flags)
	}
	if flags == branchPage && count == 0 {
		return errors.New("it is a branch without children")
	}
	if pageHeader+count*elementSize > len(raw) {
		return errors.New("it has more elements than room")
	}
	all := make([]element, count)
	for i := range all {
		var err error
		if all[i], err = elementAt(raw, flags, pageHeader+i*elementSize); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		key := all[i].key
		if low != nil && bytes.Compare(key, low) < 0 || high != nil && bytes.Compare(key, high) >= 0 ||
			i > 0 && bytes.Compare(key, all[i-1].key) <= 0 {
			return fmt.Errorf("the key of element %d is out of order", i)
		}
	}
	for i, e := range all {
		var err error
		switch {
		case flags == branchPage && i+1 < count:
			err = w.page(e.child, e.key, all[i+1].key)
		case flags == branchPage:
			err = w.page(e.child, e.key, high)
		case e.flags&bucketEntry != 0:
			err = w.bucket(e.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// element of a branch has a child, of a leaf flags and a value.
type element struct {
	key, value []byte
	flags      uint32
	child      uint64
}

func elementAt(raw []byte, flags uint16, at int) (element, error) {
	word := func(n int) uint64 { return uint64(binary.LittleEndian.Uint32(raw[at+4*n:])) }
	if flags == branchPage {
		key := uint64(at) + word(0)
		end := key + word(1)
		if end > uint64(len(raw)) {
			return element{}, errors.New("its key is outside of the page")
		}
		return element{key: raw[key:end], child: binary.LittleEndian.Uint64(raw[at+8:])}, nil
	}
	key := uint64(at) + word(1)
	value := key + word(2)
	end := value + word(3)
	if end > uint64(len(raw)) {
		return element{}, errors.New("it is outside of the page")
	}
	return element{key: raw[key:value], value: raw[value:end], flags: uint32(word(0))}, nil
}

// bucket checks the tree of a bucket: its root page, or the page inside its value.
func (w *walker) bucket(value []byte) error {
	if len(value) < 16 {
		return errors.New("a bucket has no header")
	}
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		return w.page(root, nil, nil)
	}
	if len(value) < 16+pageHeader {
		return errors.New("a bucket has no page")
	}
	return w.elements(value[16:], nil, nil)
}

package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"

	"golang.org/x/sys/unix"
)

// bbolt keeps no checksum of its pages and trusts what they say. Where that is wrong it panics, on opening too and in
// goroutines that it starts, which ends the process. So a file is looked through before bbolt gets it: that its tree is
// one, with every page, element and key within its bounds. Values are not looked at; bbolt only hands them out.
//
// The format is that of bbolt's version 2: a page has a header of 16 bytes (id, flags, count of elements, overflow),
// then elements of 16 bytes, whose keys and values lie at an offset from the element.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	headSize    = 16
	elementSize = 16
	metaSize    = 64 // with its checksum, the last 8 bytes
	branchPage  = 0x01
	leafPage    = 0x02
	bucketLeaf  = 0x01
	bucketSize  = 16 // root page and sequence, before an inline page
)

// Check says whether the file at path is whole enough to be opened. A file that is absent or empty is; so is one that
// another process holds, since it changes while it is looked at.
func Check(path string) (err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil || info.Size() == 0 || !info.Mode().IsRegular() {
		return err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil //nolint:nilerr // held by another process: opening it says so
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Munmap(data)) }()
	return checkPages(data)
}

// tree is a file that is being looked through.
type tree struct {
	data  []byte
	page  uint64 // bytes
	high  uint64 // pages in use
	seen  map[uint64]bool
	depth int
}

func checkPages(data []byte) error {
	walk, root, err := newestMeta(data)
	if err != nil {
		return err
	}
	return walk.visitPage(root, bounds{})
}

// newestMeta finds the meta page that bbolt would start from.
func newestMeta(data []byte) (*tree, uint64, error) {
	var found *tree
	var root, newest uint64
	place := uint64(os.Getpagesize()) // of the second, where the first does not tell
	for number := range uint64(2) {
		at := number * place
		if at+headSize+metaSize > uint64(len(data)) {
			break
		}
		meta := data[at+headSize : at+headSize+metaSize]
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:metaSize-8]) // never fails
		if binary.LittleEndian.Uint32(meta) != boltMagic || binary.LittleEndian.Uint32(meta[4:]) != boltVersion ||
			binary.LittleEndian.Uint64(meta[metaSize-8:]) != sum.Sum64() {
			continue
		}
		txid := binary.LittleEndian.Uint64(meta[48:])
		if found == nil || txid > newest {
			found = &tree{
				data: data, page: uint64(binary.LittleEndian.Uint32(meta[8:])),
				high: binary.LittleEndian.Uint64(meta[40:]), seen: map[uint64]bool{0: true, 1: true},
			}
			place = found.page
			root, newest = binary.LittleEndian.Uint64(meta[16:]), txid
		}
	}
	switch {
	case found == nil:
		return nil, 0, errors.New("neither of its first two pages is a valid meta page")
	case found.page < 512 || found.page > 1<<20 || found.high > uint64(len(data))/found.page:
		return nil, 0, fmt.Errorf("it is cut: %d bytes for %d pages of %d", len(data), found.high, found.page)
	}
	return found, root, nil
}

// deepest is far more than a tree of any size has levels.
const deepest = 64

// bounds are what the branches above a page say of its keys: from low on, below high. Nil is no bound.
type bounds struct{ low, high []byte }

func (b bounds) holdsKey(key []byte) bool {
	return (b.low == nil || bytes.Compare(b.low, key) <= 0) && (b.high == nil || bytes.Compare(key, b.high) < 0)
}

// visitPage looks through a page and all below it.
func (t *tree) visitPage(id uint64, within bounds) error {
	if id < 2 || id >= t.high {
		return fmt.Errorf("page %d is outside of the file's %d", id, t.high)
	}
	head := t.data[id*t.page:]
	overflow := uint64(binary.LittleEndian.Uint32(head[12:]))
	if binary.LittleEndian.Uint64(head) != id || overflow >= t.high-id {
		return fmt.Errorf("page %d has the header of another", id)
	}
	for page := id; page <= id+overflow; page++ {
		if t.seen[page] {
			return fmt.Errorf("page %d is in two places", page)
		}
		t.seen[page] = true
	}
	if t.depth++; t.depth > deepest {
		return errors.New("its tree has no end")
	}
	defer func() { t.depth-- }()
	if err := t.checkElements(head[:(overflow+1)*t.page], within); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// checkElements looks through the elements of a page.
func (t *tree) checkElements(page []byte, within bounds) error {
	flags, count := binary.LittleEndian.Uint16(page[8:]), int(binary.LittleEndian.Uint16(page[10:]))
	if flags != branchPage && flags != leafPage {
		return fmt.Errorf("it is neither branch nor leaf: %#x", flags)
	}
	if flags == branchPage && count == 0 {
		return errors.New("a branch without children")
	}
	if headSize+count*elementSize > len(page) {
		return fmt.Errorf("%d elements do not fit it", count)
	}
	keys, values := make([][]byte, count), make([][]byte, count)
	for i := range count {
		element := page[headSize+i*elementSize:]
		at, keySize := uint64(binary.LittleEndian.Uint32(element)), uint64(binary.LittleEndian.Uint32(element[4:]))
		valueSize := uint64(0)
		if flags == leafPage {
			at, keySize = keySize, uint64(binary.LittleEndian.Uint32(element[8:]))
			valueSize = uint64(binary.LittleEndian.Uint32(element[12:]))
		}
		if at+keySize+valueSize > uint64(len(element)) {
			return fmt.Errorf("element %d reaches beyond it", i)
		}
		keys[i], values[i] = element[at:at+keySize], element[at+keySize:at+keySize+valueSize]
		if !within.holdsKey(keys[i]) || (i > 0 && bytes.Compare(keys[i-1], keys[i]) >= 0) {
			return fmt.Errorf("its keys are out of order at %d", i)
		}
	}
	for i := range count {
		element := page[headSize+i*elementSize:]
		var err error
		switch {
		case flags == branchPage:
			below := bounds{keys[i], within.high}
			if i+1 < count {
				below.high = keys[i+1]
			}
			err = t.visitPage(binary.LittleEndian.Uint64(element[8:]), below)
		case binary.LittleEndian.Uint32(element)&bucketLeaf != 0:
			err = t.checkBucket(values[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkBucket looks through a bucket, which lies in pages of its own or, where it is small, within its value.
func (t *tree) checkBucket(value []byte) error {
	if len(value) < bucketSize {
		return errors.New("a bucket is cut")
	}
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		return t.visitPage(root, bounds{})
	}
	if inline := value[bucketSize:]; len(inline) >= headSize && binary.LittleEndian.Uint16(inline[8:]) == leafPage {
		return t.checkElements(inline, bounds{})
	}
	return errors.New("a bucket has no page")
}

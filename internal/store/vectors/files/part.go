package files

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

const magic = "UWVEC2\x00\x00"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// part is one mapped file. Its slices point into the mapping.
type part struct {
	path   string
	dim    int
	n      int
	ends   []uint32
	keys   []byte
	scales []float32
	q      []int8
	sums   []uint32 // crc32c of each exact row
	f      []float32
	data   []byte
	dead   bits // deleted rows
	gone   int  // how many they are
	saved  int  // how many of them are listed on the disk

	index atomic.Pointer[index]
	users atomic.Int32 // beside the collection, which is one until the part is closed
	shut  bool         // by the collection
}

func (p *part) keyAt(i int) string { return string(p.keyBytes(i)) }

// keyBytes returns the bytes of a key in the mapping: they last as long as the part is held.
func (p *part) keyBytes(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = p.ends[i-1]
	}
	return p.keys[start:p.ends[i]]
}

// findKey returns the row of a key, or -1.
func (p *part) findKey(key string) int {
	i := sort.Search(p.n, func(i int) bool { return string(p.keyBytes(i)) >= key })
	if i < p.n && string(p.keyBytes(i)) == key && !p.dead.hasBit(i) {
		return i
	}
	return -1
}

func (p *part) vectorAt(i int) []float32 { return p.f[i*p.dim : (i+1)*p.dim] }

func (p *part) codesAt(i int) []int8 { return p.q[i*p.dim : (i+1)*p.dim] }

// placeOf returns what a part says of its place: a part of another place has other rows, however whole it is.
func placeOf(path string) uint32 {
	place := filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)
	return crc32.Checksum([]byte(place), castagnoli)
}

func paddingOf(n int) int { return (64 - n%64) % 64 }

// errShort is of a file that has fewer bytes than any of its kind.
var errShort = errors.New("it is too short")

// mapFile maps a file that has so many bytes at least.
func mapFile(path string, least int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() < least {
		return nil, errShort
	}
	return unix.Mmap(int(file.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
}

// openPart maps a file and checks everything but the exact rows, which are checked when they are used.
func openPart(path string) (*part, error) {
	data, err := mapFile(path, 20)
	if errors.Is(err, errShort) {
		return nil, newDamageFault(path, err.Error())
	}
	if err != nil {
		return nil, wrapError("open", path, err)
	}
	p := &part{
		path: path,
		data: data,
		dim:  int(binary.LittleEndian.Uint32(data[8:])),
		n:    int(binary.LittleEndian.Uint32(data[12:])),
	}
	if err := p.findSections(); err != nil {
		return nil, errors.Join(err, unix.Munmap(data))
	}
	p.index.Store(p.openIndex())
	return p, nil
}

// findSections finds the sections. The sizes in the header are compared with the file's before any is used.
func (p *part) findSections() error {
	raw := p.data
	if string(raw[:8]) != magic || p.dim <= 0 || p.n <= 0 {
		return newDamageFault(p.path, "it is not a vector part")
	}
	if p.n > len(raw)/8 || p.dim > len(raw)/5/p.n { // at least 8 bytes a row, and 5 for each of its numbers
		return newDamageFault(p.path, "its size does not fit its header")
	}
	at := 16
	p.ends = unsafe.Slice((*uint32)(unsafe.Pointer(&raw[at])), p.n)
	at += 4 * p.n
	keys := int(p.ends[p.n-1])
	vals := at + keys + paddingOf(at+keys)
	q := vals + 4*p.n + paddingOf(vals+4*p.n)
	sums := q + p.n*p.dim + paddingOf(q+p.n*p.dim)
	f := sums + 4*(p.n+1) + paddingOf(sums+4*(p.n+1))
	if f+4*p.n*p.dim+4 != len(raw) {
		return newDamageFault(p.path, "its size does not fit its header")
	}
	if crc32.Checksum(raw[:f], castagnoli) != binary.LittleEndian.Uint32(raw[len(raw)-4:]) {
		return newDamageFault(p.path, "its checksum differs")
	}
	p.keys = raw[at : at+keys]
	p.scales = unsafe.Slice((*float32)(unsafe.Pointer(&raw[vals])), p.n)
	p.q = unsafe.Slice((*int8)(unsafe.Pointer(&raw[q])), p.n*p.dim)
	p.sums = unsafe.Slice((*uint32)(unsafe.Pointer(&raw[sums])), p.n)
	if binary.LittleEndian.Uint32(raw[sums+4*p.n:]) != placeOf(p.path) {
		return newDamageFault(p.path, "it belongs to another collection or has another name")
	}
	p.f = unsafe.Slice((*float32)(unsafe.Pointer(&raw[f])), p.n*p.dim)
	return p.checkOrder()
}

// checkOrder refuses a part whose keys do not follow each other: a checksum can be made to fit anything.
func (p *part) checkOrder() error {
	var before []byte
	start := uint32(0)
	for i, end := range p.ends {
		if end < start || int(end) > len(p.keys) {
			return newDamageFault(p.path, fmt.Sprintf("the key of row %d lies outside", i))
		}
		key := p.keys[start:end]
		if i > 0 && bytes.Compare(before, key) >= 0 {
			return newDamageFault(p.path, fmt.Sprintf("the key of row %d is out of order", i))
		}
		before, start = key, end
	}
	return nil
}

// holdPart keeps the part mapped until release. The caller holds the collection's lock.
func (p *part) holdPart() { p.users.Add(1) }

// releasePart unmaps the part when it was the last one.
func (p *part) releasePart() error {
	if p.users.Add(-1) >= 0 {
		return nil
	}
	return errors.Join(p.index.Load().close(), unix.Munmap(p.data))
}

// close lets the collection's part go: no search uses it, but it may be held. The caller holds the collection's lock.
func (p *part) close() error {
	if p.shut {
		return nil
	}
	p.shut = true
	return p.releasePart()
}

func newDamageFault(path, why string) error {
	return fault.SegmentDamage.At("open vectors", path).
		Because(why).
		Advise("run: unweaver restore --all")
}

func wrapError(op, object string, err error) error {
	switch {
	case err == nil:
		return nil
	case fault.As(err) != nil:
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fault.StoreFull.At(op, object).
			Because(err).
			Advise("free disk space before you stop this process: it holds paid results in memory")
	case errors.Is(err, os.ErrPermission):
		return fault.StoreDenied.At(op, object).Because(err).Advise("check the owner and mode of the path")
	}
	return fault.StoreDown.At(op, object).Because(err)
}

// sortRows prepares rows for writePart: by key, each key once.
func sortRows(rows []vectors.Row) []vectors.Row {
	out := slices.Clone(rows)
	slices.SortStableFunc(out, func(a, b vectors.Row) int { return strings.Compare(a.Key, b.Key) })
	return slices.CompactFunc(out, func(a, b vectors.Row) bool { return a.Key == b.Key })
}

package files

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"sort"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/durable"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

const magic = "UWVEC1\x00\x00"

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
	f      []float32
	data   []byte
	dead   bits // deleted rows
	gone   int  // how many they are
	saved  int  // how many of them are listed on the disk
}

func (p *part) key(i int) string {
	start := uint32(0)
	if i > 0 {
		start = p.ends[i-1]
	}
	return string(p.keys[start:p.ends[i]])
}

// find is the row of a key, or -1.
func (p *part) find(key string) int {
	i := sort.Search(p.n, func(i int) bool { return p.key(i) >= key })
	if i < p.n && p.key(i) == key && !p.dead.has(i) {
		return i
	}
	return -1
}

func (p *part) vec(i int) []float32 { return p.f[i*p.dim : (i+1)*p.dim] }

func pad(n int) int { return (64 - n%64) % 64 }

// writePart writes sorted rows of unique keys. row(i) gives them one after another, so a merge holds one vector.
func writePart(path string, dim, n int, key func(int) string, vec func(int) []float32) (err error) {
	if n > math.MaxInt32 {
		return fmt.Errorf("%d rows are too many for one part", n)
	}
	file, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return wrap("write", path, err)
	}
	defer func() {
		if cerr := file.Close(); err == nil && cerr != nil {
			err = wrap("write", path, cerr)
		}
		if err == nil {
			err = wrap("write", path, os.Rename(path+".tmp", path))
			if err == nil {
				err = wrap("sync the folder of", path, durable.SyncFolder(filepath.Dir(path)))
			}
		} else {
			_ = os.Remove(path + ".tmp")
		}
	}()
	bw := bufio.NewWriterSize(file, 1<<20)
	crc := crc32.New(castagnoli)
	w := &counter{w: io.MultiWriter(bw, crc)}
	head := binary.LittleEndian.AppendUint32([]byte(magic), uint32(dim))
	w.put(binary.LittleEndian.AppendUint32(head, uint32(n)))
	end := uint32(0)
	for i := range n {
		end += uint32(len(key(i)))
		w.put(binary.LittleEndian.AppendUint32(nil, end))
	}
	for i := range n {
		w.put([]byte(key(i)))
	}
	w.put(make([]byte, pad(w.n)))
	q := make([]int8, dim)
	for i := range n {
		w.put(binary.LittleEndian.AppendUint32(nil, math.Float32bits(quantise(vec(i), q))))
	}
	w.put(make([]byte, pad(w.n)))
	for i := range n {
		clear(q)
		quantise(vec(i), q)
		w.put(unsafe.Slice((*byte)(unsafe.Pointer(&q[0])), dim))
	}
	w.put(make([]byte, pad(w.n)))
	sum := crc.Sum32()
	w.w = bw
	buf := make([]byte, 4*dim)
	for i := range n {
		for j, x := range vec(i) {
			binary.LittleEndian.PutUint32(buf[4*j:], math.Float32bits(x))
		}
		w.put(buf)
	}
	w.put(binary.LittleEndian.AppendUint32(nil, sum))
	if w.err == nil {
		w.err = bw.Flush()
	}
	if w.err == nil {
		w.err = file.Sync()
	}
	return wrap("write", path, w.err)
}

type counter struct {
	w   io.Writer
	n   int
	err error
}

func (c *counter) put(raw []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(raw)
	}
	c.n += len(raw)
}

// openPart maps a file and checks everything but the exact rows.
func openPart(path string) (*part, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, wrap("open", path, err)
	}
	defer func() { _ = file.Close() }()
	st, err := file.Stat()
	if err != nil {
		return nil, wrap("open", path, err)
	}
	size := int(st.Size())
	if size < 20 {
		return nil, broken(path, "it is too short")
	}
	data, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, wrap("map", path, err)
	}
	p := &part{
		path: path,
		data: data,
		dim:  int(binary.LittleEndian.Uint32(data[8:])),
		n:    int(binary.LittleEndian.Uint32(data[12:])),
	}
	if err := p.layout(); err != nil {
		return nil, errors.Join(err, unix.Munmap(data))
	}
	return p, nil
}

func (p *part) layout() error {
	raw := p.data
	if string(raw[:8]) != magic || p.dim <= 0 || p.n <= 0 || 16+4*p.n > len(raw) {
		return broken(p.path, "it is no vector part")
	}
	at := 16
	p.ends = unsafe.Slice((*uint32)(unsafe.Pointer(&raw[at])), p.n)
	at += 4 * p.n
	keys := int(p.ends[p.n-1])
	vals := at + keys + pad(at+keys)
	q := vals + 4*p.n + pad(vals+4*p.n)
	f := q + p.n*p.dim + pad(q+p.n*p.dim)
	if f+4*p.n*p.dim+4 != len(raw) {
		return broken(p.path, "its size does not fit its header")
	}
	if crc32.Checksum(raw[:f], castagnoli) != binary.LittleEndian.Uint32(raw[len(raw)-4:]) {
		return broken(p.path, "its checksum differs")
	}
	p.keys = raw[at : at+keys]
	p.scales = unsafe.Slice((*float32)(unsafe.Pointer(&raw[vals])), p.n)
	p.q = unsafe.Slice((*int8)(unsafe.Pointer(&raw[q])), p.n*p.dim)
	p.f = unsafe.Slice((*float32)(unsafe.Pointer(&raw[f])), p.n*p.dim)
	return nil
}

func (p *part) close() error {
	if p.data == nil {
		return nil
	}
	d := p.data
	p.data = nil
	return unix.Munmap(d)
}

func broken(path, why string) error {
	return fault.SegmentDamage.At("open vectors", path).
		Because(why).
		Advise("run: unweaver restore")
}

func wrap(op, object string, err error) error {
	switch {
	case err == nil:
		return nil
	case fault.As(err) != nil:
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fault.StoreFull.At(op, object).
			Because(err).
			Advise("free disk space, then resume: nothing paid is lost")
	case errors.Is(err, os.ErrPermission):
		return fault.StoreDenied.At(op, object).Because(err).Advise("check the owner and mode of the path")
	}
	return fault.StoreDown.At(op, object).Because(err)
}

// sorted prepares rows for writePart: by key, each key once.
func sorted(rows []vectors.Row) []vectors.Row {
	out := append([]vectors.Row(nil), rows...)
	sort.SliceStable(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	n := 0
	for i := range out {
		if i == 0 || out[i].Key != out[n-1].Key {
			out[n] = out[i]
			n++
		}
	}
	return out[:n]
}

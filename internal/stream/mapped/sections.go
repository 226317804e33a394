// Package mapped is the file format of segments that are mapped into memory: named sections of fixed-width records or
// bytes, with checksums per block.
//
//	file    = "UWSECT1\n" section* table trailer      every section starts at a multiple of 64
//	table   = JSON {"kind","version","meta","sections":[{"name","offset","size","crc":[crc32c per MiB]}]}
//	trailer = u64 table offset, u32 table size, u32 crc32c of the table, "UWSECEND"  (little endian)
package mapped

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/fault"
)

const (
	head  = "UWSECT1\n"
	tail  = "UWSECEND"
	block = 1 << 20
	align = 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type entry struct {
	Name   string   `json:"name"`
	Offset int64    `json:"offset"`
	Size   int64    `json:"size"`
	CRC    []uint32 `json:"crc"`
}

type table struct {
	Kind     string            `json:"kind"`
	Version  int               `json:"version"`
	Meta     map[string]string `json:"meta,omitempty"`
	Sections []entry           `json:"sections"`
}

// Writer writes sections one after another.
type Writer struct {
	w    io.Writer
	n    int64
	t    table
	crc  uint32
	fill int
	err  error
}

// NewWriter starts a file. Meta says what its content depends on (analyser fingerprints).
func NewWriter(w io.Writer, kind string, version int, meta map[string]string) *Writer {
	x := &Writer{w: w, t: table{Kind: kind, Version: version, Meta: meta}}
	x.writeRaw([]byte(head))
	return x
}

func (x *Writer) writeRaw(raw []byte) {
	if x.err == nil {
		_, x.err = x.w.Write(raw)
	}
	x.n += int64(len(raw))
}

// BeginSection starts a section; what is written next belongs to it.
func (x *Writer) BeginSection(name string) {
	x.closeBlock()
	if p := x.n % align; p != 0 {
		x.writeRaw(make([]byte, align-p))
	}
	x.t.Sections = append(x.t.Sections, entry{Name: name, Offset: x.n})
}

// Write implements io.Writer.
func (x *Writer) Write(raw []byte) (int, error) {
	s := &x.t.Sections[len(x.t.Sections)-1]
	for rest := raw; len(rest) > 0; {
		n := min(len(rest), block-x.fill)
		x.crc = crc32.Update(x.crc, castagnoli, rest[:n])
		if x.fill += n; x.fill == block {
			s.CRC = append(s.CRC, x.crc)
			x.crc, x.fill = 0, 0
		}
		rest = rest[n:]
	}
	s.Size += int64(len(raw))
	x.writeRaw(raw)
	return len(raw), x.err
}

func (x *Writer) closeBlock() {
	if x.fill > 0 {
		s := &x.t.Sections[len(x.t.Sections)-1]
		s.CRC = append(s.CRC, x.crc)
		x.crc, x.fill = 0, 0
	}
}

// Close writes the table.
func (x *Writer) Close() error {
	x.closeBlock()
	raw, err := json.Marshal(x.t)
	if err != nil {
		return err
	}
	at := x.n
	x.writeRaw(raw)
	t := binary.LittleEndian.AppendUint64(nil, uint64(at))
	t = binary.LittleEndian.AppendUint32(t, uint32(len(raw)))
	t = binary.LittleEndian.AppendUint32(t, crc32.Checksum(raw, castagnoli))
	x.writeRaw(append(t, tail...))
	return x.err
}

// File is an open, mapped file. Its sections are valid until Close.
type File struct {
	path string
	data []byte
	t    table
}

func damageFault(path, why string) error {
	return fault.SegmentDamage.At("open segment", path).
		Because(why).
		Advise("delete the local copy; if that does not help run: unweaver restore --all")
}

// otherVersion refuses a file that is whole, but of a format that this program does not read.
func otherVersion(path string, have table, version int) error {
	return fault.FormatUnknown.At("open segment", path).
		Because(fmt.Sprintf("it is %s version %d, this program reads version %d", have.Kind, have.Version, version)).
		Advise("use the program version that wrote it, or build the index again with: unweaver index")
}

// Open maps a file of a kind and a version, and checks every block. Errors: fault.NotFound, fault.SegmentDamage, and
// fault.FormatUnknown for a file of another version.
func Open(path, kind string, version int) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fault.NotFound.At("open segment", path).Because(err)
	}
	defer func() { _ = file.Close() }()
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() < int64(len(head)+24) {
		return nil, damageFault(path, "it is too short")
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fault.StoreDown.At("map", path).Because(err)
	}
	x := &File{path: path, data: data}
	if err := x.checkTable(kind, version); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

func (x *File) checkTable(kind string, version int) error {
	raw := x.data
	t := raw[len(raw)-24:]
	at, n := binary.LittleEndian.Uint64(t), uint64(binary.LittleEndian.Uint32(t[8:]))
	if string(t[16:]) != tail || string(raw[:len(head)]) != head || at > uint64(len(raw)) || at+n+24 != uint64(len(raw)) {
		return damageFault(x.path, "it is cut or is no segment")
	}
	b := raw[at : at+n]
	if crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(t[12:]) {
		return damageFault(x.path, "checksum of the table")
	}
	if err := json.Unmarshal(b, &x.t); err != nil {
		return damageFault(x.path, err.Error())
	}
	if x.t.Kind != kind {
		return damageFault(x.path, fmt.Sprintf("it is of kind %s, not %s", x.t.Kind, kind))
	}
	if x.t.Version != version {
		return otherVersion(x.path, x.t, version)
	}
	next := int64(len(head))
	seen := map[string]bool{}
	for _, s := range x.t.Sections {
		if s.Offset < next || seen[s.Name] {
			return damageFault(x.path, "section "+s.Name+" overlaps another")
		}
		if s.Offset < 0 || s.Size < 0 || s.Offset > int64(at) || s.Size > int64(at)-s.Offset || s.Offset%align != 0 ||
			int64(len(s.CRC)) != (s.Size+block-1)/block {
			return damageFault(x.path, "section "+s.Name+" lies outside")
		}
		next, seen[s.Name] = s.Offset+s.Size, true
		for i, sum := range s.CRC {
			from := s.Offset + int64(i)*block
			to := min(from+block, s.Offset+s.Size)
			if crc32.Checksum(raw[from:to], castagnoli) != sum {
				return damageFault(x.path, fmt.Sprintf("checksum of section %s block %d", s.Name, i))
			}
		}
	}
	return nil
}

// UnfitError returns the error of a reader that found sections that do not fit each other: their checksums can be right
// all the same.
func (x *File) UnfitError(why string) error { return damageFault(x.path, why) }

// Sections names the sections in their order.
func (x *File) Sections() []string {
	var names []string
	for _, entry := range x.t.Sections {
		names = append(names, entry.Name)
	}
	return names
}

// Meta returns the value of a key in the metadata of the file.
func (x *File) Meta(key string) string { return x.t.Meta[key] }

// Bytes returns the bytes of a section; nil when there is none.
func (x *File) Bytes(name string) []byte {
	for _, s := range x.t.Sections {
		if s.Name == name {
			return x.data[s.Offset : s.Offset+s.Size : s.Offset+s.Size]
		}
	}
	return nil
}

// Close unmaps the file.
func (x *File) Close() {
	if x.data != nil {
		_ = unix.Munmap(x.data)
		x.data = nil
	}
}

// ViewSection views a section as records of a fixed-width type without pointers, in the machine's byte order (all
// supported machines are little endian). What the records say of other sections is for the reader to check.
func ViewSection[T any](x *File, name string) []T {
	raw := x.Bytes(name)
	var z T
	n := len(raw) / int(unsafe.Sizeof(z))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&raw[0])), n)
}

// Put writes records of a fixed-width type without pointers.
func Put[T any](writer *Writer, rs []T) {
	if len(rs) == 0 {
		return
	}
	n := len(rs) * int(unsafe.Sizeof(rs[0]))
	_, _ = writer.Write(unsafe.Slice((*byte)(unsafe.Pointer(&rs[0])), n)) // Close reports errors
}

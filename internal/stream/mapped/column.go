package mapped

import (
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/stream/scratch"
)

// Column is a section in the making: sections are written one after another, their content often side by side. It
// holds a megabyte in memory and the rest in a temporary file.
type Column struct {
	f    *os.File
	buf  []byte
	view []byte // of the temporary file
}

// Put appends bytes.
func (c *Column) Put(b []byte) error {
	c.buf = append(c.buf, b...)
	if len(c.buf) < 1<<20 {
		return nil
	}
	return c.flushBuffer()
}

// PutRecord appends a fixed-width record without pointers.
func PutRecord[T any](c *Column, r T) error {
	return c.Put(unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r)))
}

// PutRecords appends fixed-width records without pointers.
func PutRecords[T any](c *Column, rs []T) error {
	if len(rs) == 0 {
		return nil
	}
	return c.Put(unsafe.Slice((*byte)(unsafe.Pointer(&rs[0])), len(rs)*int(unsafe.Sizeof(rs[0]))))
}

func (c *Column) flushBuffer() error {
	if c.f == nil {
		file, err := scratch.CreateFile()
		if err != nil {
			return err
		}
		c.f = file
	}
	_, err := c.f.Write(c.buf)
	c.buf = c.buf[:0]
	if err != nil {
		return scratch.FullError("write", err)
	}
	return nil
}

// ViewRecords views a column that is complete as fixed-width records without pointers. What lies in the temporary file
// is mapped, so that nothing of it is held in memory. They are valid until Close; nothing may be put after.
func ViewRecords[T any](c *Column) ([]T, error) {
	raw := c.buf
	if c.f != nil {
		if err := c.mapFile(); err != nil {
			return nil, err
		}
		raw = c.view
	}
	var record T
	count := len(raw) / int(unsafe.Sizeof(record))
	if count == 0 {
		return nil, nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&raw[0])), count), nil
}

func (c *Column) mapFile() error {
	if c.view != nil {
		return nil
	}
	if err := c.flushBuffer(); err != nil {
		return err
	}
	state, err := c.f.Stat()
	if err == nil {
		c.view, err = unix.Mmap(int(c.f.Fd()), 0, int(state.Size()), unix.PROT_READ, unix.MAP_SHARED)
	}
	if err != nil {
		return scratch.FullError("map", err)
	}
	c.buf = nil
	return nil
}

// CopyTo writes the column out.
func (c *Column) CopyTo(writer io.Writer) error {
	if c.f == nil {
		_, err := writer.Write(c.buf)
		return err
	}
	if err := c.flushBuffer(); err != nil {
		return err
	}
	if _, err := c.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(writer, c.f)
	return err
}

// WriteSection writes the column out as a section. Behind an error of the writer, which that section and Close return,
// it does nothing: of many sections one has the error.
func (c *Column) WriteSection(to *Writer, name string) error {
	if to.err != nil {
		return nil
	}
	to.BeginSection(name)
	return c.CopyTo(to)
}

// Close removes the temporary file.
func (c *Column) Close() {
	if c.view != nil {
		_ = unix.Munmap(c.view)
		c.view = nil
	}
	if c.f != nil {
		_ = c.f.Close()
		c.f = nil
	}
}

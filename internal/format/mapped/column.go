package mapped

import (
	"io"
	"os"
	"unsafe"

	"github.com/unweaver/unweaver/internal/stream/scratch"
)

// Column is a section in the making: sections are written one after another, their content often side by side. It
// holds a megabyte in memory and the rest in a temporary file.
type Column struct {
	f   *os.File
	buf []byte
}

// Put appends bytes.
func (c *Column) Put(b []byte) error {
	c.buf = append(c.buf, b...)
	if len(c.buf) < 1<<20 {
		return nil
	}
	return c.flush()
}

// PutRecord appends a fixed-width record without pointers.
func PutRecord[T any](c *Column, r T) error {
	return c.Put(unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r)))
}

func (c *Column) flush() error {
	if c.f == nil {
		file, err := scratch.File()
		if err != nil {
			return err
		}
		c.f = file
	}
	_, err := c.f.Write(c.buf)
	c.buf = c.buf[:0]
	if err != nil {
		return scratch.Full("write", err)
	}
	return nil
}

// CopyTo writes the column out.
func (c *Column) CopyTo(writer io.Writer) error {
	if c.f == nil {
		_, err := writer.Write(c.buf)
		return err
	}
	if err := c.flush(); err != nil {
		return err
	}
	if _, err := c.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(writer, c.f)
	return err
}

// Close removes the temporary file.
func (c *Column) Close() {
	if c.f != nil {
		_ = c.f.Close()
		c.f = nil
	}
}

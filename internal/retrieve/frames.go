package retrieve

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
)

// maxFrameBytes of unpacked frames are kept, of all generations that are open in this process: what is asked for is
// asked for again.
const maxFrameBytes = 64 << 20

// unpacked is shared by all generations, so that a replica with a thousand indexes keeps no more than one with one.
var unpacked = frameCache{limit: maxFrameBytes}

// frameID is a frame of a row file.
type frameID struct {
	file  *artifact.Reader
	frame int
}

// frame is an unpacked frame, with where its rows begin if they are in the order of their keys. What is cited lies
// anywhere in it, and the rows before that would be read each time.
type frame struct {
	raw  []byte
	rows []uint32 // nil: in another order
}

func newFrame(raw []byte) *frame {
	f := &frame{raw: raw}
	var before []byte
	for rest := raw; ; {
		key, _, next, ok := rowfile.NextRow(rest)
		if !ok {
			return f
		}
		if bytes.Compare(before, key) > 0 {
			f.rows = nil
			return f
		}
		f.rows = append(f.rows, uint32(len(raw)-len(rest)))
		before, rest = key, next
	}
}

// bytes that it holds.
func (f *frame) bytes() int { return len(f.raw) + 4*cap(f.rows) }

// from gives the rows from the first one of a key on; all of them where none has it, or they are in another order.
func (f *frame) from(key string) []byte {
	at, found := slices.BinarySearchFunc(f.rows, key, func(row uint32, key string) int {
		have, _, _, _ := rowfile.NextRow(f.raw[row:])
		return strings.Compare(string(have), key)
	})
	if !found {
		return f.raw
	}
	return f.raw[f.rows[at]:]
}

// row gives the value of a key, or nil.
func (f *frame) row(key string) []byte { return findRow(f.from(key), key) }

// frameCache remembers unpacked frames of the documents, text and extract segments.
type frameCache struct {
	limit   int // of bytes
	mu      sync.Mutex
	frames  map[frameID]*frame
	reading map[frameID]*frameRead
	bytes   int
}

// frameRead is a frame that is being read; whoever needs it too waits for it.
type frameRead struct {
	done  chan struct{}
	frame *frame
	err   error
}

// errGone is of a frame whose reader did not come back from it.
var errGone = errors.New("its reader has gone")

// read unpacks a frame, or has it still. Nothing is locked while it is read. The rows must not be written to.
func (c *frameCache) read(ctx context.Context, file *artifact.Reader, number int) (*frame, error) {
	id := frameID{file, number}
	for {
		c.mu.Lock()
		if kept, ok := c.frames[id]; ok {
			c.mu.Unlock()
			return kept, nil
		}
		under, others := c.reading[id]
		if !others {
			under = &frameRead{done: make(chan struct{}), err: errGone}
			if c.reading == nil {
				c.reading = map[frameID]*frameRead{}
			}
			c.reading[id] = under
		}
		c.mu.Unlock()
		if !others {
			return c.lead(ctx, id, under)
		}
		select {
		case <-under.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if under.err == nil {
			return under.frame, nil
		}
		// It may be that only the one who read has lost its patience: whoever still wants the frame reads it itself.
	}
}

// lead reads a frame for all who wait for it.
func (c *frameCache) lead(ctx context.Context, id frameID, under *frameRead) (*frame, error) {
	defer func() {
		c.mu.Lock()
		delete(c.reading, id)
		if under.err == nil {
			c.keep(id, under.frame)
		}
		c.mu.Unlock()
		close(under.done)
	}()
	raw, err := id.file.Frame(ctx, id.frame)
	if under.err = err; err == nil {
		under.frame = newFrame(raw)
	}
	return under.frame, err
}

// keep remembers a frame; any others go while there are too many bytes. The caller holds the lock.
func (c *frameCache) keep(id frameID, one *frame) {
	if one.bytes() > c.limit/4 {
		return
	}
	if c.frames == nil {
		c.frames = map[frameID]*frame{}
	}
	for old, content := range c.frames {
		if c.bytes+one.bytes() <= c.limit {
			break
		}
		delete(c.frames, old)
		c.bytes -= content.bytes()
	}
	c.frames[id] = one
	c.bytes += one.bytes()
}

// forget drops the frames of files that are closed.
func (c *frameCache) forget(closed map[*artifact.Reader]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, one := range c.frames {
		if closed[id.file] {
			delete(c.frames, id)
			c.bytes -= one.bytes()
		}
	}
}

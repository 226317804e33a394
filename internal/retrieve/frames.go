package retrieve

import (
	"context"
	"errors"
	"sync"

	"github.com/unweaver/unweaver/internal/store/artifact"
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

// frameCache remembers unpacked frames of the documents, text and extract segments.
type frameCache struct {
	limit   int // of bytes
	mu      sync.Mutex
	frames  map[frameID][]byte
	reading map[frameID]*frameRead
	bytes   int
}

// frameRead is a frame that is being read; whoever needs it too waits for it.
type frameRead struct {
	done chan struct{}
	raw  []byte
	err  error
}

// errGone is of a frame whose reader did not come back from it.
var errGone = errors.New("its reader has gone")

// read unpacks a frame, or has it still. Nothing is locked while it is read. The rows must not be written to.
func (c *frameCache) read(ctx context.Context, file *artifact.Reader, frame int) ([]byte, error) {
	id := frameID{file, frame}
	for {
		c.mu.Lock()
		if raw, ok := c.frames[id]; ok {
			c.mu.Unlock()
			return raw, nil
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
			return under.raw, nil
		}
		// It may be that only the one who read has lost its patience: whoever still wants the frame reads it itself.
	}
}

// lead reads a frame for all who wait for it.
func (c *frameCache) lead(ctx context.Context, id frameID, under *frameRead) ([]byte, error) {
	defer func() {
		c.mu.Lock()
		delete(c.reading, id)
		if under.err == nil {
			c.keep(id, under.raw)
		}
		c.mu.Unlock()
		close(under.done)
	}()
	under.raw, under.err = id.file.Frame(ctx, id.frame)
	return under.raw, under.err
}

// keep remembers a frame; any others go while there are too many bytes. The caller holds the lock.
func (c *frameCache) keep(id frameID, raw []byte) {
	if len(raw) > c.limit/4 {
		return
	}
	if c.frames == nil {
		c.frames = map[frameID][]byte{}
	}
	for old, content := range c.frames {
		if c.bytes+len(raw) <= c.limit {
			break
		}
		delete(c.frames, old)
		c.bytes -= len(content)
	}
	c.frames[id] = raw
	c.bytes += len(raw)
}

// forget drops the frames of files that are closed.
func (c *frameCache) forget(closed map[*artifact.Reader]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, raw := range c.frames {
		if closed[id.file] {
			delete(c.frames, id)
			c.bytes -= len(raw)
		}
	}
}

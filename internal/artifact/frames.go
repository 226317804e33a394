package artifact

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Frames remembers unpacked frames of row files up to a limit of bytes; those that were read first go first. A frame is
// read once for all that ask for it meanwhile, and different ones are read side by side. It is safe for concurrent use.
type Frames struct {
	mu    sync.Mutex
	limit int
	known map[frameID]*unpacked // those that are being read, too
	order []*unpacked           // those that were read, the oldest first
	bytes int
}

// frameID names a frame of a row file.
type frameID struct {
	file   *Reader
	number int
}

// unpacked is a frame that was asked for.
type unpacked struct {
	id   frameID
	done chan struct{}
	raw  []byte // with done
	err  error  // with done
}

// errGone is of a frame whose reader did not come back from it.
var errGone = errors.New("its reader has gone")

// NewFrames returns a memory of frames that holds limit bytes.
func NewFrames(limit int) *Frames { return &Frames{limit: limit, known: map[frameID]*unpacked{}} }

// Read returns the rows of a frame, which must not be changed. Nothing is locked while the frame is read from its file.
func (f *Frames) Read(ctx context.Context, file *Reader, number int) ([]byte, error) {
	id := frameID{file, number}
	for {
		f.mu.Lock()
		found := f.known[id]
		if found == nil {
			found = &unpacked{id: id, done: make(chan struct{}), err: errGone}
			f.known[id] = found
			f.mu.Unlock()
			f.fillFrame(ctx, found)
			return found.raw, found.err
		}
		f.mu.Unlock()
		select {
		case <-found.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if found.err == nil {
			return found.raw, nil
		}
		// It may be that only the one who read has lost its patience: who still needs the frame reads it itself.
	}
}

func (f *Frames) fillFrame(ctx context.Context, one *unpacked) {
	defer close(one.done)
	defer f.keepFrame(one)
	raw, err := one.id.file.Frame(ctx, one.id.number)
	one.raw, one.err = slices.Clip(raw), err
}

// keepFrame remembers a frame that was read, until enough others were. One that was not is asked for again.
func (f *Frames) keepFrame(one *unpacked) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.err != nil || len(one.raw) > f.limit {
		delete(f.known, one.id)
		return
	}
	f.order = append(f.order, one)
	for f.bytes += len(one.raw); f.bytes > f.limit; f.order = f.order[1:] {
		f.bytes -= len(f.order[0].raw)
		delete(f.known, f.order[0].id)
	}
}

// Forget drops the frames of files; nil drops all.
func (f *Frames) Forget(files map[*Reader]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.order = slices.DeleteFunc(f.order, func(one *unpacked) bool {
		gone := files == nil || files[one.id.file]
		if gone {
			f.bytes -= len(one.raw)
			delete(f.known, one.id)
		}
		return gone
	})
}

// CountHeld returns how many bytes are remembered, and how many frames are being read.
func (f *Frames) CountHeld() (bytes, underWay int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes, len(f.known) - len(f.order)
}

package artifact

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Frames remembers unpacked frames of row files up to a limit of bytes; those that were read first go first. A frame is
// read once for all that ask for it meanwhile, and different ones are read side by side. T is what is made of the rows.
// It is safe for concurrent use.
type Frames[T any] struct {
	make func(raw []byte) T
	size func(T) int

	mu    sync.Mutex
	limit int
	known map[FrameID]*unpacked[T] // those that are being read, too
	order []*unpacked[T]           // those that were read, the oldest first
	bytes int
}

// FrameID names a frame of a row file.
type FrameID struct {
	File   *Reader
	Number int
}

// unpacked is a frame that was asked for.
type unpacked[T any] struct {
	id   FrameID
	done chan struct{}
	made T     // with done
	err  error // with done
}

// errGone is of a frame whose reader did not come back from it.
var errGone = errors.New("its reader has gone")

// NewFrames returns a memory of frames that holds limit bytes; size counts those of one.
func NewFrames[T any](limit int, make func(raw []byte) T, size func(T) int) *Frames[T] {
	return &Frames[T]{make: make, size: size, limit: limit, known: map[FrameID]*unpacked[T]{}}
}

// Read returns a frame, which must not be changed. Nothing is locked while it is read from its file.
func (f *Frames[T]) Read(ctx context.Context, file *Reader, number int) (T, error) {
	id := FrameID{file, number}
	for {
		f.mu.Lock()
		found := f.known[id]
		if found == nil {
			found = &unpacked[T]{id: id, done: make(chan struct{}), err: errGone}
			f.known[id] = found
			f.mu.Unlock()
			return f.fillFrame(ctx, found)
		}
		f.mu.Unlock()
		select {
		case <-found.done:
		case <-ctx.Done():
			return found.made, context.Cause(ctx)
		}
		if found.err == nil {
			return found.made, nil
		}
		// It may be that only the one who read has lost its patience: who still needs the frame reads it itself.
	}
}

func (f *Frames[T]) fillFrame(ctx context.Context, one *unpacked[T]) (T, error) {
	defer close(one.done)
	defer f.keepFrame(one)
	raw, err := one.id.File.Frame(ctx, one.id.Number)
	if one.err = err; err == nil {
		one.made = f.make(raw)
	}
	return one.made, err
}

// keepFrame remembers a frame that was read, until enough others were. One that was not is asked for again.
func (f *Frames[T]) keepFrame(one *unpacked[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.err != nil || f.size(one.made) > f.limit {
		delete(f.known, one.id)
		return
	}
	f.order = append(f.order, one)
	for f.bytes += f.size(one.made); f.bytes > f.limit; f.order = f.order[1:] {
		f.bytes -= f.size(f.order[0].made)
		delete(f.known, f.order[0].id)
	}
}

// Forget drops the frames of files; nil drops all.
func (f *Frames[T]) Forget(files map[*Reader]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.order = slices.DeleteFunc(f.order, func(one *unpacked[T]) bool {
		gone := files == nil || files[one.id.File]
		if gone {
			f.bytes -= f.size(one.made)
			delete(f.known, one.id)
		}
		return gone
	})
}

// CountHeld returns how many bytes are remembered, and how many frames are being read.
func (f *Frames[T]) CountHeld() (bytes, underWay int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes, len(f.known) - len(f.order)
}

// SetLimit bounds what is remembered from the next frame on, and returns the bound before.
func (f *Frames[T]) SetLimit(limit int) (before int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, f.limit = f.limit, limit
	return before
}

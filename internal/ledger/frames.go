package ledger

import (
	"context"
	"sync"
)

// keptFrames bounds the unpacked frames of packs that a process remembers, in bytes of a task. A shard that is looked
// up again finds its pack in there, whatever the order of its chunks.
const keptFrames = 32 << 20

// frames remembers frames of packs. Each is read once by all that ask for it meanwhile, and different ones side by
// side.
type frames struct {
	mu    sync.Mutex
	known map[frameID]*frame
	order []*frame // those that were read, the oldest first
	bytes int
}

type frameID struct {
	pack   *pack
	number int
}

// frame is one that was asked for.
type frame struct {
	id   frameID
	done chan struct{}
	raw  []byte // with done
	err  error  // with done
}

// read gives an unpacked frame; its bytes are not to be changed.
func (f *frames) read(ctx context.Context, p *pack, number int) ([]byte, error) {
	id := frameID{p, number}
	for {
		f.mu.Lock()
		found := f.known[id]
		if found == nil {
			found = &frame{id: id, done: make(chan struct{}), err: context.Canceled}
			if f.known == nil {
				f.known = map[frameID]*frame{}
			}
			f.known[id] = found
			f.mu.Unlock()
			return f.fill(ctx, found)
		}
		f.mu.Unlock()
		select {
		case <-found.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if found.err == nil {
			return found.raw, nil
		} // else who read it may have been told to stop
	}
}

func (f *frames) fill(ctx context.Context, read *frame) ([]byte, error) {
	defer close(read.done)
	defer f.keep(read)
	read.raw, read.err = read.id.pack.reader.Frame(ctx, read.id.number)
	return read.raw, read.err
}

// keep remembers a frame that was read, until enough others were. One that was not is asked for again.
func (f *frames) keep(read *frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if read.err != nil {
		delete(f.known, read.id)
		return
	}
	f.order = append(f.order, read)
	for f.bytes += len(read.raw); f.bytes > keptFrames && len(f.order) > 1; f.order = f.order[1:] {
		f.bytes -= len(f.order[0].raw)
		delete(f.known, f.order[0].id)
	}
}

// clear forgets all of them.
func (f *frames) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known, f.order, f.bytes = nil, nil, 0
}

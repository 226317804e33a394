package artifact

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Row is one row of a row file. Its bytes are valid until the next one.
type Row struct {
	Key, Value []byte
	Frame      int
}

// CompareKeys compares two rows by their keys.
func (r Row) CompareKeys(other Row) int { return bytes.Compare(r.Key, other.Key) }

// at reads a stored object by range.
type at struct {
	ctx context.Context
	s   blob.Store
	key string
}

func (a at) ReadAt(raw []byte, off int64) (int, error) {
	body, _, err := a.s.Get(a.ctx, a.key, blob.Range{Offset: off, Length: int64(len(raw))})
	if err != nil {
		return 0, err
	}
	n, err := io.ReadFull(body, raw)
	if errors.Is(err, io.ErrUnexpectedEOF) { // the range reaches behind the end
		err = io.EOF
	}
	if cerr := body.Close(); err == nil {
		err = cerr
	}
	return n, err
}

// SizedReaderAt reads a stored object whose size is known by range: its end in one request with the first read, as the
// footers of files lie there, and a small one whole.
func SizedReaderAt(ctx context.Context, s blob.Store, key string, size int64) io.ReaderAt {
	end := &tail{at: at{ctx, s, key}, size: size}
	if size > smallFile {
		end.from = size - tailBytes
	}
	return end
}

// tail is an object whose end is in memory from the first time it is asked for. Several may ask at once.
type tail struct {
	at
	from, size int64
	once       sync.Once
	raw        []byte
	err        error
}

func (t *tail) ReadAt(raw []byte, off int64) (int, error) {
	if off < t.from || off+int64(len(raw)) > t.size {
		return t.at.ReadAt(raw, off)
	}
	t.once.Do(func() {
		t.raw = make([]byte, t.size-t.from)
		_, t.err = t.at.ReadAt(t.raw, t.from)
	})
	if t.err != nil {
		return 0, t.err
	}
	return copy(raw, t.raw[off-t.from:]), nil
}

// Reader reads one row file.
type Reader struct {
	*rowfile.Footer
	src   at
	whole []byte // the file, where it is small
}

const (
	// tailBytes is what is read of a row file's end at first: nearly every footer lies in it.
	tailBytes = 32 << 10
	// smallFile is the size of files that OpenRows reads whole, and that their readers hold: what they are asked for is
	// in memory after one request.
	smallFile = 64 << 10
)

// OpenRows reads the footer of a row file: a small file in one request, others in two.
func OpenRows(ctx context.Context, store blob.Store, key string) (*Reader, error) {
	body, info, err := store.Get(ctx, key, blob.Range{Length: smallFile})
	if err != nil {
		return nil, err
	}
	if info.Size > smallFile {
		if err := body.Close(); err != nil {
			return nil, fault.StoreDown.At("read", store.Location(key)).Because(err)
		}
		return openTail(ctx, store, key, info.Size)
	}
	raw := make([]byte, info.Size)
	_, err = io.ReadFull(body, raw)
	if cerr := body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, nameObject(err, store.Location(key))
	}
	return openWhole(ctx, store, key, raw)
}

func openWhole(ctx context.Context, store blob.Store, key string, raw []byte) (*Reader, error) {
	footer, err := rowfile.ReadFooter(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return nil, nameObject(err, store.Location(key))
	}
	return &Reader{footer, at{ctx, store, key}, raw}, nil
}

// OpenRowsOf reads the footer of a row file whose size is known, nearly always in one request, and holds nothing else
// of it: readers that are kept long are of this kind. A size of 0 is not known. A file of another size is
// fault.SegmentDamage: it is whole, and not the one that is asked for.
func OpenRowsOf(ctx context.Context, store blob.Store, key string, size int64) (*Reader, error) {
	if size > 0 {
		reader, err := openTail(ctx, store, key, size)
		if err == nil || ctx.Err() != nil {
			return reader, err
		}
	}
	reader, err := OpenRows(ctx, store, key) // which says what is wrong with it
	if err != nil || size <= 0 {
		return reader, err
	}
	info, err := store.Stat(ctx, key)
	if err == nil && info.Size != size {
		err = fault.SegmentDamage.At("read", store.Location(key)).
			Because(fmt.Sprintf("it has %d bytes, not %d: another file uses its name", info.Size, size)).
			Advise("restore the generation")
	}
	return reader, err
}

func openTail(ctx context.Context, store blob.Store, key string, size int64) (*Reader, error) {
	footer, err := rowfile.ReadFooter(SizedReaderAt(ctx, store, key, size), size)
	if err != nil {
		return nil, nameObject(err, store.Location(key))
	}
	return &Reader{footer, at{ctx, store, key}, nil}, nil
}

// nameObject puts the object's place into an error that lacks one. A read that ends early is the connection's fault:
// how long the object is was known before.
func nameObject(err error, object string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.StoreDown.At("read", object).Because(err)
	}
	if e := fault.As(err); e != nil && e.Object == "" {
		c := *e
		c.Object = object
		return &c
	}
	return err
}

// Frame reads and unpacks frame i. One that the file does not have is fault.SegmentDamage: rows elsewhere tell where
// rows lie.
func (r *Reader) Frame(ctx context.Context, i int) ([]byte, error) {
	if i < 0 || i >= len(r.Frames) {
		return nil, fault.SegmentDamage.At("read", r.src.s.Location(r.src.key)).
			Because(fmt.Sprintf("it has %d frames and no frame %d", len(r.Frames), i)).
			Advise("restore the generation")
	}
	frame := r.Frames[i]
	if r.whole != nil { // the footer was checked against the length
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		raw, err := frame.Unpack(nil, r.whole[frame.Offset:frame.Offset+int64(frame.Size)])
		return raw, nameObject(err, r.src.s.Location(r.src.key))
	}
	b := make([]byte, frame.Size)
	if _, err := (at{ctx, r.src.s, r.src.key}).ReadAt(b, frame.Offset); err != nil {
		return nil, nameObject(err, r.src.s.Location(r.src.key))
	}
	raw, err := frame.Unpack(nil, b)
	return raw, nameObject(err, r.src.s.Location(r.src.key))
}

// Get finds a key in a sorted file; nil when absent.
func (r *Reader) Get(ctx context.Context, key string) ([]byte, error) {
	i := r.Find(key)
	if i < 0 {
		return nil, nil
	}
	raw, err := r.Frame(ctx, i)
	if err != nil {
		return nil, err
	}
	return rowfile.FindRow(raw, key), nil
}

// Scan streams the rows of frames [lo, hi); hi < 0 means to the end. One request, one frame in memory.
func (r *Reader) Scan(ctx context.Context, lo, hi int) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if hi < 0 || hi > len(r.Frames) {
			hi = len(r.Frames)
		}
		lo = max(lo, 0)
		if lo >= hi {
			return
		}
		last := r.Frames[hi-1]
		start := r.Frames[lo].Offset
		body, err := r.openRange(ctx, start, last.Offset+int64(last.Size)-start)
		if err != nil {
			yield(Row{}, err)
			return
		}
		defer func() { _ = body.Close() }()
		br := bufio.NewReaderSize(body, 32<<10)
		var packed, raw []byte
		for i := lo; i < hi; i++ {
			frame := r.Frames[i]
			if cap(packed) < frame.Size {
				packed = make([]byte, frame.Size)
			}
			packed = packed[:frame.Size]
			if _, err := io.ReadFull(br, packed); err != nil {
				yield(Row{}, fault.StoreDown.At("read", r.src.s.Location(r.src.key)).Because(err))
				return
			}
			if raw, err = frame.Unpack(raw, packed); err != nil {
				yield(Row{}, nameObject(err, r.src.s.Location(r.src.key)))
				return
			}
			if !r.yieldRows(raw, i, yield) {
				return
			}
		}
	}
}

func (r *Reader) openRange(ctx context.Context, start, length int64) (io.ReadCloser, error) {
	if r.whole != nil {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return io.NopCloser(bytes.NewReader(r.whole[start : start+length])), nil
	}
	body, _, err := r.src.s.Get(ctx, r.src.key, blob.Range{Offset: start, Length: length})
	return body, err
}

// yieldRows gives the rows of an unpacked frame; it reports whether to go on.
func (r *Reader) yieldRows(raw []byte, i int, yield func(Row, error) bool) bool {
	left := r.Frames[i].Rows
	for rest := raw; ; left-- {
		k, v, next, ok := rowfile.NextRow(rest)
		if !ok {
			break
		}
		if !yield(Row{k, v, i}, nil) {
			return false
		}
		rest = next
	}
	if left != 0 { // a frame that gives fewer rows must not pass for one that has fewer
		yield(Row{}, fault.SegmentDamage.At("read", r.src.s.Location(r.src.key)).
			Because("a frame does not contain the rows that its footer counts").
			Advise("restore the generation"))
		return false
	}
	return true
}

// Load reads a small row file in one request, and holds it as it is stored.
func Load(ctx context.Context, store blob.Store, key string) (*Reader, error) {
	raw, _, err := blob.Read(ctx, store, key)
	if err != nil {
		return nil, err
	}
	return openWhole(ctx, store, key, raw)
}

// LoadOf loads a file whose size is known, as Load does: no more than that is read and held. One that has another size
// is an error; OpenRows says what is wrong with it.
func LoadOf(ctx context.Context, store blob.Store, key string, size int64) (*Reader, error) {
	raw := make([]byte, size)
	if _, err := (at{ctx, store, key}).ReadAt(raw, 0); err != nil {
		return nil, nameObject(err, store.Location(key))
	}
	return openWhole(ctx, store, key, raw)
}

// ScanAll opens a file and streams all of it.
func ScanAll(ctx context.Context, s blob.Store, key string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		reader, err := OpenRows(ctx, s, key)
		if err != nil {
			yield(Row{}, err)
			return
		}
		reader.Scan(ctx, 0, -1)(yield)
	}
}

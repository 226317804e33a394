// Package textseg reads decoded text back from text segments: rows keyed by document key, each a piece with its start
// in code points; pieces of a document are consecutive.
package textseg

import (
	"context"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// EncodePiece returns the value of a row.
func EncodePiece(start int, text string) []byte {
	var e rowfile.Enc
	e.U(uint64(start))
	e.S(text)
	return e.B
}

// DecodeStart returns where in its document a piece begins, in code points.
func DecodeStart(value []byte) (int, error) {
	dec := rowfile.Dec{B: value}
	start := int(dec.U())
	return start, dec.Err
}

// Reader reads ranges of documents from one text segment. It keeps the last frame, so ranges read in order cost one
// read a frame. It is not safe for concurrent use.
type Reader struct {
	r     *artifact.Reader
	where string
	read  ReadFrame
	frame int
	raw   []byte
}

// ReadFrame gives the unpacked rows of a frame of a file, which must not be written to.
type ReadFrame func(ctx context.Context, file *artifact.Reader, frame int) ([]byte, error)

// Open opens a segment.
func Open(ctx context.Context, store blob.Store, key string) (*Reader, error) {
	return OpenOf(ctx, store, key, 0)
}

// OpenOf opens a segment as Open does. Its size is known, which saves requests.
func OpenOf(ctx context.Context, store blob.Store, key string, size int64) (*Reader, error) {
	reader, err := artifact.OpenRowsOf(ctx, store, key, size)
	if err != nil {
		return nil, err
	}
	return &Reader{r: reader, where: store.Location(key), read: fromStore, frame: -1}, nil
}

func (t *Reader) loadFrame(ctx context.Context, frame int) error {
	if frame == t.frame {
		return nil
	}
	raw, err := t.read(ctx, t.r, frame)
	if err != nil {
		return err
	}
	t.frame, t.raw = frame, raw
	return nil
}

// Slice returns the text [start, end) of a document, in code points; frame is at or before the piece that holds start.
// end < 0 means the document's end.
func (t *Reader) Slice(ctx context.Context, document string, frame, start, end int) (string, error) {
	if frame < 0 {
		return "", nil
	}
	if start < 0 || end >= 0 && end < start {
		return "", t.damageFault("the document has no such range")
	}
	var out strings.Builder
	found := false
	for piece, err := range t.Pieces(ctx, document, frame) {
		if err != nil {
			return "", err
		}
		if end >= 0 && piece.Start >= end {
			return out.String(), nil
		}
		n := utf8.RuneCountInString(piece.Text)
		if piece.Start+n <= start {
			continue
		}
		found = true
		hi := n
		if end >= 0 {
			hi = min(n, end-piece.Start)
		}
		out.WriteString(sliceRunes(piece.Text, max(0, start-piece.Start), hi))
		if end >= 0 && piece.Start+n >= end {
			return out.String(), nil
		}
	}
	if !found && end != start {
		return "", t.damageFault("the document is not where its chunk says")
	}
	return out.String(), nil
}

// Piece is a part of a document's text.
type Piece struct {
	Start int // in the document, in code points
	Text  string
}

// Pieces yields the pieces of a document in order; frame is at or before the first of them that is wanted.
func (t *Reader) Pieces(ctx context.Context, document string, frame int) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		for found := false; frame < len(t.r.Frames); frame++ {
			if err := t.loadFrame(ctx, frame); err != nil {
				yield(Piece{}, err)
				return
			}
			for key, value, rest, ok := rowfile.NextRow(t.raw); ok; key, value, rest, ok = rowfile.NextRow(rest) {
				if string(key) != document {
					if found {
						return
					}
					continue
				}
				found = true
				dec := rowfile.Dec{B: value}
				piece, err := Piece{Start: int(dec.U()), Text: dec.S()}, dec.Err
				if err == nil && (piece.Start < 0 || piece.Start > maxRunes) {
					err = t.damageFault("a piece of the document begins nowhere")
				}
				if !yield(piece, err) || err != nil {
					return
				}
			}
		}
	}
}

// maxRunes is more than any document has.
const maxRunes = 1 << 40

func (t *Reader) damageFault(why string) error {
	return fault.SegmentDamage.At("read text in", t.where).Because(why).Advise("restore the generation")
}

// sliceRunes returns the part [lo, hi) of s in code points.
func sliceRunes(s string, lo, hi int) string {
	if len(s) == utf8.RuneCountInString(s) {
		return s[lo:hi]
	}
	i, from := 0, len(s)
	for b := range s {
		if i == lo {
			from = b
		}
		if i == hi {
			return s[from:b]
		}
		i++
	}
	return s[from:]
}

// Clone gives a reader of the same segment for another goroutine; it costs nothing.
func (t *Reader) Clone() *Reader { return t.WithFrames(fromStore) }

// WithFrames returns a clone, as Clone does, with frames that come from elsewhere.
func (t *Reader) WithFrames(read ReadFrame) *Reader {
	return &Reader{r: t.r, where: t.where, read: read, frame: -1}
}

// File returns the row file that is read.
func (t *Reader) File() *artifact.Reader { return t.r }

func fromStore(ctx context.Context, file *artifact.Reader, frame int) ([]byte, error) {
	return file.Frame(ctx, frame)
}

package plan

import (
	"context"
	"iter"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/stream/par"
)

// cursor walks the parent's documents once, in key order.
type cursor struct {
	next     func() (artifact.Row, error, bool)
	stop     func()
	key      string
	old      rows.Document
	ok       bool
	contents int64 // documents that have content
	err      error
}

func newCursor(ctx context.Context, art artifact.Index, parent *corpus.Manifest) *cursor {
	c := &cursor{}
	c.next, c.stop = iter.Pull2(func(yield func(artifact.Row, error) bool) {
		if parent == nil {
			return
		}
		open := func(ctx context.Context, segment corpus.Segment) (iter.Seq2[artifact.Row, error], error) {
			return openSegment(ctx, art, segment)
		}
		for segment, err := range par.Ordered(ctx, parentAhead, segmentsOf(parent), open) {
			if err != nil {
				yield(artifact.Row{}, err)
				return
			}
			for row, err := range segment {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	})
	c.advance()
	return c
}

const (
	// parentAhead is how many segments are fetched at once, so that a parent of hundreds is not read one request after
	// another; a segment of one unit of work is mostly below parentWhole.
	parentAhead = 8

	// parentWhole is how large a segment may be that is fetched whole, ahead of its turn. Larger ones are read as they
	// are walked, with one frame in memory.
	parentWhole = 2 << 20
)

func segmentsOf(parent *corpus.Manifest) iter.Seq2[corpus.Segment, error] {
	return func(yield func(corpus.Segment, error) bool) {
		for _, segment := range parent.Segments.Documents {
			if !yield(segment, nil) {
				return
			}
		}
	}
}

// openSegment gives the rows of a segment of documents.
func openSegment(
	ctx context.Context, art artifact.Index, segment corpus.Segment,
) (iter.Seq2[artifact.Row, error], error) {
	key := art.SegmentKey(segment.SHA256)
	if segment.Bytes <= 0 || segment.Bytes > parentWhole {
		return artifact.ScanAll(ctx, art.Store, key), nil
	}
	loaded, err := artifact.LoadOf(ctx, art.Store, key, segment.Bytes)
	switch {
	case err == nil:
		return loaded.Rows(), nil
	case ctx.Err() != nil:
		return nil, err
	}
	return artifact.ScanAll(ctx, art.Store, key), nil // which tells what is wrong with it
}

func (c *cursor) advance() {
	row, err, ok := c.next()
	if err == nil && ok {
		c.old, err = rows.DecodeDocument(row.Value)
	}
	c.ok = ok && err == nil
	if err != nil {
		c.err = err
	}
	if !c.ok {
		return
	}
	c.key = string(row.Key)
	if len(c.old.Chunks) > 0 {
		c.contents++
	}
}

// before gives what the listing passes over on its way to key, which must not be smaller than the last one.
func (c *cursor) before(key string) iter.Seq2[string, rows.Document] {
	return c.passing(func() bool { return c.key < key })
}

// rest gives what follows the last listed document.
func (c *cursor) rest() iter.Seq2[string, rows.Document] {
	return c.passing(func() bool { return true })
}

func (c *cursor) passing(over func() bool) iter.Seq2[string, rows.Document] {
	return func(yield func(string, rows.Document) bool) {
		for c.ok && over() {
			key, old := c.key, c.old
			c.advance()
			if !yield(key, old) {
				return
			}
		}
	}
}

// take gives the document under key, where it stands next.
func (c *cursor) take(key string) (rows.Document, bool) {
	if !c.ok || c.key != key {
		return rows.Document{}, false
	}
	old := c.old
	c.advance()
	return old, true
}

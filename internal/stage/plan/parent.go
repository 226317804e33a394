package plan

import (
	"context"
	"iter"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/segments"
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

func newCursor(ctx context.Context, art artifact.Index, parent *core.Manifest, dead *segments.Files) *cursor {
	c := &cursor{}
	c.next, c.stop = iter.Pull2(func(yield func(artifact.Row, error) bool) {
		if parent != nil {
			segments.StreamDocuments(ctx, art, parent.Segments, dead)(yield)
		}
	})
	c.advanceRow()
	return c
}

func (c *cursor) advanceRow() {
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

// passBefore gives what the listing passes over on its way to key, which must not be smaller than the last one.
func (c *cursor) passBefore(key string) iter.Seq2[string, rows.Document] {
	return c.passWhile(func() bool { return c.key < key })
}

// passRest gives what follows the last listed document.
func (c *cursor) passRest() iter.Seq2[string, rows.Document] {
	return c.passWhile(func() bool { return true })
}

func (c *cursor) passWhile(over func() bool) iter.Seq2[string, rows.Document] {
	return func(yield func(string, rows.Document) bool) {
		for c.ok && over() {
			key, old := c.key, c.old
			c.advanceRow()
			if !yield(key, old) {
				return
			}
		}
	}
}

// takeDocument gives the document under key, where it stands next.
func (c *cursor) takeDocument(key string) (rows.Document, bool) {
	if !c.ok || c.key != key {
		return rows.Document{}, false
	}
	old := c.old
	c.advanceRow()
	return old, true
}

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
		if parent == nil {
			return
		}
		for row, err := range segments.Documents(ctx, art, parent.Segments, dead) {
			if !yield(row, err) || err != nil {
				return
			}
		}
	})
	c.advance()
	return c
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

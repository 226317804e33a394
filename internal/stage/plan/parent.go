package plan

import (
	"context"
	"iter"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/store/artifact"
)

// cursor walks the parent's documents once, in key order.
type cursor struct {
	next     func() (artifact.Row, error, bool)
	stop     func()
	left     func(key string, old rows.Document) // is told of what the listing passed over
	key      string
	old      rows.Document
	ok       bool
	readable int64 // documents that had no problem
	err      error
}

func newCursor(
	ctx context.Context,
	art artifact.Index,
	parent *corpus.Manifest,
	left func(string, rows.Document),
) *cursor {
	c := &cursor{left: left}
	c.next, c.stop = iter.Pull2(func(yield func(artifact.Row, error) bool) {
		if parent == nil {
			return
		}
		for _, segment := range parent.Segments.Documents {
			for row, err := range artifact.ScanAll(ctx, art.Store, art.SegmentKey(segment.SHA256)) {
				if !yield(row, err) || err != nil {
					return
				}
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
	if c.old.Problem == "" {
		c.readable++
	}
}

// seek moves to key, which must not be smaller than the last one.
func (c *cursor) seek(key string) (rows.Document, bool) {
	for c.ok && c.key < key {
		c.left(c.key, c.old)
		c.advance()
	}
	if !c.ok || c.key != key {
		return rows.Document{}, false
	}
	old := c.old
	c.advance()
	return old, true
}

// drain passes over what follows the last listed document.
func (c *cursor) drain() {
	for c.ok {
		c.left(c.key, c.old)
		c.advance()
	}
}

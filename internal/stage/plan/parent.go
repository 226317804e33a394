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
	next    func() (artifact.Row, error, bool)
	stop    func()
	key     string
	value   []byte
	ok      bool
	removed int64
	err     error
}

func newCursor(ctx context.Context, art artifact.Index, parent *corpus.Manifest) *cursor {
	c := &cursor{}
	c.next, c.stop = iter.Pull2(func(yield func(artifact.Row, error) bool) {
		if parent == nil {
			return
		}
		for _, s := range parent.Segments.Documents {
			for row, err := range artifact.ScanAll(ctx, art.Store, art.SegmentKey(s.SHA256)) {
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
	c.ok = ok && err == nil
	if err != nil {
		c.err = err
	}
	if c.ok {
		c.key, c.value = string(row.Key), append(c.value[:0], row.Value...)
	}
}

// seek moves to key, which must not be smaller than the last one, and counts what was passed over as removed.
func (c *cursor) seek(key string) (rows.Document, bool) {
	for c.ok && c.key < key {
		c.removed++
		c.advance()
	}
	if !c.ok || c.key != key {
		return rows.Document{}, false
	}
	document, err := rows.DecodeDocument(c.value)
	if err != nil {
		c.err, c.ok = err, false
		return document, false
	}
	c.advance()
	return document, true
}

// drain counts what follows the last listed document as removed.
func (c *cursor) drain() {
	for c.ok {
		c.removed++
		c.advance()
	}
}

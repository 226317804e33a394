package files

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
)

// indexBytes is how many bytes of codes a part must have to be worth an index: two cores scan them in 2 to 4 ms, and
// what they find is exact.
const indexBytes = 32 << 20

// Load implements vectors.Store: it merges small parts, and makes the indexes of large ones. Searches go on meanwhile,
// but for the merge.
func (s *Store) Load(ctx context.Context, name string) error {
	return s.withCollection(name, func(c *collection) error { return c.prepareIndexes(ctx, s.indexBytes) })
}

func (c *collection) prepareIndexes(ctx context.Context, worth int) error {
	parts, err := c.loadParts(worth)
	if err != nil {
		return errors.Join(err, releaseParts(parts))
	}
	if len(parts) > 0 && c.indexing.TryLock() { // who finds another one at it searches without
		defer c.indexing.Unlock()
		for _, p := range parts {
			if err = c.makeIndex(ctx, p); err != nil {
				break
			}
		}
	}
	return errors.Join(err, releaseParts(parts))
}

func releaseParts(parts []*part) error {
	var err error
	for _, p := range parts {
		err = errors.Join(err, p.releasePart())
	}
	return err
}

// loadParts merges parts, and gives those that want an index; they are held.
func (c *collection) loadParts(worth int) ([]*part, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loaded = true
	if len(c.parts) > maxParts {
		if err := c.compactParts(); err != nil {
			return nil, err
		}
	}
	if err := c.joinTail(worth); err != nil {
		return nil, err
	}
	var parts []*part
	for _, p := range c.parts {
		if p.dim >= fewestSigns && p.n*p.dim >= worth && p.index.Load() == nil {
			p.holdPart()
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// tailShare is which share, 1/tailShare, of the rows in parts with an index the others may be before they are joined.
const tailShare = 8

// joinTail merges the parts that are too small for an index once they are so many rows together that scanning them is
// what a search costs. The caller holds the lock.
func (c *collection) joinTail(worth int) error {
	small := func(p *part) bool { return p.n*p.dim < worth }
	tail, rest := 0, 0
	for _, p := range c.parts {
		if small(p) {
			tail += p.countLive()
		} else {
			rest += p.countLive()
		}
	}
	if tail*c.dim < worth || tail < rest/tailShare {
		return nil
	}
	return c.mergeParts(slices.DeleteFunc(slices.Clone(c.parts), func(p *part) bool { return !small(p) }))
}

// makeIndex makes the index of a part that the caller holds. Only an end of ctx is an error: without an index a search
// takes longer, and is as good.
func (c *collection) makeIndex(ctx context.Context, p *part) error {
	end, err := writeIndex(ctx, p)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var made *index
	if err == nil {
		made, err = p.mapIndex(end)
	}
	if err != nil {
		slog.Warn("cannot build the vector index: all rows are scanned", "file", p.indexPath(end), "why", err.Error())
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.parts, p) { // it was merged or opened again meanwhile
		return errors.Join(made.close(), os.Remove(made.path))
	}
	return p.index.Swap(made).close()
}

package files

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sort"

	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/stream/merge"
)

// compactParts merges the smallest parts, so that large ones are rewritten seldom.
func (c *collection) compactParts() error {
	sort.SliceStable(c.parts, func(i, j int) bool { return c.parts[i].n < c.parts[j].n })
	return c.mergeParts(slices.Clone(c.parts[:len(c.parts)-maxParts/2]))
}

// place is where a row lies: a part of several, and its row.
type place struct{ part, row int32 }

// mergeParts writes some parts into one, records it in their place, and removes them. A crash between leaves rows twice
// in different parts, which search tolerates and the next merge removes. Rows are copied with their checksums, so that
// a damaged one stays so. The places of the rows in their order lie in a temporary file, so that what is held does not
// grow with them. The caller holds the lock.
func (c *collection) mergeParts(old []*part) error {
	var column mapped.Column
	defer column.Close()
	if err := inOrder(old, &column); err != nil {
		return err
	}
	places, err := mapped.ViewRecords[place](&column)
	if err != nil {
		return err
	}
	if len(places) == 0 {
		return c.replaceParts(old)
	}
	path := c.nextPath()
	err = writePart(path, c.dim, source{
		rows:   len(places),
		key:    func(row int) []byte { return old[places[row].part].keyBytes(int(places[row].row)) },
		vector: func(row int) []float32 { return old[places[row].part].vectorAt(int(places[row].row)) },
		coarse: func(row int) (float32, []int8) {
			from, at := old[places[row].part], int(places[row].row)
			return from.scales[at], from.codesAt(at)
		},
		sum: func(row int) uint32 { return old[places[row].part].sums[places[row].row] },
	})
	if err != nil {
		return err
	}
	p, err := openPart(path)
	if err != nil {
		return err
	}
	return c.replaceParts(old, p)
}

// replaceParts records new parts in the place of old ones, and removes these.
func (c *collection) replaceParts(old []*part, fresh ...*part) error {
	for _, p := range c.parts {
		if !slices.Contains(old, p) {
			fresh = append(fresh, p)
		}
	}
	c.parts = fresh
	if err := c.recordParts(); err != nil {
		for _, p := range old {
			err = errors.Join(err, p.close())
		}
		return err
	}
	var err error
	for _, p := range old {
		err = errors.Join(err, p.removePart())
	}
	return err
}

// inOrder puts the places of the rows of all parts into a column, by key, each key once: where it is there twice, a
// whole row goes before a damaged one. Parts are in order by themselves.
func inOrder(parts []*part, column *mapped.Column) error {
	sources := make([]merge.Next[place], len(parts))
	for i, p := range parts {
		sources[i] = p.iterateRows(i)
	}
	key := func(at place) []byte { return parts[at.part].keyBytes(int(at.row)) }
	byKey := func(a, b place) int { return bytes.Compare(key(a), key(b)) }
	var last place
	held := false
	for at, err := range merge.MergeSorted(byKey, sources...) {
		switch {
		case err != nil:
			return err
		case held && bytes.Equal(key(at), key(last)):
			if parts[last.part].isWhole(int(last.row)) {
				continue
			}
		case held:
			if err := mapped.PutRecord(column, last); err != nil {
				return err
			}
		}
		last, held = at, true
	}
	if !held {
		return nil
	}
	return mapped.PutRecord(column, last)
}

// iterateRows gives the places of the rows that are not deleted, as those of a part of that number.
func (p *part) iterateRows(number int) merge.Next[place] {
	row := -1
	return func() (place, bool, error) {
		for row++; row < p.n; row++ {
			if !p.dead.hasBit(row) {
				return place{int32(number), int32(row)}, true, nil
			}
		}
		return place{}, false, nil
	}
}

// keysPerDelete bounds how long searches wait for a deletion.
const keysPerDelete = 5000

// Delete implements vectors.Store: rows are marked, and parts that are mostly dead are written again.
func (s *Store) Delete(ctx context.Context, name string, keys []string) error {
	return s.withCollection(name, func(c *collection) error {
		for batch := range slices.Chunk(keys, keysPerDelete) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := c.removeRows(batch); err != nil {
				return err
			}
		}
		return nil
	})
}

// removeRows deletes rows; a crash or a failure leaves some of them.
func (c *collection) removeRows(keys []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var hit []*part
	for _, p := range c.parts {
		for _, key := range keys {
			if i := p.findKey(key); i >= 0 {
				p.killRow(i)
			}
		}
		if p.gone > p.saved { // also what an earlier call could not write
			hit = append(hit, p)
		}
	}
	for _, p := range hit {
		var err error
		if p.gone*rewriteShare < p.n {
			err = p.saveDead()
		} else {
			err = c.mergeParts([]*part{p}) // without its dead rows
		}
		if err != nil {
			return err
		}
	}
	return nil
}

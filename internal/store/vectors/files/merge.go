package files

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sort"
)

// compact merges the smallest parts, so that large ones are rewritten seldom.
func (c *collection) compact() error {
	sort.SliceStable(c.parts, func(i, j int) bool { return c.parts[i].n < c.parts[j].n })
	n := len(c.parts) - maxParts/2
	large := append([]*part(nil), c.parts[n:]...)
	c.parts = c.parts[:n]
	err := c.merge()
	c.parts = append(c.parts, large...)
	return err
}

// merge writes all parts into one and removes them. A crash between leaves rows twice in different parts, which search
// tolerates and the next merge removes. Rows are copied with their checksums, so that a damaged one stays so.
// The caller holds the lock.
func (c *collection) merge() error {
	type ref struct{ part, row int }
	var refs []ref
	for pi, p := range c.parts {
		for i := range p.n {
			if !p.dead.has(i) {
				refs = append(refs, ref{pi, i})
			}
		}
	}
	key := func(r ref) []byte { return c.parts[r.part].keyBytes(r.row) }
	slices.SortFunc(refs, func(a, b ref) int { return bytes.Compare(key(a), key(b)) })
	n := 0
	for i, r := range refs {
		if i == 0 || !bytes.Equal(key(r), key(refs[n-1])) {
			refs[n] = r
			n++
		} else if kept := refs[n-1]; !c.parts[kept.part].whole(kept.row) {
			refs[n-1] = r
		}
	}
	refs = refs[:n]
	old := c.parts
	if n == 0 {
		c.parts = nil
		return removeAll(old)
	}
	path := c.path()
	err := writePart(path, c.dim, source{
		rows:   n,
		key:    func(row int) []byte { return old[refs[row].part].keyBytes(refs[row].row) },
		vector: func(row int) []float32 { return old[refs[row].part].vec(refs[row].row) },
		coarse: func(row int) (float32, []int8) {
			from := refs[row]
			return old[from.part].scales[from.row], old[from.part].quantised(from.row)
		},
		sum: func(row int) uint32 { return old[refs[row].part].sum(refs[row].row) },
	})
	if err != nil {
		return err
	}
	p, err := openPart(path)
	if err != nil {
		return err
	}
	c.parts = []*part{p}
	return removeAll(old)
}

func removeAll(old []*part) error {
	var err error
	for _, p := range old {
		err = errors.Join(err, p.remove())
	}
	return err
}

// keysPerDelete bounds how long searches wait for a deletion.
const keysPerDelete = 5000

// Delete implements vectors.Store: rows are marked, and parts that are mostly dead are written anew.
func (s *Store) Delete(ctx context.Context, name string, keys []string) error {
	c, err := s.get(name)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(keys, keysPerDelete) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.remove(batch); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes rows; a crash or a failure leaves some of them.
func (c *collection) remove(keys []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var hit []*part
	for _, p := range c.parts {
		for _, key := range keys {
			if i := p.find(key); i >= 0 {
				p.kill(i)
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
			err = c.rewrite(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rewrite writes a part anew without its dead rows. The caller holds the lock.
func (c *collection) rewrite(old *part) error {
	all := c.parts
	c.parts = []*part{old}
	err := c.merge()
	for _, p := range all {
		if p != old {
			c.parts = append(c.parts, p)
		}
	}
	return err
}

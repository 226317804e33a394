package files

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/durable"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// maxParts is how many parts a loaded collection may have before they are merged.
const maxParts = 24

// Store implements vectors.Store over a directory.
type Store struct {
	root string
	mu   sync.Mutex
	open map[string]*collection

	indexBytes int // see the constant
}

var (
	_ vectors.Store    = (*Store)(nil)
	_ vectors.Reopener = (*Store)(nil)
)

type collection struct {
	mu     sync.RWMutex
	dir    string
	dim    int
	parts  []*part
	next   int
	loaded bool
	closed bool // nothing may be written: its folder may be another collection's

	indexing sync.Mutex // who makes indexes
	rotation func() *rotation
}

// dropped begins the names of collections that were dropped and not yet removed.
const dropped = ".dropped-"

// Open prepares the directory, and removes what a crash left of dropped collections.
func Open(root string) (*Store, error) {
	if err := durable.MkdirPrivate(root); err != nil {
		return nil, wrapError("make", root, err)
	}
	entries, err := os.ReadDir(root)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), dropped) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(root, entry.Name())))
		}
	}
	if err != nil {
		return nil, wrapError("remove dropped collections of", root, err)
	}
	return &Store{root: root, open: map[string]*collection{}, indexBytes: indexBytes}, nil
}

// Close unmaps everything; the store must not be used after.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, c := range s.open {
		err = errors.Join(err, c.close())
	}
	s.open = map[string]*collection{}
	return err
}

func (c *collection) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	for _, p := range c.parts {
		err = errors.Join(err, p.close())
	}
	c.parts, c.loaded, c.closed = nil, false, true
	return err
}

// Ping looks at the directory.
func (s *Store) Ping(context.Context) error {
	_, err := os.Stat(s.root)
	return wrapError("stat", s.root, err)
}

// Create implements vectors.Store.
func (s *Store) Create(ctx context.Context, name string, dim int) error {
	c, err := s.getCollection(name)
	if err == nil && c.dim == dim {
		return nil
	}
	if err == nil {
		slog.Warn("a damaged collection is recreated empty", "collection", name, "dimension", c.dim, "want", dim)
		err = s.Drop(ctx, name)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := filepath.Join(s.root, name)
	if err := os.MkdirAll(dir, durable.PrivateFolder); err != nil {
		return wrapError("make", dir, err)
	}
	if err := writeMeta(dir, meta{Dim: dim}); err != nil {
		return err
	}
	return wrapError("write", dir, durable.SyncFolder(s.root))
}

// getCollection opens a collection once.
func (s *Store) getCollection(name string) (*collection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.open[name]; c != nil {
		return c, nil
	}
	dir := filepath.Join(s.root, name)
	known, err := readMeta(dir)
	if err != nil {
		return nil, s.setAside(name, err)
	}
	c := &collection{dir: dir, dim: known.Dim}
	c.rotation = sync.OnceValue(func() *rotation { return newRotation(c.dim) })
	if err := c.openParts(known); err != nil {
		return nil, s.setAside(name, errors.Join(err, c.close()))
	}
	s.open[name] = c
	return c, nil
}

// withCollection calls f for a collection. One whose mapped files were cut or damaged meanwhile is set aside, as
// damaged ones that are opened.
func (s *Store) withCollection(name string, f func(c *collection) error) error {
	var c *collection
	err := parallel.GuardMapped(func() (err error) {
		if c, err = s.getCollection(name); err != nil {
			return err
		}
		return f(c)
	})
	switch {
	case errors.Is(err, parallel.ErrTorn):
		return s.loseCollection(name, c, err)
	case c != nil && fault.Is(err, fault.Internal): // a panic, by lengths of a damaged file or by a fault of the program
		return cmp.Or(s.loseCollection(name, c, parallel.GuardMapped(c.reopenParts)), err)
	}
	return err
}

// Reopen implements vectors.Reopener. A collection that the next process would set aside is set aside now.
func (s *Store) Reopen(_ context.Context, name string) error {
	c, err := s.getCollection(name)
	if err != nil {
		return err
	}
	return s.loseCollection(name, c, parallel.GuardMapped(c.reopenParts))
}

// reopenParts maps the files again and checks them as get does: they may have been damaged or replaced since.
func (c *collection) reopenParts() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if err := c.keepParts(); err != nil {
		return err
	}
	known, err := readMeta(c.dir)
	if err != nil {
		return err
	}
	again := &collection{dir: c.dir, dim: c.dim}
	if err = again.openParts(known); err == nil {
		c.parts, again.parts = again.parts, c.parts
	}
	return errors.Join(err, again.close())
}

// openParts opens the parts, and refuses a collection that lacks one which its description lists, or has one of another
// dimension.
func (c *collection) openParts(known meta) error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return wrapError("read", c.dir, err)
	}
	parts, beside := map[int]string{}, map[int][]string{}
	for _, entry := range entries {
		n, ok := parseNumber(entry.Name())
		if !ok {
			continue
		}
		c.next = max(c.next, n+1)
		path := filepath.Join(c.dir, entry.Name())
		if !strings.HasSuffix(path, partEnd) {
			beside[n] = append(beside[n], path)
			continue
		}
		parts[n] = path
		p, err := openPart(path)
		if err != nil {
			return err
		}
		c.parts = append(c.parts, p)
		if p.dim != c.dim {
			return newDamageFault(path, fmt.Sprintf("its rows have %d numbers, and those of its collection %d", p.dim, c.dim))
		}
		if err := p.loadDead(); err != nil {
			return err
		}
	}
	for _, n := range known.Parts {
		if parts[n] == "" {
			return newDamageFault(c.partPath(n), "it is missing")
		}
	}
	for n, paths := range beside {
		if _, ok := parts[n]; !ok { // a crash came between the removal of a part and of what lies beside it
			for _, path := range paths {
				_ = os.Remove(path)
			}
		}
	}
	return nil
}

func (c *collection) nextPath() string {
	c.next++
	return c.partPath(c.next - 1)
}

func (c *collection) partPath(n int) string {
	return filepath.Join(c.dir, fmt.Sprintf("%08d"+partEnd, n))
}

// Upsert implements vectors.Store: rows that are stored already are left out, damaged ones are replaced.
func (s *Store) Upsert(ctx context.Context, name string, rows []vectors.Row) error {
	return s.withCollection(name, func(c *collection) error { return c.upsertRows(ctx, rows) })
}

func (c *collection) upsertRows(ctx context.Context, rows []vectors.Row) error {
	for _, r := range rows {
		if err := vectors.Check(r.Vector, c.dim, r.Key); err != nil {
			return err
		}
	}
	rows = sortRows(rows)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fault.StoreDown.At("write vectors", c.dir).Because("the collection was closed in the meantime")
	}
	fresh, damaged := rows[:0], []string(nil)
	for _, r := range rows {
		in, _, whole := c.findRow(r.Key)
		if whole {
			continue
		}
		if in != nil {
			damaged = append(damaged, r.Key)
		}
		fresh = append(fresh, r)
	}
	if len(fresh) == 0 {
		return ctx.Err()
	}
	path := c.nextPath()
	err := writePart(path, c.dim, sourceOf(fresh, c.dim))
	if err != nil {
		return err
	}
	p, err := openPart(path)
	if err != nil {
		return err
	}
	err = c.forgetRows(damaged)
	c.parts = append(c.parts, p)
	if err = errors.Join(err, c.recordParts()); err != nil {
		return err
	}
	if len(c.parts) > 20*maxParts {
		return c.compactParts()
	}
	return nil
}

// forgetRows marks damaged rows as deleted, after they were written again.
func (c *collection) forgetRows(damaged []string) error {
	var err error
	for _, p := range c.parts {
		for _, key := range damaged {
			if at := p.findKey(key); at >= 0 {
				p.killRow(at)
			}
		}
		if p.gone > p.saved {
			err = errors.Join(err, p.saveDead())
		}
	}
	return err
}

// Has implements vectors.Store: a damaged row counts as missing.
func (s *Store) Has(_ context.Context, name string, keys []string) ([]bool, error) {
	out := make([]bool, len(keys))
	return out, s.withCollection(name, func(c *collection) error {
		c.mu.RLock()
		defer c.mu.RUnlock()
		for i, k := range keys {
			_, _, out[i] = c.findRow(k)
		}
		return nil
	})
}

// Count implements vectors.Store.
func (s *Store) Count(_ context.Context, name string) (int64, error) {
	c, err := s.getCollection(name)
	if err != nil {
		return 0, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	var n int64
	for _, p := range c.parts {
		n += int64(p.countLive())
	}
	return n, nil
}

// Identity implements vectors.Store: a random value in the collection's folder, made when it is first asked for. Builds
// ask for it, so that a part whose file is gone while it is mapped is written again here.
func (s *Store) Identity(_ context.Context, name string) (string, error) {
	c, err := s.getCollection(name)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.keepParts(); err != nil {
		return "", err
	}
	path := filepath.Join(c.dir, identityName)
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		raw = []byte(rand.Text())
		err = writeFile(path, raw)
	}
	return string(raw), wrapError("identify", path, err)
}

// List implements vectors.Store.
func (s *Store) List(_ context.Context, prefix string) ([]string, error) {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return nil, wrapError("list", s.root, err)
	}
	var out []string
	for _, e := range entries {
		hidden := strings.HasPrefix(e.Name(), dropped) || strings.HasSuffix(e.Name(), damaged)
		if e.IsDir() && strings.HasPrefix(e.Name(), prefix) && !hidden {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// Drop implements vectors.Store. The folder gets another name first: half of a collection must not come back under its
// own, where a new one would find it.
func (s *Store) Drop(_ context.Context, name string) error {
	s.mu.Lock()
	c := s.open[name]
	delete(s.open, name)
	s.mu.Unlock()
	var err error
	if c != nil {
		err = c.close()
	}
	folder, aside := filepath.Join(s.root, name), filepath.Join(s.root, dropped+rand.Text())
	err = errors.Join(err, wrapError("drop", folder+damaged, os.RemoveAll(folder+damaged)))
	switch rerr := os.Rename(folder, aside); {
	case errors.Is(rerr, os.ErrNotExist):
		return err
	case rerr != nil:
		return errors.Join(err, wrapError("drop", folder, rerr))
	}
	return errors.Join(err, wrapError("drop", folder, durable.SyncFolder(s.root)), os.RemoveAll(aside))
}

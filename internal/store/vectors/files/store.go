package files

import (
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// maxParts is how many parts a loaded collection may have before they are merged.
const maxParts = 24

// Store implements vectors.Store over a directory.
type Store struct {
	root string
	mu   sync.Mutex
	open map[string]*collection
}

var _ vectors.Store = (*Store)(nil)

type collection struct {
	mu     sync.RWMutex
	dir    string
	dim    int
	parts  []*part
	next   int
	loaded bool
}

type meta struct {
	Dim int `json:"dim"`
}

// Open prepares the directory.
func Open(root string) (*Store, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, wrap("make", root, err)
	}
	return &Store{root: root, open: map[string]*collection{}}, nil
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
	c.parts = nil
	return err
}

// Ping looks at the directory.
func (s *Store) Ping(context.Context) error {
	_, err := os.Stat(s.root)
	return wrap("stat", s.root, err)
}

// Create implements vectors.Store.
func (s *Store) Create(ctx context.Context, name string, dim int) error {
	if c, err := s.get(name); err == nil {
		if c.dim != dim {
			return vectors.Check(make([]float32, dim), c.dim, "collection "+name)
		}
		return nil
	} else if !fault.Is(err, fault.NotFound) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := filepath.Join(s.root, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return wrap("make", dir, err)
	}
	raw, err := json.Marshal(meta{dim})
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, "meta.tmp")
	if err := os.WriteFile(tmp, raw, 0o600); err != nil {
		return wrap("write", tmp, err)
	}
	return wrap("write", dir, os.Rename(tmp, filepath.Join(dir, "meta.json")))
}

// get opens a collection once.
func (s *Store) get(name string) (*collection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.open[name]; c != nil {
		return c, nil
	}
	dir := filepath.Join(s.root, name)
	raw, err := os.ReadFile(filepath.Join(dir, "meta.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fault.NotFound.At("open collection", name).
			Because("it does not exist").
			Advise("rebuild it with: unweaver restore")
	}
	if err != nil {
		return nil, wrap("open", dir, err)
	}
	var m meta
	if err := json.Unmarshal(raw, &m); err != nil || m.Dim <= 0 {
		return nil, broken(dir, "meta.json is damaged")
	}
	c := &collection{dir: dir, dim: m.Dim}
	if err := c.scan(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	s.open[name] = c
	return c, nil
}

func (c *collection) scan() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return wrap("read", c.dir, err)
	}
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), ".part")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, err := openPart(filepath.Join(c.dir, entry.Name()))
		if err != nil {
			return err
		}
		c.parts = append(c.parts, p)
		c.next = max(c.next, n+1)
	}
	return nil
}

func (c *collection) path() string {
	c.next++
	return filepath.Join(c.dir, fmt.Sprintf("%08d.part", c.next-1))
}

func (c *collection) has(key string) bool {
	for _, p := range c.parts {
		if p.find(key) >= 0 {
			return true
		}
	}
	return false
}

// Upsert implements vectors.Store: rows that are stored already are left out.
func (s *Store) Upsert(ctx context.Context, name string, rows []vectors.Row) error {
	c, err := s.get(name)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := vectors.Check(r.Vector, c.dim, r.Key); err != nil {
			return err
		}
	}
	rows = sorted(rows)
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := rows[:0]
	for _, r := range rows {
		if !c.has(r.Key) {
			fresh = append(fresh, r)
		}
	}
	if len(fresh) == 0 {
		return ctx.Err()
	}
	path := c.path()
	err = writePart(
		path,
		c.dim,
		len(fresh),
		func(i int) string { return fresh[i].Key },
		func(i int) []float32 { return fresh[i].Vector },
	)
	if err != nil {
		return err
	}
	p, err := openPart(path)
	if err != nil {
		return err
	}
	c.parts = append(c.parts, p)
	if len(c.parts) > 20*maxParts {
		return c.compact()
	}
	return nil
}

// Has implements vectors.Store.
func (s *Store) Has(_ context.Context, name string, keys []string) ([]bool, error) {
	c, err := s.get(name)
	if err != nil {
		return nil, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([]bool, len(keys))
	for i, k := range keys {
		out[i] = c.has(k)
	}
	return out, nil
}

// Count implements vectors.Store.
func (s *Store) Count(_ context.Context, name string) (int64, error) {
	c, err := s.get(name)
	if err != nil {
		return 0, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	var n int64
	for _, p := range c.parts {
		n += int64(p.n - len(p.dead))
	}
	return n, nil
}

// Load implements vectors.Store: it merges small parts.
func (s *Store) Load(_ context.Context, name string) error {
	c, err := s.get(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loaded = true
	if len(c.parts) > maxParts {
		return c.compact()
	}
	return nil
}

// Release implements vectors.Store.
func (s *Store) Release(_ context.Context, name string) error {
	c, err := s.get(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loaded = false
	return nil
}

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
// tolerates and the next merge removes. The caller holds the lock.
func (c *collection) merge() error {
	type ref struct{ part, row int }
	var refs []ref
	for pi, p := range c.parts {
		for i := range p.n {
			if !p.dead[i] {
				refs = append(refs, ref{pi, i})
			}
		}
	}
	sort.Slice(refs, func(i, j int) bool {
		return c.parts[refs[i].part].key(refs[i].row) < c.parts[refs[j].part].key(refs[j].row)
	})
	n := 0
	for i, r := range refs {
		if i == 0 || c.parts[r.part].key(r.row) != c.parts[refs[n-1].part].key(refs[n-1].row) {
			refs[n] = r
			n++
		}
	}
	refs = refs[:n]
	old := c.parts
	if n == 0 {
		c.parts = nil
		return remove(old)
	}
	path := c.path()
	err := writePart(path, c.dim, n, func(i int) string { return old[refs[i].part].key(refs[i].row) },
		func(i int) []float32 { return old[refs[i].part].vec(refs[i].row) })
	if err != nil {
		return err
	}
	p, err := openPart(path)
	if err != nil {
		return err
	}
	c.parts = []*part{p}
	return remove(old)
}

func remove(old []*part) error {
	var err error
	for _, p := range old {
		err = errors.Join(err, os.Remove(p.path), p.close())
	}
	return err
}

// Delete implements vectors.Store: it rewrites what is left.
func (s *Store) Delete(_ context.Context, name string, keys []string) error {
	c, err := s.get(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	hit := false
	for _, k := range keys {
		for _, p := range c.parts {
			if i := p.find(k); i >= 0 {
				if p.dead == nil {
					p.dead = map[int]bool{}
				}
				p.dead[i], hit = true, true
			}
		}
	}
	if !hit {
		return nil
	}
	return c.merge()
}

// List implements vectors.Store.
func (s *Store) List(_ context.Context, prefix string) ([]string, error) {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return nil, wrap("list", s.root, err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), prefix) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// Drop implements vectors.Store.
func (s *Store) Drop(_ context.Context, name string) error {
	s.mu.Lock()
	c := s.open[name]
	delete(s.open, name)
	s.mu.Unlock()
	var err error
	if c != nil {
		err = c.close()
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(s.root, name)))
}

// cand is a candidate of the int8 scan.
type cand struct {
	part, row int
	score     float32
}

type candHeap []cand

func (h candHeap) Len() int           { return len(h) }
func (h candHeap) Less(i, j int) bool { return h[i].score < h[j].score }
func (h candHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *candHeap) Push(x any)        { *h = append(*h, x.(cand)) }
func (h *candHeap) Pop() any {
	o := *h
	x := o[len(o)-1]
	*h = o[:len(o)-1]
	return x
}

// oversample is how many candidates of the int8 scan are rescored for each result (notes: top 50 of 10 gives recall 1).
const oversample = 4

// Search implements vectors.Store.
func (s *Store) Search(ctx context.Context, name string, question []float32, n int) ([]vectors.Hit, error) {
	c, err := s.get(name)
	if err != nil {
		return nil, err
	}
	if err := vectors.Check(question, c.dim, "question"); err != nil {
		return nil, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.loaded {
		return nil, fault.StoreDown.At("search", name).Because("the collection is not loaded")
	}
	keep := oversample*n + 40
	q := make([]int8, c.dim)
	scale := quantise(question, q)
	cands := c.scanAll(q, scale, keep)
	hits := make([]vectors.Hit, 0, len(cands))
	for _, k := range cands {
		p := c.parts[k.part]
		hits = append(hits, vectors.Hit{Key: p.key(k.row), Score: dot32(question, p.vec(k.row))})
	}
	sort.Slice(hits, func(i, j int) bool {
		if hits[i].Score != hits[j].Score {
			return hits[i].Score > hits[j].Score
		}
		return hits[i].Key < hits[j].Key
	})
	out := hits[:0]
	for _, h := range hits { // a crash during a merge may have left a row twice
		if len(out) == 0 || out[len(out)-1].Key != h.Key {
			out = append(out, h)
		}
	}
	return out[:min(n, len(out))], ctx.Err()
}

// scanAll scans all parts, large ones in slices on all cores.
func (c *collection) scanAll(q []int8, scale float32, keep int) []cand {
	type job struct{ part, lo, hi int }
	var jobs []job
	const slice = 16384
	for pi, p := range c.parts {
		for lo := 0; lo < p.n; lo += slice {
			jobs = append(jobs, job{pi, lo, min(lo+slice, p.n)})
		}
	}
	workers := min(runtime.GOMAXPROCS(0), len(jobs))
	found := make([]candHeap, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			h := make(candHeap, 0, keep+1)
			for j := w; j < len(jobs); j += workers {
				h = c.parts[jobs[j].part].scan(jobs[j].part, jobs[j].lo, jobs[j].hi, q, scale, keep, h)
			}
			found[w] = h
		})
	}
	wg.Wait()
	var all candHeap
	for _, h := range found {
		all = append(all, h...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].score > all[j].score })
	return all[:min(keep, len(all))]
}

func (p *part) scan(id, lo, hi int, q []int8, scale float32, keep int, h candHeap) candHeap {
	for i := lo; i < hi; i++ {
		sc := float32(dot8(q, p.q[i*p.dim:(i+1)*p.dim])) * scale * p.scales[i]
		if len(h) < keep {
			heap.Push(&h, cand{id, i, sc})
		} else if sc > h[0].score {
			h[0] = cand{id, i, sc}
			heap.Fix(&h, 0)
		}
	}
	return h
}

package retrieve

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/classes"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/live"
	"github.com/unweaver/unweaver/internal/names"
	"github.com/unweaver/unweaver/internal/retrieve/election"
	"github.com/unweaver/unweaver/internal/rows"
	"github.com/unweaver/unweaver/internal/vectors"
	"github.com/unweaver/unweaver/internal/wire"
)

// Query is one question against one generation.
type Query struct {
	Vector      []float32
	Method      string // unweaver | vector
	TopEntities int
	TopChunks   int
	Fill        bool
	Filter      Filter
	Without     Without
	MinSim      float64
}

// Filter narrows everything to documents (DESIGN §9).
type Filter struct {
	Prefix   string
	Metadata map[string]string
	From, To time.Time // zero: open
}

// Without drops entities and documents.
type Without struct {
	Entities  map[corpus.ID]bool
	Documents map[string]bool
}

// Chunk is one result.
type Chunk struct {
	Live       *live.Chunk
	Score      float64
	Similarity float64
	HasSim     bool
	Filled     bool
	Why        []int // places of the entities that voted for it
}

// Entity is one voter.
type Entity struct {
	ID         corpus.ID
	Name       string
	Similarity float64
	Chunks     []corpus.ID // the ballot
	Total      int64
	Votes      []uint32 // places of ballot chunks in the live segment
}

// Timing of the parts of a query.
type Timing struct{ Search, Ballots, Election time.Duration }

// Result of a query.
type Result struct {
	Chunks   []Chunk
	Entities []Entity
	Reason   string // no_match | empty_index
	Timing   Timing
}

// Searcher holds the stores that serve queries.
type Searcher struct {
	Vectors vectors.Store
	Classes classes.Records
}

// Run answers a query.
func (s Searcher) Run(ctx context.Context, g *Generation, q Query) (Result, error) {
	var res Result
	if len(g.Live.Chunks) == 0 {
		res.Reason = "empty_index"
		return res, nil
	}
	a, err := g.allow(ctx, q)
	if err != nil {
		return res, err
	}
	if q.Method == "vector" {
		start := time.Now()
		hits, err := s.chunks(ctx, g, a, q.Vector, q.TopChunks)
		res.Timing.Search = time.Since(start)
		for _, h := range hits {
			h.Score = h.Similarity
			res.Chunks = append(res.Chunks, h)
		}
		res.noMatch(q)
		return res, err
	}
	return res, s.elect(ctx, g, a, q, &res)
}

func (r *Result) noMatch(q Query) {
	best := -2.0
	for _, c := range r.Chunks {
		best = max(best, c.Similarity)
	}
	for _, e := range r.Entities {
		best = max(best, e.Similarity)
	}
	if q.MinSim > 0 && best < q.MinSim {
		r.Chunks, r.Entities, r.Reason = nil, nil, "no_match"
	}
}

// elect is the paper's method: classes, ballots, weighted election, and filling up.
func (s Searcher) elect(ctx context.Context, g *Generation, a *allowed, q Query, res *Result) error {
	found, err := s.classes(ctx, g, a, q)
	if err != nil {
		return err
	}
	res.Timing.Search, res.Timing.Ballots = found.search, found.ballots
	res.Entities = found.entities
	if res.noMatch(q); res.Reason != "" {
		return nil
	}
	start := time.Now()
	ballots := make([][]uint32, len(res.Entities))
	for i, e := range res.Entities {
		ballots[i] = e.Votes
	}
	for _, w := range election.Weighted(ballots, q.TopEntities, q.TopChunks) {
		res.Chunks = append(res.Chunks, Chunk{Live: &g.Live.Chunks[w.Candidate], Score: w.Score, Why: w.Why})
	}
	res.Timing.Election = time.Since(start)
	if !q.Fill || len(res.Chunks) >= q.TopChunks {
		return nil
	}
	have := map[corpus.ID]bool{}
	for _, c := range res.Chunks {
		have[c.Live.ID] = true
	}
	start = time.Now()
	more, err := s.chunks(ctx, g, a, q.Vector, q.TopChunks+len(have))
	res.Timing.Search += time.Since(start)
	for _, c := range more {
		if len(res.Chunks) < q.TopChunks && !have[c.Live.ID] {
			c.Filled = true
			res.Chunks = append(res.Chunks, c)
		}
	}
	return err
}

type found struct {
	entities        []Entity
	search, ballots time.Duration
}

// classes gives the best allowed classes with their ballots. A row of the store counts if the live segment has its digest;
// the search is asked again for twice as many while fewer than wanted count (DESIGN §7).
func (s Searcher) classes(ctx context.Context, g *Generation, a *allowed, q Query) (found, error) {
	var f found
	asked, seen := 0, map[string]bool{}
	for n := q.TopEntities + 8; len(f.entities) < q.TopEntities; n *= 2 {
		start := time.Now()
		hits, err := s.Vectors.Search(ctx, g.Manifest.Collections.Classes, q.Vector, n)
		f.search += time.Since(start)
		if err != nil {
			return f, err
		}
		var ids []*live.Class
		var sims []float64
		for _, h := range hits {
			if seen[h.Key] {
				continue
			}
			seen[h.Key] = true
			c := g.classRow(h.Key)
			if c == nil || a.without.Entities[c.ID] {
				continue
			}
			ids, sims = append(ids, c), append(sims, float64(h.Score))
		}
		start = time.Now()
		es, err := s.ballots(ctx, g, a, ids, sims, q.TopEntities-len(f.entities))
		f.ballots += time.Since(start)
		if err != nil {
			return f, err
		}
		f.entities = append(f.entities, es...)
		if len(hits) < n || len(hits) == asked {
			break
		}
		asked = len(hits)
	}
	return f, nil
}

// classRow gives the live class of a vector row, or nil.
func (g *Generation) classRow(key string) *live.Class {
	idHex, digest, ok := strings.Cut(key, "-")
	id, err := corpus.ParseID(idHex)
	if !ok || err != nil {
		return nil
	}
	c := g.Live.Class(id)
	if c == nil || c.Vector.Short(16) != digest {
		return nil
	}
	return c
}

// ballots reads records until want classes have an allowed chunk.
func (s Searcher) ballots(ctx context.Context, g *Generation, a *allowed, cs []*live.Class, sims []float64, want int) ([]Entity, error) {
	var out []Entity
	for at := 0; at < len(cs) && len(out) < want; {
		n := min(len(cs)-at, want-len(out))
		recs, err := s.Records(ctx, g, cs[at:at+n])
		if err != nil {
			return nil, err
		}
		for i, r := range recs {
			e := Entity{ID: r.ID, Name: r.Name, Similarity: sims[at+i], Total: r.ChunkTotal}
			for _, id := range r.Chunks {
				if c := g.Live.Chunk(id); c != nil && a.chunk(c) {
					e.Chunks = append(e.Chunks, id)
					e.Votes = append(e.Votes, g.Live.Place(c))
				}
			}
			if len(e.Votes) > 0 {
				out = append(out, e)
			}
		}
		at += n
	}
	return out, a.err
}

// Records reads class records; a missing one is damage that restore mends.
func (s Searcher) Records(ctx context.Context, g *Generation, cs []*live.Class) ([]rows.Record, error) {
	keys := make([]string, len(cs))
	for i, c := range cs {
		keys[i] = corpus.RecordKey(g.Manifest.Store, g.Manifest.Index, c.ID, c.Record)
	}
	vs, err := s.Classes.GetRecords(ctx, keys)
	if err != nil {
		return nil, err
	}
	out := make([]rows.Record, len(cs))
	for i, v := range vs {
		if v == nil {
			return nil, fault.New(fault.StoreDown, fault.Transient, "read class record", keys[i], "the store of classes has lost it", "run: unweaver restore --index "+g.Manifest.Index)
		}
		if out[i], err = rows.DecodeRecord(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// chunks gives the n best allowed chunks by their best window.
func (s Searcher) chunks(ctx context.Context, g *Generation, a *allowed, question []float32, n int) ([]Chunk, error) {
	for ask := 2*n + 8; ; ask *= 2 {
		hits, err := s.Vectors.Search(ctx, g.Manifest.Collections.Chunks, question, ask)
		if err != nil {
			return nil, err
		}
		var out []Chunk
		seen := map[corpus.ID]bool{}
		for _, h := range hits {
			c := g.chunkRow(h.Key)
			if c == nil || seen[c.ID] || !a.chunk(c) {
				continue
			}
			seen[c.ID] = true
			out = append(out, Chunk{Live: c, Similarity: float64(h.Score), HasSim: true})
		}
		if a.err != nil || len(out) >= n || len(hits) < ask {
			return out[:min(n, len(out))], a.err
		}
	}
}

// chunkRow gives the live chunk of a vector row, or nil.
func (g *Generation) chunkRow(key string) *live.Chunk {
	parts := strings.Split(key, "-")
	if len(parts) != 3 {
		return nil
	}
	id, err := corpus.ParseID(parts[0])
	w, werr := strconv.Atoi(parts[1])
	if err != nil || werr != nil {
		return nil
	}
	c := g.Live.Chunk(id)
	if c == nil || w >= int(c.Windows) || c.Digest.Short(8) != parts[2] {
		return nil
	}
	return c
}

// allowed is the induced subgraph of a query.
type allowed struct {
	g       *Generation
	ctx     context.Context
	f       Filter
	without Without
	lo, hi  int // documents by prefix
	all     bool
	cache   map[uint32]bool
	err     error
}

func (g *Generation) allow(ctx context.Context, q Query) (*allowed, error) {
	a := &allowed{g: g, ctx: ctx, f: q.Filter, without: q.Without, hi: len(g.Live.Documents), cache: map[uint32]bool{}}
	a.all = q.Filter.Prefix == "" && len(q.Filter.Metadata) == 0 && q.Filter.From.IsZero() && q.Filter.To.IsZero() && len(q.Without.Documents) == 0
	if q.Filter.Prefix != "" {
		a.lo = g.Live.DocumentFrom(q.Filter.Prefix)
		a.hi = a.lo
		for a.hi < len(g.Live.Documents) && strings.HasPrefix(g.Live.Key(a.hi), q.Filter.Prefix) {
			a.hi++
		}
	}
	return a, nil
}

func (a *allowed) chunk(c *live.Chunk) bool {
	if a.all {
		return true
	}
	ok, known := a.cache[c.Document]
	if !known {
		ok = a.document(int(c.Document))
		a.cache[c.Document] = ok
	}
	return ok
}

func (a *allowed) document(i int) bool {
	if i < a.lo || i >= a.hi || a.without.Documents[a.g.Live.Key(i)] {
		return false
	}
	if len(a.f.Metadata) == 0 && a.f.From.IsZero() && a.f.To.IsZero() {
		return true
	}
	m, err := a.g.metaOf(a.ctx, i)
	if err != nil {
		a.err = err
		return false
	}
	for k, v := range a.f.Metadata {
		if m.meta[k] != v {
			return false
		}
	}
	return (a.f.From.IsZero() || !m.modified.Before(a.f.From)) && (a.f.To.IsZero() || m.modified.Before(a.f.To))
}

func findRow(raw []byte, key string) []byte {
	for {
		k, v, rest, ok := wire.NextRow(raw)
		if !ok {
			return nil
		}
		if string(k) == key {
			return v
		}
		raw = rest
	}
}

// Named finds classes whose folded name starts with a prefix, in the order of names, from a place on.
func (g *Generation) Named(prefix string, limit int) []*live.Class {
	key := names.Key(prefix, false)
	var out []*live.Class
	for i := g.Live.NamedFrom(key); i < g.Live.Names() && len(out) < limit && strings.HasPrefix(g.Live.Name(i), key); i++ {
		out = append(out, g.Live.ByName(i))
	}
	return out
}

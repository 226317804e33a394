package retrieve

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/live"
	"github.com/unweaver/unweaver/internal/format/rowfile"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/lang/names"
	"github.com/unweaver/unweaver/internal/lang/text"
	"github.com/unweaver/unweaver/internal/retrieve/fuse"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Methods by name.
const (
	Hybrid   = "hybrid"
	Unweaver = "unweaver"
	PPR      = "ppr"
	Aligned  = "aligned"
	Vector   = "vector"
	BM25     = "bm25"
)

// Query is one question against one generation.
type Query struct {
	Text        string
	Vector      []float32 // of the question by the class embedder; nil: it is down
	ChunkVector []float32 // by the chunk embedder; nil: none, or the built-in one
	Method      string
	Rule        string
	TopEntities int
	TopChunks   int
	Params      Params
	Filter      Filter
	Without     Without
	MinSim      float64
	Explain     bool
}

// Params of the methods; each method has its own.
type Params struct {
	Fill       bool    // unweaver: fill up with similar chunks
	Weights    string  // unweaver: none | similarity | rank
	Ties       string  // unweaver: reference | similarity
	List       int     // hybrid: N
	KChunks    int     // hybrid: chunk seeds
	Damping    float64 // ppr
	Solver     string  // aligned: utility | cls
	Classes    int     // aligned: classes kept
	Eps        float64 // aligned: certified gap
	Capacities []Capacity
}

// Capacity of the chunks of a document or of documents with a prefix; the last that fits wins.
type Capacity struct {
	Prefix   string
	Document string
	Value    float64
}

// Defaults of the parameters.
var Defaults = Params{
	Fill:    true,
	Weights: "none",
	Ties:    "reference",
	List:    fuse.Default.List,
	KChunks: fuse.Default.Chunks,
	Damping: 0.5,
	Solver:  "utility",
	Classes: 10,
	Eps:     1e-3,
}

// DefaultEntities of a method.
func DefaultEntities(method string) int {
	switch method {
	case Hybrid:
		return fuse.Default.Classes
	case Aligned:
		return 50
	}
	return 10
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
	BM25       float64
	HasBM25    bool
	Filled     bool
	Why        []int // places of the entities that voted for it
}

// Entity is one voter, or one seed.
type Entity struct {
	ID         corpus.ID
	Place      uint32 // in the live segment
	Name       string
	Score      float64 // by which the method ranks it
	Similarity float64
	Chunks     []corpus.ID // the ballot
	Total      int64
	Votes      []uint32 // numbers of ballot chunks
}

// Timing of the parts of a query.
type Timing struct{ Search, Ballots, Election time.Duration }

// Result of a query.
type Result struct {
	Chunks   []Chunk
	Entities []Entity
	Reason   string // no_match | empty_index
	Degraded []string
	Explain  any // by method; nil unless asked for
	Timing   Timing
}

// Searcher holds the stores that serve queries.
type Searcher struct {
	Vectors vectors.Store
	Classes records.Store
}

// Run answers a query.
func (s Searcher) Run(ctx context.Context, generation *Generation, query Query) (Result, error) {
	var res Result
	if len(generation.Live.Chunks) == 0 {
		res.Reason = "empty_index"
		return res, nil
	}
	if generation.Search == nil && query.Method != Unweaver && query.Method != Vector {
		return res, fault.SegmentDamage.At("query by "+query.Method, generation.Manifest.Generation).
			Because("this generation has no search segment").
			Advise("build the index again, or use method unweaver or vector")
	}
	r := &request{
		Searcher: s,
		ctx:      ctx,
		g:        generation,
		q:        query,
		a:        generation.allow(ctx, query),
		res:      &res,
		terms:    text.Terms(query.Text),
		surface:  text.Surface(query.Text),
	}
	var err error
	switch query.Method {
	case Hybrid:
		err = r.hybrid()
	case Unweaver:
		err = r.unweaver()
	case PPR:
		err = r.ppr()
	case Aligned:
		err = r.aligned()
	case Vector:
		err = r.vector()
	case BM25:
		err = r.bm25()
	}
	if err == nil {
		err = r.a.err
	}
	if err == nil && res.Reason == "" {
		err = r.fill()
	}
	return res, err
}

// request is one query under way.
type request struct {
	Searcher
	ctx     context.Context //nolint:containedctx // a request lives as long as its context
	g       *Generation
	q       Query
	a       *allowed
	res     *Result
	terms   []string // of the question, as passages have them
	surface []string // as classes have them
}

// noMatch answers honestly that nothing fits: no word of the question is indexed, and nothing is similar enough.
func (r *request) noMatch() bool {
	known := false
	if r.g.Search != nil {
		known = r.g.Search.Chunks.Known(r.terms) || r.g.Search.Classes.Known(r.surface)
	}
	best := -2.0
	for _, c := range r.res.Chunks {
		if c.HasSim {
			best = max(best, c.Similarity)
		}
	}
	for _, e := range r.res.Entities {
		best = max(best, e.Similarity)
	}
	nothing := len(r.res.Chunks)+len(r.res.Entities) == 0
	if (!known && best < r.q.MinSim) || (nothing && !known) {
		r.res.Chunks, r.res.Entities, r.res.Explain, r.res.Reason = nil, nil, nil, "no_match"
		return true
	}
	return false
}

// vector ranks chunks by their best window.
func (r *request) vector() error {
	vector := r.q.ChunkVector
	if vector == nil {
		vector = r.q.Vector
	}
	start := time.Now()
	hits, err := r.chunks(r.ctx, r.g, r.a, vector, r.q.TopChunks)
	r.res.Timing.Search = time.Since(start)
	for _, h := range hits {
		h.Score = h.Similarity
		r.res.Chunks = append(r.res.Chunks, h)
	}
	if !r.noMatch() && r.q.Explain {
		r.res.Explain = explainList("similarity", r.res.Chunks)
	}
	return err
}

// bm25 ranks chunks by their words.
func (r *request) bm25() error {
	start := time.Now()
	for _, h := range r.g.Search.Chunks.Search(r.terms, r.q.TopChunks, r.a.numbers(), nil) {
		r.res.Chunks = append(
			r.res.Chunks,
			Chunk{Live: r.g.Live.ByNumber(int(h.Doc)), Score: h.Score, BM25: h.Score, HasBM25: true},
		)
	}
	r.res.Timing.Search = time.Since(start)
	if len(r.res.Chunks) == 0 && r.noMatch() {
		return nil
	}
	if r.q.Explain {
		r.res.Explain = explainList("bm25", r.res.Chunks)
	}
	return nil
}

type found struct {
	entities        []Entity
	search, ballots time.Duration
}

// classes gives the best allowed classes with their ballots. A row of the store counts if the live segment has its
// digest; the search is asked again for twice as many while fewer than wanted count (DESIGN §7).
func (s Searcher) classes(
	ctx context.Context,
	generation *Generation,
	a *allowed,
	vector []float32,
	want int,
) (found, error) {
	var f found
	asked, seen := 0, map[string]bool{}
	for n := want + 8; len(f.entities) < want; n *= 2 {
		start := time.Now()
		hits, err := s.Vectors.Search(ctx, generation.Manifest.Collections.Classes, vector, n)
		f.search += time.Since(start)
		if err != nil {
			return f, err
		}
		var ids []*live.Class
		var sims []float64
		for _, hit := range hits {
			if seen[hit.Key] {
				continue
			}
			seen[hit.Key] = true
			class := generation.classRow(hit.Key)
			if class == nil || a.without.Entities[class.ID] {
				continue
			}
			ids, sims = append(ids, class), append(sims, float64(hit.Score))
		}
		start = time.Now()
		es, err := s.ballots(ctx, generation, a, ids, sims, want-len(f.entities))
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
	if p := g.classPlace(key); p >= 0 {
		return &g.Live.Classes[p]
	}
	return nil
}

// ballots reads records until want classes have an allowed chunk.
func (s Searcher) ballots(
	ctx context.Context,
	generation *Generation,
	a *allowed,
	cs []*live.Class,
	sims []float64,
	want int,
) ([]Entity, error) {
	var out []Entity
	for at := 0; at < len(cs) && len(out) < want; {
		n := min(len(cs)-at, want-len(out))
		recs, err := s.Records(ctx, generation, cs[at:at+n])
		if err != nil {
			return nil, err
		}
		for i, record := range recs {
			entity := Entity{
				ID:         record.ID,
				Name:       record.Name,
				Score:      sims[at+i],
				Similarity: sims[at+i],
				Total:      record.ChunkTotal,
				Place:      uint32(generation.Live.ClassPlace(record.ID)),
			}
			if int64(len(record.Chunks)) < record.ChunkTotal &&
				generation.Search != nil { // the record lists the first 10,000 only
				for _, n := range generation.Search.Graph.ChunksOf(entity.Place) {
					entity.vote(generation.Live.ByNumber(int(n)), a)
				}
			} else {
				for _, id := range record.Chunks {
					entity.vote(generation.Live.Chunk(id), a)
				}
			}
			if len(entity.Votes) > 0 {
				out = append(out, entity)
			}
		}
		at += n
	}
	return out, a.err
}

// vote adds a chunk to a ballot where it is allowed.
func (e *Entity) vote(c *live.Chunk, a *allowed) {
	if c != nil && a.chunk(c) {
		e.Chunks = append(e.Chunks, c.ID)
		e.Votes = append(e.Votes, c.Number)
	}
}

// Records reads class records; a missing one is damage that restore mends.
func (s Searcher) Records(ctx context.Context, generation *Generation, cs []*live.Class) ([]rows.Record, error) {
	keys := make([]string, len(cs))
	for i, c := range cs {
		keys[i] = corpus.RecordKey(generation.Manifest.Store, generation.Manifest.Index, c.ID, c.Record)
	}
	vs, err := s.Classes.GetRecords(ctx, keys)
	if err != nil {
		return nil, err
	}
	out := make([]rows.Record, len(cs))
	for i, raw := range vs {
		if raw == nil {
			return nil, fault.StoreDown.At("read class record", keys[i]).
				Because("the store of classes has lost it").
				Advise("run: unweaver restore --index " + generation.Manifest.Index)
		}
		if out[i], err = rows.DecodeRecord(raw); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// chunks gives the n best allowed chunks by their best window.
func (s Searcher) chunks(
	ctx context.Context,
	generation *Generation,
	a *allowed,
	question []float32,
	n int,
) ([]Chunk, error) {
	for ask := 2*n + 8; ; ask *= 2 {
		hits, err := s.Vectors.Search(ctx, generation.Manifest.Collections.Chunks, question, ask)
		if err != nil {
			return nil, err
		}
		var out []Chunk
		seen := map[corpus.ID]bool{}
		for _, hit := range hits {
			chunk := generation.chunkRow(hit.Key)
			if chunk == nil || seen[chunk.ID] || !a.chunk(chunk) {
				continue
			}
			seen[chunk.ID] = true
			out = append(out, Chunk{Live: chunk, Similarity: float64(hit.Score), HasSim: true})
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
	chunk := g.Live.Chunk(id)
	if chunk == nil || w >= int(chunk.Windows) || chunk.Digest.Short(8) != parts[2] {
		return nil
	}
	return chunk
}

func findRow(raw []byte, key string) []byte {
	for {
		k, v, rest, ok := rowfile.NextRow(raw)
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

package retrieve

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/text"
)

// Query is one question against one generation.
type Query struct {
	Text        string
	Before      string    // earlier questions of a conversation, whose words hybrid searches with little weight
	Vector      []float32 // of the question by the class embedder; nil: it is down, or the method needs none
	ChunkVector []float32 // by the chunk embedder; nil: it is down, or the method needs none
	Reading     Reading   // of the question, where the method has a Reader
	Method      string
	Rule        string
	TopEntities int
	TopChunks   int
	Params      Params // of the method, as Spec.ReadParams gives them; what is missing has its default
	Filter      Filter
	Without     Without
	AsOf        time.Time // only documents that are in force then; zero: all
	MinSim      float64
	Explain     bool
}

// Filter narrows everything to documents that meet all its parts.
type Filter struct {
	Prefix   string // of the key
	Metadata []Condition
	From, To time.Time // of the modification: From is included, To is not; zero: open
	Any      []Filter  // one of them must be met; empty: none is asked for
}

// Without drops entities and documents.
type Without struct {
	Entities  map[core.ID]bool
	Documents map[string]bool
}

// Chunk is one result.
type Chunk struct {
	Live       *liveset.Chunk
	Score      float64
	Similarity float64
	HasSim     bool
	BM25       float64
	HasBM25    bool
	Filled     bool
	Why        []int   // places of the entities that voted for it
	Reranked   bool    // a reranker gave the score below
	Rerank     float64 // by which the chunks are ordered
	Found      int     // place before that, from one
}

// Entity is one voter, or one seed.
type Entity struct {
	ID         core.ID
	Place      uint32 // in the order of ids
	Name       string
	Score      float64 // by which the method ranks it
	Similarity float64
	Chunks     []core.ID // the ballot
	Total      int64
	Votes      []uint32 // numbers of ballot chunks
	Times      []int    // how often each votes; nil: once
}

// Timing of the parts of a query.
type Timing struct{ Search, Ballots, Election time.Duration }

// Reasons for an empty result.
const (
	NoMatch    = "no_match"
	NoDocument = "no_document" // filter and without leave none
	// UnknownField is NoDocument by a field of metadata that no document of the generation has: probably a wrong name.
	UnknownField = "unknown_field"
	EmptyIndex   = "empty_index"
)

// Result of a query.
type Result struct {
	Chunks   []Chunk
	Entities []Entity
	Reason   string // where there are no chunks
	Words    string // the reason in words; empty for NoMatch
	Filtered string // what the filter leaves in; empty unless an explanation is asked for
	Degraded []string
	// Confidence is the calibrated chance that one of the first five chunks says what was asked for
	// (docs/explain/retrieval.md, Confidence); nil: it is not known.
	Confidence *float64
	Notes      []Note // for the context, beside passages
	NotesAlone bool   // the context has no passages
	Explain    any    // by method; nil unless asked for
	Timing     Timing
}

// Records reads class records: what retrieval needs of records.Store.
type Records interface {
	GetRecords(ctx context.Context, keys []string) ([][]byte, error)
}

// Searcher answers queries from the stores. It is safe for concurrent use.
type Searcher struct {
	Vectors vectors.Store
	Records Records
	Methods *Registry
	Heavy   *Heavy // bounds heavy questions; nil: nothing does
}

// Run answers a query. Errors: fault.InvalidParam for a method or rule that is not known, fault.SegmentDamage where the
// generation lacks what the method needs, and those of the stores.
func (s Searcher) Run(ctx context.Context, generation *Generation, query Query) (Result, error) {
	if err := generation.checkView(); err != nil {
		return Result{}, err
	}
	method, err := s.Methods.Method(query.Method)
	if err != nil {
		return Result{}, err
	}
	var result Result
	if _, chunks, _ := generation.Live.Counts(); chunks == 0 {
		result.Reason, result.Words = EmptyIndex, "The index has no passage."
		return result, nil
	}
	if !text.HasContent(query.Text + query.Before) {
		result.Reason = NoMatch
		return result, nil
	}
	spec := method.Spec()
	params := spec.newDefaults()
	for name, value := range query.Params {
		params[name] = value
	}
	query.Params = params
	request := &Request{
		Searcher:   s,
		Generation: generation,
		Query:      query,
		Result:     &result,
		ctx:        ctx,
		cut:        new(atomic.Bool),
		needs:      spec.Needs,
		allowed:    generation.newAllowed(ctx, query),
		terms:      generation.Language().Terms(text.WithDays(query.Text)),
		surface:    generation.Language().SurfaceWords(query.Text),
		lostRows:   new(atomic.Bool),
	}
	defer request.leavePlace()
	explain, err := method.Run(request)
	request.noteLost()
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && len(result.Chunks) == 0 && request.allowed.allowsNone() {
		result.Reason, result.Words = request.allowed.explainNone()
		err = ctx.Err()
	}
	if err != nil || result.Reason != "" {
		return result, err
	}
	if query.Explain {
		result.Filtered = request.allowed.explainFilter()
		if explain != nil {
			result.Explain = explain()
		}
	}
	if err := ctx.Err(); err != nil { // an explanation that was broken off is none
		return result, err
	}
	err = request.fillChunks()
	request.noteLost()
	return result, err
}

// Request is one query under way: what a method works on.
type Request struct {
	Searcher
	Generation *Generation
	Query      Query
	Result     *Result

	ctx     context.Context //nolint:containedctx // a request lives as long as its context
	needs   Needs
	allowed *allowed
	terms   []string // of the question, as passages have them
	surface []string // as classes have them
	votes   int      // chunks of all ballots so far
	past    bool     // passages or classes have words of Query.Before
	heavy   bool     // it has a place of Heavy

	lostRows *atomic.Bool // a search saw that rows of the generation are missing; searches run beside each other
	cut      *atomic.Bool // a store gave fewer rows than the view needs
}

// Context returns the context of the query, which ends with it.
func (r *Request) Context() context.Context { return r.ctx }

// Allows reports whether filter and without leave a chunk in.
func (r *Request) Allows(chunk *liveset.Chunk) bool { return r.allowed.allowsChunk(chunk) }

// AllowsNumber reports whether filter and without leave in a chunk, by its number.
func (r *Request) AllowsNumber(number uint32) bool { return r.allowed.allowsNumber(number) }

// chanceSimilarity is what words that mean nothing reach with the built-in embedder by chance, in indexes of up to
// 20,000 classes: of 300 questions of random letters, 296 stayed below (docs/explain/retrieval.md, Confidence).
const chanceSimilarity = 0.25

// chooseFloor returns the similarity below which a question whose words are not indexed matches nothing. A negative
// min_similarity says that everything shall do, and of other embedders only the index's own can be said.
func (r *Request) chooseFloor() float64 {
	if r.Query.MinSim < 0 || !r.Generation.isBuiltin() || len(r.terms)+len(r.surface) == 0 {
		return r.Query.MinSim
	}
	return max(r.Query.MinSim, chanceSimilarity)
}

// MatchesNothing reports whether nothing fits, and then makes the result an empty one: no word of the question is
// indexed, and nothing is similar enough.
func (r *Request) MatchesNothing() bool {
	if r.Generation.Spec.Parity { // the reference always answers
		return false
	}
	words, names := r.Generation.chunkWords.index, r.Generation.classWords.index
	known := r.past || words.HasAnyTerm(r.terms) || names.HasAnyTerm(r.surface)
	best := -2.0
	for _, chunk := range r.Result.Chunks {
		if chunk.HasSim {
			best = max(best, chunk.Similarity)
		}
	}
	for _, entity := range r.Result.Entities {
		best = max(best, entity.Similarity)
	}
	nothing := len(r.Result.Chunks)+len(r.Result.Entities) == 0
	if (!known && best < r.chooseFloor()) || (nothing && !known) {
		r.Result.Chunks, r.Result.Entities, r.Result.Reason = nil, nil, NoMatch
		return true
	}
	return false
}

// noteReasons reports each chunk which of the entities mention it.
func (r *Request) noteReasons() {
	places := map[uint32]int{}
	for i, chunk := range r.Result.Chunks {
		places[chunk.Live.Number] = i
	}
	for voter, entity := range r.Result.Entities {
		for _, number := range entity.Votes {
			if i, ok := places[number]; ok {
				r.Result.Chunks[i].Why = append(r.Result.Chunks[i].Why, voter)
			}
		}
	}
}

// lookEvery is after how many chunks or nodes a loop over them looks at the context.
const lookEvery = 1 << 12

// fillChunks adds allowed chunks until there are as many as asked for: by similarity, by BM25, then in chunk order.
func (r *Request) fillChunks() error {
	want := r.Query.TopChunks
	if len(r.Result.Chunks) >= want || !r.Query.Params.Flag("fill", true) || r.Generation.Spec.Parity {
		return nil
	}
	have := map[uint32]bool{}
	for _, chunk := range r.Result.Chunks {
		have[chunk.Live.Number] = true
	}
	add := func(chunk Chunk) {
		if !have[chunk.Live.Number] && len(r.Result.Chunks) < want {
			have[chunk.Live.Number] = true
			chunk.Score, chunk.Filled = 0, true
			r.Result.Chunks = append(r.Result.Chunks, chunk)
		}
	}
	question := r.Query.ChunkVector
	if question == nil && r.needs.FillByClassVector {
		question = r.Query.Vector
	}
	if question != nil {
		start := time.Now()
		more, err := r.similarChunks(question, want+len(have))
		r.Result.Timing.Search += time.Since(start)
		if err != nil {
			return err
		}
		for _, chunk := range more {
			add(chunk)
		}
	}
	table := r.Generation.Live
	if len(r.Result.Chunks) < want {
		for _, hit := range r.Generation.chunkWords.Search(r.terms, want+len(have), r.allowed.testNumbers(), nil) {
			add(Chunk{Live: table.ByNumber(int(hit.Doc)), BM25: hit.Score, HasBM25: true})
		}
	}
	_, chunks, _ := table.Counts()
	for number := 0; number < chunks && len(r.Result.Chunks) < want; number++ {
		if number%lookEvery == 0 && r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		if chunk := table.ByNumber(number); r.allowed.allowsChunk(chunk) {
			add(Chunk{Live: chunk})
		}
	}
	return nil
}

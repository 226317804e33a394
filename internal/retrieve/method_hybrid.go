package retrieve

import (
	"cmp"
	"sort"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/retrieve/fuse"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Hybrid is the name of the method.
const Hybrid = "hybrid"

// autoSetting has the index choose.
const autoSetting = "auto"

// hybridMethod is the default: BM25 and similarity find chunks and classes, the two are fused, and a walk over the
// graph from the best of them ranks the chunks (docs/explain/retrieval.md).
type hybridMethod struct{}

// Spec implements Method.
func (hybridMethod) Spec() Spec {
	return Spec{
		Name:     Hybrid,
		Doc:      "word search and vector search, fused and spread over the graph",
		Entities: fuse.Default.Classes,
		Params: []Param{
			NewWhole("list", "length of the lists", 1, 1000, fuse.Default.List),
			NewWhole("k_chunks", "passage seeds", 0, 1000, fuse.Default.Chunks),
			NewChoice("setting", "weights of lists, walk and titles; auto: by the kind of index",
				autoSetting, fuse.Linked, fuse.Short, fuse.Long),
		},
		Needs: Needs{Embedding: ByClassEmbedder, Hashed: true, Degrades: true},
		Explains: []Shape{{
			"ExplainHybrid",
			"hybrid: score = sqrt(mass / largest mass) + mix * fused / largest fused; shares of a passage's mass sum to 1",
			HybridExplain{},
		}},
	}
}

// Run implements Method.
func (hybridMethod) Run(r *Request) (Explanation, error) {
	start := time.Now()
	found, err := r.searchLists(r.Query.Params.Int("list"))
	r.Result.Timing.Search = time.Since(start)
	if err != nil {
		return nil, err
	}
	if r.Query.Vector == nil {
		r.Result.Degraded = append(r.Result.Degraded, "dense")
	}
	kind := r.Query.Params.Text("setting")
	if kind == autoSetting {
		kind = r.Generation.chooseKind()
	}
	hashed := r.Generation.Manifest.Chunk.Provider == "builtin"
	params := fuse.ParamsFor(kind, hashed)
	if hashed {
		found.chunkDense.Weight = params.Hashed
	}
	params.List, params.Classes, params.Chunks =
		r.Query.Params.Int("list"), r.Query.TopEntities, r.Query.Params.Int("k_chunks")
	start = time.Now()
	var titles fuse.Titles
	if kind == fuse.Linked {
		titles = r.newTitles(params, &found.classScores)
	}
	chunkLists := []fuse.List{found.chunkBM25, found.chunkDense, found.chunkPast}
	classLists := []fuse.List{found.classBM25, found.classDense, found.classPast}
	seeds := fuse.MakeSeeds(params, chunkLists, classLists, r.allowedChunksOfRank, titles)
	walkStart := walk.Start{Chunks: seeds.Start.Chunks}
	for _, class := range seeds.Start.Classes {
		place := r.Generation.Live.Place[class.ID]
		walkStart.Classes = append(walkStart.Classes, walk.Weighted{ID: place, Weight: class.Weight})
	}
	steps := r.newSteps(params, found)
	mass, err := r.walkGraph(walkStart, params.Damping, fuse.Eps, steps)
	if err != nil {
		return nil, err
	}
	ranking := fuse.Rank(params, mass.Chunks, seeds.P, r.Query.TopChunks)
	r.Result.Timing.Election = time.Since(start)
	if err := r.nameSeeds(seeds, found); err != nil {
		return nil, err
	}
	for _, hit := range ranking[:min(r.Query.TopChunks, len(ranking))] {
		chunk := Chunk{Live: r.Generation.Live.ByNumber(int(hit.ID)), Score: hit.Score}
		chunk.Similarity, chunk.HasSim = found.chunkSims[hit.ID]
		chunk.BM25, chunk.HasBM25 = found.chunkLex[hit.ID]
		r.Result.Chunks = append(r.Result.Chunks, chunk)
	}
	r.noteReasons()
	if r.MatchesNothing() {
		return nil, nil
	}
	signals := r.measureSignals(found)
	r.Result.Confidence = signals.Chance(r.Generation.Language())
	return func() any {
		out := r.explainHybrid(params, seeds, found, mass, steps)
		out.Setting = r.explainSetting(kind, titles)
		out.Signals = signals
		return out
	}, nil
}

// allowedChunksOfRank gives the chunks of the class of a rank that the filter leaves.
func (r *Request) allowedChunksOfRank(rank uint32) []uint32 {
	chunks := r.Generation.Live.Graph.ChunksOf(r.Generation.Live.Place[rank])
	allows := r.allowed.testNumbers()
	if allows == nil {
		return chunks
	}
	var out []uint32
	for _, number := range chunks {
		if allows(number) {
			out = append(out, number)
		}
	}
	return out
}

// lists are the results of the searches: chunks by number, classes by rank.
type lists struct {
	chunkBM25, classBM25   fuse.List
	chunkDense, classDense fuse.List
	chunkPast, classPast   fuse.List // that hold words of Query.Before
	classSims, chunkSims   map[uint32]float64
	chunkLex               map[uint32]float64
	chunkScores            wordScores
	classScores            wordScores
}

// pastWeight is that of a list by the words of earlier questions, of one by the words of the question 1.
const pastWeight = 0.6

func byID(list fuse.List) map[uint32]float64 {
	scores := make(map[uint32]float64, len(list.Hits))
	for _, hit := range list.Hits {
		scores[hit.ID] = hit.Score
	}
	return scores
}

// searchLists runs the lists, which know nothing of each other: those by similarity beside each other, and beside the
// lexical ones. A filter remembers what it looked at, so that each goroutine has one of its own.
func (r *Request) searchLists(n int) (lists, error) {
	var found lists
	var beside sync.WaitGroup
	var classErr, chunkErr error
	if r.Query.Vector != nil {
		beside.Go(func() {
			defer parallel.CatchPanic(&classErr)
			found.classDense.Hits, classErr = r.denseClasses(n)
		})
	}
	if r.Query.ChunkVector != nil {
		beside.Go(func() {
			defer parallel.CatchPanic(&chunkErr)
			found.chunkDense.Hits, chunkErr = r.denseChunks(n)
		})
	}
	generation := r.Generation
	lexical := generation.newAllowed(r.ctx, r.Query)
	found.chunkBM25, found.classBM25 = r.searchWords(n, lexical, r.terms, r.surface)
	found.chunkScores = scoresOf(generation.chunkWords, r.terms, found.chunkBM25)
	found.classScores = scoresOf(generation.classWords, r.surface, found.classBM25)
	if before := r.Query.Before; before != "" {
		language := generation.Language()
		found.chunkPast, found.classPast = r.searchWords(n, lexical, language.Terms(before), language.SurfaceWords(before))
		found.chunkPast.Weight, found.classPast.Weight = pastWeight, pastWeight
	}
	beside.Wait() // the searches beside this one read r
	r.past = len(found.chunkPast.Hits)+len(found.classPast.Hits) > 0
	found.classSims, found.chunkSims = byID(found.classDense), byID(found.chunkDense)
	found.chunkLex = byID(found.chunkBM25)
	return found, cmp.Or(classErr, chunkErr)
}

// searchWords returns the n chunks, by number, and the n classes, by rank, that score best by words.
func (r *Request) searchWords(n int, allowed *allowed, terms, surface []string) (chunks, classes fuse.List) {
	generation := r.Generation
	for _, hit := range generation.chunkWords.Search(terms, n, allowed.testNumbers(), nil) {
		chunks.Hits = append(chunks.Hits, fuse.Hit{ID: hit.Doc, Score: hit.Score})
	}
	rank := func(place uint32) uint32 { return generation.Live.Rank[place] }
	for _, hit := range generation.classWords.Search(surface, n, allowed.testPlaces(), rank) {
		classes.Hits = append(classes.Hits, fuse.Hit{ID: rank(hit.Doc), Score: hit.Score})
	}
	chunks.Lexical, classes.Lexical = true, true
	return chunks, classes
}

// denseChunks gives the n most similar allowed chunks by number.
func (r *Request) denseChunks(n int) ([]fuse.Hit, error) {
	beside := *r
	beside.allowed = r.Generation.newAllowed(r.ctx, r.Query)
	chunks, err := beside.similarChunks(r.Query.ChunkVector, n)
	if err != nil {
		return nil, err
	}
	hits := make([]fuse.Hit, len(chunks))
	for i, chunk := range chunks {
		hits[i] = fuse.Hit{ID: chunk.Live.Number, Score: chunk.Similarity}
	}
	return hits, nil
}

// denseClasses gives the n most similar allowed classes by rank, without reading their records.
func (r *Request) denseClasses(n int) ([]fuse.Hit, error) {
	allows := r.allowed.testPlaces()
	var out []fuse.Hit
	err := r.eachNearest(n+n/4+8, func(places []uint32, similarities []float64) (enough bool, err error) {
		for i, place := range places {
			if allows == nil || allows(place) {
				out = append(out, fuse.Hit{ID: r.Generation.Live.Rank[place], Score: similarities[i]})
			}
		}
		return len(out) >= n, nil
	})
	fuse.Sort(out, 1e-9)
	return out[:min(n, len(out))], err
}

// walkGraph goes over the whole graph, or over the subgraph that a filter leaves.
func (r *Request) walkGraph(start walk.Start, damping, eps float64, steps walk.Steps) (mass walk.Mass, err error) {
	if err := r.Admit(r.walkSteps(damping, eps)); err != nil {
		return mass, err
	}
	steps.Stopped = func() bool { return r.ctx.Err() != nil }
	return r.Generation.graph.Run(start, damping, eps, r.allowed.toView(), steps), r.ctx.Err()
}

// nameSeeds reads the class seeds into the result, the heaviest first.
func (r *Request) nameSeeds(seeds fuse.Seeds, found lists) error {
	start := time.Now()
	places := make([]uint32, len(seeds.Start.Classes))
	for i, class := range seeds.Start.Classes {
		places[i] = r.Generation.Live.Place[class.ID]
	}
	entities, err := r.readEntities(places)
	if err != nil {
		return err
	}
	r.Result.Entities = entities
	for i, class := range seeds.Start.Classes {
		entities[i].Score, entities[i].Similarity = class.Weight, found.classSims[class.ID]
	}
	sort.SliceStable(entities, func(i, j int) bool { return entities[i].Score > entities[j].Score })
	r.Result.Timing.Ballots = time.Since(start)
	return nil
}

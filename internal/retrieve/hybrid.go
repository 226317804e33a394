package retrieve

import (
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/format/live"
	"github.com/unweaver/unweaver/internal/retrieve/fuse"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

// lists are the results of the searches: chunks by number, classes by rank.
type lists struct {
	chunkBM25, classBM25   fuse.List
	chunkDense, classDense fuse.List
	classSims, chunkSims   map[uint32]float64
	chunkLex               map[uint32]float64
}

func (l *lists) chunks() []fuse.List {
	return []fuse.List{l.chunkBM25, l.chunkDense}
}

func (l *lists) classes() []fuse.List {
	return []fuse.List{l.classBM25, l.classDense}
}

func byID(l fuse.List) map[uint32]float64 {
	m := make(map[uint32]float64, len(l.Hits))
	for _, h := range l.Hits {
		m[h.ID] = h.Score
	}
	return m
}

// search runs the lists: dense ones beside the lexical ones.
func (r *request) search() (lists, error) {
	n := r.q.Params.List
	l := lists{chunkBM25: fuse.List{Lexical: true}, classBM25: fuse.List{Lexical: true}}
	var wg sync.WaitGroup
	var derr error
	wg.Go(func() { derr = r.dense(&l, n) })
	sr := r.g.Search
	lexical := r.g.allow(r.ctx, r.q) // a filter remembers what it looked at, and the dense side runs beside
	for _, h := range sr.Chunks.Search(r.terms, n, lexical.numbers(), nil) {
		l.chunkBM25.Hits = append(l.chunkBM25.Hits, fuse.Hit{ID: h.Doc, Score: h.Score})
	}
	for _, h := range sr.Classes.Search(r.surface, n, lexical.places(), func(p uint32) uint32 { return sr.Rank[p] }) {
		l.classBM25.Hits = append(l.classBM25.Hits, fuse.Hit{ID: sr.Rank[h.Doc], Score: h.Score})
	}
	wg.Wait()
	l.classSims, l.chunkSims, l.chunkLex = byID(l.classDense), byID(l.chunkDense), byID(l.chunkBM25)
	return l, derr
}

func (r *request) dense(l *lists, n int) error {
	if r.q.Vector != nil {
		hits, err := r.denseClasses(r.q.Vector, n)
		if err != nil {
			return err
		}
		l.classDense.Hits = hits
	}
	if r.q.ChunkVector != nil {
		cs, err := r.chunks(r.ctx, r.g, r.a, r.q.ChunkVector, n)
		if err != nil {
			return err
		}
		for _, c := range cs {
			l.chunkDense.Hits = append(l.chunkDense.Hits, fuse.Hit{ID: c.Live.Number, Score: c.Similarity})
		}
	}
	return nil
}

// denseClasses gives the n most similar allowed classes by rank, without reading their records.
func (r *request) denseClasses(vector []float32, n int) ([]fuse.Hit, error) {
	ok := r.a.places()
	var out []fuse.Hit
	seen := map[string]bool{}
	for ask := n + n/4 + 8; ; ask *= 2 {
		hits, err := r.Vectors.Search(r.ctx, r.g.Manifest.Collections.Classes, vector, ask)
		if err != nil {
			return nil, err
		}
		for _, hit := range hits {
			if seen[hit.Key] {
				continue
			}
			seen[hit.Key] = true
			p := r.g.classPlace(hit.Key)
			if p >= 0 && (ok == nil || ok(uint32(p))) {
				out = append(out, fuse.Hit{ID: r.g.Search.Rank[p], Score: float64(hit.Score)})
			}
		}
		if len(out) >= n || len(hits) < ask || r.a.err != nil {
			break
		}
	}
	fuse.Sort(out, 1e-9)
	return out[:min(n, len(out))], nil
}

// classPlace is the place of the live class of a vector row, or -1.
func (g *Generation) classPlace(key string) int {
	idHex, digest, ok := strings.Cut(key, "-")
	id, err := corpus.ParseID(idHex)
	if !ok || err != nil {
		return -1
	}
	p := g.Live.ClassPlace(id)
	if p < 0 || g.Live.Classes[p].Vector.Short(16) != digest {
		return -1
	}
	return p
}

// hybrid is the default (specs/hybrid.md §1).
func (r *request) hybrid() error {
	start := time.Now()
	l, err := r.search()
	r.res.Timing.Search = time.Since(start)
	if err != nil {
		return err
	}
	if r.q.Vector == nil {
		r.res.Degraded = append(r.res.Degraded, "dense")
	}
	params := fuse.Default
	params.List, params.Classes, params.Chunks = r.q.Params.List, r.q.TopEntities, r.q.Params.KChunks
	start = time.Now()
	sr := r.g.Search
	ok := r.a.numbers()
	seeds := fuse.Make(params, l.chunks(), l.classes(), func(rank uint32) []uint32 {
		ks := sr.Graph.ChunksOf(sr.Place[rank])
		if ok == nil {
			return ks
		}
		var out []uint32
		for _, k := range ks {
			if ok(k) {
				out = append(out, k)
			}
		}
		return out
	})
	walkStart := walk.Start{Chunks: seeds.Start.Chunks}
	for _, c := range seeds.Start.Classes {
		walkStart.Classes = append(walkStart.Classes, walk.Weighted{ID: sr.Place[c.ID], Weight: c.Weight})
	}
	mass := r.walk(walkStart, params.Damping, fuse.Eps)
	ranking := fuse.Rank(params, mass.Chunks, seeds.P, r.q.TopChunks)
	r.res.Timing.Election = time.Since(start)
	if err := r.seeds(seeds, l); err != nil {
		return err
	}
	for _, h := range ranking[:min(r.q.TopChunks, len(ranking))] {
		c := Chunk{Live: r.g.Live.ByNumber(int(h.ID)), Score: h.Score}
		c.Similarity, c.HasSim = l.chunkSims[h.ID]
		c.BM25, c.HasBM25 = l.chunkLex[h.ID]
		r.res.Chunks = append(r.res.Chunks, c)
	}
	r.why()
	if !r.noMatch() && r.q.Explain {
		r.res.Explain = r.explainHybrid(params, seeds, l, mass)
	}
	return nil
}

// walk goes over the whole graph, or over the subgraph that a filter leaves.
func (r *request) walk(start walk.Start, d, eps float64) walk.Mass {
	if v := r.a.view(); v.Chunk != nil || v.Class != nil {
		return r.g.Search.Graph.Run(start, d, eps, v)
	}
	return r.g.Search.Graph.RunToChunks(start, d, eps)
}

// seeds names the class seeds.
func (r *request) seeds(seeds fuse.Seeds, l lists) error {
	start := time.Now()
	places := make([]uint32, len(seeds.Start.Classes))
	for i, c := range seeds.Start.Classes {
		places[i] = r.g.Search.Place[c.ID]
	}
	if err := r.entities(places); err != nil {
		return err
	}
	for i, c := range seeds.Start.Classes {
		r.res.Entities[i].Score, r.res.Entities[i].Similarity = c.Weight, l.classSims[c.ID]
	}
	sort.SliceStable(r.res.Entities, func(i, j int) bool { return r.res.Entities[i].Score > r.res.Entities[j].Score })
	r.res.Timing.Ballots = time.Since(start)
	return nil
}

// entities reads classes by place into the result, with their allowed chunks from the graph.
func (r *request) entities(places []uint32) error {
	cs := make([]*live.Class, len(places))
	for i, p := range places {
		cs[i] = &r.g.Live.Classes[p]
	}
	recs, err := r.Records(r.ctx, r.g, cs)
	if err != nil {
		return err
	}
	for i, rec := range recs {
		entity := Entity{ID: rec.ID, Place: places[i], Name: rec.Name, Total: rec.ChunkTotal}
		for _, n := range r.g.Search.Graph.ChunksOf(places[i]) {
			entity.vote(r.g.Live.ByNumber(int(n)), r.a)
		}
		r.res.Entities = append(r.res.Entities, entity)
	}
	return nil
}

// why tells of each chunk which of the entities mention it.
func (r *request) why() {
	at := map[uint32]int{}
	for i, c := range r.res.Chunks {
		at[c.Live.Number] = i
	}
	for e, x := range r.res.Entities {
		for _, n := range x.Votes {
			if i, ok := at[n]; ok {
				r.res.Chunks[i].Why = append(r.res.Chunks[i].Why, e)
			}
		}
	}
}

// fill adds allowed chunks until there are as many as asked for: by similarity, by BM25, then in chunk order (DESIGN
// §9).
func (r *request) fill() error {
	want := r.q.TopChunks
	if len(r.res.Chunks) >= want || !r.q.Params.Fill {
		return nil
	}
	have := map[uint32]bool{}
	for _, c := range r.res.Chunks {
		have[c.Live.Number] = true
	}
	add := func(chunk Chunk) {
		if !have[chunk.Live.Number] && len(r.res.Chunks) < want {
			have[chunk.Live.Number] = true
			chunk.Score, chunk.Filled = 0, true
			r.res.Chunks = append(r.res.Chunks, chunk)
		}
	}
	vector := r.q.ChunkVector
	if vector == nil && (r.q.Method == Unweaver || r.q.Method == Vector) {
		vector = r.q.Vector
	}
	if vector != nil {
		start := time.Now()
		more, err := r.chunks(r.ctx, r.g, r.a, vector, want+len(have))
		r.res.Timing.Search += time.Since(start)
		if err != nil {
			return err
		}
		for _, c := range more {
			add(c)
		}
	}
	if r.g.Search != nil && len(r.res.Chunks) < want {
		for _, h := range r.g.Search.Chunks.Search(r.terms, want+len(have), r.a.numbers(), nil) {
			add(Chunk{Live: r.g.Live.ByNumber(int(h.Doc)), BM25: h.Score, HasBM25: true})
		}
	}
	for n := 0; n < len(r.g.Live.Chunks) && len(r.res.Chunks) < want; n++ {
		if c := r.g.Live.ByNumber(n); r.a.chunk(c) {
			add(Chunk{Live: c})
		}
	}
	return r.a.err
}

// HybridExplain is the explanation of hybrid: where the mass of each chunk comes from, exactly (x_j = (1 - d) s_j + d
// sum of x_i/deg_i over its classes), and what the lists said.
type HybridExplain struct {
	Damping  float64            `json:"damping"`
	Mix      float64            `json:"mix"`
	Entities []SeedExplain      `json:"entities"`
	Chunks   []HybridChunk      `json:"chunks"`
	Lists    map[string]ListSum `json:"lists"`
}

// ListSum sums up one search.
type ListSum struct {
	Hits  int     `json:"hits"`
	Best  float64 `json:"best"`
	Floor float64 `json:"floor"`
}

// Place of an object in a list; absent when it is not in it.
type Place struct {
	Rank  int     `json:"rank"`
	Score float64 `json:"score"`
}

// SeedExplain is a class that the walk starts from.
type SeedExplain struct {
	ID    string  `json:"id"`
	Name  string  `json:"name"`
	Seed  float64 `json:"seed"`
	BM25  *Place  `json:"bm25,omitempty"`
	Dense *Place  `json:"dense,omitempty"`
}

// HybridChunk explains a chunk's score = sqrt(mass / largest mass) + mix * fused / largest fused.
type HybridChunk struct {
	ID     string       `json:"id"`
	Mass   float64      `json:"mass"`
	Fused  float64      `json:"fused"`
	Seed   float64      `json:"seed"`
	Plain  float64      `json:"plain_share"` // of the mass, by being a seed itself
	Shares []ClassShare `json:"class_shares"`
	Rest   float64      `json:"rest_share"`
	BM25   *Place       `json:"bm25,omitempty"`
	Dense  *Place       `json:"dense,omitempty"`
}

// ClassShare is the part of a chunk's mass that came through a class.
type ClassShare struct {
	ID    string  `json:"id"`
	Name  string  `json:"name"` // folded
	Share float64 `json:"share"`
}

// shares are the most classes that are told one by one.
const shares = 10

func places(l fuse.List) map[uint32]*Place {
	m := map[uint32]*Place{}
	for i, h := range l.Hits {
		m[h.ID] = &Place{i + 1, h.Score}
	}
	return m
}

func summed(l fuse.List) ListSum {
	sum := ListSum{Hits: len(l.Hits)}
	if sum.Hits > 0 {
		sum.Best, sum.Floor = l.Hits[0].Score, l.Hits[sum.Hits-1].Score
	}
	return sum
}

func (r *request) explainHybrid(params fuse.Params, seeds fuse.Seeds, l lists, m walk.Mass) HybridExplain {
	sr := r.g.Search
	out := HybridExplain{
		Damping: params.Damping,
		Mix:     params.Mix,
		Lists: map[string]ListSum{
			"chunks_bm25": summed(l.chunkBM25), "chunks_dense": summed(l.chunkDense),
			"classes_bm25": summed(l.classBM25), "classes_dense": summed(l.classDense),
		},
	}
	cb, cd, kb, kd := places(l.classBM25), places(l.classDense), places(l.chunkBM25), places(l.chunkDense)
	for _, e := range r.res.Entities {
		rank := sr.Rank[e.Place]
		out.Entities = append(out.Entities, SeedExplain{e.ID.String(), e.Name, e.Score, cb[rank], cd[rank]})
	}
	mass := make(map[uint32]float64, len(m.Classes))
	for _, c := range m.Classes {
		mass[c.ID] = c.Weight
	}
	chunkMass, seed, fused := map[uint32]float64{}, map[uint32]float64{}, map[uint32]float64{}
	for _, c := range m.Chunks {
		chunkMass[c.ID] = c.Weight
	}
	for _, c := range seeds.Start.Chunks {
		seed[c.ID] = c.Weight
	}
	for _, h := range seeds.P {
		fused[h.ID] = h.Score
	}
	ok := r.a.numbers()
	classSeed := map[uint32]float64{}
	for _, c := range seeds.Start.Classes {
		classSeed[sr.Place[c.ID]] = c.Weight
	}
	for _, c := range r.res.Chunks {
		n := c.Live.Number
		chunk := HybridChunk{
			ID:     c.Live.ID.String(),
			Mass:   chunkMass[n],
			Fused:  fused[n],
			Seed:   seed[n],
			BM25:   kb[n],
			Dense:  kd[n],
			Shares: []ClassShare{},
		}
		total := (1 - params.Damping) * seed[n]
		for _, cl := range sr.Graph.ClassesOf(n) {
			if len(sr.Graph.ChunksOf(cl)) == 1 && ok == nil &&
				len(r.q.Without.Entities) == 0 { // the walk eliminates it
				mass[cl] = params.Damping*chunkMass[n]/float64(
					len(sr.Graph.ClassesOf(n)),
				) + (1-params.Damping)*classSeed[cl]
			}
			if mass[cl] == 0 {
				continue
			}
			deg := 0.0
			for _, k := range sr.Graph.ChunksOf(cl) {
				if ok == nil || ok(k) {
					deg++
				}
			}
			v := params.Damping * mass[cl] / deg
			total += v
			chunk.Shares = append(
				chunk.Shares,
				ClassShare{r.g.Live.Classes[cl].ID.String(), r.g.Live.Name(int(r.g.Live.Classes[cl].Name)), v},
			)
		}
		if total > 0 {
			chunk.Plain = (1 - params.Damping) * seed[n] / total
			for i := range chunk.Shares {
				chunk.Shares[i].Share /= total
			}
		}
		sort.SliceStable(chunk.Shares, func(i, j int) bool { return chunk.Shares[i].Share > chunk.Shares[j].Share })
		for _, y := range chunk.Shares[min(shares, len(chunk.Shares)):] {
			chunk.Rest += y.Share
		}
		chunk.Shares = chunk.Shares[:min(shares, len(chunk.Shares))]
		out.Chunks = append(out.Chunks, chunk)
	}
	return out
}

// ListExplain is the explanation of a plain search.
type ListExplain struct {
	By     string      `json:"by"`
	Chunks []ListScore `json:"chunks"`
}

// ListScore is one place of a plain search.
type ListScore struct {
	ID    string  `json:"id"`
	Score float64 `json:"score"`
}

func explainList(by string, cs []Chunk) ListExplain {
	out := ListExplain{By: by, Chunks: []ListScore{}}
	for _, c := range cs {
		out.Chunks = append(out.Chunks, ListScore{c.Live.ID.String(), c.Score})
	}
	return out
}

package retrieve

import (
	"sort"

	"github.com/unweaver/unweaver/internal/retrieve/confidence"
	"github.com/unweaver/unweaver/internal/retrieve/fuse"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

// HybridExplain is the explanation of hybrid: where the mass of each chunk comes from, exactly (x_j = (1 - d) s_j + d
// times the sum of x_i and the share of the step over its classes), and what the lists said.
type HybridExplain struct {
	Damping  float64            `json:"damping"`
	Mix      float64            `json:"mix"`
	Entities []SeedExplain      `json:"entities"`
	Chunks   []HybridChunk      `json:"chunks"`
	Lists    map[string]ListSum `json:"lists"`
	Setting  SettingExplain     `json:"setting"`
	Signals  confidence.Signals `json:"signals" doc:"the figures behind the confidence"`
}

// SettingExplain says by which setting the question was asked, and what of the index chooses one.
type SettingExplain struct {
	Name           string   `json:"name" doc:"linked, short or long"`
	TitlesNamed    float64  `json:"titles_named" doc:"share of documents that contain another's title; linked from 0.1"`
	TokensPerChunk int64    `json:"tokens_per_chunk" doc:"mean; long from 500 if not linked"`
	Asked          []string `json:"asked" doc:"passages of documents whose title is in the question"`
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

// shares are the most classes that are listed one by one.
const shares = 10

func placesOf(l fuse.List) map[uint32]*Place {
	m := map[uint32]*Place{}
	for i, h := range l.Hits {
		m[h.ID] = &Place{i + 1, h.Score}
	}
	return m
}

func sumList(l fuse.List) ListSum {
	sum := ListSum{Hits: len(l.Hits)}
	if sum.Hits > 0 {
		sum.Best, sum.Floor = l.Hits[0].Score, l.Hits[sum.Hits-1].Score
	}
	return sum
}

// explainHybrid says where the result's scores come from.
func (r *Request) explainHybrid(
	params fuse.Params, seeds fuse.Seeds, found lists, mass walk.Mass, steps walk.Steps,
) HybridExplain {
	out := HybridExplain{
		Damping: params.Damping,
		Mix:     params.Mix,
		Lists: map[string]ListSum{
			"chunks_bm25": sumList(found.chunkBM25), "chunks_dense": sumList(found.chunkDense),
			"classes_bm25": sumList(found.classBM25), "classes_dense": sumList(found.classDense),
		},
	}
	if r.Query.Before != "" {
		out.Lists["chunks_past"], out.Lists["classes_past"] = sumList(found.chunkPast), sumList(found.classPast)
	}
	byWords, bySimilarity := placesOf(found.classBM25), placesOf(found.classDense)
	for _, entity := range r.Result.Entities {
		rank := r.Generation.Live.Rank[entity.Place]
		out.Entities = append(out.Entities, SeedExplain{
			entity.ID.String(), entity.Name, entity.Score, byWords[rank], bySimilarity[rank],
		})
	}
	shared := r.sharesOf(params, seeds, mass, steps)
	fused := map[uint32]float64{}
	for _, hit := range seeds.P {
		fused[hit.ID] = hit.Score
	}
	byWords, bySimilarity = placesOf(found.chunkBM25), placesOf(found.chunkDense)
	for _, result := range r.Result.Chunks {
		if r.ctx.Err() != nil {
			break
		}
		number := result.Live.Number
		chunk := HybridChunk{
			ID:    result.Live.ID.String(),
			Mass:  shared.chunkMass[number],
			Fused: fused[number],
			Seed:  shared.chunkSeed[number],
			BM25:  byWords[number],
			Dense: bySimilarity[number],
		}
		shared.splitMass(number, &chunk)
		out.Chunks = append(out.Chunks, chunk)
	}
	return out
}

func (r *Request) explainSetting(kind string, titles fuse.Titles) SettingExplain {
	out := SettingExplain{kind, r.Generation.titlesNamed, r.Generation.tokensPerChunk(), []string{}}
	for _, number := range titles.Asked {
		out.Asked = append(out.Asked, r.Generation.Live.ByNumber(int(number)).ID.String())
	}
	return out
}

// massShares splits the mass of chunks into what came through each class.
type massShares struct {
	r                    *Request
	damping              float64
	steps                walk.Steps
	classMass, chunkMass map[uint32]float64
	classSeed, chunkSeed map[uint32]float64
	allows               func(uint32) bool
}

func (r *Request) sharesOf(
	params fuse.Params, seeds fuse.Seeds, mass walk.Mass, steps walk.Steps,
) *massShares {
	out := &massShares{
		r:         r,
		damping:   params.Damping,
		steps:     steps,
		classMass: weightsOf(mass.Classes),
		chunkMass: weightsOf(mass.Chunks),
		chunkSeed: weightsOf(seeds.Start.Chunks),
		classSeed: map[uint32]float64{},
		allows:    r.allowed.testNumbers(),
	}
	for _, seed := range seeds.Start.Classes {
		out.classSeed[r.Generation.Live.Place[seed.ID]] = seed.Weight
	}
	return out
}

func weightsOf(list []walk.Weighted) map[uint32]float64 {
	out := make(map[uint32]float64, len(list))
	for _, node := range list {
		out[node.ID] = node.Weight
	}
	return out
}

// splitMass fills in the shares of a chunk; they sum to 1 with the plain and the rest share.
func (m *massShares) splitMass(number uint32, chunk *HybridChunk) {
	adjacency, table := m.r.Generation.Live.Graph, m.r.Generation.Live
	total := (1 - m.damping) * m.chunkSeed[number]
	all := []ClassShare{}
	for _, class := range adjacency.ClassesOf(number) {
		mass := m.massOf(class, number)
		if mass == 0 {
			continue
		}
		part := m.damping * mass * stepShare(m.steps.ToChunks, class, adjacency.ChunksOf(class), number, m.allows)
		total += part
		row := table.ClassAt(class)
		all = append(all, ClassShare{row.ID.String(), table.Name(int(row.Name)), part})
	}
	if total > 0 {
		chunk.Plain = (1 - m.damping) * m.chunkSeed[number] / total
		for i := range all {
			all[i].Share /= total
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Share > all[j].Share })
	for _, small := range all[min(shares, len(all)):] {
		chunk.Rest += small.Share
	}
	chunk.Shares = all[:min(shares, len(all))]
}

// massOf returns the mass of a class. The walk eliminates classes of one chunk where nothing is filtered; theirs
// follows from the chunk's.
func (m *massShares) massOf(class, number uint32) float64 {
	adjacency := m.r.Generation.Live.Graph
	if len(adjacency.ChunksOf(class)) != 1 || m.allows != nil || len(m.r.Query.Without.Entities) > 0 {
		return m.classMass[class]
	}
	step := stepShare(m.steps.ToClasses, number, adjacency.ClassesOf(number), class, nil)
	return m.damping*m.chunkMass[number]*step + (1-m.damping)*m.classSeed[class]
}

// stepShare returns the share of a node's mass that goes on to one of its neighbours, of those that are allowed.
func stepShare(
	by func(uint32, []uint32, []float64), from uint32, to []uint32, one uint32, allows func(uint32) bool,
) float64 {
	weights := make([]float64, len(to))
	by(from, to, weights)
	sum, wanted := 0.0, 0.0
	for i, other := range to {
		if allows != nil && !allows(other) {
			continue
		}
		sum += weights[i]
		if other == one {
			wanted = weights[i]
		}
	}
	return wanted / sum
}

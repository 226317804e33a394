// Package gemmethod answers questions by those that passages answer, and by summaries of themes: the method gem, which
// reads the enrichment of that name (package gemstage makes it).
package gemmethod

import (
	"math"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// GemExplain is the explanation of a search by questions.
type GemExplain struct {
	Chunks    []GemChunk   `json:"chunks"`
	Summaries []GemSummary `json:"summaries"` // that brought a chunk
}

// GemChunk says which question of a chunk was nearest to the query's.
type GemChunk struct {
	ID       string   `json:"id"`
	Score    float64  `json:"score"`             // of the question below
	Question string   `json:"question"`          // of the chunk
	Themes   []int    `json:"themes,omitempty"`  // that it is a member of
	Summary  *int     `json:"summary,omitempty"` // the theme whose summary brought it to this place
	Step     *GemStep `json:"step,omitempty"`    // of a search along edges
}

// GemStep is a step of a search along the edges of the similarity graph.
type GemStep struct {
	Priority float64 `json:"priority"`         // that it was chosen by: of similarity to the query, and the edge
	From     string  `json:"from,omitempty"`   // chunk that the edge came from; neither this nor theme: no edge led here
	Theme    *int    `json:"theme,omitempty"`  // whose summary the edge came from
	Weight   float64 `json:"weight,omitempty"` // of the edge
}

// GemSummary is a theme whose summary answers a question that is near to the query's.
type GemSummary struct {
	Theme    int      `json:"theme"`
	Lambda   float64  `json:"lambda"` // its eigenvalue
	Score    float64  `json:"score"`
	Question string   `json:"question"` // of the summary
	Summary  string   `json:"summary"`  // as a model or a rule wrote it: answers cite its members, not this
	Members  []string `json:"members"`
}

// Method ranks chunks by the best of the questions that they answer.
type Method struct{}

// Spec implements retrieve.Method.
func (Method) Spec() retrieve.Spec {
	return retrieve.Spec{
		Name: gem.Name, Doc: "questions that passages answer, and summaries of themes (enrich: [gem])", Entities: 10,
		Needs: retrieve.Needs{Embedding: retrieve.ByChunkEmbedder, Enriched: gem.Name},
		Params: []retrieve.Param{
			retrieve.NewChoice("aggregate", "score of a passage: that of its best question, or the mean of the best two",
				"best", "best_two"),
			retrieve.NewSwitch("summaries",
				"also find passages by summaries of their themes, and give the summaries to the chat model",
				true),
			retrieve.NewWhole(
				"themes",
				"for questions about a whole corpus: summaries of so many themes, the strongest first, are what a "+
					"chat model reads, and a passage of each comes first",
				0,
				50,
				0,
			),
			retrieve.NewChoice("search",
				"nearest: by their questions alone; graph: from the nearest along the edges of the similarity "+
					"graph, so that what is like a passage that was found comes before what is only a little like the query",
				"nearest", "graph"),
			retrieve.NewNumber("alpha",
				"search graph: the part of the similarity to the query in what is next; the rest is the weight "+
					"of the edge, as a share of the heaviest", 0, 1, 0.7),
			retrieve.NewWhole("tokens", "tokens of the passages in all; what does not fit is passed over; 0: no limit",
				0, 10_000_000, 0),
		},
		Explains: []retrieve.Shape{{Name: "ExplainGem", Doc: "gem", Zero: GemExplain{}}},
	}
}

// considered is how many chunks are ranked for each that is wanted, so that those that do not fit can be passed over.
const considered = 4

// Run implements retrieve.Method.
func (Method) Run(r *retrieve.Request) (retrieve.Explanation, error) {
	question := r.Query.ChunkVector
	if question == nil {
		question = r.Query.Vector
	}
	if r.Query.Params.Int("themes") > 0 && !r.Query.Params.Flag("summaries", true) {
		return nil, fault.InvalidParam.At("read query", "params.themes").
			Because("themes needs summaries, and summaries is false").
			Advise("omit one of the two parameters")
	}
	start := time.Now()
	known, err := ensureMemory(r.Context(), r.Generation, "method")
	if err != nil {
		return nil, err
	}
	aggregate := gem.Best
	if r.Query.Params.Text("aggregate") == "best_two" {
		aggregate = gem.BestTwo
	}
	asked := comparison{
		prompt: question, most: considered*r.Query.TopChunks + considered, aggregate: aggregate,
		summaries: r.Query.Params.Flag("summaries", true) && known.themes != nil, allow: r.AllowsNumber,
	}
	var graph *memoryGraph
	if r.Query.Params.Text("search") == "graph" {
		graph = known.graph
		asked.every = slices.Repeat([]gem.Match{{Question: -1}}, graph.Len())
	}
	ranked, members := known.findNearest(r.Context(), asked)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	steps := map[int]gem.Step{}
	if graph != nil {
		found := graph.walkEdges(ranked, asked.every, known.members, r.Query.Params.Float("alpha"), asked.most)
		ranked = ranked[:0]
		for _, step := range found {
			steps[step.Node] = step
			ranked = append(ranked, step.Match)
		}
	}
	if themes := r.Query.Params.Int("themes"); themes > 0 && asked.summaries {
		ranked, r.Result.NotesAlone = known.prependThemes(themes, ranked), true
		for _, match := range ranked[:min(themes, len(ranked))] {
			known.isFiltered(r, match.Node)
		}
	}
	chunks, by := known.liftMembers(ranked, members)
	left := math.MaxInt
	if tokens := r.Query.Params.Int("tokens"); tokens > 0 {
		left = tokens
		r.Query.Params["fill"] = false // what fills up knows of no budget
	}
	last := math.Inf(1)
	var brought []int // summaries
	var taken []gem.Match
	for _, match := range chunks {
		live := r.Generation.Live.ByNumber(match.Node)
		if len(taken) == r.Query.TopChunks || int(live.Tokens) > left {
			continue
		}
		left -= int(live.Tokens)
		taken = append(taken, match)
		score, node := match.Score, match.Node
		if summary, ok := by[match.Node]; ok {
			score, node = summary.Score, summary.Node
			brought = append(brought, node)
		}
		if step, along := steps[node]; along { // priorities may rise behind an edge; the scores of a result do not
			last = min(last, step.Priority)
			score = last
		}
		chunk := retrieve.Chunk{Live: live, Score: score, Similarity: match.Score, HasSim: true}
		r.Result.Chunks = append(r.Result.Chunks, chunk)
	}
	r.Result.Timing.Search = time.Since(start)
	if !r.Result.NotesAlone && r.MatchesNothing() {
		return nil, nil
	}
	if themes := r.Query.Params.Int("themes"); r.Result.NotesAlone {
		brought = brought[:min(themes, len(brought))]
	}
	known.noteSummaries(r, brought)
	return func() any { return known.explainChunks(r.Generation, taken, by, steps) }, nil
}

// explainChunks reports the chunks that were taken.
func (m *memory) explainChunks(
	generation *retrieve.Generation, taken []gem.Match, by map[int]gem.Match, steps map[int]gem.Step,
) GemExplain {
	out := GemExplain{Chunks: []GemChunk{}, Summaries: []GemSummary{}}
	for _, match := range taken {
		id := generation.Live.ByNumber(match.Node).ID
		chunk := GemChunk{
			ID: id.String(), Score: match.Score, Question: m.questionOf(match.Node, match.Question, id),
			Themes: m.inThemes[uint32(match.Node)],
		}
		node := match.Node
		if summary, brought := by[match.Node]; brought {
			node = summary.Node
			k := summary.Node - m.chunks
			theme := m.themes.Themes[k]
			chunk.Summary = &k
			reported := GemSummary{
				Theme: k, Lambda: theme.Lambda, Score: summary.Score, Summary: theme.Summary,
				Question: theme.Questions[summary.Question].Text, Members: []string{},
			}
			for _, node := range m.members[summary.Node] {
				reported.Members = append(reported.Members, generation.Live.ByNumber(node).ID.String())
			}
			out.Summaries = append(out.Summaries, reported)
		}
		if step, along := steps[node]; along {
			chunk.Step = m.explainStep(generation, step)
		}
		out.Chunks = append(out.Chunks, chunk)
	}
	return out
}

func (m *memory) explainStep(generation *retrieve.Generation, step gem.Step) *GemStep {
	out := &GemStep{Priority: step.Priority, Weight: step.Weight}
	switch {
	case step.From >= m.chunks:
		k := step.From - m.chunks
		out.Theme = &k
	case step.From >= 0:
		out.From = generation.Live.ByNumber(step.From).ID.String()
	}
	return out
}

// isFiltered reports whether a filter leaves out a passage of a theme, which the result then says.
func (m *memory) isFiltered(r *retrieve.Request, node int) bool {
	out := slices.ContainsFunc(m.members[node], func(member int) bool { return !r.AllowsNumber(uint32(member)) })
	if out && !slices.Contains(r.Result.Degraded, retrieve.NotesFilter) {
		r.Result.Degraded = append(r.Result.Degraded, retrieve.NotesFilter)
	}
	return out
}

// noteSummaries adds the summaries of themes that brought a passage of the result, but of none with a passage that a
// filter leaves out.
func (m *memory) noteSummaries(r *retrieve.Request, brought []int) {
	shown := r.Result.ListIDs()
	for _, node := range brought {
		if m.isFiltered(r, node) {
			continue
		}
		var sources []core.ID
		for _, member := range m.members[node] {
			if id := r.Generation.Live.ByNumber(member).ID; shown[id] {
				sources = append(sources, id)
			}
		}
		text := m.themes.Themes[node-m.chunks].Summary
		r.Result.Notes = append(r.Result.Notes, retrieve.Note{
			Kind: retrieve.NoteSummary, Text: text, Sources: [][]core.ID{sources},
		})
	}
}

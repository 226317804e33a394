// Package aprmethod answers questions by runs of facts (AutoPrunedRetriever): the method apr, which reads the
// enrichment facts (package factstage makes it).
package aprmethod

import (
	"context"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/methods/apr/facts"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// Name is the name of the method.
const Name = "apr"

// APRExplain is the explanation of apr: how the question was compared, the runs that were found with the terms of their
// scores, and what of them is reported in how many tokens.
type APRExplain struct {
	Names []string  `json:"names"` // of the question; none: it was compared as a whole
	By    string    `json:"by"`    // what found them: rules or chat
	Asked []APRAsks `json:"asked"` // triples of the question, where a model found any; ?x is what is asked for
	Runs  []APRRun  `json:"runs"`
	Told  []APRFact `json:"told"`

	Text     string         `json:"text"` // the facts in the encoding of the fewest tokens
	Encoding string         `json:"encoding"`
	Tokens   int            `json:"tokens"`
	Sizes    map[string]int `json:"sizes"` // tokens of the same facts in each encoding
	Repeated bool           `json:"all"`   // also facts that say what others say

}

// APRRun is a run with its scores: s_fine = top + 0.1 cover + 0.2 pairs + 0.1 distinct + 0.1 whole.
type APRRun struct {
	Coarse   float64  `json:"coarse"`
	Fine     float64  `json:"fine"`
	Top      float64  `json:"top"`
	Cover    float64  `json:"cover"`
	Pairs    float64  `json:"pairs"`
	Distinct float64  `json:"distinct"`
	Whole    float64  `json:"whole"`
	Kept     bool     `json:"kept"` // false: another run says the same
	Facts    []string `json:"facts"`
}

// APRAsks is a triple of a question.
type APRAsks struct {
	Head     string `json:"head"`
	Relation string `json:"relation"`
	Tail     string `json:"tail"`
}

// APRFact is a reported triple, and the chunks that say it.
type APRFact struct {
	Head     string   `json:"head"`
	Relation string   `json:"relation"`
	Tail     string   `json:"tail"`
	Chunks   []string `json:"chunks"`
}

// Method finds runs of triples, and ranks the chunks that say them.
type Method struct{}

// Spec implements retrieve.Method.
func (Method) Spec() retrieve.Spec {
	return retrieve.Spec{
		Name: Name, Doc: "runs of facts (AutoPrunedRetriever); the index needs enrich: [facts]", Entities: 10,
		Params: []retrieve.Param{
			retrieve.NewWhole("coarse", "runs kept after the coarse comparison", 1, 10_000, apr.DefaultSettings.Coarse),
			retrieve.NewWhole("runs", "runs kept after the fine comparison", 1, 1000, apr.DefaultSettings.Fine),
			retrieve.NewWhole("facts_budget", "token budget of the reported facts", 64, 100_000, 2000),
			retrieve.NewChoice(ParamContext,
				"what a chat model reads: passages, the facts of the question instead of them, or both",
				ContextPassages, ContextFacts, ContextBoth),
			retrieve.NewChoice("variant", "of the fine score: raw cosines, the authors' program, or the paper's formula",
				"raw", "code_compat", "paper"),
			retrieve.NewChoice(ParamTriples, "how the question is parsed: by rule, or by the chat model (paid)",
				retrieve.ByRules, retrieve.ByChat),
		},
		Needs: retrieve.Needs{
			Embedding: retrieve.ByClassEmbedder, Enriched: facts.Enrichment, FillByClassVector: true,
		},
		Reader:   &retrieve.Reader{Param: ParamTriples, ByRules: readNames, ByChat: askTriples},
		Explains: []retrieve.Shape{{Name: "ExplainAPR", Doc: "apr", Zero: APRExplain{}}},
	}
}

// ParamTriples is the parameter that says who finds the triples of a question.
const ParamTriples = "triples"

var variants = map[string]apr.Variant{"raw": apr.Raw, "code_compat": apr.CodeCompat, "paper": apr.Paper}

// Run implements retrieve.Method.
func (Method) Run(r *retrieve.Request) (retrieve.Explanation, error) {
	index, err := openFacts(r.Context(), r.Generation)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	settings := apr.Settings{
		Coarse: r.Query.Params.Int("coarse"), Fine: r.Query.Params.Int("runs"),
		Variant: variants[r.Query.Params.Text("variant")],
		Allow: func(source string) bool {
			chunk := r.Generation.Live.FindChunk(chunkOf(source))
			return chunk != nil && r.Allows(chunk)
		},
	}
	noted := r.Query.Params.Text(ParamContext) != ContextPassages
	if r.Query.Explain || noted { // counting tokens takes longer than all else
		settings.Budget, settings.Count = r.Query.Params.Int("facts_budget"), tokens.Count
	}
	settings.Stopped = func() bool { return r.Context().Err() != nil }
	asked := readAsked(r.Query)
	if err := r.Admit(index.EstimateSteps(asked, settings)); err != nil {
		return nil, err
	}
	found := index.Find(asked, settings)
	if settings.Stopped() {
		return nil, context.Cause(r.Context())
	}
	r.Result.Timing.Search = time.Since(start)
	most := r.Query.TopChunks
	if r.Query.Params.Text(ParamContext) == ContextFacts { // of all, those are chosen that say the reported facts
		most = len(found.Chunks)
	}
	for _, one := range found.Chunks[:min(len(found.Chunks), most)] {
		chunk := retrieve.Chunk{Live: r.Generation.Live.FindChunk(chunkOf(one.Chunk)), Score: one.Score}
		r.Result.Chunks = append(r.Result.Chunks, chunk)
	}
	if noted {
		noteFacts(r, index, found.Told)
	}
	r.Result.Chunks = r.Result.Chunks[:min(len(r.Result.Chunks), r.Query.TopChunks)]
	if len(r.Result.Chunks) == 0 && r.MatchesNothing() {
		return nil, nil
	}
	return func() any { return explainFound(r, index, found) }, nil
}

func explainFound(r *retrieve.Request, index *apr.Index, found apr.Found) APRExplain {
	out := APRExplain{
		Names: []string{}, Asked: []APRAsks{}, By: retrieve.ByRules,
		Runs: []APRRun{}, Told: []APRFact{}, Sizes: map[string]int{},
		Text: found.Choice.Text, Tokens: found.Choice.Tokens, Repeated: found.Choice.All,
	}
	asks, byChat := r.Query.Reading.Value.(apr.Asks)
	switch {
	case byChat:
		out.Names, out.By = asks.Entities, retrieve.ByChat
	case !found.Linked:
		out.Names = r.Query.Reading.Texts
	}
	for _, word := range asks.Words {
		out.Asked = append(out.Asked, APRAsks(word))
	}
	if found.Choice.Text != "" {
		out.Encoding = found.Choice.Encoding.String()
	}
	for encoding, size := range found.Sizes {
		out.Sizes[encoding.String()] = size
	}
	for _, run := range found.Runs {
		one := APRRun{
			Coarse: run.Coarse, Fine: run.Score, Top: run.Terms.Top, Cover: run.Terms.Cover, Pairs: run.Terms.Pairs,
			Distinct: run.Terms.Distinct, Whole: run.Terms.Whole, Kept: run.Kept, Facts: []string{},
		}
		for _, edge := range run.Edges {
			one.Facts = append(one.Facts, index.Text(edge))
		}
		out.Runs = append(out.Runs, one)
	}
	for _, edge := range found.Told {
		head, relation, tail := index.Words(edge)
		fact := APRFact{Head: head, Relation: relation, Tail: tail, Chunks: []string{}}
		for _, chunk := range citedBy(r, index, edge) {
			fact.Chunks = append(fact.Chunks, chunk.ID.String())
		}
		out.Told = append(out.Told, fact)
	}
	return out
}

// citedBy returns the chunks that say edges, and that the question may see.
func citedBy(r *retrieve.Request, index *apr.Index, edges ...uint32) []*liveset.Chunk {
	var out []*liveset.Chunk
	for _, source := range index.CiteChunks(edges) {
		if chunk := r.Generation.Live.FindChunk(chunkOf(source)); chunk != nil && r.Allows(chunk) {
			out = append(out, chunk)
		}
	}
	return out
}

// What ParamContext takes.
const (
	ParamContext    = "context"
	ContextPassages = "passages"
	ContextFacts    = "facts"
	ContextBoth     = "both"
)

// noteFacts adds the facts that are found for the question, those that a passage of the result says, in the encoding of
// the fewest tokens. Without passages in the context the result is the passages that say these facts.
func noteFacts(r *retrieve.Request, index *apr.Index, reported []uint32) {
	if len(reported) == 0 {
		return
	}
	alone := r.Query.Params.Text(ParamContext) == ContextFacts
	if alone {
		says := map[core.ID]bool{}
		for _, chunk := range citedBy(r, index, reported...) {
			says[chunk.ID] = true
		}
		r.Result.Chunks = slices.DeleteFunc(r.Result.Chunks, func(chunk retrieve.Chunk) bool { return !says[chunk.Live.ID] })
		r.Query.Params["fill"] = false // what fills up says none of the facts
	}
	r.Result.Chunks = r.Result.Chunks[:min(len(r.Result.Chunks), r.Query.TopChunks)]
	shown := r.Result.ListIDs()
	note := retrieve.Note{Kind: retrieve.NoteFacts}
	var words []apr.Word
	for _, edge := range reported {
		var sources []core.ID
		for _, chunk := range citedBy(r, index, edge) {
			if shown[chunk.ID] {
				sources = append(sources, chunk.ID)
			}
		}
		if sources != nil {
			head, relation, tail := index.Words(edge)
			words = append(words, apr.Word{Head: head, Relation: relation, Tail: tail})
			note.Sources = append(note.Sources, sources)
		}
	}
	if words == nil {
		r.Result.Degraded = append(r.Result.Degraded, retrieve.NotesPassages)
	} else {
		r.Result.NotesAlone = alone
		_, note.Text, _ = apr.ChooseEncoding(words, tokens.Count)
		r.Result.Notes = append(r.Result.Notes, note)
	}
}

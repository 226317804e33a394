package retrieve

import (
	"context"
	"time"

	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/model/tokens"
)

// APR is the name of the method.
const APR = "apr"

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

// aprMethod finds runs of triples, and ranks the chunks that say them.
type aprMethod struct{}

// Spec implements Method.
func (aprMethod) Spec() Spec {
	return Spec{
		Name: APR, Doc: "runs of facts (AutoPrunedRetriever); the index needs enrich: [facts]", Entities: 10,
		Params: []Param{
			NewWhole("coarse", "runs that are compared as wholes", 1, 10_000, apr.DefaultSettings.Coarse),
			NewWhole("runs", "runs that stay", 1, 1000, apr.DefaultSettings.Fine),
			NewWhole("facts_budget", "tokens of the facts that are reported", 64, 100_000, 2000),
			NewChoice(ParamContext, "what a chat model reads: passages, the facts of the question instead of them, or both",
				ContextPassages, ContextFacts, ContextBoth),
			NewChoice("variant", "of the fine score: raw cosines, the authors' program, or the paper's formula",
				"raw", "code_compat", "paper"),
			NewChoice(ParamTriples, "of the question: by rule, or by the chat model, which is paid for", ByRules, ByChat),
		},
		Needs:    Needs{Embedding: ByClassEmbedder, Names: true, Enriched: EnrichedFacts, FillByClassVector: true},
		Explains: []Shape{{"ExplainAPR", "apr", APRExplain{}}},
	}
}

// ParamTriples is the parameter that says who finds the triples of a question.
const ParamTriples = "triples"

// What ParamTriples takes.
const (
	ByRules = "rules"
	ByChat  = "chat"
)

var aprVariants = map[string]apr.Variant{"raw": apr.Raw, "code_compat": apr.CodeCompat, "paper": apr.Paper}

// Run implements Method.
func (aprMethod) Run(r *Request) (Explanation, error) {
	index, err := r.Generation.OpenFacts(r.ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	settings := apr.Settings{
		Coarse: r.Query.Params.Int("coarse"), Fine: r.Query.Params.Int("runs"),
		Variant: aprVariants[r.Query.Params.Text("variant")],
		Allow: func(source string) bool {
			chunk := r.Generation.Live.FindChunk(chunkOf(source))
			return chunk != nil && r.Allows(chunk)
		},
	}
	noted := r.Query.Params.Text(ParamContext) != ContextPassages
	if r.Query.Explain || noted { // counting tokens takes longer than all else
		settings.Budget, settings.Count = r.Query.Params.Int("facts_budget"), tokens.Count
	}
	settings.Stopped = func() bool { return r.ctx.Err() != nil }
	asked := apr.Asked{
		Words: r.Query.Asked.Words, Lines: r.Query.Asked.LineRows,
		Query: apr.Query{Entities: r.Query.Names, Relations: r.Query.Asked.RelationRows, Whole: r.Query.Vector},
	}
	if err := r.Admit(index.EstimateSteps(asked, settings)); err != nil {
		return nil, err
	}
	found := index.Find(asked, settings)
	if settings.Stopped() {
		return nil, context.Cause(r.ctx)
	}
	r.Result.Timing.Search = time.Since(start)
	most := r.Query.TopChunks
	if r.Query.Params.Text(ParamContext) == ContextFacts { // of all, those are chosen that say the reported facts
		most = len(found.Chunks)
	}
	for _, one := range found.Chunks[:min(len(found.Chunks), most)] {
		chunk := Chunk{Live: r.Generation.Live.FindChunk(chunkOf(one.Chunk)), Score: one.Score}
		r.Result.Chunks = append(r.Result.Chunks, chunk)
	}
	if noted {
		r.noteFacts(index, found.Told)
	}
	r.Result.Chunks = r.Result.Chunks[:min(len(r.Result.Chunks), r.Query.TopChunks)]
	if len(r.Result.Chunks) == 0 && r.noMatch() {
		return nil, nil
	}
	return func() any { return r.explainAPR(index, found) }, nil
}

func (r *Request) explainAPR(index *apr.Index, found apr.Found) APRExplain {
	out := APRExplain{
		Names: []string{}, Asked: []APRAsks{}, By: ByRules, Runs: []APRRun{}, Told: []APRFact{}, Sizes: map[string]int{},
		Text: found.Choice.Text, Tokens: found.Choice.Tokens, Repeated: found.Choice.All,
	}
	switch {
	case len(r.Query.Asked.Words) > 0:
		out.Names, out.By = r.Query.Asked.Entities, r.Query.Asked.By
	case !found.Linked:
		out.Names = r.Generation.QuestionNames(r.Query.Text)
	}
	for _, word := range r.Query.Asked.Words {
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
		for _, chunk := range r.citedBy(index, edge) {
			fact.Chunks = append(fact.Chunks, chunk.ID.String())
		}
		out.Told = append(out.Told, fact)
	}
	return out
}

// citedBy returns the chunks that say edges, and that the question may see.
func (r *Request) citedBy(index *apr.Index, edges ...uint32) []*liveset.Chunk {
	var out []*liveset.Chunk
	for _, source := range index.CiteChunks(edges) {
		if chunk := r.Generation.Live.FindChunk(chunkOf(source)); chunk != nil && r.Allows(chunk) {
			out = append(out, chunk)
		}
	}
	return out
}

package answer

import (
	"context"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/answer/extract"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/retrieve/snippet"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/text"
)

// Response is the answer to a query.
type Response struct {
	Index      string         `json:"index" doc:"of several: those that answered, with + between them"`
	Generation string         `json:"generation" doc:"empty where several indexes answered: see chunks and indexes"`
	Release    *int64         `json:"release" doc:"counts what the index published; null: not the generation served now"`
	Question   string         `json:"question,omitempty" doc:"with history: the question that was asked"`
	Method     string         `json:"method"`
	Rule       *string        `json:"rule"`
	Params     map[string]any `json:"params"`
	Reason     *string        `json:"reason" enum:"no_match,no_document,unknown_field,empty_index" doc:"why no passage"`
	ReasonText string         `json:"reason_text,omitempty" doc:"the reason in words"`
	Confidence *float64       `json:"confidence" doc:"probability that one of the first five answers; null: unknown"`
	Degraded   []string       `json:"degraded" doc:"missing parts; notes_budget, notes_filter, notes_passages: notes"`
	Chunks     []Chunk        `json:"chunks"`
	Entities   []Entity       `json:"entities"`
	Notes      []Note         `json:"notes,omitempty" doc:"facts and summaries; degraded lists those left out"`
	Answer     *Answer        `json:"answer"`
	Explain    any            `json:"explain,omitempty" ref:"Explain"`
	FilterText string         `json:"filter_text,omitempty" doc:"with explain: what the filter leaves in"`
	Usage      Usage          `json:"usage"`
	Timings    Timings        `json:"timings_ms"`
	Models     string         `json:"models"`
	Rerank     *Reranked      `json:"rerank,omitempty" doc:"absent: reranking was off"`
	Indexes    []IndexPart    `json:"indexes,omitempty" doc:"of /v1/query: each index that was asked"`
}

// IndexPart is what one of several indexes had to do with a response.
type IndexPart struct {
	Index      string    `json:"index"`
	Generation string    `json:"generation"`
	Code       string    `json:"code,omitempty" doc:"of the error by which it did not answer; the others did"`
	Method     string    `json:"method"`
	Reason     *string   `json:"reason" doc:"why it found nothing"`
	Confidence *float64  `json:"confidence" doc:"that one of its own first five passages says it"`
	Degraded   []string  `json:"degraded"`
	Chunks     int       `json:"chunks" doc:"how many of the response's passages are its own"`
	Rerank     *Reranked `json:"rerank,omitempty"`
	Explain    any       `json:"explain,omitempty" ref:"Explain"`
	FilterText string    `json:"filter_text,omitempty" doc:"with explain: what the filter leaves in"`
}

// Passage is a chunk as its document has it.
type Passage struct {
	ID       string            `json:"id"`
	Document string            `json:"document"`
	Version  string            `json:"version"`
	Stale    bool              `json:"stale,omitempty" doc:"of an earlier version: the document cannot be read now"`
	Title    string            `json:"title"`
	Heading  []string          `json:"heading,omitempty" doc:"path of headings above the start of the passage"`
	Page     int               `json:"page,omitempty" doc:"page on which the passage begins, from 1"`
	PageEnd  int               `json:"page_end,omitempty" doc:"page on which it ends"`
	Rects    []Rect            `json:"rects,omitempty" doc:"PDF only: areas of the pages that show the passage"`
	Metadata map[string]string `json:"metadata"`
	retrieve.VersionNote
	Ordinal int            `json:"ordinal"`
	Start   int            `json:"start"`
	End     int            `json:"end"`
	Text    string         `json:"text"`
	Markup  []snippet.Span `json:"markup,omitempty" doc:"code points of text that are marks or tags"`
}

// Chunk is a passage that a query found, and how.
type Chunk struct {
	Passage
	Score      float64     `json:"score"`
	Similarity *float64    `json:"similarity"`
	BM25       *float64    `json:"bm25"`
	Rank       int         `json:"rank"`
	Filled     bool        `json:"filled"`
	Rerank     *float64    `json:"rerank,omitempty" doc:"score of the reranker, which orders the passages"`
	FoundRank  int         `json:"found_rank,omitempty" doc:"place before reranking, from 1"`
	Index      string      `json:"index,omitempty" doc:"of /v1/query: where it stands"`
	Generation string      `json:"generation,omitempty" doc:"of /v1/query: that of its index"`
	IndexRank  int         `json:"index_rank,omitempty" doc:"of /v1/query: place in its own index, from 1"`
	InContext  bool        `json:"in_context"`
	Entities   []EntityRef `json:"entities"`
	Mentions   []Mention   `json:"mentions,omitempty" doc:"with explain: what was extracted from the passage"`
	Snippet    *Snippet    `json:"snippet,omitempty" doc:"in query results: the sentences that match best"`
	Highlights []Highlight `json:"highlights,omitempty" doc:"in query results: matching code points of text, in order"`
}

// Rect is a part of a page, in points (1/72 inch) from the upper left corner of the page as it is shown.
type Rect struct {
	Page       int `json:"page" doc:"from 1"`
	Left       int `json:"left"`
	Top        int `json:"top"`
	Right      int `json:"right"`
	Bottom     int `json:"bottom"`
	PageWidth  int `json:"page_width" doc:"of the whole page, in points"`
	PageHeight int `json:"page_height"`
}

// Snippet is the part of a chunk's text to show: text[start:end] in code points.
type Snippet struct {
	Text  string `json:"text"`
	Start int    `json:"start" doc:"code points of the passage's text"`
	End   int    `json:"end"`
}

// Highlight is a part of a chunk's text that matched, in code points, half open.
type Highlight struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// EntityRef names an entity.
type EntityRef struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Mention is an entity as a chunk's extraction has it; spans are code points of the document.
type Mention struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Spans       [][2]int `json:"spans" doc:"code points of the document's version, half open"`
	Located     bool     `json:"located"`
	Type        string   `json:"type,omitempty" doc:"of the types of the index; absent: none"`
}

// Entity of a response.
type Entity struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Type       string   `json:"type,omitempty" doc:"that most of its mentions have; absent: none has one"`
	Score      float64  `json:"score"`
	Similarity float64  `json:"similarity"`
	Rank       int      `json:"rank"`
	Chunks     []string `json:"chunks"`
	ChunkTotal int64    `json:"chunk_total"`
	Index      string   `json:"index,omitempty" doc:"of /v1/query: where it stands"`
}

// Answer of a response.
type Answer struct {
	Kind       string   `json:"kind" enum:"model,best_sentence,none" doc:"best_sentence: quoted from the cited passages"`
	Reason     string   `json:"reason,omitempty" doc:"why the chat model wrote no answer"`
	Confidence *float64 `json:"confidence,omitempty" doc:"for best_sentence: probability that it answers"`
	Lacks      []string `json:"lacks,omitempty" doc:"for best_sentence: words of the question that it lacks"`
	Text       string   `json:"text"`
	Citations  []string `json:"citations"`
	Truncated  bool     `json:"truncated,omitempty" doc:"the answer reached its maximum length"`
}

// Usage of a query.
type Usage struct {
	EmbeddingTokens  int64 `json:"embedding_tokens"`
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	EmbedCached      bool  `json:"embed_cached"`
	SavedTokens      int64 `json:"saved_embedding_tokens,omitempty" doc:"tokens saved by cached vectors"`
	NoteTokens       int64 `json:"note_tokens,omitempty" doc:"tokens of notes in the context"`
	PassageTokens    int64 `json:"passage_tokens,omitempty" doc:"tokens of the passages that fit beside the notes"`
	RerankTokens     int64 `json:"rerank_tokens,omitempty" doc:"if the server reports none: bytes sent / 4"`

	ConversationTokens int64 `json:"conversation_tokens,omitempty" doc:"part of both: to make the question"`
}

// Timings in milliseconds.
type Timings struct {
	Open     float64 `json:"open" doc:"opening the generation, if it is not in memory"`
	Condense float64 `json:"condense,omitempty" doc:"making one question of a conversation with a model"`
	Parse    float64 `json:"parse,omitempty" doc:"parsing the question into triples with a model"`
	Embed    float64 `json:"embed"`
	Search   float64 `json:"search"`
	Ballots  float64 `json:"ballots"`
	Election float64 `json:"election"`
	Chunks   float64 `json:"chunks"`
	Rerank   float64 `json:"rerank,omitempty"`
	Context  float64 `json:"context" doc:"choosing and counting the tokens of the context"`
	Answer   float64 `json:"answer"`
	Other    float64 `json:"other" doc:"rest of the total: filters, filling up, explanations, checks"`
	Total    float64 `json:"total"`
}

// End enters the total, and what the parts leave of it.
func (t *Timings) End(total time.Duration) {
	t.Total = Milliseconds(total)
	t.Other = math.Round(1000*max(0, t.Total-t.Open-t.Condense-t.Parse-t.Embed-t.Search-t.Ballots-t.Election-
		t.Chunks-t.Rerank-t.Context-t.Answer)) / 1000
}

// Milliseconds returns a duration in milliseconds, as timings report it.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// newResponse returns the answer to a request before anything is found.
func newResponse(request Request, generation *retrieve.Generation) Response {
	response := Response{
		Index:      generation.Manifest.Index,
		Generation: generation.Manifest.Generation,
		Method:     request.Method,
		Rule:       request.Rule,
		Params:     request.Params,
		Degraded:   []string{},
		Chunks:     []Chunk{},
		Entities:   []Entity{},
		Models:     generation.Manifest.Models.Embedding,
	}
	if generation.Release > 0 { // 0: opened by its name
		response.Release = &generation.Release
	}
	if response.Params == nil {
		response.Params = map[string]any{}
	}
	return response
}

// fillResponse turns found chunks and entities into the response.
func (r *Response) fillResponse(
	ctx context.Context,
	generation *retrieve.Generation,
	found retrieve.Result,
	request Request, plan planned,
) error {
	chunks := make([]Chunk, len(found.Chunks))
	if err := parallel.Each(ctx, len(chunks), len(chunks), func(ctx context.Context, i int) (err error) {
		chunks[i].Entities = []EntityRef{}
		chunks[i].Passage, err = PassageOf(ctx, generation, found.Chunks[i].Live)
		if err == nil && request.Explain {
			chunks[i].Mentions, _, err = MentionsIn(ctx, generation, found.Chunks[i].Live)
		}
		return err
	}); err != nil {
		return err
	}
	asked := snippet.NewQuestion(generation.Language(), request.Query, generation.TermWeight)
	shown, documents := map[core.ID]bool{}, map[uint32]bool{}
	for _, hit := range found.Chunks {
		documents[hit.Live.Document] = true
	}
	versions := generation.ViewVersions(plan.at, plan.Without.Documents)
	for i, hit := range found.Chunks {
		chunk := chunks[i]
		versions.AddSuperseders(&chunk.VersionNote, hit.Live.Document, documents)
		chunk.Score, chunk.Rank, chunk.Filled = hit.Score, i+1, hit.Filled
		if hit.Reranked {
			chunk.Rerank, chunk.FoundRank = &hit.Rerank, hit.Found
		}
		if hit.HasSim {
			chunk.Similarity = &hit.Similarity
		}
		if hit.HasBM25 {
			chunk.BM25 = &hit.BM25
		}
		var names []snippet.Name
		for _, voter := range hit.Why {
			entity := found.Entities[voter]
			chunk.Entities = append(chunk.Entities, EntityRef{entity.ID.String(), entity.Name})
			names = append(names, snippet.Name{Text: entity.Name, Weight: entity.Score})
		}
		chunk.showSnippet(asked.FindSnippet(chunk.Text, names))
		shown[hit.Live.ID] = true
		r.Chunks = append(r.Chunks, chunk)
	}
	for i, voter := range found.Entities {
		entity := Entity{
			ID:         voter.ID.String(),
			Name:       voter.Name,
			Type:       generation.Live.TypeAt(voter.Place),
			Score:      voter.Score,
			Similarity: voter.Similarity,
			Rank:       i + 1,
			Chunks:     []string{},
			ChunkTotal: voter.Total,
		}
		for _, id := range voter.Chunks {
			if shown[id] {
				entity.Chunks = append(entity.Chunks, id.String())
			}
		}
		r.Entities = append(r.Entities, entity)
	}
	return nil
}

// includeSpan moves the snippet to show a part of the text that it leaves out.
func (c *Chunk) includeSpan(language *text.Language, part snippet.Span) {
	if c.Snippet.Start <= part.Start && part.End <= c.Snippet.End {
		return
	}
	both := snippet.Span{Start: min(c.Snippet.Start, part.Start), End: max(c.Snippet.End, part.End)}
	if both.End-both.Start > snippet.Most {
		both = part
	}
	c.showSnippet(snippet.Found{Span: snippet.CutAround(language, c.Text, both)})
}

// showSnippet says what of a chunk is worth reading.
func (c *Chunk) showSnippet(found snippet.Found) {
	text := strings.ReplaceAll(string([]rune(c.Text)[found.Start:found.End]), "\f", "\n") // ends of pages
	c.Snippet = &Snippet{Text: text, Start: found.Start, End: found.End}
	for _, span := range found.Highlights {
		c.Highlights = append(c.Highlights, Highlight(span))
	}
}

// PassageOf reads what a chunk says and where it stands. What supersedes its document depends on the time, and is none
// of it.
func PassageOf(ctx context.Context, generation *retrieve.Generation, chunk *liveset.Chunk) (Passage, error) {
	var document rows.Document
	var text string
	if err := parallel.RunTogether(ctx,
		func(ctx context.Context) (err error) {
			document, err = generation.ReadDocument(ctx, int(chunk.Document))
			return err
		},
		func(ctx context.Context) (err error) { text, err = generation.ReadText(ctx, chunk); return err },
	); err != nil {
		return Passage{}, err
	}
	metadata := document.Meta
	if metadata == nil {
		metadata = map[string]string{}
	}
	page, pageEnd := document.PagesOf(int(chunk.Start), int(chunk.End))
	if len(document.Transcribed) > 0 && !document.IsTranscribed(page, pageEnd) {
		metadata = maps.Clone(metadata)
		delete(metadata, core.MetaTranscribed) // of other pages of the document
	}
	return Passage{
		Heading:     document.HeadingAt(int(chunk.Start)),
		Page:        page,
		PageEnd:     pageEnd,
		Rects:       rectsOf(document, int(chunk.Start), int(chunk.End)),
		ID:          chunk.ID.String(),
		Document:    generation.Live.Key(int(chunk.Document)),
		Version:     document.Version.String(),
		Stale:       document.Stale,
		Title:       document.Title,
		Metadata:    metadata,
		VersionNote: retrieve.ReadVersion(metadata),
		Ordinal:     int(chunk.Ordinal),
		Start:       int(chunk.Start),
		End:         int(chunk.End),
		Text:        text,
		Markup:      extract.FindMarkup(text),
	}, nil
}

// rectsOf returns the parts of a document's pages on which a chunk stands.
func rectsOf(document rows.Document, start, end int) (out []Rect) {
	for _, rect := range document.RectsOf(start, end) {
		sheet := document.SheetOf(rect.Page)
		out = append(out, Rect{
			Page: rect.Page, Left: rect.Left, Top: rect.Top, Right: rect.Right, Bottom: rect.Bottom,
			PageWidth: sheet.Width, PageHeight: sheet.Height,
		})
	}
	return out
}

// MentionsIn reads what was extracted from a chunk, with places in the document, and whether it is a fallback.
func MentionsIn(ctx context.Context, generation *retrieve.Generation, chunk *liveset.Chunk) ([]Mention, bool, error) {
	extract, err := generation.ReadExtraction(ctx, chunk)
	if err != nil {
		return nil, false, err
	}
	out := []Mention{}
	for _, entity := range extract.Entities {
		mention := Mention{entity.Name, entity.Description, [][2]int{}, len(entity.Spans) > 0, entity.Type}
		for _, span := range entity.Spans {
			mention.Spans = append(mention.Spans, [2]int{int(chunk.Start) + span[0], int(chunk.Start) + span[1]})
		}
		out = append(out, mention)
	}
	return out, extract.Fallback != "", nil
}

package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/live"
	"github.com/unweaver/unweaver/internal/llm"
	"github.com/unweaver/unweaver/internal/llm/limit"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// Request is the body of a query (DESIGN §9).
type Request struct {
	Query            string         `json:"query"`
	Method           string         `json:"method"`
	Rule             *string        `json:"rule"`
	TopEntities      *int           `json:"top_entities"`
	TopChunks        *int           `json:"top_chunks"`
	Params           map[string]any `json:"params"`
	Filter           Filter         `json:"filter"`
	Without          Without        `json:"without"`
	MaxContextTokens *int           `json:"max_context_tokens"`
	Answer           bool           `json:"answer"`
	Explain          bool           `json:"explain"`
	Generation       *string        `json:"generation"`
}

// Filter narrows a query to documents.
type Filter struct {
	DocumentPrefix *string           `json:"document_prefix"`
	Metadata       map[string]string `json:"metadata"`
	Modified       struct {
		From *time.Time `json:"from"`
		To   *time.Time `json:"to"`
	} `json:"modified"`
}

// Without drops entities and documents from a query.
type Without struct {
	Entities  []string `json:"entities"`
	Documents []string `json:"documents"`
}

// Response is the answer to a query.
type Response struct {
	Index      string         `json:"index"`
	Generation string         `json:"generation"`
	Release    int64          `json:"release"`
	Method     string         `json:"method"`
	Rule       *string        `json:"rule"`
	Params     map[string]any `json:"params"`
	Reason     *string        `json:"reason"`
	Degraded   []string       `json:"degraded"`
	Chunks     []Chunk        `json:"chunks"`
	Entities   []Entity       `json:"entities"`
	Answer     *Answer        `json:"answer"`
	Explain    any            `json:"explain,omitempty"`
	Usage      Usage          `json:"usage"`
	Timings    Timings        `json:"timings_ms"`
	Models     string         `json:"models"`
}

// Chunk of a response.
type Chunk struct {
	ID         string            `json:"id"`
	Document   string            `json:"document"`
	Version    string            `json:"version"`
	Title      string            `json:"title"`
	Metadata   map[string]string `json:"metadata"`
	Ordinal    int               `json:"ordinal"`
	Start      int               `json:"start"`
	End        int               `json:"end"`
	Text       string            `json:"text"`
	Score      float64           `json:"score"`
	Similarity *float64          `json:"similarity"`
	BM25       *float64          `json:"bm25"`
	Rank       int               `json:"rank"`
	Filled     bool              `json:"filled"`
	InContext  bool              `json:"in_context"`
	Entities   []EntityRef       `json:"entities"`
	Mentions   []Mention         `json:"mentions,omitempty"` // with explain: what was extracted from it, and where it stands
}

// EntityRef names an entity.
type EntityRef struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Entity of a response.
type Entity struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Score      float64  `json:"score"`
	Similarity float64  `json:"similarity"`
	Rank       int      `json:"rank"`
	Chunks     []string `json:"chunks"`
	ChunkTotal int64    `json:"chunk_total"`
}

// Answer of a response.
type Answer struct {
	Text      string   `json:"text"`
	Citations []string `json:"citations"`
}

// Usage of a query.
type Usage struct {
	EmbeddingTokens  int64 `json:"embedding_tokens"`
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	EmbedCached      bool  `json:"embed_cached"`
}

// Timings in milliseconds.
type Timings struct {
	Embed    float64 `json:"embed"`
	Search   float64 `json:"search"`
	Ballots  float64 `json:"ballots"`
	Election float64 `json:"election"`
	Chunks   float64 `json:"chunks"`
	Answer   float64 `json:"answer"`
	Total    float64 `json:"total"`
}

// Limits of a query.
const (
	maxBody          = 64 << 10
	maxQuery         = 8192
	maxTopEntities   = 1000
	maxTopChunks     = 100
	maxContextTokens = 131072
	defaultContext   = 4000
	answerTimeout    = 120 * time.Second
)

var requestKeys = []string{"query", "method", "rule", "top_entities", "top_chunks", "params", "filter", "without", "max_context_tokens", "answer", "explain", "generation"}

// decode reads a body strictly: what a query means must not depend on a misspelt field.
func decode(w http.ResponseWriter, r *http.Request) (Request, error) {
	var q Request
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		return q, fault.New(fault.TooLarge, fault.Bad, "read body", "", fmt.Sprintf("a query may have at most %d KiB", maxBody>>10), "shorten it")
	}
	if err != nil {
		return q, fault.New(fault.Usage, fault.Bad, "read body", "", err, "")
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return q, invalid("read query", name, "unknown field", "known: "+strings.Join(requestKeys, ", "))
		}
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) {
			return q, invalid("read query", te.Field, "want "+te.Type.String()+", got "+te.Value, "")
		}
		return q, fault.New(fault.Usage, fault.Bad, "read body", "", err, "send one JSON object")
	}
	if d.More() {
		return q, fault.New(fault.Usage, fault.Bad, "read body", "", "something follows the JSON object", "send one JSON object")
	}
	return q, nil
}

// bounded checks a number with its limits and default.
func bounded(name string, v *int, lo, hi, def int) (int, error) {
	if v == nil {
		return def, nil
	}
	if *v < lo || *v > hi {
		return 0, invalid("read query", name, fmt.Sprintf("want %d to %d, got %d", lo, hi, *v), "")
	}
	return *v, nil
}

// plan checks a request against a generation's defaults.
func (q *Request) plan(g *retrieve.Generation) (retrieve.Query, int, error) {
	var out retrieve.Query
	var err error
	q.Query = strings.TrimSpace(q.Query)
	if n := utf8.RuneCountInString(q.Query); n < 1 || n > maxQuery {
		return out, 0, invalid("read query", "query", fmt.Sprintf("want 1 to %d code points after trimming, got %d", maxQuery, n), "")
	}
	if q.Method == "" {
		q.Method = g.Spec.Retrieval.Method
	}
	if !slices.Contains(config.Methods, q.Method) {
		return out, 0, invalid("read query", "method", fmt.Sprintf("%q is not known", q.Method), "known: "+strings.Join(config.Methods, ", "))
	}
	if q.Rule != nil && (q.Method != "unweaver" || !slices.Contains(config.Rules, *q.Rule)) {
		return out, 0, invalid("read query", "rule", fmt.Sprintf("%q is not known for method %s", *q.Rule, q.Method), "rules of method unweaver: "+strings.Join(config.Rules, ", "))
	}
	if q.Rule == nil && q.Method == "unweaver" {
		q.Rule = &g.Spec.Retrieval.Rule
	}
	out.Text, out.Method, out.MinSim, out.Explain = q.Query, q.Method, g.Spec.Retrieval.MinSimilarity, q.Explain
	if q.Rule != nil {
		out.Rule = *q.Rule
	}
	if out.Params, err = params(q.Method, q.Params); err != nil {
		return out, 0, err
	}
	if out.TopEntities, err = bounded("top_entities", q.TopEntities, 1, maxTopEntities, retrieve.DefaultEntities(q.Method)); err != nil {
		return out, 0, err
	}
	if out.TopChunks, err = bounded("top_chunks", q.TopChunks, 1, maxTopChunks, g.Spec.Retrieval.TopChunks); err != nil {
		return out, 0, err
	}
	budget, err := bounded("max_context_tokens", q.MaxContextTokens, 1, maxContextTokens, defaultContext)
	if err != nil {
		return out, 0, err
	}
	return out, budget, q.narrow(&out)
}

// narrow reads filter and without.
func (q *Request) narrow(out *retrieve.Query) error {
	if p := q.Filter.DocumentPrefix; p != nil {
		out.Filter.Prefix = *p
	}
	out.Filter.Metadata = q.Filter.Metadata
	if t := q.Filter.Modified.From; t != nil {
		out.Filter.From = *t
	}
	if t := q.Filter.Modified.To; t != nil {
		out.Filter.To = *t
	}
	out.Without = retrieve.Without{Entities: map[corpus.ID]bool{}, Documents: map[string]bool{}}
	for _, e := range q.Without.Entities {
		id, err := corpus.ParseID(e)
		if err != nil {
			return invalid("read query", "without.entities", err.Error(), "give ids as the response's entities have them")
		}
		out.Without.Entities[id] = true
	}
	for _, d := range q.Without.Documents {
		out.Without.Documents[d] = true
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// query answers POST /v1/indexes/{index}/query.
func (s *Server) query(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("index")
	res, err := s.answer(w, r, name)
	outcome := "ok"
	if err != nil {
		outcome = string(fault.CodeOf(err))
		name = "" // names that do not exist must not become label values
	}
	s.metrics.queries.WithLabelValues(name, res.Method, outcome).Inc()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeJSON(w, res)
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, name string) (Response, error) {
	start := time.Now()
	var res Response
	q, err := decode(w, r)
	if err != nil {
		return res, err
	}
	timeout := s.Timeout
	if q.Answer {
		timeout = answerTimeout
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	gen := ""
	if q.Generation != nil {
		gen = *q.Generation
	}
	g, err := s.pin(ctx, name, gen)
	if err != nil {
		return res, err
	}
	defer g.Close()
	rq, budget, err := q.plan(g)
	if err != nil {
		return res, err
	}
	res = Response{Index: name, Generation: g.Manifest.Generation, Release: g.Release, Method: q.Method, Rule: q.Rule, Params: q.Params, Degraded: []string{},
		Chunks: []Chunk{}, Entities: []Entity{}, Models: g.Manifest.Models.Embedding}
	if res.Params == nil {
		res.Params = map[string]any{}
	}
	if err := s.vectors(ctx, g, &rq, &res); err != nil {
		return res, err
	}
	found, err := retrieve.Searcher{Vectors: s.Vectors, Classes: s.Classes}.Run(ctx, g, rq)
	if err != nil {
		return res, err
	}
	res.Timings.Search, res.Timings.Ballots, res.Timings.Election = ms(found.Timing.Search), ms(found.Timing.Ballots), ms(found.Timing.Election)
	if found.Reason != "" {
		res.Reason = &found.Reason
	}
	at := time.Now()
	if err := s.fill(ctx, g, found, &res); err != nil {
		return res, err
	}
	for i := range res.Chunks {
		if !q.Explain {
			break
		}
		if res.Chunks[i].Mentions, _, err = mentions(ctx, g, found.Chunks[i].Live); err != nil {
			return res, err
		}
	}
	res.Timings.Chunks = ms(time.Since(at))
	if err := s.complete(ctx, g, q, budget, &res); err != nil {
		return res, err
	}
	res.Explain = found.Explain
	res.Degraded = append(res.Degraded, found.Degraded...)
	res.Timings.Total = ms(time.Since(start))
	return res, nil
}

// vectors embeds the question as its method needs: by the class embedder, and by the chunk embedder where that is not
// built in. With an embedder that is down hybrid goes on without it.
func (s *Server) vectors(ctx context.Context, g *retrieve.Generation, rq *retrieve.Query, res *Response) (err error) {
	m := g.Manifest
	if rq.Method == retrieve.BM25 {
		return nil
	}
	at := time.Now()
	defer func() { res.Timings.Embed = ms(time.Since(at)) }()
	if rq.Method != retrieve.Vector {
		rq.Vector, err = s.embed(ctx, g, m.Class, rq.Text, res)
	}
	if err == nil && (rq.Method == retrieve.Vector || m.Chunk.Provider != "builtin") {
		rq.ChunkVector, err = s.embed(ctx, g, m.Chunk, rq.Text, res)
	}
	if rq.Method == retrieve.Hybrid && fault.Is(err, fault.EmbedderDown) {
		rq.Vector, rq.ChunkVector = nil, nil // the answer says that it is degraded
		return nil
	}
	return err
}

// embed gives the question's vector under a fingerprint.
func (s *Server) embed(ctx context.Context, g *retrieve.Generation, fp corpus.Fingerprint, question string, res *Response) ([]float32, error) {
	e, err := s.Models.Embedder(g.Spec, fp.Provider, fp.Dimension)
	if err != nil {
		return nil, err
	}
	if w, ok := e.(llm.Weighable); ok && g.IDF != nil && fp.IDF != "" {
		e = w.WithIDF(g.IDF.Weight)
	}
	key := fmt.Sprintf("%s %s %d %s ", fp.Provider, fp.Model, fp.Dimension, fp.IDF) // templates are of documents, not of questions
	vec, used, cached, err := s.embeds.get(ctx, key+question, func(ctx context.Context) ([]float32, int64, error) {
		if l, ok := e.(limit.Embedder); ok {
			l.Query = true
			e = l
		}
		vs, u, err := e.Embed(ctx, []string{question})
		if err != nil {
			if k := fault.As(err); k != nil && k.Code == fault.ModelUnavailable {
				err = fault.New(fault.EmbedderDown, fault.Transient, "embed question", "", err, "check the embedding server (models.embedding)")
			}
			return nil, 0, err
		}
		return vs[0], u.Prompt, nil
	})
	if !cached {
		res.Usage.EmbeddingTokens += used
	}
	res.Usage.EmbedCached = cached
	return vec, err
}

// fill turns found chunks and entities into the response.
func (s *Server) fill(ctx context.Context, g *retrieve.Generation, found retrieve.Result, res *Response) error {
	in := map[corpus.ID]bool{}
	for i, c := range found.Chunks {
		x, err := s.chunk(ctx, g, c.Live)
		if err != nil {
			return err
		}
		x.Score, x.Rank, x.Filled = c.Score, i+1, c.Filled
		if c.HasSim {
			x.Similarity = &c.Similarity
		}
		if c.HasBM25 {
			x.BM25 = &c.BM25
		}
		for _, v := range c.Why {
			x.Entities = append(x.Entities, EntityRef{found.Entities[v].ID.String(), found.Entities[v].Name})
		}
		in[c.Live.ID] = true
		res.Chunks = append(res.Chunks, x)
	}
	for i, e := range found.Entities {
		x := Entity{ID: e.ID.String(), Name: e.Name, Score: e.Score, Similarity: e.Similarity, Rank: i + 1, Chunks: []string{}, ChunkTotal: e.Total}
		for _, id := range e.Chunks {
			if in[id] {
				x.Chunks = append(x.Chunks, id.String())
			}
		}
		res.Entities = append(res.Entities, x)
	}
	return nil
}

// chunk reads what a response tells of a chunk.
func (s *Server) chunk(ctx context.Context, g *retrieve.Generation, c *live.Chunk) (Chunk, error) {
	d, err := g.Document(ctx, int(c.Document))
	if err != nil {
		return Chunk{}, err
	}
	t, err := g.Text(ctx, c)
	if err != nil {
		return Chunk{}, err
	}
	meta := d.Meta
	if meta == nil {
		meta = map[string]string{}
	}
	return Chunk{ID: c.ID.String(), Document: g.Live.Key(int(c.Document)), Version: d.Version.String(), Title: d.Title, Metadata: meta, Ordinal: int(c.Ordinal),
		Start: int(c.Start), End: int(c.End), Text: t, Entities: []EntityRef{}}, nil
}

// complete packs the context and, where asked for, answers.
func (s *Server) complete(ctx context.Context, g *retrieve.Generation, q Request, budget int, res *Response) error {
	ps := make([]retrieve.Passage, len(res.Chunks))
	for i, c := range res.Chunks {
		ps[i] = retrieve.Passage{ID: c.ID, Title: c.Title, Text: c.Text}
	}
	pack := retrieve.Context
	if g.Spec.Parity {
		pack = retrieve.ContextCSV
	}
	text, used := pack(ps, budget)
	for i := range res.Chunks {
		res.Chunks[i].InContext = used[i]
	}
	if !q.Answer {
		return nil
	}
	at := time.Now()
	chat, err := s.Models.Chat(g.Spec)
	if err != nil {
		return err
	}
	a, err := retrieve.Answer(ctx, chat, q.Query, text, ps, used)
	if err != nil {
		return err
	}
	if a.Citations == nil {
		a.Citations = []string{}
	}
	res.Answer = &Answer{a.Text, a.Citations}
	res.Usage.PromptTokens, res.Usage.CompletionTokens = a.Usage.Prompt, a.Usage.Completion
	res.Timings.Answer = ms(time.Since(at))
	return nil
}

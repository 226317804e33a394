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
	"github.com/unweaver/unweaver/internal/format/live"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/limits"
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

var requestKeys = []string{
	"query",
	"method",
	"rule",
	"top_entities",
	"top_chunks",
	"params",
	"filter",
	"without",
	"max_context_tokens",
	"answer",
	"explain",
	"generation",
}

// decode reads a body strictly: what a query means must not depend on a misspelt field.
func decode(w http.ResponseWriter, r *http.Request) (Request, error) {
	var request Request
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		return request, fault.TooLarge.At("read body", "").
			Because(fmt.Sprintf("a query may have at most %d KiB", maxBody>>10)).
			Advise("shorten it")
	}
	if err != nil {
		return request, fault.Usage.At("read body", "").Because(err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return request, invalid("read query", name, "unknown field", "known: "+strings.Join(requestKeys, ", "))
		}
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) {
			return request, invalid("read query", te.Field, "want "+te.Type.String()+", got "+te.Value, "")
		}
		return request, fault.Usage.At("read body", "").Because(err).Advise("send one JSON object")
	}
	if decoder.More() {
		return request, fault.Usage.At("read body", "").
			Because("something follows the JSON object").
			Advise("send one JSON object")
	}
	return request, nil
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
func (q *Request) plan(generation *retrieve.Generation) (retrieve.Query, int, error) {
	var out retrieve.Query
	var err error
	q.Query = strings.TrimSpace(q.Query)
	if n := utf8.RuneCountInString(q.Query); n < 1 || n > maxQuery {
		return out, 0, invalid(
			"read query",
			"query",
			fmt.Sprintf("want 1 to %d code points after trimming, got %d", maxQuery, n),
			"",
		)
	}
	if q.Method == "" {
		q.Method = generation.Spec.Retrieval.Method
	}
	if !slices.Contains(config.Methods, q.Method) {
		return out, 0, invalid(
			"read query",
			"method",
			fmt.Sprintf("%q is not known", q.Method),
			"known: "+strings.Join(config.Methods, ", "),
		)
	}
	if q.Rule != nil && (q.Method != "unweaver" || !slices.Contains(config.Rules, *q.Rule)) {
		return out, 0, invalid(
			"read query",
			"rule",
			fmt.Sprintf("%q is not known for method %s", *q.Rule, q.Method),
			"rules of method unweaver: "+strings.Join(config.Rules, ", "),
		)
	}
	if q.Rule == nil && q.Method == "unweaver" {
		q.Rule = &generation.Spec.Retrieval.Rule
	}
	out.Text, out.Method, out.MinSim, out.Explain = q.Query, q.Method, generation.Spec.Retrieval.MinSimilarity, q.Explain
	if q.Rule != nil {
		out.Rule = *q.Rule
	}
	if out.Params, err = params(q.Method, q.Params); err != nil {
		return out, 0, err
	}
	if out.TopEntities, err = bounded("top_entities", q.TopEntities, 1, maxTopEntities, retrieve.DefaultEntities(q.Method)); err != nil {
		return out, 0, err
	}
	if out.TopChunks, err = bounded("top_chunks", q.TopChunks, 1, maxTopChunks, generation.Spec.Retrieval.TopChunks); err != nil {
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
			return invalid(
				"read query",
				"without.entities",
				err.Error(),
				"give ids as the response's entities have them",
			)
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
func (s *Server) query(w http.ResponseWriter, request *http.Request) {
	name := request.PathValue("index")
	res, err := s.answer(w, request, name)
	outcome := "ok"
	if err != nil {
		outcome = string(fault.CodeOf(err))
		name = "" // names that do not exist must not become label values
	}
	s.metrics.queries.WithLabelValues(name, res.Method, outcome).Inc()
	if err != nil {
		s.fail(w, request, err)
		return
	}
	writeJSON(w, res)
}

func (s *Server) answer(w http.ResponseWriter, request *http.Request, name string) (Response, error) {
	start := time.Now()
	var res Response
	q, err := decode(w, request)
	if err != nil {
		return res, err
	}
	timeout := s.Timeout
	if q.Answer {
		timeout = answerTimeout
	}
	ctx, cancel := context.WithTimeout(request.Context(), timeout)
	defer cancel()
	gen := ""
	if q.Generation != nil {
		gen = *q.Generation
	}
	generation, err := s.pin(ctx, name, gen)
	if err != nil {
		return res, err
	}
	defer generation.Close()
	rq, budget, err := q.plan(generation)
	if err != nil {
		return res, err
	}
	res = Response{
		Index:      name,
		Generation: generation.Manifest.Generation,
		Release:    generation.Release,
		Method:     q.Method,
		Rule:       q.Rule,
		Params:     q.Params,
		Degraded:   []string{},
		Chunks:     []Chunk{},
		Entities:   []Entity{},
		Models:     generation.Manifest.Models.Embedding,
	}
	if res.Params == nil {
		res.Params = map[string]any{}
	}
	if err := s.vectors(ctx, generation, &rq, &res); err != nil {
		return res, err
	}
	found, err := retrieve.Searcher{Vectors: s.Vectors, Classes: s.Records}.Run(ctx, generation, rq)
	if err != nil {
		return res, err
	}
	res.Timings.Search, res.Timings.Ballots, res.Timings.Election = ms(
		found.Timing.Search,
	), ms(
		found.Timing.Ballots,
	), ms(
		found.Timing.Election,
	)
	if found.Reason != "" {
		res.Reason = &found.Reason
	}
	at := time.Now()
	if err := s.fill(ctx, generation, found, &res); err != nil {
		return res, err
	}
	for i := range res.Chunks {
		if !q.Explain {
			break
		}
		if res.Chunks[i].Mentions, _, err = mentions(ctx, generation, found.Chunks[i].Live); err != nil {
			return res, err
		}
	}
	res.Timings.Chunks = ms(time.Since(at))
	if err := s.complete(ctx, generation, q, budget, &res); err != nil {
		return res, err
	}
	res.Explain = found.Explain
	res.Degraded = append(res.Degraded, found.Degraded...)
	res.Timings.Total = ms(time.Since(start))
	return res, nil
}

// vectors embeds the question as its method needs: by the class embedder, and by the chunk embedder where that is not
// built in. With an embedder that is down hybrid goes on without it.
func (s *Server) vectors(
	ctx context.Context,
	generation *retrieve.Generation,
	rq *retrieve.Query,
	res *Response,
) (err error) {
	manifest := generation.Manifest
	if rq.Method == retrieve.BM25 {
		return nil
	}
	at := time.Now()
	defer func() { res.Timings.Embed = ms(time.Since(at)) }()
	if rq.Method != retrieve.Vector {
		rq.Vector, err = s.embed(ctx, generation, manifest.Class, rq.Text, res)
	}
	if err == nil && (rq.Method == retrieve.Vector || manifest.Chunk.Provider != "builtin") {
		rq.ChunkVector, err = s.embed(ctx, generation, manifest.Chunk, rq.Text, res)
	}
	if rq.Method == retrieve.Hybrid && fault.Is(err, fault.EmbedderDown) {
		rq.Vector, rq.ChunkVector = nil, nil // the answer says that it is degraded
		return nil
	}
	return err
}

// embed gives the question's vector under a fingerprint.
func (s *Server) embed(
	ctx context.Context,
	generation *retrieve.Generation,
	fp corpus.Fingerprint,
	question string,
	res *Response,
) ([]float32, error) {
	embedder, err := s.Models.Embedder(generation.Spec, fp.Provider, fp.Dimension)
	if err != nil {
		return nil, err
	}
	if w, ok := embedder.(model.Weighable); ok && generation.IDF != nil && fp.IDF != "" {
		embedder = w.WithIDF(generation.IDF.Weight)
	}
	key := fmt.Sprintf(
		"%s %s %d %s ",
		fp.Provider,
		fp.Model,
		fp.Dimension,
		fp.IDF,
	) // templates are of documents, not of questions
	vec, used, cached, err := s.embeds.get(ctx, key+question, func(ctx context.Context) ([]float32, int64, error) {
		if l, ok := embedder.(limits.Embedder); ok {
			l.Query = true
			embedder = l
		}
		vs, usage, err := embedder.Embed(ctx, []string{question})
		if err != nil {
			if k := fault.As(err); k != nil && k.Code == fault.ModelUnavailable {
				err = fault.EmbedderDown.At("embed question", "").
					Because(err).
					Advise("check the embedding server (models.embedding)")
			}
			return nil, 0, err
		}
		return vs[0], usage.Prompt, nil
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
	for i, chunk := range found.Chunks {
		x, err := s.chunk(ctx, g, chunk.Live)
		if err != nil {
			return err
		}
		x.Score, x.Rank, x.Filled = chunk.Score, i+1, chunk.Filled
		if chunk.HasSim {
			x.Similarity = &chunk.Similarity
		}
		if chunk.HasBM25 {
			x.BM25 = &chunk.BM25
		}
		for _, v := range chunk.Why {
			x.Entities = append(x.Entities, EntityRef{found.Entities[v].ID.String(), found.Entities[v].Name})
		}
		in[chunk.Live.ID] = true
		res.Chunks = append(res.Chunks, x)
	}
	for i, e := range found.Entities {
		entity := Entity{
			ID:         e.ID.String(),
			Name:       e.Name,
			Score:      e.Score,
			Similarity: e.Similarity,
			Rank:       i + 1,
			Chunks:     []string{},
			ChunkTotal: e.Total,
		}
		for _, id := range e.Chunks {
			if in[id] {
				entity.Chunks = append(entity.Chunks, id.String())
			}
		}
		res.Entities = append(res.Entities, entity)
	}
	return nil
}

// chunk reads what a response tells of a chunk.
func (s *Server) chunk(ctx context.Context, generation *retrieve.Generation, chunk *live.Chunk) (Chunk, error) {
	document, err := generation.Document(ctx, int(chunk.Document))
	if err != nil {
		return Chunk{}, err
	}
	t, err := generation.Text(ctx, chunk)
	if err != nil {
		return Chunk{}, err
	}
	meta := document.Meta
	if meta == nil {
		meta = map[string]string{}
	}
	return Chunk{
		ID:       chunk.ID.String(),
		Document: generation.Live.Key(int(chunk.Document)),
		Version:  document.Version.String(),
		Title:    document.Title,
		Metadata: meta,
		Ordinal:  int(chunk.Ordinal),
		Start:    int(chunk.Start),
		End:      int(chunk.End),
		Text:     t,
		Entities: []EntityRef{},
	}, nil
}

// complete packs the context and, where asked for, answers.
func (s *Server) complete(
	ctx context.Context,
	generation *retrieve.Generation,
	request Request,
	budget int,
	res *Response,
) error {
	ps := make([]retrieve.Passage, len(res.Chunks))
	for i, c := range res.Chunks {
		ps[i] = retrieve.Passage{ID: c.ID, Title: c.Title, Text: c.Text}
	}
	pack := retrieve.Context
	if generation.Spec.Parity {
		pack = retrieve.ContextCSV
	}
	text, used := pack(ps, budget)
	for i := range res.Chunks {
		res.Chunks[i].InContext = used[i]
	}
	if !request.Answer {
		return nil
	}
	at := time.Now()
	chat, err := s.Models.Chat(generation.Spec)
	if err != nil {
		return err
	}
	answered, err := retrieve.Answer(ctx, chat, request.Query, text, ps, used)
	if err != nil {
		return err
	}
	if answered.Citations == nil {
		answered.Citations = []string{}
	}
	res.Answer = &Answer{answered.Text, answered.Citations}
	res.Usage.PromptTokens, res.Usage.CompletionTokens = answered.Usage.Prompt, answered.Usage.Completion
	res.Timings.Answer = ms(time.Since(at))
	return nil
}

// Package answer answers a question from a generation, end to end: it checks what is asked, embeds it, has a model find
// its triples where a method compares them, searches, reranks, reads the texts, has the chat model answer, and prices
// all of it. HTTP, chat and MCP are forms of what it takes and gives.
//
//	request.go   what is asked
//	answer.go    the way through: embed, find, take, complete
//	several.go   one question to several indexes
//	conversation.go a question that refers to earlier ones
//	parse.go     the triples of a question
//	rerank.go    the order of the best chunks
//	bill.go      what it costs
//	response.go  what is answered
//	notes.go     what the chat model reads beside passages
//	embeds.go    vectors of questions that were asked before
package answer

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/answer/extract"
	"github.com/unweaver/unweaver/internal/answer/prompt"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Models makes the models that questions need.
type Models interface {
	Chat(spec core.Spec, role string) (model.Chat, error)
	Embedder(spec core.Spec, provider string, dimension int) (model.Embedder, error)
	// Ranker is nil where the spec has none.
	Ranker(spec core.Spec) (rerank.Ranker, error)
}

// Service answers questions. It is safe for concurrent use. Make it with New.
type Service struct {
	Observer Observer // nil: none. Set it before use

	models   Models
	searcher retrieve.Searcher
	log      *slog.Logger
	embeds   *embedCache
}

// New makes a service; the stores and methods are those of the searcher.
func New(models Models, searcher retrieve.Searcher, log *slog.Logger) *Service {
	return &Service{models: models, searcher: searcher, log: log, embeds: newEmbedCache()}
}

// Observer receives searches before they begin, by names and counts. A search uses the context that it gives; the
// function that it returns is called once, when the search is over.
type Observer interface {
	BeginRetrieval(ctx context.Context, index, method string, chunks int) (context.Context, func(error))
}

// Caller is who asks, as far as questions cost money.
type Caller interface {
	// ID names who asks; empty: it is not known.
	ID() string
	// AdmitAnswer admits a question that the chat model is asked about, which costs so many tokens and so much money,
	// about.
	AdmitAnswer(ctx context.Context, tokens int64, money float64) error
	// AdmitCall admits a paid call that is part of no answer, such as the embedding of a question.
	AdmitCall() error
	// Spend counts what a question cost.
	Spend(tokens int64, money float64)
}

// Found takes a response before its answer is written, and returns the context that the chat model is asked with.
type Found func(ctx context.Context, response Response) (context.Context, error)

// Ask answers a question from a generation. found is called before the chat model is; nil: nothing is. The response is
// of use where an error names the method that was asked.
func (s *Service) Ask(
	ctx context.Context, generation *retrieve.Generation, body Request, caller Caller, found Found,
) (Response, error) {
	cost := &bill{admit: caller.AdmitCall, reader: caller.ID()}
	asked := &question{generation: generation, body: body, cost: cost, talk: newTalk(body, cost, generation.Spec)}
	defer func() { caller.Spend(cost.tokens, cost.money) }() // also of a request that fails, or whose client has gone
	ctx = asked.cost.watchSends(ctx)
	err := s.prepareQuestion(ctx, asked, func() error {
		tokens, money := body.estimateCost(generation.Spec)
		return caller.AdmitAnswer(ctx, tokens, money)
	})
	asked.talk.enterUsage(&asked.response)
	if err == nil {
		err = s.searchPassages(ctx, asked)
	}
	if err == nil {
		err = s.completeResponse(ctx, asked, found)
	}
	return asked.response, err
}

// question is one that a generation is asked, on its way to the answer.
type question struct {
	generation *retrieve.Generation
	body       Request
	plan       planned
	result     retrieve.Result
	response   Response
	cost       *bill
	talk       *talk
}

// prepareQuestion checks what is asked, admits it and embeds it.
func (s *Service) prepareQuestion(ctx context.Context, asked *question, admit func() error) (err error) {
	body, spec := &asked.body, asked.generation.Spec
	if asked.plan, err = body.planQuery(spec.Retrieval, s.searcher.Methods); err != nil {
		return err
	}
	plan := &asked.plan
	if plan.reranks, err = body.needsRerank(spec.Rerank); err != nil {
		return err
	}
	if plan.parser, err = plan.parsedBy(spec); err != nil {
		return err
	}
	if body.Answer || plan.parser == retrieve.ByChat || asked.talk.asks { // counted once nothing can be refused
		if err := admit(); err != nil {
			return err
		}
	}
	asked.response = newResponse(*body, asked.generation)
	if err := s.readConversation(ctx, asked); err != nil {
		return err
	}
	return s.embedQuestion(ctx, asked.generation, plan, &asked.response, asked.cost)
}

// searchPassages enters into the response what is found.
func (s *Service) searchPassages(ctx context.Context, asked *question) (err error) {
	response := &asked.response
	if s.Observer != nil {
		observed, end := s.Observer.BeginRetrieval(ctx, response.Index, response.Method, asked.plan.TopChunks)
		ctx = observed
		defer func() { end(err) }()
	}
	result, err := s.findChunks(ctx, asked.generation, &asked.plan, response, asked.cost)
	if err != nil {
		return err
	}
	asked.result = result
	timings := &response.Timings
	timings.Search, timings.Ballots = Milliseconds(result.Timing.Search), Milliseconds(result.Timing.Ballots)
	timings.Election = Milliseconds(result.Timing.Election)
	if result.Reason != "" {
		response.Reason, response.ReasonText = &result.Reason, result.Words
	}
	response.Confidence = result.Confidence
	at := time.Now()
	if err := response.fillResponse(ctx, asked.generation, result, asked.body, asked.plan); err != nil {
		return err
	}
	timings.Chunks = Milliseconds(time.Since(at))
	response.Explain, response.FilterText = result.Explain, result.Filtered
	response.Degraded = append(response.Degraded, result.Degraded...)
	return nil
}

// embedQuestion embeds the question as its method needs. A method that degrades goes on without vectors while the
// embedder is down, and the answer says so.
func (s *Service) embedQuestion(
	ctx context.Context, generation *retrieve.Generation, plan *planned, response *Response, cost *bill,
) (err error) {
	manifest, needs := generation.Manifest, plan.spec.Needs
	if needs.Embedding == retrieve.NoEmbedding {
		return nil
	}
	at := time.Now()
	defer func() { response.Timings.Embed = Milliseconds(time.Since(at)) }()
	if needs.Embedding == retrieve.ByClassEmbedder {
		plan.Vector, err = s.askEmbedder(ctx, generation, manifest.Class, plan.Text, response, cost)
	}
	if err == nil && plan.spec.Reader != nil {
		err = s.readQuestion(ctx, generation, plan, response, cost)
	}
	byChunks := needs.Embedding == retrieve.ByChunkEmbedder || needs.Hashed || manifest.Chunk.Provider != "builtin"
	switch {
	case err != nil || !byChunks:
	case plan.Vector != nil && sameEmbedder(manifest.Class, manifest.Chunk): // one question, one embedding
		plan.ChunkVector = plan.Vector
	default:
		plan.ChunkVector, err = s.askEmbedder(ctx, generation, manifest.Chunk, plan.Text, response, cost)
	}
	if needs.Degrades && fault.Is(err, fault.EmbedderDown) {
		plan.Vector, plan.ChunkVector = nil, nil
		return nil
	}
	return err
}

// embedsAtOnce texts of one question.
const embedsAtOnce = 16

// embedEach embeds texts as questions, beside each other. What they cost counts as the question's does.
func (s *Service) embedEach(
	ctx context.Context, generation *retrieve.Generation, texts []string, response *Response, cost *bill,
) ([][]float32, error) {
	vectors, used, bills := make([][]float32, len(texts)), make([]Response, len(texts)), make([]bill, len(texts))
	err := parallel.Each(ctx, len(texts), min(len(texts), embedsAtOnce), func(ctx context.Context, i int) (err error) {
		bills[i].vectors, bills[i].admit, bills[i].reader = cost.vectors, cost.admit, cost.reader
		own := bills[i].watchSends(ctx)
		vectors[i], err = s.askEmbedder(own, generation, generation.Manifest.Class, texts[i], &used[i], &bills[i])
		return err
	})
	for i := range texts {
		cost.money += bills[i].money
		cost.tokens += bills[i].tokens
		response.Usage.EmbeddingTokens += used[i].Usage.EmbeddingTokens
		response.Usage.SavedTokens += used[i].Usage.SavedTokens
	}
	return vectors, err
}

// sameEmbedder reports whether a question has the same vector under two fingerprints: templates are of documents.
func sameEmbedder(a, b core.Fingerprint) bool {
	return a.Provider == b.Provider && a.Model == b.Model && a.Dimension == b.Dimension && a.IDF == b.IDF
}

// askEmbedder gives the question's vector under a fingerprint.
func (s *Service) askEmbedder(
	ctx context.Context, generation *retrieve.Generation, fingerprint core.Fingerprint, question string,
	response *Response, cost *bill,
) ([]float32, error) {
	embedder, err := s.models.Embedder(generation.Spec, fingerprint.Provider, fingerprint.Dimension)
	if err != nil && fingerprint.Provider == model.Neural { // its weights are not on this machine
		err = fault.EmbedderDown.At("embed question", "").Because(err).Advise(hintOf(err))
	}
	if err != nil {
		return nil, err
	}
	if embedder, err = asQuestions(embedder, fingerprint); err != nil {
		return nil, err
	}
	embedder = generation.Weigh(embedder, fingerprint)
	// Templates are of documents, not of questions, so they are not in the key. The index is: who asks one must not
	// learn what was asked of others; and so is the server, whose vectors count only for those who trust it. Where
	// documents have labels, no reader must learn what another asked, by what is cached or paid.
	reader := ""
	if generation.HasLabels() {
		reader = cost.reader
	}
	asks := embedder.Info() // not what the manifest of an image says of it
	by := fmt.Sprintf(
		"%q %s %s %d %s ", generation.Spec.Embedding.Domain(), asks.Provider, asks.Model,
		fingerprint.Dimension, generation.NameWeights(fingerprint),
	)
	key := fmt.Sprintf("%s %s%q ", generation.Manifest.Index, by, reader)
	paid := func(ctx context.Context) ([]float32, int64, error) {
		if err := cost.admitCall(embedder.Info().Paid); err != nil {
			return nil, 0, err
		}
		vectors, usage, err := embedder.Embed(model.CallerBound(ctx), []string{question})
		if embedder.Info().Paid {
			cost.add(generation.Spec.Embedding.Price, usage, err, 0, question)
		}
		if fault.Is(err, fault.ModelUnavailable) || fault.Is(err, fault.ModelUnreadable) {
			err = fault.EmbedderDown.At("embed question", "").
				Because(err).
				Advise("check that the embedding server runs (models.embedding)")
		}
		if err != nil {
			return nil, 0, err
		}
		return vectors[0], usage.Prompt, nil
	}
	shared := false // another index of the same request has paid
	embed := paid
	if cost.vectors != nil {
		server := generation.Spec.Embedding
		once := fmt.Sprintf("%q %q %s", server.BaseURL, server.APIKeyEnv, by)
		embed = func(ctx context.Context) (vector []float32, used int64, err error) {
			vector, used, shared, err = cost.vectors.get(ctx, once+question, paid)
			return vector, used, err
		}
	}
	vector, used, cached, err := s.embeds.get(ctx, key+question, embed)
	if cached || shared {
		response.Usage.SavedTokens += used
	} else {
		response.Usage.EmbeddingTokens += used
	}
	response.Usage.EmbedCached = cached
	return vector, err
}

// hintOf returns the hint of an error, which says what to do about it; empty where it has none.
func hintOf(err error) string {
	if known := fault.As(err); known != nil {
		return known.Hint
	}
	return ""
}

// asQuestions gives the embedder of questions. One inside this program is that of the generation: vectors of other
// weights mean something else.
func asQuestions(embedder model.Embedder, fingerprint core.Fingerprint) (model.Embedder, error) {
	if fingerprint.Provider == model.Neural && embedder.Info().Model != fingerprint.Model {
		return nil, fault.EmbedderDown.At("embed question", "").
			Because("the index has vectors of other weights than this program uses: " + fingerprint.Model + ", not " +
				embedder.Info().Model).
			Advise("index again, or serve it with the release that made it")
	}
	return model.ForQuestions(embedder), nil
}

// degradedAnswer stands in Response.Degraded where the chat model was asked and gave no answer.
const degradedAnswer = "chat_model"

// completeResponse packs the context and, where asked for, answers.
func (s *Service) completeResponse(ctx context.Context, asked *question, found Found) error {
	generation, plan, response, result := asked.generation, &asked.plan, &asked.response, asked.result
	passages := make([]prompt.Passage, len(response.Chunks))
	for i, chunk := range response.Chunks {
		mark := response.describeVersion(&chunk, plan.at)
		passages[i] = prompt.Passage{ID: chunk.ID, Title: chunk.Title, Mark: mark, Text: chunk.Text}
	}
	form := prompt.FormOf(generation.Spec.Parity, cmp.Or(asked.body.AnswerStyle, generation.Spec.Answer.Style))
	packing := time.Now()
	text, marked := response.addNotes(result.Notes, plan.budget, plan.at)
	given, used := form.Pack(passages, plan.budget-int(response.Usage.NoteTokens))
	if len(response.Notes) > 0 {
		response.Usage.PassageTokens = int64(tokens.Count(given))
	}
	if result.NotesAlone && text != "" {
		used = response.markCited()
	} else {
		text += given
		for i := range response.Chunks {
			marked = marked || !form.Whole && used[i] && passages[i].Mark != ""
			response.Chunks[i].InContext = used[i]
		}
	}
	form.Marked = marked
	response.Timings.Context = Milliseconds(time.Since(packing))
	if !asked.body.Answer {
		return nil
	}
	if found != nil {
		var err error
		if ctx, err = found(ctx, *response); err != nil {
			return err
		}
	}
	at := time.Now()
	chat, err := s.models.Chat(generation.Spec, core.RoleAnswer)
	if err != nil {
		chat = unmade{err}
	}
	chat = billed{chat, generation.Spec.ChatOf(core.RoleAnswer).Price, asked.cost, plan.most}
	if plan.unasked != "" {
		chat = builtin.Chat{}
	} else if !asked.body.NeedsModel {
		chat = excused{chat, s.log.With("index", generation.Manifest.Index)}
	}
	short := false
	var confidence *float64 // in what is quoted
	var lacks []string
	quote := func() string {
		if len(passages) == 0 {
			return response.ReasonText
		}
		whole := response.quotedNotes(plan.at)
		if whole == "" || !result.NotesAlone {
			var quotation string
			quotation, confidence, lacks = quoteExtracts(generation, asked.body.Query, response, used, plan.at)
			whole = cmp.Or(quotation, whole)
		}
		text := firstTokens(whole, plan.most)
		short = text != whole
		return text
	}
	answered, err := prompt.AnswerQuestion(
		model.CallerBound(ctx), chat, form, asked.body.Query, text, passages, used, quote,
	)
	if err != nil {
		return err
	}
	if answered.Missing = cmp.Or(answered.Missing, plan.unasked); answered.Missing != "" {
		response.Degraded = append(response.Degraded, degradedAnswer)
	}
	if answered.Citations == nil {
		answered.Citations = []string{}
	}
	response.Answer = &Answer{
		Kind: answered.Kind, Confidence: confidence, Lacks: lacks, Text: answered.Text, Citations: answered.Citations,
		Truncated: answered.Truncated || short, Reason: answered.Missing,
	}
	response.Usage.PromptTokens += answered.Usage.Prompt
	response.Usage.CompletionTokens += answered.Usage.Completion
	response.Timings.Answer = Milliseconds(time.Since(at))
	return nil
}

// QuotePassages returns the sentences of passages that were found already which answer a question; empty: none is good
// enough. No model is asked.
func QuotePassages(
	ctx context.Context, view *retrieve.Generation, question string, found retrieve.Result,
) (string, error) {
	body, at := Request{Query: question}, time.Now()
	response := newResponse(body, view)
	if err := response.fillResponse(ctx, view, found, body, planned{at: at}); err != nil {
		return "", err
	}
	response.Confidence = found.Confidence
	used := slices.Repeat([]bool{true}, len(response.Chunks))
	quotation, _, _ := quoteExtracts(view, question, &response, used, at)
	return quotation, nil
}

// floor is the confidence below which nothing is quoted.
const floor = 0.1

// quoteExtracts returns the best extracts of the chunks that were used, each with the mark of its passage, and the
// confidence in them, where that of the passages is known; nothing where none is good enough. Extracts that cannot be
// the whole answer say so.
func quoteExtracts(
	generation *retrieve.Generation, question string, response *Response, used []bool, at time.Time,
) (quotation string, confidence *float64, lacks []string) {
	passages := make([]extract.Passage, len(response.Chunks))
	for i, chunk := range response.Chunks {
		if used[i] {
			file, _, _ := strings.Cut(path.Base(chunk.Document), "#")
			passages[i] = extract.Passage{
				Title: chunk.Title, File: strings.TrimSuffix(file, path.Ext(file)), Heading: chunk.Heading, Text: chunk.Text,
			}
		}
	}
	found, evidence := extract.ChooseExtracts(
		generation.Language(), question, generation.TermWeight, generation.UnknownWeight(), passages,
	)
	if len(found) == 0 {
		return "", nil, nil
	}
	if response.Confidence != nil {
		chance := evidence.Confidence(*response.Confidence)
		if chance < floor {
			return "", nil, nil
		}
		confidence = &chance
	}
	var out []string
	for _, found := range slices.Backward(found) { // the first is the one to see where a snippet has no place for both
		response.Chunks[found.Passage].includeSpan(generation.Language(), found.Span)
	}
	for _, found := range found {
		force := response.describeForce(&response.Chunks[found.Passage], at)
		out = append(out, found.Text+" "+cite(found.Passage, force))
	}
	quotation = strings.Join(out, "\n")
	switch {
	case len(evidence.Lacks) > 0:
		quotation = fmt.Sprintf("No sentence answers the whole question (missing: %s); the nearest: %s",
			strings.Join(evidence.Lacks, ", "), quotation)
	case evidence.Fails:
		quotation = "No sentence answers the question; the nearest: " + quotation
	}
	return quotation, confidence, evidence.Lacks
}

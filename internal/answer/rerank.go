package answer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Reranked says what became of the order of chunks.
type Reranked struct {
	Model   string `json:"model"`
	Chunks  int    `json:"chunks" doc:"number of passages that were sent to the reranker"`
	Applied bool   `json:"applied" doc:"false: the passages are in search order"`
	Reason  string `json:"reason,omitempty" doc:"why it was not applied: timeout, or an error code"`
}

// degradedRerank stands in Response.Degraded where a reranker was to be asked, and chunks are as they were found.
const degradedRerank = "rerank"

// needsRerank reports whether a query's chunks are ordered again: where the index has a reranker, unless the query says
// no.
func (q *Request) needsRerank(settings core.RerankModel) (bool, error) {
	if q.Rerank != nil && *q.Rerank && !settings.IsOn() {
		return false, newFault("read query", "rerank", "the index has no reranker",
			"set models.rerank and build the index again, or omit rerank")
	}
	return settings.IsOn() && (q.Rerank == nil || *q.Rerank), nil
}

// findChunks searches, and has the best chunks ordered again where that is wanted. A reranker that is down, slow or
// wrong costs time and no answer: the chunks are then those of a search without it.
func (s *Service) findChunks(
	ctx context.Context, generation *retrieve.Generation, plan *planned, response *Response, cost *bill,
) (retrieve.Result, error) {
	if !plan.reranks {
		return s.searcher.Run(ctx, generation, plan.Query)
	}
	wide := plan.Query
	wide.TopChunks = max(plan.TopChunks, generation.Spec.Rerank.Top)
	found, err := s.searcher.Run(ctx, generation, wide)
	if err != nil || found.Reason != "" {
		return found, err
	}
	at := time.Now()
	scores, err := s.scoreChunks(ctx, generation, plan.Text, found.ListRanked(), response, cost)
	response.Timings.Rerank = Milliseconds(time.Since(at))
	if err == nil {
		response.Rerank.Applied = true
		found.Rerank(scores, plan.TopChunks)
		return found, nil
	}
	if ctx.Err() != nil { // the caller's own time is over
		return found, ctx.Err()
	}
	response.Rerank.Reason = codeOf(err)
	response.Degraded = append(response.Degraded, degradedRerank)
	level := slog.LevelWarn
	if fault.Is(err, fault.BudgetSpent) { // as each search of that caller today
		level = slog.LevelInfo
	}
	s.log.Log(ctx, level, "chunks were not reranked", "index", generation.Manifest.Index, "code", response.Rerank.Reason,
		"error", err.Error())
	if wide.TopChunks != plan.TopChunks { // some rules elect others for more seats
		return s.searcher.Run(ctx, generation, plan.Query)
	}
	return found, nil
}

// scoreChunks asks the reranker for the scores of chunks, within the time that it has.
func (s *Service) scoreChunks(
	ctx context.Context, generation *retrieve.Generation, question string, chunks []retrieve.Chunk, response *Response,
	cost *bill,
) ([]float64, error) {
	settings := generation.Spec.Rerank
	response.Rerank = &Reranked{Model: settings.Model, Chunks: len(chunks)}
	if len(chunks) == 0 { // all were filled up
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(model.CallerBound(ctx), time.Duration(settings.Timeout))
	defer cancel()
	ranker, err := s.models.Ranker(generation.Spec)
	if err != nil {
		return nil, err
	}
	if err := cost.admitCall(true); err != nil {
		return nil, err
	}
	texts := make([]string, len(chunks))
	if err := parallel.Each(ctx, len(chunks), len(chunks), func(ctx context.Context, i int) error {
		chunk, err := PassageOf(ctx, generation, chunks[i].Live)
		texts[i] = chunk.Title + "\n" + firstTokens(chunk.Text, settings.MaxInputTokens)
		return err
	}); err != nil {
		return nil, err
	}
	scores, usage, err := ranker.Rerank(ctx, question, texts)
	cost.addRerank(settings.Price, usage, err, append(texts, question)...)
	response.Usage.RerankTokens = usage.Prompt
	switch {
	case err != nil && ctx.Err() != nil:
		err = ctx.Err()
	case err == nil && len(scores) != len(texts):
		err = fault.BadRerank.At("rerank chunks", settings.Model).Because("its scores do not match the passages")
	}
	return scores, err
}

// addRerank enters a request to a reranker, which may be charged by its tokens and as one.
func (b *bill) addRerank(price core.RerankPrice, usage model.Usage, err error, texts ...string) {
	if b.sent && (err == nil || mayBeCharged(err) || fault.Is(err, fault.BadRerank)) {
		b.money += max(0, price.Call)
	}
	if price.Prompt == 0 { // nothing is to be estimated
		b.sent, b.tokens = false, b.tokens+usage.Prompt
		return
	}
	b.add(core.Price{Prompt: price.Prompt}, usage, err, 0, texts...)
}

// codeOf returns the code of a model's error, or timeout.
func codeOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return string(fault.Timeout)
	}
	return string(fault.CodeOf(err))
}

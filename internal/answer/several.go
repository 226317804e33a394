package answer

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

const (
	// fusionRank is the constant k of reciprocal rank fusion: rank r counts 1/(k+r). It is that of the five passages that
	// a confidence is about, so that an index of half the confidence begins behind the seventh passage of the other.
	fusionRank = 5
	// unknownConfidence is that of an index whose own is not known, as it has none of the question's words: it may be in
	// another language.
	unknownConfidence = 0.5
	// indexesAtOnce are asked beside each other.
	indexesAtOnce = 8
	// degradedIndex begins the entry in Response.Degraded of an index that did not answer.
	degradedIndex = "index:"
	// mixedModels is why no chat model is asked: passages of an index go to no other server than its own.
	mixedModels = "the indexes have different chat models, and passages go only to the one of their index"
)

// Opened is one of several indexes: its generation, or why it has none.
type Opened struct {
	Index      string
	Generation *retrieve.Generation
	Err        error
}

// AskSeveral answers a question from several indexes. Each is searched by itself, within a time that leaves the others
// theirs; their passages are fused, and one answer is given. An index that fails is named; where all do, the error is
// that of the first.
func (s *Service) AskSeveral(
	ctx context.Context, indexes []Opened, body Request, within time.Duration, caller Caller, found Found,
) (Response, error) {
	var specs []core.Spec
	for _, index := range indexes {
		if index.Err == nil {
			specs = append(specs, index.Generation.Spec)
		}
	}
	talk := newTalk(body, &bill{admit: caller.AdmitCall, reader: caller.ID()}, specs...)
	asked := s.searchEach(ctx, indexes, body, within, talk, sync.OnceValue(func() error {
		tokens, money := body.estimateCost(specs...)
		return caller.AdmitAnswer(ctx, tokens, money)
	}))
	defer func() {
		caller.Spend(talk.cost.tokens, talk.cost.money)
		for _, one := range asked {
			caller.Spend(one.cost.tokens, one.cost.money)
		}
	}()
	if err := ctx.Err(); errors.Is(err, context.Canceled) { // what is found by the deadline is of use
		return Response{}, err
	}
	var live []*question
	for i, one := range asked {
		if indexes[i].Err == nil {
			live = append(live, one)
		}
	}
	if len(live) == 0 {
		return Response{}, indexes[0].Err
	}
	whole := fuseQuestions(live)
	response := &whole.response
	talk.enterUsage(response)
	for i, one := range asked {
		response.Indexes = append(response.Indexes, s.newIndexPart(indexes[i], one, response))
	}
	for _, part := range response.Indexes {
		if part.Code != "" {
			response.addDegraded(degradedIndex + part.Index)
		}
	}
	err := s.completeResponse(whole.cost.watchSends(ctx), whole, found)
	return *response, err
}

// searchEach asks every index that is open. Errors are entered in indexes.
func (s *Service) searchEach(
	ctx context.Context, indexes []Opened, body Request, within time.Duration, talk *talk, admit func() error,
) []*question {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	asked, vectors := make([]*question, len(indexes)), newEmbedCache()
	for i, index := range indexes {
		asked[i] = &question{generation: index.Generation, body: body, talk: talk}
		asked[i].cost = &bill{vectors: vectors, admit: talk.cost.admit, reader: talk.cost.reader}
	}
	prepared := make([]bool, len(indexes))
	search := func(ctx context.Context, i int) error {
		ctx = asked[i].cost.watchSends(ctx)
		if !prepared[i] {
			if err := s.prepareQuestion(ctx, asked[i], admit); err != nil {
				return err
			}
			prepared[i] = true
		}
		return s.searchPassages(ctx, asked[i])
	}
	_ = parallel.Each(ctx, len(indexes), indexesAtOnce, func(ctx context.Context, i int) error {
		if indexes[i].Err == nil {
			indexes[i].Err = parallel.GuardMapped(func() error { return search(ctx, i) })
		}
		return nil
	})
	for i, index := range indexes {
		if index.Err == nil && !prepared[i] { // it was not begun in time
			indexes[i].Err = ctx.Err()
		}
		if prepared[i] && fault.Is(index.Err, fault.RateLimited) { // the others of this request took the heavy places
			indexes[i].Err = parallel.GuardMapped(func() error { return search(ctx, i) })
		}
	}
	return asked
}

// newIndexPart is what one index had to do with a response.
func (s *Service) newIndexPart(index Opened, asked *question, response *Response) IndexPart {
	own := asked.response
	out := IndexPart{
		Index: index.Index, Method: own.Method, Reason: own.Reason, Confidence: own.Confidence, Degraded: own.Degraded,
		Rerank: own.Rerank,
	}
	if response.Explain == nil { // of a single index it stands there
		out.Explain, out.FilterText = own.Explain, own.FilterText
	}
	if index.Generation != nil {
		out.Generation = index.Generation.Manifest.Generation
	}
	if index.Err != nil {
		out.Code, out.Degraded = codeOf(index.Err), []string{}
		s.log.Warn("one of several indexes did not answer", "index", index.Index, "code", out.Code,
			"error", index.Err.Error())
	}
	for _, chunk := range response.Chunks {
		if chunk.Index == index.Index {
			out.Chunks++
		}
	}
	return out
}

// fuseQuestions makes one question of those that several indexes were asked: with the best passages of all, and what
// the answer needs of the index that has the best one. A single one keeps its order and scores.
func fuseQuestions(asked []*question) *question {
	for _, one := range asked {
		for i := range one.response.Chunks {
			chunk := &one.response.Chunks[i]
			chunk.Index, chunk.Generation, chunk.IndexRank = one.response.Index, one.response.Generation, chunk.Rank
		}
		for i := range one.response.Entities {
			one.response.Entities[i].Index = one.response.Index
		}
	}
	if len(asked) == 1 {
		return asked[0]
	}
	chunks := fuseChunks(asked)
	lead := asked[0]
	for _, one := range asked {
		if len(chunks) > 0 && one.response.Index == chunks[0].Index {
			lead = one
		}
	}
	out := &question{
		generation: lead.generation, body: lead.body, plan: lead.plan, cost: lead.cost, response: joinResponses(asked),
	}
	out.response.Chunks = chunks
	out.response.Entities = fuseEntities(asked, chunks)
	out.result.NotesAlone = true
	for _, one := range asked {
		out.result.Notes = append(out.result.Notes, one.result.Notes...)
		out.result.NotesAlone = out.result.NotesAlone && one.result.NotesAlone
		has := slices.ContainsFunc(chunks, func(chunk Chunk) bool { return chunk.Index == one.response.Index })
		if has && !isSameChat(one.generation.Spec, lead.generation.Spec) {
			out.plan.unasked = mixedModels
		}
	}
	return out
}

// isSameChat reports whether two indexes are answered by the same server and model.
func isSameChat(one, other core.Spec) bool {
	a, b := one.ChatOf(core.RoleAnswer), other.ChatOf(core.RoleAnswer)
	return a.Provider == b.Provider && a.BaseURL == b.BaseURL && a.Model == b.Model && a.APIKeyEnv == b.APIKeyEnv &&
		a.Domain() == b.Domain()
}

// fuseChunks orders the passages of several indexes by reciprocal rank, weighted by the confidence of their index where
// one has any; those that only fill up come last. Equal ones stand in the order of the indexes. A passage that two
// indexes have is taken once.
func fuseChunks(asked []*question) []Chunk {
	most := 0
	weighted := slices.ContainsFunc(asked, func(one *question) bool { return one.response.Confidence != nil })
	out := []Chunk{}
	for _, one := range asked {
		most = max(most, one.plan.TopChunks)
		weight := 1.0
		switch known := one.response.Confidence; {
		case known != nil:
			weight = *known
		case weighted:
			weight = unknownConfidence
		}
		for _, chunk := range one.response.Chunks {
			chunk.Score = 0
			if !chunk.Filled {
				chunk.Score = weight / float64(fusionRank+chunk.IndexRank)
			}
			out = append(out, chunk)
		}
	}
	slices.SortStableFunc(out, func(a, b Chunk) int { return cmp.Compare(b.Score, a.Score) })
	type span struct {
		version    string
		start, end int
	}
	ids, spans := map[string]bool{}, map[span]bool{}
	out = slices.DeleteFunc(out, func(chunk Chunk) bool {
		at := span{chunk.Version, chunk.Start, chunk.End}
		twice := ids[chunk.ID] || spans[at] // an id is that of a document's key and a text
		ids[chunk.ID], spans[at] = true, true
		return twice
	})
	out = out[:min(len(out), most)]
	for i := range out {
		out[i].Rank = i + 1
	}
	return out
}

// fuseEntities returns the entities that led to passages of the response, in the order of their ranks.
func fuseEntities(asked []*question, chunks []Chunk) []Entity {
	shown := map[string]bool{} // passages, with the index that they were taken from
	for _, chunk := range chunks {
		shown[chunk.Index+" "+chunk.ID] = true
	}
	out := []Entity{}
	for _, one := range asked {
		for _, entity := range one.response.Entities {
			entity.Chunks = slices.DeleteFunc(entity.Chunks, func(id string) bool { return !shown[entity.Index+" "+id] })
			if len(entity.Chunks) > 0 {
				out = append(out, entity)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Entity) int { return cmp.Compare(a.Rank, b.Rank) })
	for i := range out {
		out[i].Rank = i + 1
	}
	return out
}

// joinResponses returns what several responses have in common, with the sums of what they used and the longest of their
// times. The confidence is the highest that is known.
func joinResponses(asked []*question) Response {
	out := asked[0].response
	out.Degraded = slices.Clone(out.Degraded)
	names, models := []string{}, []string{}
	for i, one := range asked {
		next := &one.response
		names = append(names, next.Index)
		if !slices.Contains(models, next.Models) {
			models = append(models, next.Models)
		}
		if next.Method != out.Method {
			out.Method = ""
		}
		if next.Rule == nil || out.Rule == nil || *next.Rule != *out.Rule {
			out.Rule = nil
		}
		if next.Reason == nil {
			out.Reason = nil
		}
		if known := next.Confidence; known != nil && (out.Confidence == nil || *known > *out.Confidence) {
			out.Confidence = known
		}
		for _, what := range next.Degraded {
			out.addDegraded(what)
		}
		if i > 0 {
			out.Usage.addUsage(next.Usage)
			out.Timings.takeLongest(next.Timings)
		}
	}
	out.Index, out.Models, out.Generation, out.Release = strings.Join(names, "+"), strings.Join(models, ", "), "", nil
	out.Rerank, out.Explain, out.FilterText = nil, nil, ""
	return out
}

// addUsage adds what another index used for the same question.
func (u *Usage) addUsage(more Usage) {
	u.EmbeddingTokens += more.EmbeddingTokens
	u.PromptTokens += more.PromptTokens
	u.CompletionTokens += more.CompletionTokens
	u.SavedTokens += more.SavedTokens
	u.RerankTokens += more.RerankTokens
	u.EmbedCached = u.EmbedCached && more.EmbedCached
}

// takeLongest keeps the longer time of each part of searches that ran beside each other.
func (t *Timings) takeLongest(other Timings) {
	t.Parse, t.Embed, t.Search = max(t.Parse, other.Parse), max(t.Embed, other.Embed), max(t.Search, other.Search)
	t.Ballots, t.Election = max(t.Ballots, other.Ballots), max(t.Election, other.Election)
	t.Chunks, t.Rerank = max(t.Chunks, other.Chunks), max(t.Rerank, other.Rerank)
}

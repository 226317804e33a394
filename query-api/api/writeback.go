package api

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/methods/apr/answers"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/retrieve"
)

const (
	// writeBackTimeout bounds all that keeping an answer may take, once it is there.
	writeBackTimeout = 10 * time.Second
	// earlierTimeout bounds reading earlier answers: a question does not wait longer for what it can do without.
	earlierTimeout = 2 * time.Second
	// degradedEarlier stands in Response.Degraded where earlier answers could not be read, and degradedWriteBack where
	// this one could not be kept.
	degradedEarlier   = "earlier_answers"
	degradedWriteBack = "write_back"
)

// WrittenBack tells what became of an answer in the namespace that the query names.
type WrittenBack struct {
	Namespace string `json:"namespace"`
	Stored    bool   `json:"stored"`
	Reason    string `json:"reason,omitempty" enum:"no_answer,no_triples,unsupported,stale,no_room,failed" doc:"why not"`
	Triples   int    `json:"triples" doc:"that were read of the answer"`
	Supported int    `json:"supported" doc:"of them by an edge of the generation"`
}

// spaceOf gives the namespace that a query names; nil: none.
func (q *Request) spaceOf(plan *planned, spec core.Spec, owner string) (*answers.Space, error) {
	const param = "params." + retrieve.ParamNamespace
	name := plan.Params.Text(retrieve.ParamNamespace)
	switch {
	case name == "":
		return nil, nil //nolint:nilnil // none is an answer
	case spec.KeptAnswers().Answers == 0:
		return nil, invalid("read query", param, "the index keeps no answers",
			"set indexes."+spec.Index+".write_back.answers and build the index, or leave the parameter out")
	case q.Generation != nil:
		return nil, invalid("read query", param, "earlier answers are told of the generation that is served now alone",
			"leave generation out, or the namespace")
	}
	space, err := answers.In(owner, name)
	return &space, err
}

func (s *Server) kept(name string, spec core.Spec) answers.Store {
	return answers.Store{Index: artifact.New(s.Artifacts, name), Most: spec.KeptAnswers()}
}

// earlier reads the answers of the namespace that a query names. A store that does not answer, or a damaged object,
// costs the query these alone.
func (s *Server) earlier(ctx context.Context, generation *retrieve.Generation, plan *planned, response *Response) {
	if plan.space == nil {
		return
	}
	within, cancel := context.WithTimeout(ctx, earlierTimeout)
	defer cancel()
	kept, err := s.kept(generation.Manifest.Index, generation.Spec).Read(within, *plan.space)
	if err != nil {
		if !fault.Is(err, fault.SegmentDamage) { // what is damaged is replaced
			plan.unread = err
		}
		response.Degraded = append(response.Degraded, degradedEarlier)
		s.log.Warn("earlier answers were not read", "index", generation.Manifest.Index,
			"code", string(fault.CodeOf(err)), "error", err.Error())
	}
	plan.Earlier = retrieve.Earlier{Answers: kept, Shared: plan.space.Shared()}
}

// writeBack keeps an answer that a model wrote, where the query names a namespace. It takes nothing from the answer,
// which is there already: what goes wrong is told beside it.
func (s *Server) writeBack(
	ctx context.Context, generation *retrieve.Generation, plan *planned, response *Response, cost *bill,
) {
	if plan.space == nil || response.Answer == nil {
		return
	}
	at := time.Now()
	written := &WrittenBack{Namespace: plan.space.Name()}
	response.WriteBack = written
	ctx, cancel := context.WithTimeout(ctx, writeBackTimeout)
	defer cancel()
	var err error
	written.Reason, err = s.keep(ctx, generation, plan, response, cost)
	if err != nil {
		written.Reason = "failed"
		response.Degraded = append(response.Degraded, degradedWriteBack)
		code := string(fault.CodeOf(err))
		if errors.Is(err, context.DeadlineExceeded) {
			code = "timeout"
		}
		s.log.Warn("an answer was not kept", "index", generation.Manifest.Index, "code", code, "error", err.Error())
	}
	written.Stored = written.Reason == ""
	response.Timings.WriteBack = ms(time.Since(at))
}

// keep gives the reason for which an answer is not kept; empty: it is.
func (s *Server) keep(
	ctx context.Context, generation *retrieve.Generation, plan *planned, response *Response, cost *bill,
) (reason string, err error) {
	if response.Answer.Kind != retrieve.ByModel || response.Answer.Truncated || saysNothing(response.Answer.Text) {
		return "no_answer", nil
	}
	if plan.unread != nil { // nothing is paid for what the store will hardly take
		return "", plan.unread
	}
	said, err := s.said(ctx, generation, response, cost)
	response.WriteBack.Triples = len(said)
	if err != nil || len(said) == 0 {
		return "no_triples", err
	}
	lines := make([]string, len(said))
	for i, triple := range said {
		lines[i] = triple.Head + " " + triple.Relation + " " + triple.Tail
	}
	rows, err := s.embedPassages(ctx, generation, lines, response, cost)
	if err != nil {
		return "", err
	}
	supporting, err := generation.Support(ctx, plan.Query, said, rows)
	if err != nil {
		return "", err
	}
	for _, triple := range supporting.Triples {
		if len(triple.Support) > 0 {
			response.WriteBack.Supported++
		}
	}
	if response.WriteBack.Supported == 0 { // it could never be told
		return "unsupported", nil
	}
	var shown []core.ID
	for _, chunk := range response.Chunks {
		if id, err := core.ParseID(chunk.ID); err == nil && chunk.InContext {
			shown = append(shown, id)
		}
	}
	sources, err := generation.SourcesOf(ctx, shown)
	if err != nil {
		return "", err
	}
	answer := answers.Answer{
		At: time.Now().UTC(), Generation: generation.Manifest.Generation, Question: plan.Text,
		Confidence: response.Confidence, Embedder: generation.Manifest.Class.Digest(), Vector: plan.Vector,
		Triples: supporting.Triples, Sources: answers.Joined(slices.Concat(sources, supporting.Sources, plan.echo.Sources)),
	}
	stay := func(other answers.Answer) bool { // what can be told no more leaves the store
		return !slices.ContainsFunc(other.Sources, func(source answers.Source) bool {
			return slices.ContainsFunc(source.Chunks, func(id core.ID) bool { return generation.Live.Chunk(id) == nil })
		})
	}
	return s.add(ctx, generation, *plan.space, answer, stay)
}

// add keeps an answer of the generation that is served. One of a generation that another replaced meanwhile may rest on
// what was purged since: a purge that has gone over the namespaces was published before, so that who looks behind the
// write sees it.
func (s *Server) add(
	ctx context.Context, generation *retrieve.Generation, space answers.Space, answer answers.Answer,
	stay func(answers.Answer) bool,
) (reason string, err error) {
	store := s.kept(generation.Manifest.Index, generation.Spec)
	for _, written := range []bool{false, true} {
		current, _, err := store.Index.Current(ctx)
		if err == nil && current.Generation == generation.Manifest.Generation {
			if written {
				return "", nil
			}
			kept, err := store.Add(ctx, space, answer, stay)
			if err != nil {
				return "", err
			}
			if !kept {
				return "no_room", nil
			}
			continue
		}
		if written {
			back, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeBackTimeout)
			defer cancel()
			err = errors.Join(err, store.Remove(back, space, answer))
		}
		return "stale", err
	}
	return "", nil
}

var (
	marks = regexp.MustCompile(`\s*\[\d{1,18}\]`)
	// nothingSaid are words by which models say that they have no answer. What is taken for that though it is an answer
	// is not kept, and no more.
	nothingSaid = regexp.MustCompile(`(?i)\b(not (provided|mentioned|specified|stated|given|available|contained|` +
		`included|found|known|enough|clear|possible|answer)|(can ?not|can.t|unable to|impossible to) ` +
		`(be )?(determine|answer|tell|say|find|provide)|insufficient|no (information|data|mention|answer|context|` +
		`evidence)|(do|does|did)( not|n.t) (know|say|mention|provide|state|contain|specify|include|tell|answer|give)|` +
		`unknown|unclear|unanswerable|nicht (angegeben|bekannt|erwähnt|genannt|enthalten|beantwort|hervor)|` +
		`keine? (angabe|information|antwort|hinweis|daten)|unbekannt)`)
)

func saysNothing(answer string) bool {
	return strings.TrimSpace(answer) == "" || nothingSaid.MatchString(answer)
}

// said are the triples of the answer: by the server of models.triples where there is one, else, and where that fails,
// by rule.
func (s *Server) said(
	ctx context.Context, generation *retrieve.Generation, response *Response, cost *bill,
) ([]triples.Triple, error) {
	parts := triples.Parts(generation.Language(), marks.ReplaceAllString(response.Answer.Text, ""))
	if len(parts) == 0 {
		return nil, nil
	}
	part := parts[0]
	var said triples.Said
	byRule := !generation.Spec.Triples.On()
	if !byRule {
		var err error
		said, _, err = s.triplesOf(model.CallerBound(ctx), generation.Spec, retrieve.ByServer, part, part.Call(""), cost)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if byRule = err != nil; byRule {
			s.log.Warn("the triples of an answer were not found by a model", "index", generation.Manifest.Index,
				"code", string(fault.CodeOf(err)), "error", err.Error())
		}
	}
	if byRule {
		reply, err := builtin.Chat{Language: generation.Language().Code()}.Complete(ctx, part.Call(""))
		if err != nil {
			return nil, err
		}
		said, _ = part.Read(reply.Text)
	}
	out := slices.DeleteFunc(said.Triples, func(triple triples.Triple) bool {
		return strings.HasPrefix(triple.Head, apr.Placeholder) || strings.HasPrefix(triple.Tail, apr.Placeholder)
	})
	return out[:min(len(out), answers.MostTriples)], nil
}

// embedPassages embeds texts as builds do, in one request.
func (s *Server) embedPassages(
	ctx context.Context, generation *retrieve.Generation, texts []string, response *Response, cost *bill,
) ([][]float32, error) {
	fingerprint := generation.Manifest.Class
	embedder, err := s.Models.Embedder(generation.Spec, fingerprint.Provider, fingerprint.Dimension)
	if err != nil {
		return nil, err
	}
	if _, err := asQuestions(embedder, fingerprint); err != nil { // vectors of other weights
		return nil, err
	}
	if generation.IDF != nil && fingerprint.IDF != "" {
		embedder = weighed(embedder, generation.IDF.Weight)
	}
	vectors, usage, err := embedder.Embed(model.CallerBound(ctx), texts)
	if embedder.Info().Paid {
		cost.add(generation.Spec.Embedding.Price, usage, err, texts...)
	}
	response.Usage.EmbeddingTokens += usage.Prompt
	return vectors, err
}

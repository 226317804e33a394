package answer

import (
	"context"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/retrieve"
)

const (
	// parseTimeout bounds all that a model may take to find the triples of a question, waiting included.
	parseTimeout = 5 * time.Second
	// degradedTriples stands in Response.Degraded where a model was to find them, and rules did.
	degradedTriples = "question_triples"
)

// parsedBy says who finds the triples of a question; empty: its method compares none.
func (p *planned) parsedBy(spec core.Spec) (string, error) {
	if !p.spec.Needs.Names {
		return "", nil
	}
	by := p.Params.Text(retrieve.ParamTriples)
	if by == retrieve.ByChat && spec.ChatOf(core.RoleTriples).Provider != "openai" {
		return "", newFault("read query", "params."+retrieve.ParamTriples, "the index has no chat model that reads questions",
			"set models.chat and build the index, or leave the parameter out")
	}
	return by, nil
}

// readQuestion finds what of a question is compared with facts, and embeds it: the entities, relations and lines of its
// triples where a model finds any, else the names that rules find. A model that is down, slow or wrong costs time and
// no answer.
func (s *Service) readQuestion(
	ctx context.Context, generation *retrieve.Generation, plan *planned, response *Response, cost *bill,
) (err error) {
	names := generation.QuestionNames(plan.Text)
	if plan.parser == retrieve.ByChat {
		at := time.Now()
		asks, err := s.parseQuestion(ctx, generation, plan, response, cost)
		response.Timings.Parse = Milliseconds(time.Since(at))
		if ctx.Err() != nil { // the caller's own time is over
			return ctx.Err()
		}
		if err != nil {
			response.Degraded = append(response.Degraded, degradedTriples)
			s.log.Warn("the triples of a question were not found by a model", "index", generation.Manifest.Index,
				"parser", plan.parser, "code", codeOf(err), "error", err.Error())
		}
		if len(asks.Words) > 0 {
			plan.Asked, names = retrieve.Asked{Asks: asks, By: plan.parser}, asks.Entities
		}
	}
	texts := slices.Concat(names, plan.Asked.Relations, plan.Asked.Lines)
	rows, err := s.embedEach(ctx, generation, texts, response, cost)
	if err != nil {
		return err
	}
	plan.Names, rows = rows[:len(names)], rows[len(names):]
	relations := len(plan.Asked.Relations)
	plan.Asked.RelationRows, plan.Asked.LineRows = rows[:relations], rows[relations:]
	return nil
}

// parseQuestion has the triples of a question found by a model. One that finds none is no error.
func (s *Service) parseQuestion(
	ctx context.Context, generation *retrieve.Generation, plan *planned, response *Response, cost *bill,
) (apr.Asks, error) {
	ctx, cancel := context.WithTimeout(model.CallerBound(ctx), parseTimeout)
	defer cancel()
	part := triples.QuestionPart(generation.Language(), plan.Text)
	chat, err := s.models.Chat(generation.Spec, core.RoleTriples)
	if err != nil {
		return apr.Asks{}, err
	}
	call := part.QuestionCall()
	reply, err := billed{chat, generation.Spec.ChatOf(core.RoleTriples).Price, cost, call.Most}.Complete(ctx, call)
	response.Usage.PromptTokens += reply.Usage.Prompt
	response.Usage.CompletionTokens += reply.Usage.Completion
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return apr.Asks{}, err
	}
	said, ok := part.Read(reply.Text)
	if !ok {
		err = fault.ModelUnavailable.At("find triples", chat.Info().Model).Because("its answer is no list of triples")
	}
	return apr.AsksOf(said.Triples), err
}

package answer

import (
	"context"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/retrieve"
)

const (
	// parseTimeout bounds all that a model may take to find the triples of a question, waiting included.
	parseTimeout = 5 * time.Second
	// degradedTriples stands in Response.Degraded where a model was to find them, and rules did.
	degradedTriples = "question_triples"
)

// parsedBy returns who reads the question; empty: its method compares nothing of it beside the whole.
func (p *planned) parsedBy(spec core.Spec) (string, error) {
	if p.spec.Reader == nil {
		return "", nil
	}
	by := p.Params.Text(p.spec.Reader.Param)
	if by == retrieve.ByChat && spec.ChatOf(core.RoleTriples).Provider != "openai" {
		return "", newFault("read query", "params."+p.spec.Reader.Param, "the index has no chat model to parse questions",
			"set models.chat or models.triples and build the index again, or omit the parameter")
	}
	return by, nil
}

// readQuestion finds what of a question its method compares beside the whole, and embeds it: what a model finds where
// it finds any, else what rules find. A model that is down, slow or wrong costs time and no answer.
func (s *Service) readQuestion(
	ctx context.Context, generation *retrieve.Generation, plan *planned, response *Response, cost *bill,
) (err error) {
	reading := plan.spec.Reader.ByRules(generation, plan.Text)
	if plan.parser == retrieve.ByChat {
		at := time.Now()
		found, err := s.parseQuestion(ctx, generation, plan, response, cost)
		response.Timings.Parse = Milliseconds(time.Since(at))
		if ctx.Err() != nil { // the caller's own time is over
			return ctx.Err()
		}
		if err != nil {
			response.Degraded = append(response.Degraded, degradedTriples)
			s.log.Warn("a model did not find triples in the question", "index", generation.Manifest.Index,
				"parser", plan.parser, "code", codeOf(err), "error", err.Error())
		}
		if len(found.Texts) > 0 {
			reading = found
		}
	}
	reading.Rows, err = s.embedEach(ctx, generation, reading.Texts, response, cost)
	plan.Reading = reading
	return err
}

// parseQuestion has a question read by a model. One that finds nothing in it is no error.
func (s *Service) parseQuestion(
	ctx context.Context, generation *retrieve.Generation, plan *planned, response *Response, cost *bill,
) (retrieve.Reading, error) {
	ctx, cancel := context.WithTimeout(model.CallerBound(ctx), parseTimeout)
	defer cancel()
	chat, err := s.models.Chat(generation.Spec, core.RoleTriples)
	if err != nil {
		return retrieve.Reading{}, err
	}
	call, read := plan.spec.Reader.ByChat(generation, plan.Text)
	reply, err := billed{chat, generation.Spec.ChatOf(core.RoleTriples).Price, cost, call.Most}.Complete(ctx, call)
	response.Usage.PromptTokens += reply.Usage.Prompt
	response.Usage.CompletionTokens += reply.Usage.Completion
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return retrieve.Reading{}, err
	}
	found, ok := read(reply.Text)
	if !ok {
		err = fault.ModelUnavailable.At("find triples", chat.Info().Model).Because("its answer is not a list of triples")
	}
	return found, err
}

package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/served"
)

const (
	maxBody       = 64 << 10
	answerTimeout = 120 * time.Second
)

// serveQuery answers POST /v1/indexes/{index}/query.
func (s *Server) serveQuery(w http.ResponseWriter, request *http.Request) {
	var body answer.Request
	err := decodeRequest(w, request, &body)
	s.answerQuery(w, request, &body, err, func(found answer.Found) (answer.Response, error) {
		return s.askQuestion(request.Context(), request.PathValue("index"), body, found)
	})
}

// answerQuery answers a body that was read, or not for an error, by what ask finds.
func (s *Server) answerQuery(
	w http.ResponseWriter, request *http.Request, body *answer.Request, err error,
	ask func(answer.Found) (answer.Response, error),
) {
	var to *stream
	var response answer.Response
	if err == nil {
		err = checkFields(body.Fields)
	}
	body.Explain = body.Explain || slices.Contains(body.Fields, "explain")
	if err == nil {
		to, err = beginStream(w, *body)
	}
	if err == nil {
		response, err = ask(to.sendFound)
	} else {
		s.Telemetry.Count(telemetry.Queries, 1, "", "", string(fault.CodeOf(err)))
	}
	s.writeResponse(w, request, to, selectFields(response, body.Fields), err)
}

// decodeRequest reads a body strictly: what a query means must not depend on a misspelt field.
func decodeRequest(w http.ResponseWriter, r *http.Request, to any) error {
	raw, err := readAll(w, r)
	if err != nil {
		return err
	}
	return readBody(raw, to)
}

// readAll reads a body of JSON to its end.
func readAll(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return middleware.ReadBody(w, r, maxBody, "shorten it")
}

// askModel asks in the form of OpenAI, whose clients try again by the status of a model's error: with no name, the
// indexes that the body names.
func (s *Server) askModel(ctx context.Context, name string, raw []byte) (answer.Response, error) {
	body := answer.SeveralRequest{}
	var to any = &body
	if name != "" {
		to = &body.Request
	}
	if len(raw) > maxBody {
		return answer.Response{}, middleware.BodyTooLarge(maxBody, "shorten it")
	}
	if err := readBody(raw, to); err != nil {
		return answer.Response{}, err
	}
	body.NeedsModel = true
	if name == "" {
		return s.askSeveral(ctx, body, nil)
	}
	return s.askQuestion(ctx, name, body.Request, nil)
}

// payer is a caller who may read some indexes.
type payer interface {
	answer.Caller
	MayRead(index string) bool
}

// askQuestion answers a question in the name of the context's caller.
func (s *Server) askQuestion(
	ctx context.Context, name string, body answer.Request, found answer.Found,
) (answer.Response, error) {
	return s.askAs(ctx, name, body, middleware.CallerOf(ctx), found)
}

// askAs answers a question that a caller pays for: it pins a generation, and counts what came of it.
func (s *Server) askAs(
	ctx context.Context, name string, body answer.Request, caller payer, found answer.Found,
) (response answer.Response, err error) {
	start := time.Now()
	timeout := s.Timeout
	if body.Answer {
		timeout = answerTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer func() {
		outcome := "ok"
		if err != nil {
			outcome = string(fault.CodeOf(err))
			name = "" // names that do not exist must not become label values
		}
		s.Telemetry.Count(telemetry.Queries, 1, name, response.Method, outcome)
	}()
	if !caller.MayRead(name) {
		return response, served.UnknownIndex(name)
	}
	pinned := ""
	if body.Generation != nil {
		pinned = *body.Generation
	}
	opening := time.Now()
	generation, err := s.served.Pin(ctx, name, pinned)
	if err != nil {
		return response, err
	}
	defer generation.Close()
	opened := time.Since(opening)
	response, err = s.answers.Ask(ctx, generation, body, caller, found)
	s.countRerank(name, response.Rerank)
	response.Timings.Open = answer.Milliseconds(opened)
	response.Timings.End(time.Since(start))
	return response, err
}

// countRerank counts what came of ordering passages again, where that was tried.
func (s *Server) countRerank(index string, reranked *answer.Reranked) {
	if reranked != nil && (reranked.Applied || reranked.Reason != "") {
		outcome := reranked.Reason
		if reranked.Applied {
			outcome = "ok"
		}
		s.Telemetry.Count(telemetry.Reranks, 1, index, outcome)
	}
}

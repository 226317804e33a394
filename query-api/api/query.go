package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/query-api/middleware"
)

const (
	maxBody       = 64 << 10
	answerTimeout = 120 * time.Second
)

// serveQuery answers POST /v1/indexes/{index}/query.
func (s *Server) serveQuery(w http.ResponseWriter, request *http.Request) {
	var to *stream
	var response answer.Response
	body, err := decodeRequest(w, request)
	if err == nil {
		err = checkFields(body.Fields)
	}
	body.Explain = body.Explain || slices.Contains(body.Fields, "explain")
	if err == nil {
		to, err = beginStream(w, body)
	}
	if err == nil {
		response, err = s.askQuestion(request.Context(), request.PathValue("index"), body, to.sendFound)
	} else {
		s.Telemetry.Count(telemetry.Queries, 1, "", "", string(fault.CodeOf(err)))
	}
	s.writeResponse(w, request, to, selectFields(response, body.Fields), err)
}

// decodeRequest reads a body strictly: what a query means must not depend on a misspelt field.
func decodeRequest(w http.ResponseWriter, r *http.Request) (request answer.Request, err error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		return request, tooLarge()
	case fault.Is(err, fault.BodyTimeout):
		return request, err
	case err != nil:
		return request, fault.Usage.At("read body", "").Because("it broke off")
	}
	err = readBody(raw, &request)
	return request, err
}

func tooLarge() error {
	return fault.TooLarge.At("read body", "").
		Because(fmt.Sprintf("a query may have at most %d KiB", maxBody>>10)).
		Advise("shorten it")
}

// askRaw asks with a body that was not read yet.
func (s *Server) askRaw(ctx context.Context, name string, raw []byte) (answer.Response, error) {
	var body answer.Request
	if len(raw) > maxBody {
		return answer.Response{}, tooLarge()
	}
	if err := readBody(raw, &body); err != nil {
		return answer.Response{}, err
	}
	return s.askQuestion(ctx, name, body, nil)
}

// askQuestion answers a question in the name of the context's caller: it pins a generation, and counts what came of it.
func (s *Server) askQuestion(
	ctx context.Context, name string, body answer.Request, found answer.Found,
) (response answer.Response, err error) {
	start, caller := time.Now(), middleware.CallerOf(ctx)
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
		return response, unknownIndex(name)
	}
	pinned := ""
	if body.Generation != nil {
		pinned = *body.Generation
	}
	opening := time.Now()
	generation, err := s.pinGeneration(ctx, name, pinned)
	if err != nil {
		return response, err
	}
	defer generation.Close()
	opened := time.Since(opening)
	response, err = s.answers.Ask(ctx, generation, body, caller, found)
	if reranked := response.Rerank; reranked != nil && (reranked.Applied || reranked.Reason != "") {
		outcome := reranked.Reason
		if reranked.Applied {
			outcome = "ok"
		}
		s.Telemetry.Count(telemetry.Reranks, 1, name, outcome)
	}
	response.Timings.Open = answer.Milliseconds(opened)
	response.Timings.End(time.Since(start))
	return response, err
}

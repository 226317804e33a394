package api

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/query-api/openapi"
	"github.com/unweaver/unweaver/query-api/sse"
)

// Events of a streamed answer, in their order. An error that a request meets before the first is reported as any other.
const (
	eventFound    = "found"    // the Result without its answer
	eventDelta    = "delta"    // openapi.Delta
	eventResponse = "response" // the Result, as it is without stream
	eventError    = "error"    // Problem; nothing follows
)

const queryEvents = "with stream: events found (a Result without the answer), delta (one Delta per piece of text), " +
	"and response (the Result) or error (a Problem)"

// stream of one answer; nil where none is wanted.
type stream struct {
	events *sse.Writer
	fields []string // of a Result that are wanted
}

// beginStream begins the stream that a request asks for.
func beginStream(w http.ResponseWriter, body answer.Request) (*stream, error) {
	switch {
	case !body.Stream:
		return nil, nil
	case !body.Answer:
		return nil, newFault("read query", "stream", "only an answer can be streamed", "set answer: true, or omit stream")
	}
	return &stream{sse.New(w), body.Fields}, nil
}

// sendFound sends what was found, and has the answer sent as it comes.
func (s *stream) sendFound(ctx context.Context, response answer.Response) (context.Context, error) {
	if s == nil {
		return ctx, nil
	}
	ctx = model.WithDeltas(ctx, func(text string) error { return s.events.JSON(eventDelta, openapi.Delta{Text: text}) })
	return ctx, s.events.JSON(eventFound, selectFields(response, s.fields))
}

// writeResponse writes a response, or the error in its place: as events where the stream has begun.
func (s *Server) writeResponse(w http.ResponseWriter, request *http.Request, to *stream, response any, err error) {
	if to != nil {
		defer to.events.Close()
	}
	switch {
	case err != nil && to != nil && to.events.HasBegun():
		_ = to.events.JSON(eventError, s.toProblem(request.Context(), request.Pattern, err)) // the caller may have gone
	case err != nil:
		s.writeError(w, request, err)
	case to != nil:
		_ = to.events.JSON(eventResponse, response)
	default:
		writeJSON(w, response)
	}
}

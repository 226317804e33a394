// Package chat speaks the form of OpenAI's chat completions, so that programs which know that form can ask an index
// (docs/guides/agents.md). A model is an index. Questions are asked in the name of who asks: keys, limits and money are
// those of the query route.
//
//	request.go   what is read of a request, and what is refused
//	response.go  answers, whole and as events; annotations
//	responses.go the newer form of the same: responses
//	models.go    the list of models
//	failure.go   errors
package chat

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"time"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/problem"
	"github.com/unweaver/unweaver/query-api/sse"
)

// Prefix of the names of models; what follows is an index.
const Prefix = "unweaver/"

// maxBody of a request in bytes: conversations are sent whole, and only their end is read.
const maxBody = 1 << 20

// Service answers by what a server does.
type Service struct {
	// Ask answers a question; the body is that of the query route, or with no index that of several.
	Ask func(ctx context.Context, index string, body []byte) (answer.Response, error)
	// Indexes lists those that the caller may ask, as models.
	Indexes func(ctx context.Context) ([]Model, error)
	// Problem describes an error of the two, and logs it.
	Problem func(ctx context.Context, err error) *problem.Problem
}

// Complete answers POST /v1/chat/completions.
func (s Service) Complete(w http.ResponseWriter, request *http.Request) {
	s.answerRequest(w, request, readQuestion, s.streamAnswer, func(out *reply, found found) any {
		return out.newCompletion(found)
	})
}

// answerRequest answers a request of a form: read takes the question from its body, stream answers as events, and whole
// is the answer otherwise.
func (s Service) answerRequest(
	w http.ResponseWriter, request *http.Request, read func(raw []byte) (question, error),
	stream func(http.ResponseWriter, *http.Request, question, *reply), whole func(*reply, found) any,
) {
	raw, err := middleware.ReadBody(w, request, maxBody, "send fewer earlier messages: the last six are enough")
	if err != nil {
		s.writeError(w, request, err)
		return
	}
	asked, err := read(raw)
	if err != nil {
		s.writeError(w, request, err)
		return
	}
	asked.writeWarnings(w.Header())
	out := newReply(request, asked)
	if asked.stream {
		stream(w, request, asked, out)
		return
	}
	found, err := s.askQuestion(request.Context(), asked)
	if err != nil {
		s.writeError(w, request, err)
		return
	}
	problem.WriteJSON(w, http.StatusOK, whole(out, found))
}

// streamed is a form of events.
type streamed struct {
	begin func() error // before the text
	piece func(text string) error
	fail  func(Failure) // after the beginning
	end   func(found)
}

// streamEvents answers as events. An error before the first of them is reported like any other.
func (s Service) streamEvents(
	w http.ResponseWriter, request *http.Request, asked question, events *sse.Writer, form streamed,
) {
	defer events.Close()
	ctx := model.WithDeltas(request.Context(), func(text string) error {
		if !events.HasBegun() {
			if err := form.begin(); err != nil {
				return err
			}
		}
		return form.piece(text)
	})
	found, err := s.askQuestion(ctx, asked)
	switch {
	case err != nil && !events.HasBegun():
		s.writeError(w, request, err)
	case err != nil:
		form.fail(FailureOf(s.problemOf(request.Context(), err)))
	default:
		form.end(found)
	}
}

// streamAnswer answers as the events of a completion. What fails to be sent fails again at the end.
func (s Service) streamAnswer(w http.ResponseWriter, request *http.Request, asked question, out *reply) {
	events := sse.New(w)
	send := func(value any) error { return events.JSON("", value) }
	s.streamEvents(w, request, asked, events, streamed{
		begin: func() error { return send(out.newFirstChunk()) },
		piece: func(text string) error { return send(out.newPiece(text)) },
		fail:  func(failure Failure) { _ = send(failure) },
		end: func(found found) {
			_ = send(out.newLastChunk(found))
			if asked.usage {
				_ = send(out.newUsageChunk(found))
			}
			_ = events.SendText("", "[DONE]")
		},
	})
}

// askQuestion has a question answered. An error names the field of this form that is at fault.
func (s Service) askQuestion(ctx context.Context, asked question) (found, error) {
	response, err := s.Ask(ctx, asked.index, asked.query)
	if err == nil {
		return found{response}, nil
	}
	wrong := s.problemOf(ctx, err)
	switch wrong.Param {
	case "":
	case "query":
		wrong.Param = asked.input
	case "indexes":
		wrong.Param = "model"
	default:
		wrong.Param = "unweaver." + wrong.Param
	}
	return found{}, wrong
}

// newReply begins the answer to a request.
func newReply(request *http.Request, asked question) *reply {
	base := url.URL{Scheme: "http", Host: request.Host}
	if request.TLS != nil {
		base.Scheme = "https"
	}
	return &reply{
		id: rand.Text(), created: time.Now().Unix(), model: asked.model, base: base.String(),
	}
}

// Package chat speaks the form of OpenAI's chat completions, so that programs which know that form can ask an index
// (docs/agents.md). A model is an index. Questions go to the query route of the same server, in the name of who asks:
// keys, limits and money are the route's.
//
//	request.go   what is read of a request, and what is refused
//	response.go  answers, whole and as events; annotations
//	models.go    the list of models
//	failure.go   errors
package chat

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/query-api/inproc"
	"github.com/unweaver/unweaver/query-api/sse"
)

// Prefix of the names of models; what follows is an index.
const Prefix = "unweaver/"

// maxBody of a request in bytes: conversations are sent whole, and only their end counts.
const maxBody = 1 << 20

// Service answers over the routes of a server.
type Service struct{ Routes inproc.Doer }

// Complete answers POST /v1/chat/completions.
func (s Service) Complete(w http.ResponseWriter, request *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxBody))
	if err != nil {
		fail(w, unread(err))
		return
	}
	asked, err := read(raw)
	if err != nil {
		fail(w, err)
		return
	}
	out := newAnswer(request, asked)
	if asked.stream {
		s.stream(w, request, asked, out)
		return
	}
	found, err := s.ask(request.Context(), asked)
	if err != nil {
		fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, out.whole(found))
}

// unread is the error of a body that cannot be read.
func unread(err error) error {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &inproc.Problem{
			Status: http.StatusRequestEntityTooLarge, Code: string(fault.TooLarge),
			Detail: "a request may have at most 1 MiB",
			Hint:   "send fewer of the earlier messages: the last question alone counts",
		}
	case fault.Is(err, fault.BodyTimeout):
		return &inproc.Problem{
			Status: http.StatusRequestTimeout, Code: string(fault.BodyTimeout), Detail: "the body did not come in time",
		}
	}
	return wrong("", "the body broke off")
}

// stream answers as events. An error before the first of them is told like any other.
func (s Service) stream(w http.ResponseWriter, request *http.Request, asked question, out *answer) {
	events := sse.New(w)
	defer events.Close()
	ctx := model.Deltas(request.Context(), func(text string) error {
		if !events.Began() {
			if err := events.JSON("", out.begin()); err != nil {
				return err
			}
		}
		return events.JSON("", out.piece(text))
	})
	found, err := s.ask(ctx, asked)
	switch {
	case err != nil && !events.Began():
		fail(w, err)
		return
	case err != nil:
		_, failure := failureOf(err)
		_ = events.JSON("", failure) // the caller may have gone
		return
	}
	last := []any{out.end(found)}
	if asked.usage {
		last = append(last, out.usage(found))
	}
	for _, chunk := range last {
		if events.JSON("", chunk) != nil {
			return
		}
	}
	_ = events.Text("", "[DONE]")
}

// ask sends a question to the query route.
func (s Service) ask(ctx context.Context, asked question) (found, error) {
	var out found
	path := "/v1/indexes/" + url.PathEscape(asked.index) + "/query"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(asked.query))
	if err != nil {
		return out, err
	}
	request.Header.Set("Content-Type", "application/json")
	body, err := inproc.Ask(s.Routes, request)
	if err != nil {
		return out, err
	}
	err = json.Unmarshal(body, &out)
	out.AnswerKind = out.Answer.Kind
	return out, err
}

// newAnswer begins the answer to a request.
func newAnswer(request *http.Request, asked question) *answer {
	raw := make([]byte, 12)
	_, _ = rand.Read(raw) // never fails
	base := url.URL{Scheme: "http", Host: request.Host}
	if request.TLS != nil {
		base.Scheme = "https"
	}
	return &answer{
		id: "chatcmpl-" + hex.EncodeToString(raw), created: time.Now().Unix(), model: asked.model, base: base.String(),
	}
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // the caller may have gone
}

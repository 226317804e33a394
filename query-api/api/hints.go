package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/hints"
	"github.com/unweaver/unweaver/internal/telemetry/webhook"
)

// HintsRequest names objects that may have changed.
type HintsRequest struct {
	Keys []string `json:"keys" required:"true" doc:"1 to 1,000 keys of objects, relative to the corpus"`
}

// HintsTaken says what was kept.
type HintsTaken struct {
	Index string `json:"index"`
	Keys  int    `json:"keys" required:"true" doc:"how many were kept for the next build"`
}

func (s *Server) hintRoutes() []route {
	return []route{{
		Method: "POST", Pattern: "/v1/indexes/{index}/hints", ID: "sendHints", Tag: tagIndexes, Open: true, Shows: showsNone,
		Summary: "Say which objects of the corpus may have changed",
		Doc: "Takes no API key: the request is signed with the secret of the index (`indexes.*.freshness`), by the headers " +
			"`Webhook-Id`, `Webhook-Timestamp` and `Webhook-Signature`. A small build looks the objects up soon after.",
		Body: HintsRequest{}, Answer: HintsTaken{}, Done: []int{http.StatusAccepted},
		Problems: []int{
			http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests,
			http.StatusInternalServerError, http.StatusServiceUnavailable,
		},
		Handler: s.takeHints,
	}}
}

// isSigned reports whether a request is one of hints, whose handler checks a signature in place of a key.
func isSigned(request *http.Request) bool {
	index, found := strings.CutPrefix(request.URL.EscapedPath(), "/v1/indexes/")
	index, hints := strings.CutSuffix(index, "/hints")
	return request.Method == http.MethodPost && found && hints && core.ValidIndex(index)
}

// takeHints answers POST …/hints, once the hints are kept. An index that is not there, or takes no hints, has no
// secret: names do not leak.
func (s *Server) takeHints(w http.ResponseWriter, request *http.Request) {
	index := artifact.Index{Store: s.Artifacts, Name: request.PathValue("index")}
	var body HintsRequest
	raw, err := webhook.Verify(s.HintSecrets[index.Name], request.Header, time.Now(), func() ([]byte, error) {
		return readAll(w, request)
	})
	if err == nil {
		err = readBody(raw, &body)
	}
	if err == nil {
		err = hints.CheckRoom(request.Context(), index)
	}
	if err == nil {
		name := request.Header.Get(webhook.HeaderID) + "\n" + request.Header.Get(webhook.HeaderTimestamp) + "\n" + string(raw)
		err = hints.Put(request.Context(), index, name, body.Keys)
	}
	if err != nil {
		if fault.Is(err, fault.Unauthorized) {
			w.Header().Set("WWW-Authenticate", `Signature realm="unweaver"`)
		}
		s.writeError(w, request, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(HintsTaken{index.Name, len(body.Keys)}) // the caller may have gone
}

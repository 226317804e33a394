package api

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/answer/bisect"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// serveBisect answers POST /v1/indexes/{index}/bisect.
func (s *Server) serveBisect(w http.ResponseWriter, request *http.Request) {
	ctx, cancel := context.WithTimeout(request.Context(), answerTimeout)
	defer cancel()
	name := request.PathValue("index")
	var body bisect.Request
	var found bisect.Found
	err := decodeRequest(w, request, &body)
	if err == nil {
		_, err = s.findPointer(ctx, name)
	}
	if err == nil { // what two generations differ in says something of all documents
		err = s.needAllRuns(ctx, name)
	}
	if err == nil {
		found, err = bisect.Find(ctx, bisect.Index{
			Index: artifact.Index{Store: s.Artifacts, Name: name},
			Ask: func(ctx context.Context, body answer.Request) (answer.Response, error) {
				return s.askQuestion(ctx, name, body, nil)
			},
			Open: func(ctx context.Context, generation string) (*retrieve.Generation, error) {
				return s.pinGeneration(ctx, name, generation)
			},
		}, body)
	}
	if err != nil {
		s.writeError(w, request, err)
		return
	}
	writeJSON(w, found)
}

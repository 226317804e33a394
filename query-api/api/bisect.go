package api

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/answer/bisect"
	"github.com/unweaver/unweaver/internal/artifact"
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
		_, err = s.served.FindPointer(ctx, name)
	}
	if err == nil { // what two generations differ in says something of all documents
		err = s.served.NeedAllRuns(ctx, name)
	}
	if err == nil {
		index := artifact.Index{Store: s.Artifacts, Name: name}
		found, err = bisect.Find(ctx, bisect.Index{Index: index, Ask: s.askQuestion, Open: s.served.Pin}, body)
	}
	if err != nil {
		s.writeError(w, request, err)
		return
	}
	writeJSON(w, found)
}

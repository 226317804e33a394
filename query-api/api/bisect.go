package api

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/answer/bisect"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// serveBisect answers POST /v1/indexes/{index}/bisect.
func (s *Server) serveBisect(w http.ResponseWriter, request *http.Request) {
	ctx, cancel := context.WithTimeout(request.Context(), answerTimeout)
	defer cancel()
	var body bisect.Request
	var found bisect.Found
	bill := &counted{Caller: middleware.CallerOf(ctx)}
	err := decodeRequest(w, request, &body)
	if err == nil {
		_, err = s.served.FindPointer(ctx, request.PathValue("index"))
	}
	if err == nil {
		err = s.served.NeedAllDocuments(ctx, request.PathValue("index"))
	}
	if err == nil {
		found, err = bisect.Find(ctx, s.bisected(request.PathValue("index"), bill), body)
	}
	if err != nil {
		s.writeError(w, request, err)
		return
	}
	found.Tokens, found.Cost = bill.tokens, bill.money
	writeJSON(w, found)
}

// counted is a caller whose questions are added up.
type counted struct {
	*middleware.Caller
	tokens int64
	money  float64
}

// Spend implements answer.Caller.
func (c *counted) Spend(tokens int64, money float64) {
	c.tokens, c.money = c.tokens+tokens, c.money+money
	c.Caller.Spend(tokens, money)
}

// bisected returns an index as a search through its generations reads it.
func (s *Server) bisected(name string, bill *counted) bisect.Index {
	return bisect.Index{
		Index: artifact.Index{Store: s.Artifacts, Name: name},
		Ask: func(ctx context.Context, body answer.Request) (answer.Response, error) {
			return s.askAs(ctx, name, body, bill, nil)
		},
		Open: func(ctx context.Context, generation string) (*retrieve.Generation, error) {
			opened, err := s.served.Pin(ctx, name, generation)
			if err == nil && opened.HasLabels() { // what two generations differ in says something of all documents
				if err = bill.NeedAllDocuments(name); err != nil {
					opened.Close()
					return nil, err
				}
			}
			return opened, err
		},
	}
}

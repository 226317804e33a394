package api

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/answer/bisect"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// serveBisect answers POST /v1/indexes/{index}/bisect.
func (s *Server) serveBisect(w http.ResponseWriter, request *http.Request) {
	ctx, cancel := context.WithTimeout(request.Context(), answerTimeout)
	defer cancel()
	var body bisect.Request
	var found bisect.Found
	of := bisected{
		Server: s, index: artifact.Index{Store: s.Artifacts, Name: request.PathValue("index")},
		bill: &counted{Caller: middleware.CallerOf(ctx)},
	}
	err := decodeRequest(w, request, &body)
	if err == nil {
		_, err = s.findPointer(ctx, of.index.Name)
	}
	if err == nil {
		found, err = bisect.Find(ctx, of, of.index.Name, body)
	}
	if err != nil {
		s.writeError(w, request, err)
		return
	}
	found.Tokens, found.Cost = of.bill.tokens, of.bill.money
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

// bisected is an index as a search through its generations reads it, in the name of a caller.
type bisected struct {
	*Server
	index artifact.Index
	bill  *counted
}

// ListGenerations implements bisect.Index.
func (b bisected) ListGenerations(ctx context.Context) ([]artifact.Generation, error) {
	return b.index.ListGenerations(ctx)
}

// Ask implements bisect.Index. It waits for a generation that is still being opened.
func (b bisected) Ask(ctx context.Context, body answer.Request) (answer.Response, error) {
	for {
		response, err := b.askAs(ctx, b.index.Name, body, b.bill, nil)
		if !fault.Is(err, fault.GenBusy) || ctx.Err() != nil {
			return response, err
		}
	}
}

// Open implements bisect.Index.
func (b bisected) Open(ctx context.Context, generation string) (*retrieve.Generation, error) {
	return b.pinGeneration(ctx, b.index.Name, generation)
}

// ReadRecord implements bisect.Index.
func (b bisected) ReadRecord(
	ctx context.Context, of *retrieve.Generation, class *liveset.Class,
) (rows.Record, error) {
	records, err := b.searcher.ClassRecords(ctx, of, []*liveset.Class{class})
	if err != nil {
		return rows.Record{}, err
	}
	return records[0], nil
}

// Compare implements bisect.Index.
func (b bisected) Compare(ctx context.Context, from, to string) (core.Difference, error) {
	return release.CompareGenerations(ctx, b.Cache, b.index, from, to)
}

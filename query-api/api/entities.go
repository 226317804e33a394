package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/unweaver/unweaver/internal/retrieve"
)

// Orders of a list of entities.
const (
	byName     = "name"
	byPassages = "passages"
)

// listEntities answers GET …/entities.
func (s *Server) listEntities(
	ctx context.Context, request *http.Request, generation *retrieve.Generation, place int,
) (any, error) {
	limit, err := limitOf(request)
	if err != nil {
		return nil, err
	}
	chosen, err := chooseEntities(generation, request.URL.Query())
	if err != nil {
		return nil, err
	}
	classes, after, err := generation.ListClasses(ctx, chosen, place, limit)
	if err != nil {
		return nil, err
	}
	records, err := s.searcher.ClassRecords(ctx, generation, classes)
	if err != nil {
		return nil, err
	}
	out := Entities{Source: sourceOf(generation), Items: []EntitySummary{}}
	out.NextCursor = nextCursor(request, out.Generation, after)
	for i, record := range records {
		out.Items = append(out.Items, summaryOf(classes[i], record))
	}
	return out, nil
}

// chooseEntities reads which entities a request asks for.
func chooseEntities(generation *retrieve.Generation, query url.Values) (retrieve.Names, error) {
	order := query.Get("order")
	if query.Has("order") && order != byName && order != byPassages {
		return retrieve.Names{}, newFault("read request", "order",
			fmt.Sprintf("want %s or %s, got %.80q", byName, byPassages, order), "")
	}
	out := retrieve.Names{
		Prefix: query.Get("prefix"), Part: query.Get("contains"), ByChunks: order == byPassages, Type: query.Get("type"),
	}
	if out.Type != "" && len(generation.FindTypes(out.Type)) == 0 {
		known := generation.ListTypes()
		hint := "known: " + strings.Join(known, ", ")
		if len(known) == 0 {
			hint = "its entities have no types: set indexes." + generation.Manifest.Index + ".extraction.types"
		}
		return out, newFault("read request", "type", fmt.Sprintf("%.80q is not a type of this index", out.Type), hint)
	}
	if key := query.Get("document"); key != "" {
		document := generation.Live.FindDocument(key)
		if document < 0 {
			return out, notFound("document", key, generation)
		}
		out.Document = document + 1
	}
	return out, nil
}

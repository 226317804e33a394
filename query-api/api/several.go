package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/served"
)

// serveSeveral answers POST /v1/query.
func (s *Server) serveSeveral(w http.ResponseWriter, request *http.Request) {
	var body answer.SeveralRequest
	err := decodeRequest(w, request, &body)
	s.answerQuery(w, request, &body.Request, err, func(found answer.Found) (answer.Response, error) {
		return s.askSeveral(request.Context(), body, found)
	})
}

// askSeveral answers a question from several indexes in the name of the context's caller.
func (s *Server) askSeveral(
	ctx context.Context, body answer.SeveralRequest, found answer.Found,
) (response answer.Response, err error) {
	start := time.Now()
	timeout := s.Timeout
	if body.Answer {
		timeout = answerTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	indexes, err := s.openSeveral(ctx, body)
	defer func() {
		for _, index := range indexes {
			if index.Generation != nil {
				index.Generation.Close()
			}
		}
	}()
	if err != nil {
		s.Telemetry.Count(telemetry.Queries, 1, "", "", string(fault.CodeOf(err)))
		return response, err
	}
	opened := time.Since(start)
	response, err = s.answers.AskSeveral(ctx, indexes, body.Request, s.Timeout, middleware.CallerOf(ctx), found)
	for _, part := range response.Indexes {
		s.Telemetry.Count(telemetry.Queries, 1, part.Index, part.Method, cmp.Or(part.Code, "ok"))
		s.countRerank(part.Index, part.Rerank)
	}
	if err != nil {
		s.Telemetry.Count(telemetry.Queries, 1, "", "", string(fault.CodeOf(err)))
	}
	response.Timings.Open = answer.Milliseconds(opened)
	response.Timings.End(time.Since(start))
	return response, err
}

// openSeveral holds the indexes that a body names. One that cannot be opened has its error, but a name that is no
// index's, or that the caller may not read, is the error of all. Those of a pattern are left out then.
func (s *Server) openSeveral(ctx context.Context, body answer.SeveralRequest) ([]answer.Opened, error) {
	if body.Generation != nil {
		return nil, newFault("read query", "generation", "a generation is of one index, and several are asked",
			"leave it out, or ask the index alone")
	}
	names, err := s.expandIndexes(ctx, body.Indexes)
	if err != nil {
		return nil, err
	}
	indexes := make([]answer.Opened, len(names))
	err = parallel.Each(ctx, len(names), len(names), func(ctx context.Context, i int) error {
		ctx, cancel := context.WithTimeout(ctx, s.Timeout/2) // the others need time to be searched
		defer cancel()
		generation, err := s.served.Pin(ctx, names[i], "")
		indexes[i] = answer.Opened{Index: names[i], Generation: generation, Err: err}
		if fault.Is(err, fault.UnknownIndex) && slices.Contains(body.Indexes, names[i]) {
			return err
		}
		return nil
	})
	indexes = slices.DeleteFunc(indexes, func(index answer.Opened) bool { return fault.Is(index.Err, fault.UnknownIndex) })
	if err == nil && len(indexes) == 0 {
		err = noIndexFits(body.Indexes)
	}
	return indexes, err
}

// expandIndexes returns the indexes that names and patterns stand for, each once, in the order of what was asked and
// by name within a pattern. The caller may read all of them.
func (s *Server) expandIndexes(ctx context.Context, asked []string) ([]string, error) {
	var names, published []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	caller := middleware.CallerOf(ctx)
	switch {
	case len(asked) == 0:
		return nil, newFault("read query", "indexes", "no index is named", `name some: "indexes": ["docs", "wiki-*"]`)
	case len(asked) > answer.MostIndexes:
		return nil, tooManyIndexes(len(asked))
	}
	for _, one := range asked {
		switch {
		case !core.ValidSlug(strings.ReplaceAll(one, "*", "x")): // * stands where a letter may
			return nil, newFault("read query", "indexes", fmt.Sprintf("%.80q is no name of an index, nor a pattern", one),
				"names have lower-case letters, digits and -; * stands for any of them")
		case strings.Contains(one, "*"):
			if published == nil {
				var err error
				if published, err = artifact.ListIndexes(ctx, s.Artifacts); err != nil {
					return nil, err
				}
				slices.Sort(published)
			}
			for _, name := range published {
				if fits, _ := path.Match(one, name); fits && caller.MayRead(name) { // the pattern is well formed
					add(name)
				}
			}
		case !core.ValidIndex(one) || !caller.MayRead(one):
			return nil, served.UnknownIndex(one) // as if it were not there
		default:
			add(one)
		}
	}
	switch {
	case len(names) == 0:
		return nil, noIndexFits(asked)
	case len(names) > answer.MostIndexes:
		return nil, tooManyIndexes(len(names))
	}
	return names, nil
}

func noIndexFits(asked []string) error {
	return newFault("read query", "indexes", "no index fits "+strings.Join(asked, ", "),
		"list those that the key may read: GET /v1/indexes")
}

func tooManyIndexes(n int) error {
	why := fmt.Sprintf("at most %d indexes are asked at once, got %d", answer.MostIndexes, n)
	return newFault("read query", "indexes", why, "name fewer, or a narrower pattern")
}

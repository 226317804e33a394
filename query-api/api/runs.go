package api

import (
	"context"
	"net/http"
	"regexp"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
)

// Runs is a page of the runs of an index, the one that began last first.
type Runs struct {
	Index      string           `json:"index"`
	Items      []runlog.Summary `json:"items"`
	NextCursor string           `json:"next_cursor" doc:"of the next page; empty: this is the last"`
}

// runCursorForm is a cursor of a list of runs: the generation of the last run of the page before.
const runCursorForm = `^[a-z0-9][a-z0-9-]{0,62}$`

var runCursor = regexp.MustCompile(runCursorForm)

// listRuns answers GET …/runs.
func (s *Server) listRuns(w http.ResponseWriter, request *http.Request) {
	ctx, cancel := context.WithTimeout(request.Context(), s.Timeout)
	defer cancel()
	out, err := s.runsPage(ctx, request)
	if err != nil {
		s.fail(w, request, err)
		return
	}
	s.writeTagged(w, request, out)
}

func (s *Server) runsPage(ctx context.Context, request *http.Request) (Runs, error) {
	out := Runs{Index: request.PathValue("index"), Items: []runlog.Summary{}}
	if !core.ValidIndex(out.Index) {
		return out, unknownIndex(out.Index)
	}
	limit, err := limitOf(request)
	if err != nil {
		return out, err
	}
	query := request.URL.Query()
	after := query.Get("cursor")
	if query.Has("cursor") && !runCursor.MatchString(after) {
		return out, invalid("read request", "cursor", "it is no cursor of runs", "send the one that the page before gave")
	}
	all, err := s.runlog().List(ctx, out.Index, 0)
	if err != nil {
		return out, err
	}
	if len(all) == 0 && after == "" {
		return out, unknownIndex(out.Index)
	}
	if after != "" {
		last := slices.IndexFunc(all, func(run runlog.Summary) bool { return run.Generation == after })
		if last < 0 {
			return out, fault.GenCollected.At("go on with the list", after).
				Because("the run that the cursor names is not listed any more").
				Advise("begin the list anew, without a cursor")
		}
		all = all[last+1:]
	}
	if len(all) > limit {
		all = all[:limit]
		out.NextCursor = all[limit-1].Generation
	}
	out.Items = append(out.Items, all...)
	return out, nil
}

// getRun answers GET …/runs/{run}.
func (s *Server) getRun(w http.ResponseWriter, request *http.Request) {
	ctx, cancel := context.WithTimeout(request.Context(), s.Timeout)
	defer cancel()
	out, err := s.readRun(ctx, request)
	if err != nil {
		s.fail(w, request, err)
		return
	}
	s.writeTagged(w, request, out)
}

// readRun reads the run that the address names.
func (s *Server) readRun(ctx context.Context, request *http.Request) (runlog.Run, error) {
	index, run := request.PathValue("index"), request.PathValue("run")
	if !core.ValidIndex(index) {
		return runlog.Run{}, unknownIndex(index)
	}
	if !core.ValidSlug(run) {
		return runlog.Run{}, unknownRun(index, run)
	}
	out, err := s.runlog().Read(ctx, index, run)
	if fault.Is(err, fault.RunNotFound) {
		err = unknownRun(index, run)
	}
	if out.Stages == nil {
		out.Stages = []core.StageProgress{}
	}
	return out, err
}

func (s *Server) runlog() runlog.Source { return runlog.Source{Artifacts: s.Artifacts, Runs: s.Runs} }

func unknownRun(index, run string) error {
	return fault.RunNotFound.At("find run", index+"/"+run).
		Because("there is none, or its report is gone").
		Advise("list them at /v1/indexes/" + index + "/runs")
}

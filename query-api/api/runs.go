package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/report"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/query-api/served"
)

// Runs is a page of the runs of an index, the one that began last first.
type Runs struct {
	Index      string           `json:"index"`
	Items      []runlog.Summary `json:"items"`
	NextCursor string           `json:"next_cursor" doc:"of the next page; empty: this is the last"`
}

// listRuns answers GET …/runs.
func (s *Server) listRuns(ctx context.Context, request *http.Request) (any, error) {
	out := Runs{Index: request.PathValue("index")}
	all, err := s.newRunlog().List(ctx, out.Index, 0)
	if err == nil && len(all) == 0 && request.URL.Query().Get("cursor") == "" {
		err = served.UnknownIndex(out.Index)
	}
	if err != nil {
		return out, err
	}
	out.Items, out.NextCursor, err = namedPage(request, all, func(run runlog.Summary) string { return run.Generation })
	return out, err
}

// RunDetail is one run.
type RunDetail struct {
	runlog.Run
	Next []string `json:"next,omitempty" doc:"possible next steps of an ended or paused run, each with its command"`
}

// getRun answers GET …/runs/{run}. A run may be named as lists do: index/generation.
func (s *Server) getRun(ctx context.Context, request *http.Request) (any, error) {
	out, err := s.readRun(ctx, request)
	if err != nil {
		return nil, err
	}
	detail := RunDetail{Run: out}
	if core.IsTerminal(out.Status) || out.Status == core.StatusPaused {
		detail.Next = report.AdviseNext(out.Report)
	}
	return detail, nil
}

// readRun reads the run that the address names.
func (s *Server) readRun(ctx context.Context, request *http.Request) (runlog.Run, error) {
	index, run, err := runOf(request)
	if err != nil {
		return runlog.Run{}, err
	}
	out, err := s.newRunlog().Read(ctx, index, run)
	if fault.Is(err, fault.RunNotFound) && s.Desk != nil { // it may have been started just now
		if started, unknown := s.readStarted(ctx, index+"/"+run); unknown == nil {
			out, err = started, nil
		}
	}
	if fault.Is(err, fault.RunNotFound) {
		err = unknownRun(index, run)
	}
	if out.Stages == nil {
		out.Stages = []core.StageProgress{}
	}
	return out, err
}

// enginePatience bounds how long the engine is asked for a run that nothing else knows.
const enginePatience = time.Second

// readStarted reads a run that the engine alone may know yet.
func (s *Server) readStarted(ctx context.Context, work string) (runlog.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, enginePatience)
	defer cancel()
	controller, err := s.Desk.Connect(ctx)
	if err != nil {
		return runlog.Run{}, err
	}
	return controller.ReadStatus(ctx, work)
}

// runOf returns the index and the run that the address names.
func runOf(request *http.Request) (index, run string, err error) {
	index = request.PathValue("index")
	run = strings.TrimPrefix(request.PathValue("run"), index+"/") // as lists name it, too
	if !core.ValidSlug(run) {
		err = unknownRun(index, run)
	}
	return index, run, err
}

func (s *Server) newRunlog() runlog.Source {
	return runlog.Source{Artifacts: s.Artifacts, Runs: s.Runs}
}

func unknownRun(index, run string) error {
	return fault.RunNotFound.At("find run", index+"/"+run).
		Because("the run does not exist, or its report was deleted").
		Advise("list the runs at /v1/indexes/" + index + "/runs")
}

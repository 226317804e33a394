package api

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
)

// Runs is a page of the runs of an index, the one that began last first.
type Runs struct {
	Index      string       `json:"index"`
	Items      []RunSummary `json:"items"`
	NextCursor string       `json:"next_cursor" doc:"of the next page; empty: this is the last"`
}

// RunSummary is a run as lists show it.
type RunSummary struct {
	Run        string     `json:"run" doc:"index/generation"`
	Index      string     `json:"index"`
	Generation string     `json:"generation"`
	Kind       string     `json:"kind" enum:"build,restore"`
	Status     string     `json:"status" doc:"as in its report; damaged: that cannot be read"`
	Reason     string     `json:"reason,omitempty"`
	Stage      string     `json:"stage,omitempty"`
	Overall    float64    `json:"overall" doc:"done share, 0 to 1"`
	Unchanged  bool       `json:"unchanged,omitempty"`
	Published  bool       `json:"published"`
	Started    time.Time  `json:"started"`
	Ended      *time.Time `json:"ended,omitempty"`
	Seconds    float64    `json:"seconds"`
	Documents  int64      `json:"documents"`
	Chunks     int64      `json:"chunks"`
	Classes    int64      `json:"classes"`
	Calls      int64      `json:"calls"`
	Tokens     int64      `json:"tokens"`
	Cost       float64    `json:"cost"`
	Problems   int64      `json:"problems"`
}

// RunDetail is a report with what runs now: what `unweaver status --json` prints.
type RunDetail struct {
	corpus.Report
	Stage   string          `json:"stage" doc:"that runs now; empty where none does"`
	Overall float64         `json:"overall" doc:"done share, 0 to 1"`
	Waiting *corpus.Waiting `json:"waiting,omitempty" doc:"of a run that waits for an outage to end"`
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
	out := Runs{Index: request.PathValue("index"), Items: []RunSummary{}}
	if !corpus.ValidIndex(out.Index) {
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
	all, err := s.runSource().list(ctx, out.Index)
	if err != nil {
		return out, err
	}
	if len(all) == 0 && after == "" {
		return out, unknownIndex(out.Index)
	}
	if after != "" {
		last := slices.IndexFunc(all, func(run RunSummary) bool { return run.Generation == after })
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
	index, run := request.PathValue("index"), request.PathValue("run")
	if !corpus.ValidIndex(index) {
		s.fail(w, request, unknownIndex(index))
		return
	}
	out, err := s.runSource().read(ctx, index, run)
	if err != nil {
		s.fail(w, request, err)
		return
	}
	if out.Stages == nil {
		out.Stages = []corpus.StageProgress{}
	}
	s.writeTagged(w, request, out)
}

func (s *Server) runSource() runSource { return runSource{s.Artifacts, s.Runs} }

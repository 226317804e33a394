package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

type named struct {
	Name string `json:"name"`
}

type list struct {
	Index string `json:"index"` // empty: all
	Limit int    `json:"limit"`
}

type resumed struct {
	Name   string       `json:"name"`
	Budget *core.Budget `json:"budget,omitempty"`
}

type letter struct {
	Index string `json:"index"`
	Chunk string `json:"chunk"`
}

type noted struct {
	Index string `json:"index"`
	Note  string `json:"note,omitempty"`
}

// byName serves a method that takes the name of an index or of a run.
func byName[Out any](mux *http.ServeMux, name string, method func(context.Context, string) (Out, error)) {
	handleMethod(mux, name, func(ctx context.Context, in named) (Out, error) { return method(ctx, in.Name) })
}

// handleList serves a method that takes an index, or none for all, and how many are wanted.
func handleList[Out any](mux *http.ServeMux, name string, method func(context.Context, string, int) (Out, error)) {
	handleMethod(mux, name, func(ctx context.Context, in list) (Out, error) { return method(ctx, in.Index, in.Limit) })
}

// handleOut serves a method that takes nothing.
func handleOut[Out any](mux *http.ServeMux, name string, method func(context.Context) (Out, error)) {
	handleMethod(mux, name, func(ctx context.Context, _ struct{}) (Out, error) { return method(ctx) })
}

// handleIn serves a method that gives nothing.
func handleIn[In any](mux *http.ServeMux, name string, method func(context.Context, In) error) {
	handleMethod(mux, name, func(ctx context.Context, in In) (struct{}, error) { return struct{}{}, method(ctx, in) })
}

// addRoutes serves each method of a Control under its name.
func addRoutes(mux *http.ServeMux, c control.Control) {
	handleMethod(mux, "index", c.BuildIndex)
	handleMethod(mux, "estimate", c.EstimateBuild)
	byName(mux, "status", c.ReadStatus)
	byName(mux, "pause", c.PauseRun)
	handleIn(mux, "resume", func(ctx context.Context, in resumed) error { return c.ResumeRun(ctx, in.Name, in.Budget) })
	byName(mux, "cancel", c.CancelRun)
	handleIn(mux, "limit", c.LimitRun)
	handleIn(mux, "lost", func(ctx context.Context, in named) error { return c.MarkLost(ctx, in.Name) })
	byName(mux, "generations", c.ListGenerations)
	handleMethod(mux, "move", func(ctx context.Context, in control.MoveRequest) (core.Move, error) {
		in.KeepLabels = in.KeepLabels || !readersOf(ctx).All
		return c.MoveGeneration(ctx, in)
	})
	handleMethod(mux, "branch", func(ctx context.Context, in control.BranchRequest) (core.Branch, error) {
		for key := range in.Set {
			if strings.HasPrefix(key, "documents.labels") && !readersOf(ctx).All {
				return core.Branch{}, fault.Forbidden.At("branch", in.Index).
					Because("it sets " + key + ", which decides who may read the branch").
					Advise("use a key that may read every document (--labels '*'), or the token")
			}
		}
		return c.ChangeBranch(ctx, in)
	})
	handleMethod(mux, "delete", c.DeleteIndex)
	byName(mux, "branches", c.ListBranches)
	handleMethod(mux, "watch", func(ctx context.Context, in control.WatchRequest) ([]core.Question, error) {
		if !readersOf(ctx).All {
			in.Readers = readersOf(ctx)
		}
		return c.WatchQuestions(ctx, in)
	})
	byName(mux, "overlay", c.ReadOverlay)
	handleMethod(mux, "diff", c.CompareGenerations)
	handleMethod(mux, "aliases", c.ListAliases)
	handleList(mux, "operations", c.ListOperations)
	handleOut(mux, "indexes", c.ListIndexes)
	handleList(mux, "runs", c.ListRuns)
	handleList(mux, "trends", c.ReadTrends)
	byName(mux, "log", c.ReadLog)
	byName(mux, "restore", c.RestoreIndex)
	handleMethod(mux, "image", c.MoveImage)
	handleMethod(mux, "transfer", c.ReadTransfer)
	handleMethod(mux, "audit", c.AuditIndex)
	handleMethod(mux, "doctor", c.RunDoctor)
	byName(mux, "dead-letters", c.DeadLetters)
	handleMethod(mux, "dead-letter", func(ctx context.Context, in letter) (core.Letter, error) {
		return c.DeadLetter(ctx, in.Index, in.Chunk)
	})
	handleIn(mux, "discard-letters", c.DiscardLetters)
	handleMethod(mux, "retry-failed", c.RetryFailed)
	handleMethod(mux, "backfill", c.StartBackfill)
	handleMethod(mux, "backfills", c.ListBackfills)
	handleIn(mux, "backfill-pause", c.PauseBackfill)
	handleIn(mux, "backfill-resume", c.ResumeBackfill)
	handleIn(mux, "backfill-cancel", c.CancelBackfill)
	handleMethod(mux, "purge", c.PurgeDocuments)
	handleMethod(mux, "purges", c.ListPurges)
	handleMethod(mux, "schedule-apply", c.ApplySchedule)
	handleOut(mux, "schedules", c.ListSchedules)
	byName(mux, "schedule", c.ReadSchedule)
	handleIn(mux, "schedule-pause", func(ctx context.Context, in noted) error {
		return c.PauseSchedule(ctx, in.Index, in.Note)
	})
	handleIn(mux, "schedule-resume", func(ctx context.Context, in noted) error {
		return c.ResumeSchedule(ctx, in.Index, in.Note)
	})
	handleMethod(mux, "schedule-trigger", func(ctx context.Context, in noted) (control.Triggered, error) {
		return c.TriggerSchedule(ctx, in.Index)
	})
	handleIn(mux, "schedule-delete", func(ctx context.Context, in noted) error { return c.DeleteSchedule(ctx, in.Index) })
}

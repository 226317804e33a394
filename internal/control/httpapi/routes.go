package httpapi

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
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
	handle(mux, name, func(ctx context.Context, in named) (Out, error) { return method(ctx, in.Name) })
}

// listed serves a method that takes an index, or none for all, and how many are wanted.
func listed[Out any](mux *http.ServeMux, name string, method func(context.Context, string, int) (Out, error)) {
	handle(mux, name, func(ctx context.Context, in list) (Out, error) { return method(ctx, in.Index, in.Limit) })
}

// all serves a method that takes nothing.
func all[Out any](mux *http.ServeMux, name string, method func(context.Context) (Out, error)) {
	handle(mux, name, func(ctx context.Context, _ struct{}) (Out, error) { return method(ctx) })
}

// steer serves a method that gives nothing.
func steer[In any](mux *http.ServeMux, name string, method func(context.Context, In) error) {
	handle(mux, name, func(ctx context.Context, in In) (struct{}, error) { return struct{}{}, method(ctx, in) })
}

// routes serves each method of a Control under its name.
func routes(mux *http.ServeMux, c control.Control) {
	handle(mux, "index", c.Index)
	handle(mux, "estimate", c.Estimate)
	byName(mux, "status", c.Status)
	byName(mux, "pause", c.Pause)
	steer(mux, "resume", func(ctx context.Context, in resumed) error { return c.Resume(ctx, in.Name, in.Budget) })
	byName(mux, "cancel", c.Cancel)
	steer(mux, "limit", c.Limit)
	steer(mux, "lost", func(ctx context.Context, in named) error { return c.Lost(ctx, in.Name) })
	byName(mux, "generations", c.Generations)
	handle(mux, "move", c.Move)
	handle(mux, "branch", c.Branch)
	handle(mux, "delete", c.Delete)
	byName(mux, "branches", c.Branches)
	byName(mux, "overlay", c.Overlay)
	handle(mux, "diff", c.Difference)
	handle(mux, "aliases", c.Aliases)
	listed(mux, "operations", c.Operations)
	all(mux, "indexes", c.Indexes)
	listed(mux, "runs", c.Runs)
	listed(mux, "trends", c.Trends)
	byName(mux, "log", c.Log)
	byName(mux, "restore", c.Restore)
	handle(mux, "audit", c.Audit)
	handle(mux, "doctor", c.Doctor)
	byName(mux, "dead-letters", c.DeadLetters)
	handle(mux, "dead-letter", func(ctx context.Context, in letter) (core.Letter, error) {
		return c.DeadLetter(ctx, in.Index, in.Chunk)
	})
	steer(mux, "discard-letters", c.Discard)
	handle(mux, "retry-failed", c.RetryFailed)
	handle(mux, "backfill", c.Backfill)
	handle(mux, "backfills", c.Backfills)
	steer(mux, "backfill-pause", c.PauseBackfill)
	steer(mux, "backfill-resume", c.ResumeBackfill)
	steer(mux, "backfill-cancel", c.CancelBackfill)
	handle(mux, "purge", c.Purge)
	handle(mux, "purges", c.Purges)
	handle(mux, "schedule-apply", c.ApplySchedule)
	all(mux, "schedules", c.Schedules)
	steer(mux, "schedule-pause", func(ctx context.Context, in noted) error {
		return c.PauseSchedule(ctx, in.Index, in.Note)
	})
	steer(mux, "schedule-resume", func(ctx context.Context, in noted) error {
		return c.ResumeSchedule(ctx, in.Index, in.Note)
	})
	handle(mux, "schedule-trigger", func(ctx context.Context, in noted) (control.Triggered, error) {
		return c.TriggerSchedule(ctx, in.Index)
	})
	steer(mux, "schedule-delete", func(ctx context.Context, in noted) error { return c.DeleteSchedule(ctx, in.Index) })
}

package httpapi

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
)

// Estimate implements control.Control.
func (c *Client) Estimate(ctx context.Context, r control.IndexRequest) (core.Estimated, error) {
	return callMethod[core.Estimated](ctx, c, "estimate", r)
}

// Index implements control.Control.
func (c *Client) Index(ctx context.Context, r control.IndexRequest) (control.Run, error) {
	return callMethod[control.Run](ctx, c, "index", r)
}

// Status implements control.Control.
func (c *Client) Status(ctx context.Context, run string) (control.Status, error) {
	return callMethod[control.Status](ctx, c, "status", named{run})
}

// Pause implements control.Control.
func (c *Client) Pause(ctx context.Context, run string) (control.Stopped, error) {
	return callMethod[control.Stopped](ctx, c, "pause", named{run})
}

// Resume implements control.Control.
func (c *Client) Resume(ctx context.Context, run string, budget *core.Budget) error {
	return doCall(ctx, c, "resume", resumed{run, budget})
}

// Cancel implements control.Control.
func (c *Client) Cancel(ctx context.Context, run string) (control.Stopped, error) {
	return callMethod[control.Stopped](ctx, c, "cancel", named{run})
}

// Limit implements control.Control.
func (c *Client) Limit(ctx context.Context, r control.LimitRequest) error {
	return doCall(ctx, c, "limit", r)
}

// Lost implements control.Control.
func (c *Client) Lost(ctx context.Context, run string) error {
	return doCall(ctx, c, "lost", named{run})
}

// Generations implements control.Control.
func (c *Client) Generations(ctx context.Context, index string) ([]artifact.Generation, error) {
	return callMethod[[]artifact.Generation](ctx, c, "generations", named{index})
}

// Indexes implements control.Control.
func (c *Client) Indexes(ctx context.Context) ([]runlog.Card, error) {
	return callMethod[[]runlog.Card](ctx, c, "indexes", struct{}{})
}

// Runs implements control.Control.
func (c *Client) Runs(ctx context.Context, index string, limit int) ([]runlog.Summary, error) {
	return callMethod[[]runlog.Summary](ctx, c, "runs", list{index, limit})
}

// Trends implements control.Control.
func (c *Client) Trends(ctx context.Context, index string, nights int) ([]runlog.Trends, error) {
	return callMethod[[]runlog.Trends](ctx, c, "trends", list{index, nights})
}

// Log implements control.Control.
func (c *Client) Log(ctx context.Context, run string) (runlog.Log, error) {
	return callMethod[runlog.Log](ctx, c, "log", named{run})
}

// Audit implements control.Control.
func (c *Client) Audit(ctx context.Context, request control.AuditRequest) (control.Run, error) {
	return callMethod[control.Run](ctx, c, "audit", request)
}

// Move implements control.Control.
func (c *Client) Move(ctx context.Context, r control.MoveRequest) (core.Move, error) {
	return callMethod[core.Move](ctx, c, "move", r)
}

// Difference implements control.Control.
func (c *Client) Difference(ctx context.Context, r control.DifferenceRequest) (core.Difference, error) {
	return callMethod[core.Difference](ctx, c, "diff", r)
}

// Aliases implements control.Control.
func (c *Client) Aliases(ctx context.Context, r control.AliasesRequest) (core.AliasList, error) {
	return callMethod[core.AliasList](ctx, c, "aliases", r)
}

// Operations implements control.Control.
func (c *Client) Operations(ctx context.Context, index string, limit int) ([]core.Operation, error) {
	return callMethod[[]core.Operation](ctx, c, "operations", list{index, limit})
}

// Restore implements control.Control.
func (c *Client) Restore(ctx context.Context, index string) (control.Run, error) {
	return callMethod[control.Run](ctx, c, "restore", named{index})
}

// Doctor implements control.Control.
func (c *Client) Doctor(ctx context.Context, spec core.Spec) ([]control.Check, error) {
	return callMethod[[]control.Check](ctx, c, "doctor", spec)
}

// Branch implements control.Control.
func (c *Client) Branch(ctx context.Context, r control.BranchRequest) (core.Branch, error) {
	return callMethod[core.Branch](ctx, c, "branch", r)
}

// Delete implements control.Control.
func (c *Client) Delete(ctx context.Context, r control.DeleteRequest) (core.Deletion, error) {
	return callMethod[core.Deletion](ctx, c, "delete", r)
}

// Branches implements control.Control.
func (c *Client) Branches(ctx context.Context, index string) ([]core.Branch, error) {
	return callMethod[[]core.Branch](ctx, c, "branches", named{index})
}

// Overlay implements control.Control.
func (c *Client) Overlay(ctx context.Context, index string) (control.Overlaid, error) {
	return callMethod[control.Overlaid](ctx, c, "overlay", named{index})
}

// Backfill implements control.Control.
func (c *Client) Backfill(ctx context.Context, request control.BackfillRequest) (control.BackfillStarted, error) {
	return callMethod[control.BackfillStarted](ctx, c, "backfill", request)
}

// Backfills implements control.Control.
func (c *Client) Backfills(ctx context.Context, named control.BackfillNamed) ([]core.Backfill, error) {
	return callMethod[[]core.Backfill](ctx, c, "backfills", named)
}

// PauseBackfill implements control.Control.
func (c *Client) PauseBackfill(ctx context.Context, named control.BackfillNamed) error {
	return doCall(ctx, c, "backfill-pause", named)
}

// ResumeBackfill implements control.Control.
func (c *Client) ResumeBackfill(ctx context.Context, named control.BackfillNamed) error {
	return doCall(ctx, c, "backfill-resume", named)
}

// CancelBackfill implements control.Control.
func (c *Client) CancelBackfill(ctx context.Context, named control.BackfillNamed) error {
	return doCall(ctx, c, "backfill-cancel", named)
}

// DeadLetters implements control.Control.
func (c *Client) DeadLetters(ctx context.Context, index string) ([]core.Letter, error) {
	return callMethod[[]core.Letter](ctx, c, "dead-letters", named{index})
}

// DeadLetter implements control.Control.
func (c *Client) DeadLetter(ctx context.Context, index, chunk string) (core.Letter, error) {
	return callMethod[core.Letter](ctx, c, "dead-letter", letter{index, chunk})
}

// Discard implements control.Control.
func (c *Client) Discard(ctx context.Context, request control.LettersRequest) error {
	return doCall(ctx, c, "discard-letters", request)
}

// RetryFailed implements control.Control.
func (c *Client) RetryFailed(ctx context.Context, request control.LettersRequest) (control.Run, error) {
	return callMethod[control.Run](ctx, c, "retry-failed", request)
}

// Purge implements control.Control.
func (c *Client) Purge(ctx context.Context, request control.PurgeRequest) (control.PurgeAnswer, error) {
	return callMethod[control.PurgeAnswer](ctx, c, "purge", request)
}

// Purges implements control.Control.
func (c *Client) Purges(ctx context.Context, request control.PurgesRequest) (control.PurgesAnswer, error) {
	return callMethod[control.PurgesAnswer](ctx, c, "purges", request)
}

// ApplySchedule implements control.Control.
func (c *Client) ApplySchedule(ctx context.Context, request control.ScheduleRequest) (control.Applied, error) {
	return callMethod[control.Applied](ctx, c, "schedule-apply", request)
}

// Schedules implements control.Control.
func (c *Client) Schedules(ctx context.Context) ([]control.Scheduled, error) {
	return callMethod[[]control.Scheduled](ctx, c, "schedules", struct{}{})
}

// PauseSchedule implements control.Control.
func (c *Client) PauseSchedule(ctx context.Context, index, note string) error {
	return doCall(ctx, c, "schedule-pause", noted{index, note})
}

// ResumeSchedule implements control.Control.
func (c *Client) ResumeSchedule(ctx context.Context, index, note string) error {
	return doCall(ctx, c, "schedule-resume", noted{index, note})
}

// TriggerSchedule implements control.Control.
func (c *Client) TriggerSchedule(ctx context.Context, index string) (control.Triggered, error) {
	return callMethod[control.Triggered](ctx, c, "schedule-trigger", noted{Index: index})
}

// DeleteSchedule implements control.Control.
func (c *Client) DeleteSchedule(ctx context.Context, index string) error {
	return doCall(ctx, c, "schedule-delete", noted{Index: index})
}

package httpapi

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
)

// EstimateBuild implements control.Control.
func (c *Client) EstimateBuild(ctx context.Context, r control.IndexRequest) (core.Estimated, error) {
	return callMethod[core.Estimated](ctx, c, "estimate", r)
}

// BuildIndex implements control.Control.
func (c *Client) BuildIndex(ctx context.Context, r control.IndexRequest) (control.Run, error) {
	return callMethod[control.Run](ctx, c, "index", r)
}

// ReadStatus implements control.Control.
func (c *Client) ReadStatus(ctx context.Context, run string) (control.Status, error) {
	return callMethod[control.Status](ctx, c, "status", named{run})
}

// PauseRun implements control.Control.
func (c *Client) PauseRun(ctx context.Context, run string) (control.Stopped, error) {
	return callMethod[control.Stopped](ctx, c, "pause", named{run})
}

// ResumeRun implements control.Control.
func (c *Client) ResumeRun(ctx context.Context, run string, budget *core.Budget) error {
	return doCall(ctx, c, "resume", resumed{run, budget})
}

// CancelRun implements control.Control.
func (c *Client) CancelRun(ctx context.Context, run string) (control.Stopped, error) {
	return callMethod[control.Stopped](ctx, c, "cancel", named{run})
}

// LimitRun implements control.Control.
func (c *Client) LimitRun(ctx context.Context, r control.LimitRequest) error {
	return doCall(ctx, c, "limit", r)
}

// MarkLost implements control.Control.
func (c *Client) MarkLost(ctx context.Context, run string) error {
	return doCall(ctx, c, "lost", named{run})
}

// ListGenerations implements control.Control.
func (c *Client) ListGenerations(ctx context.Context, index string) ([]artifact.Generation, error) {
	return callMethod[[]artifact.Generation](ctx, c, "generations", named{index})
}

// ListIndexes implements control.Control.
func (c *Client) ListIndexes(ctx context.Context) ([]runlog.Card, error) {
	return callMethod[[]runlog.Card](ctx, c, "indexes", struct{}{})
}

// ListRuns implements control.Control.
func (c *Client) ListRuns(ctx context.Context, index string, limit int) ([]runlog.Summary, error) {
	return callMethod[[]runlog.Summary](ctx, c, "runs", list{index, limit})
}

// ReadTrends implements control.Control.
func (c *Client) ReadTrends(ctx context.Context, index string, nights int) ([]runlog.Trends, error) {
	return callMethod[[]runlog.Trends](ctx, c, "trends", list{index, nights})
}

// ReadLog implements control.Control.
func (c *Client) ReadLog(ctx context.Context, run string) (runlog.Log, error) {
	return callMethod[runlog.Log](ctx, c, "log", named{run})
}

// AuditIndex implements control.Control.
func (c *Client) AuditIndex(ctx context.Context, request control.AuditRequest) (control.Run, error) {
	return callMethod[control.Run](ctx, c, "audit", request)
}

// MoveImage implements control.Control.
func (c *Client) MoveImage(ctx context.Context, r core.ImageRequest) (core.Transfer, error) {
	return callMethod[core.Transfer](ctx, c, "image", r)
}

// ReadTransfer implements control.Control.
func (c *Client) ReadTransfer(ctx context.Context, r core.ImageRequest) (core.Transfer, error) {
	return callMethod[core.Transfer](ctx, c, "transfer", r)
}

// MoveGeneration implements control.Control.
func (c *Client) MoveGeneration(ctx context.Context, r control.MoveRequest) (core.Move, error) {
	return callMethod[core.Move](ctx, c, "move", r)
}

// CompareGenerations implements control.Control.
func (c *Client) CompareGenerations(ctx context.Context, r control.DifferenceRequest) (core.Difference, error) {
	return callMethod[core.Difference](ctx, c, "diff", r)
}

// ListAliases implements control.Control.
func (c *Client) ListAliases(ctx context.Context, r control.AliasesRequest) (core.AliasList, error) {
	return callMethod[core.AliasList](ctx, c, "aliases", r)
}

// ListOperations implements control.Control.
func (c *Client) ListOperations(ctx context.Context, index string, limit int) ([]core.Operation, error) {
	return callMethod[[]core.Operation](ctx, c, "operations", list{index, limit})
}

// RestoreIndex implements control.Control.
func (c *Client) RestoreIndex(ctx context.Context, index string) (control.Run, error) {
	return callMethod[control.Run](ctx, c, "restore", named{index})
}

// RunDoctor implements control.Control.
func (c *Client) RunDoctor(ctx context.Context, spec core.Spec) ([]control.Check, error) {
	return callMethod[[]control.Check](ctx, c, "doctor", spec)
}

// ChangeBranch implements control.Control.
func (c *Client) ChangeBranch(ctx context.Context, r control.BranchRequest) (core.Branch, error) {
	return callMethod[core.Branch](ctx, c, "branch", r)
}

// DeleteIndex implements control.Control.
func (c *Client) DeleteIndex(ctx context.Context, r control.DeleteRequest) (core.Deletion, error) {
	return callMethod[core.Deletion](ctx, c, "delete", r)
}

// ListBranches implements control.Control.
func (c *Client) ListBranches(ctx context.Context, index string) ([]core.Branch, error) {
	return callMethod[[]core.Branch](ctx, c, "branches", named{index})
}

// WatchQuestions implements control.Control.
func (c *Client) WatchQuestions(ctx context.Context, r control.WatchRequest) ([]core.Question, error) {
	return callMethod[[]core.Question](ctx, c, "watch", r)
}

// ReadOverlay implements control.Control.
func (c *Client) ReadOverlay(ctx context.Context, index string) (control.Overlaid, error) {
	return callMethod[control.Overlaid](ctx, c, "overlay", named{index})
}

// StartBackfill implements control.Control.
func (c *Client) StartBackfill(ctx context.Context, request control.BackfillRequest) (control.BackfillStarted, error) {
	return callMethod[control.BackfillStarted](ctx, c, "backfill", request)
}

// ListBackfills implements control.Control.
func (c *Client) ListBackfills(ctx context.Context, named control.BackfillNamed) ([]core.Backfill, error) {
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

// DiscardLetters implements control.Control.
func (c *Client) DiscardLetters(ctx context.Context, request control.LettersRequest) error {
	return doCall(ctx, c, "discard-letters", request)
}

// RetryFailed implements control.Control.
func (c *Client) RetryFailed(ctx context.Context, request control.LettersRequest) (control.Run, error) {
	return callMethod[control.Run](ctx, c, "retry-failed", request)
}

// PurgeDocuments implements control.Control.
func (c *Client) PurgeDocuments(ctx context.Context, request control.PurgeRequest) (control.PurgeAnswer, error) {
	return callMethod[control.PurgeAnswer](ctx, c, "purge", request)
}

// ListPurges implements control.Control.
func (c *Client) ListPurges(ctx context.Context, request control.PurgesRequest) (control.PurgesAnswer, error) {
	return callMethod[control.PurgesAnswer](ctx, c, "purges", request)
}

// ApplySchedule implements control.Control.
func (c *Client) ApplySchedule(ctx context.Context, request control.ScheduleRequest) (control.Applied, error) {
	return callMethod[control.Applied](ctx, c, "schedule-apply", request)
}

// ListSchedules implements control.Control.
func (c *Client) ListSchedules(ctx context.Context) ([]control.Scheduled, error) {
	return callMethod[[]control.Scheduled](ctx, c, "schedules", struct{}{})
}

// ReadSchedule implements control.Control.
func (c *Client) ReadSchedule(ctx context.Context, index string) (control.Scheduled, error) {
	return callMethod[control.Scheduled](ctx, c, "schedule", named{index})
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

package controltest

import (
	"context"
	"fmt"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
)

// Recorder is a control that answers what a test gives it and remembers what it was asked.
type Recorder = recorder

// recorder is not exported, so that its methods need no comment each: control.Control says what they do.
type recorder struct {
	mu      sync.Mutex
	Asked   []string      // commands and what they name, in their order
	Inputs  []any         // of the commands, whole
	By      core.Operator // of the last command
	Another bool          // whether somebody else than the owner gave it
	Looks   int           // how often ReadStatus was asked
	Err     error         // that commands return

	Aliases    core.AliasList
	Attached   bool // of a build and a backfill
	Backfills  []core.Backfill
	Branches   []core.Branch
	Watched    []core.Question
	Cards      []runlog.Card
	Checks     []control.Check
	Difference core.Difference
	Kept       []artifact.Generation
	Letters    []core.Letter
	Log        runlog.Log
	NoCorpus   string // of a restore
	Operations []core.Operation
	Overlays   map[string]control.Overlaid
	Plan       *core.Plan // of an estimate
	Purges     control.PurgesAnswer
	Purging    control.PurgeAnswer
	Retried    control.Run
	RunID      string
	Schedules  []control.Scheduled
	Statuses   []control.Status // one a look; the last one stays
	Stopped    control.Stopped
	Summaries  []runlog.Summary
	Tokens     *core.IndexTokens
	Trends     []runlog.Trends
	Triggered  control.Triggered
	Unchanged  bool
}

// Port returns it as a control.
func (c *recorder) Port() control.Control { return control.Of(c) }

// Last returns the last input of its type; zero: none.
func Last[T any](c *Recorder) (out T) {
	for _, input := range c.Inputs {
		if one, ok := input.(T); ok {
			out = one
		}
	}
	return out
}

// ask remembers a command, what it names and its inputs.
func (c *recorder) ask(ctx context.Context, what, name string, inputs ...any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Asked, c.Inputs = append(c.Asked, what+" "+name), append(c.Inputs, inputs...)
	c.By, c.Another = control.OperatorOf(ctx), control.OfAnother(ctx)
	return c.Err
}

func (c *recorder) BuildIndex(ctx context.Context, r control.IndexRequest) (control.Run, error) {
	run := control.Run{Run: r.Spec.Index + "/g1", RunID: c.RunID, Attached: c.Attached}
	return run, c.ask(ctx, "index", r.Spec.Index, r)
}
func (c *recorder) EstimateBuild(ctx context.Context, r control.IndexRequest) (out core.Estimated, err error) {
	if r.Accounts {
		return core.Estimated{IndexTokens: c.Tokens}, nil
	}
	if err = c.ask(ctx, "estimate", r.Spec.Index, r); err == nil && len(c.Statuses) > 0 {
		out = core.Estimated{Report: c.Statuses[0].Report, Plan: c.Plan}
	}
	return out, err
}
func (c *recorder) ReadStatus(ctx context.Context, run string) (out control.Status, err error) {
	if err = c.ask(ctx, "status", run, run); err == nil && len(c.Statuses) > 0 {
		out = c.Statuses[min(c.Looks, len(c.Statuses)-1)]
		c.Looks++
	}
	return out, err
}
func (c *recorder) PauseRun(ctx context.Context, run string) (control.Stopped, error) {
	return c.Stopped, c.ask(ctx, "pause", run, run)
}
func (c *recorder) CancelRun(ctx context.Context, run string) (control.Stopped, error) {
	return c.Stopped, c.ask(ctx, "cancel", run, run)
}
func (c *recorder) ResumeRun(ctx context.Context, run string, budget *core.Budget) error {
	return c.ask(ctx, "resume", run, run, budget)
}
func (c *recorder) LimitRun(ctx context.Context, r control.LimitRequest) error {
	return c.ask(ctx, "limit", r.Run, r)
}
func (c *recorder) MarkLost(ctx context.Context, run string) error {
	return c.ask(ctx, "lost", run, run)
}
func (c *recorder) DeadLetters(ctx context.Context, index string) ([]core.Letter, error) {
	return c.Letters, c.ask(ctx, "dead-letters", index, index)
}
func (c *recorder) DeadLetter(ctx context.Context, index, chunk string) (out core.Letter, err error) {
	if err = c.ask(ctx, "dead-letter", index+" "+chunk, index, chunk); err == nil && len(c.Letters) > 0 {
		out = c.Letters[0]
	}
	return out, err
}
func (c *recorder) DiscardLetters(ctx context.Context, r control.LettersRequest) error {
	return c.ask(ctx, "discard", fmt.Sprint(r.Name, " ", r.Chunks, " ", r.Why), r)
}
func (c *recorder) RetryFailed(ctx context.Context, r control.LettersRequest) (control.Run, error) {
	return c.Retried, c.ask(ctx, "retry-failed", fmt.Sprint(r.Name, " ", r.Chunks), r)
}
func (c *recorder) StartBackfill(ctx context.Context, r control.BackfillRequest) (control.BackfillStarted, error) {
	out := control.BackfillStarted{Index: r.Index, Name: r.Name, Attached: c.Attached}
	return out, c.ask(ctx, "backfill", r.Index+"/"+r.Name, r)
}
func (c *recorder) ListBackfills(ctx context.Context, r control.BackfillNamed) ([]core.Backfill, error) {
	return c.Backfills, c.ask(ctx, "backfills", r.Index+"/"+r.Name, r)
}
func (c *recorder) PauseBackfill(ctx context.Context, r control.BackfillNamed) error {
	return c.ask(ctx, "backfill-pause", r.Index+"/"+r.Name, r)
}
func (c *recorder) ResumeBackfill(ctx context.Context, r control.BackfillNamed) error {
	return c.ask(ctx, "backfill-resume", r.Index+"/"+r.Name, r)
}
func (c *recorder) CancelBackfill(ctx context.Context, r control.BackfillNamed) error {
	return c.ask(ctx, "backfill-cancel", r.Index+"/"+r.Name, r)
}
func (c *recorder) PurgeDocuments(ctx context.Context, r control.PurgeRequest) (control.PurgeAnswer, error) {
	answer := c.Purging
	if r.DryRun {
		answer.Run, answer.Purge = nil, nil
	}
	return answer, c.ask(ctx, "purge",
		fmt.Sprint(r.Index, " ", r.Documents, " ", r.Return, " ", r.DryRun, " ", r.Confirmed), r)
}
func (c *recorder) ListPurges(ctx context.Context, r control.PurgesRequest) (control.PurgesAnswer, error) {
	return c.Purges, c.ask(ctx, "purges", fmt.Sprint(r.Index, " ", r.Readmit), r)
}
func (c *recorder) ApplySchedule(ctx context.Context, r control.ScheduleRequest) (control.Applied, error) {
	out := control.Applied{Index: r.Spec.Index, Change: "created"}
	return out, c.ask(ctx, "schedule-apply", r.Spec.Index+" "+r.Schedule.Cron+" "+r.Schedule.Timezone, r)
}
func (c *recorder) ListSchedules(ctx context.Context) ([]control.Scheduled, error) {
	return c.Schedules, c.ask(ctx, "schedules", "")
}
func (c *recorder) ReadSchedule(ctx context.Context, index string) (out control.Scheduled, err error) {
	if err = c.ask(ctx, "schedule", index, index); err == nil && len(c.Schedules) > 0 {
		out = c.Schedules[0]
	}
	return out, err
}
func (c *recorder) PauseSchedule(ctx context.Context, index, note string) error {
	return c.ask(ctx, "schedule-pause", index+" "+note, index, note)
}
func (c *recorder) ResumeSchedule(ctx context.Context, index, note string) error {
	return c.ask(ctx, "schedule-resume", index+" "+note, index, note)
}
func (c *recorder) TriggerSchedule(ctx context.Context, index string) (control.Triggered, error) {
	return c.Triggered, c.ask(ctx, "schedule-trigger", index, index)
}
func (c *recorder) DeleteSchedule(ctx context.Context, index string) error {
	return c.ask(ctx, "schedule-delete", index, index)
}
func (c *recorder) ListGenerations(ctx context.Context, index string) ([]artifact.Generation, error) {
	return c.Kept, c.ask(ctx, "generations", index, index)
}
func (c *recorder) MoveGeneration(ctx context.Context, r control.MoveRequest) (core.Move, error) {
	out := core.Move{
		Index: r.Index, Action: r.Action, From: "g2", To: r.Generation, Name: r.Name, Release: 7, Unchanged: c.Unchanged,
	}
	if r.Action == core.ActionPromote {
		out.Set = map[string]string{"keep": "2"}
	}
	return out, c.ask(ctx, r.Action, r.Index+" "+r.Generation, r)
}
func (c *recorder) DeleteIndex(ctx context.Context, r control.DeleteRequest) (core.Deletion, error) {
	return core.Deletion{
		Index: r.Index, DryRun: r.DryRun, Serves: "g2", Generations: 2, Tags: []string{"release"}, Objects: 61,
		Bytes: 5 << 20, Collections: []string{"uw_1"}, Records: 300,
	}, c.ask(ctx, "delete", fmt.Sprintf("%s %t %t", r.Index, r.DryRun, r.Confirmed), r)
}
func (c *recorder) ChangeBranch(ctx context.Context, r control.BranchRequest) (core.Branch, error) {
	out := core.Branch{Name: r.Name, Base: r.Index, Generation: "g2", Set: r.Set, State: core.BranchOpen}
	if r.Delete {
		out.State = core.BranchDeleted
	}
	return out, c.ask(ctx, "branch", r.Index+" "+r.Name, r)
}
func (c *recorder) ListBranches(ctx context.Context, index string) ([]core.Branch, error) {
	return c.Branches, c.ask(ctx, "branches", index, index)
}
func (c *recorder) WatchQuestions(ctx context.Context, r control.WatchRequest) ([]core.Question, error) {
	out := r.Add
	if len(out) == 0 {
		out = c.Watched
	}
	return out, c.ask(ctx, "watch", r.Index+" "+r.Remove, r)
}

// ReadOverlay is not noted: every command that resolves a configuration asks for it.
func (c *recorder) ReadOverlay(_ context.Context, index string) (control.Overlaid, error) {
	return c.Overlays[index], c.Err
}
func (c *recorder) MoveImage(ctx context.Context, r core.ImageRequest) (core.Transfer, error) {
	return core.Transfer{Action: r.Action, Index: r.Index, Place: r.Where}, c.ask(ctx, "image", r.Index, r)
}
func (c *recorder) ReadTransfer(ctx context.Context, r core.ImageRequest) (core.Transfer, error) {
	return core.Transfer{Stage: r.Action, Done: 1, Bytes: 2}, c.ask(ctx, "transfer", r.Index, r)
}
func (c *recorder) CompareGenerations(ctx context.Context, r control.DifferenceRequest) (core.Difference, error) {
	return c.Difference, c.ask(ctx, "diff", r.Index+" "+r.From+" "+r.To, r)
}
func (c *recorder) ListAliases(ctx context.Context, r control.AliasesRequest) (core.AliasList, error) {
	return c.Aliases, c.ask(ctx, "aliases", r.Index, r)
}
func (c *recorder) ListOperations(ctx context.Context, index string, limit int) ([]core.Operation, error) {
	return c.Operations, c.ask(ctx, "operations", fmt.Sprint(index, " ", limit), index, limit)
}
func (c *recorder) ListIndexes(ctx context.Context) ([]runlog.Card, error) {
	return c.Cards, c.ask(ctx, "indexes", "")
}
func (c *recorder) ListRuns(ctx context.Context, index string, limit int) ([]runlog.Summary, error) {
	return c.Summaries, c.ask(ctx, "runs", fmt.Sprint(index, " ", limit), index, limit)
}
func (c *recorder) ReadTrends(ctx context.Context, index string, nights int) ([]runlog.Trends, error) {
	return c.Trends, c.ask(ctx, "trends", fmt.Sprint(index, " ", nights), index, nights)
}
func (c *recorder) ReadLog(ctx context.Context, run string) (runlog.Log, error) {
	return c.Log, c.ask(ctx, "log", run, run)
}
func (c *recorder) AuditIndex(ctx context.Context, r control.AuditRequest) (control.Run, error) {
	args := r.Index + " " + r.Sample.String()
	if r.Repair {
		args += " repair"
	}
	return control.Run{Run: r.Index + "/audit-1"}, c.ask(ctx, "audit", args, r)
}
func (c *recorder) RestoreIndex(ctx context.Context, index string) (control.Run, error) {
	return control.Run{Run: index + "/restore-1", NoCorpus: c.NoCorpus}, c.ask(ctx, "restore", index, index)
}
func (c *recorder) RunDoctor(ctx context.Context, spec core.Spec) ([]control.Check, error) {
	return c.Checks, c.ask(ctx, "doctor", spec.Index, spec)
}

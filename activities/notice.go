package activities

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/internal/telemetry/webhook"
	"github.com/unweaver/unweaver/workflows"
)

// checkNotice reports whether a webhook is to be called for an end or a pause.
func (a *Activities) checkNotice(ctx context.Context, end workflows.End) workflows.Ended {
	if a.Notify == nil {
		return workflows.Ended{}
	}
	hook := a.Notify(end.Index)
	_, wanted := hook.WantsEvent(end.Status, end.Reason)
	if !wanted && core.IsTerminal(end.Status) && (hook.ForQuestions("").URL != "" || len(hook.Named) > 0) {
		state, err := run.ReadState(ctx, a.Ports.Coordination, newJob(end.Build).Name())
		wanted = err == nil && state != nil && state.Report.Watched != nil && state.Report.Watched.Changed > 0
	}
	return workflows.Ended{Notify: wanted}
}

// reportEnd writes one line of what a run came to, once that is recorded, and counts it.
func (a *Activities) reportEnd(ctx context.Context, work *upkeep.Run, end workflows.End) {
	var report core.Report
	state, err := run.ReadState(ctx, a.Ports.Coordination, work.Name())
	if err == nil && state != nil {
		report = state.Report
	}
	fields := []any{
		"run_id", work.Name(), "workflow_run_id", report.RunID, "status", end.Status, "reason", end.Reason,
		"published", report.Published, "documents", report.Documents, "chunks", report.Chunks,
		"classes", report.Classes, "documents_failed", report.DocumentsFailed, "chunks_failed", report.ChunksFailed,
		"calls", report.Calls.Sum(), "ledger_hits", report.LedgerHits.Sum(), "prompt_tokens", report.Tokens.Prompt,
		"completion_tokens", report.Tokens.Completion, "embedding_tokens", report.Tokens.Embedding,
		"cost", report.Cost, "seconds", report.Seconds,
	}
	if end.Ref != "" {
		fields = append(fields, "error_ref", end.Ref) // its text, an artifact
	}
	level, message := slog.LevelInfo, "run ended"
	switch end.Status {
	case core.StatusWaiting:
		level, message = slog.LevelWarn, "run waits for a retry"
		if end.Waiting != nil {
			fields = append(fields, "tries", end.Waiting.Tries, "next", end.Waiting.Next)
		}
	case core.StatusPaused:
		level, message = slog.LevelWarn, "run paused"
	case core.StatusFailed, core.StatusHeld:
		level = slog.LevelWarn
	}
	a.Log.Log(ctx, level, message, fields...)
	a.Telemetry.Count(telemetry.RunsEnded, 1, end.Index, end.Status)
	if !core.IsTerminal(end.Status) {
		return
	}
	if audit := report.Audit; audit != nil {
		a.Telemetry.Count(telemetry.Audits, 1, end.Index, end.Status)
		for _, drift := range audit.Drift {
			a.Telemetry.Count(telemetry.AuditDrift, float64(drift.Found), end.Index, drift.Kind)
		}
	}
	a.Telemetry.Time(telemetry.RunSeconds, time.Duration(report.Seconds*float64(time.Second)), end.Index)
	built := workflows.WorkflowID(work.Name()) == workflows.BuildID(end.Index, end.Generation)
	if !built || end.Status != core.StatusCompleted && end.Status != core.StatusErrors || core.IsHinted(end.Generation) {
		return // a success that hints began says nothing of nights
	}
	err = run.NoteTime(ctx, work.Coordination, run.SuccessOf(end.Index), time.Now())
	if err == nil && end.Attempt == 0 && end.Backfill == "" && !workflows.ForPurge(work.Name()) {
		err = run.NoteTime(ctx, work.Coordination, run.ListingOf(end.Index), report.Started)
	}
	if err != nil {
		a.Log.Warn("cannot record the last success", "run_id", work.Name(), "code", string(fault.CodeOf(err)))
	}
}

// SendNotice posts to the webhook of an index how a run ended or that it paused, as this worker's own configuration
// has it.
func (a *Activities) SendNotice(ctx context.Context, in workflows.Notice) (_ workflows.Receipt, err error) {
	if err := checkBuild(in.Build, "notice", false); err != nil {
		return workflows.Receipt{}, a.refuseInput(err)
	}
	defer a.Due.set(in.Build, in.Status, false)
	defer func() {
		if err != nil && ctx.Err() == nil {
			err = a.notSent(ctx, in, err)
		}
	}()
	defer parallel.CatchPanic(&err)
	if a.Notify == nil {
		return workflows.Receipt{}, nil
	}
	due, err := a.listDue(ctx, in, a.Notify(in.Index))
	if err != nil {
		return workflows.Receipt{}, err
	}
	return workflows.Receipt{}, a.sendEach(ctx, due)
}

// sendEach sends notices beside each other, but those that an earlier attempt sent: what keeps one from being sent does
// not keep another. It returns an error that may be tried again, if there is one.
func (a *Activities) sendEach(ctx context.Context, due []*dueNotice) error {
	var sent []string // ids
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &sent) // else receivers find repeated notices by their ids
	}
	due = slices.DeleteFunc(due, func(one *dueNotice) bool { return slices.Contains(sent, one.body.ID) })
	failed := make([]error, len(due))
	err := parallel.Each(ctx, len(due), len(due), func(ctx context.Context, i int) error {
		failed[i] = webhook.Send(ctx, due[i].hook, due[i].body)
		outcome := "sent"
		if failed[i] != nil {
			outcome = telemetry.Code(failed[i])
		}
		a.Telemetry.Count(telemetry.Notices, 1, due[i].body.Event, outcome)
		return nil
	})
	for i, why := range failed {
		if why == nil && err == nil {
			sent = append(sent, due[i].body.ID)
		}
	}
	activity.RecordHeartbeat(ctx, sent)
	slices.SortStableFunc(failed, func(a, b error) int { return cmp.Compare(fault.KindOf(a), fault.KindOf(b)) })
	return cmp.Or(err, cmp.Or(failed...))
}

// dueNotice is a notice with where it goes.
type dueNotice struct {
	hook  webhook.Hook
	body  webhook.Body
	bytes int // of all changes of standing questions that it is of
}

// listDue lists what is to be sent: how the run ended, where the webhook of the index asks for that, and to each
// webhook what became of the standing questions that name it. Changes that cannot be read are left out: others, and how
// the run ended, matter more.
func (a *Activities) listDue(ctx context.Context, in workflows.Notice, hook webhook.Hook) ([]*dueNotice, error) {
	work := newJob(in.Build).Name()
	event, wanted := hook.WantsEvent(in.Status, in.Reason)
	body := webhook.Body{
		ID: in.ID, Event: event, Time: in.At, Index: in.Index, Run: work, RunID: in.RunID, Generation: in.Generation,
		Status: in.Status, Reason: in.Reason,
	}
	var changes []byte
	state, err := run.ReadState(ctx, a.Ports.Coordination, work)
	if err == nil && state != nil && state.RunID == in.RunID { // else that the run ended is sent without figures
		body.Fill(state.Report)
		if found := state.Report.Watched; found != nil && found.Path != "" {
			changes, _, err = blob.Read(ctx, a.Ports.Artifacts, found.Path)
			if err != nil && !fault.Is(err, fault.NotFound) { // it was collected since
				return nil, err
			}
		}
	}
	body.Advise(hook)
	var due []*dueNotice
	named := map[string]*dueNotice{} // by the names of webhooks
	if wanted {
		named[""] = &dueNotice{hook: hook, body: body}
		due = append(due, named[""])
	}
	for line := range bytes.Lines(changes) {
		var change core.WatchedChange
		if err := json.Unmarshal(line, &change); err != nil {
			a.Log.Warn("change of a standing question cannot be read", "run_id", work)
			continue
		}
		name, to := change.Notify, hook.ForQuestions(change.Notify)
		if to.URL == "" { // the report warns of names that no webhook has
			continue
		}
		one := named[name]
		if one == nil {
			one = &dueNotice{hook: to, body: body}
			one.body.Event = config.OnWatched
			if name != "" {
				one.body.ID += "-" + name
			}
			named[name], due = one, append(due, one)
		}
		one.body.QuestionsChanged++
		if one.bytes += len(line); one.bytes <= webhook.MostBytes && len(one.body.Questions) < webhook.MostQuestions {
			one.body.Questions = append(one.body.Questions, change)
		}
	}
	return due, nil
}

// notSent maps the error for the engine: history holds no text.
func (a *Activities) notSent(ctx context.Context, in workflows.Notice, err error) error {
	code := string(fault.CodeOf(err))
	a.Log.Warn("notice not sent", "run_id", newJob(in.Build).Name(), "notice_id", in.ID, "code", code,
		"attempt", activity.GetInfo(ctx).Attempt, "error", err.Error())
	return hideText(err)
}

// Due are notices of ends that this process recorded and that were not tried to be sent yet. It is of use where no
// other process sends them: who stops for the end of a run lets its notice go out before. A nil one counts nothing.
type Due struct{ runs sync.Map }

// set says that a notice is due, or is no more.
func (d *Due) set(b workflows.Build, status string, due bool) {
	if d == nil {
		return
	}
	if key := b.Index + "/" + b.Generation + " " + status; due {
		d.runs.Store(key, true)
	} else {
		d.runs.Delete(key)
	}
}

// Wait ends when none is due, each having been tried once, or when ctx is done; it reports whether none is.
func (d *Due) Wait(ctx context.Context) bool {
	due := d != nil
	for due {
		due = false
		d.runs.Range(func(any, any) bool { due = true; return false })
		if due && retry.Wait(ctx, 20*time.Millisecond) != nil {
			break
		}
	}
	return !due
}

// recordEnd records an end, or that a run waits, and reports whether a webhook is to be called. The notice is due
// before anybody can see the end: who waits for it may stop this process then.
func (a *Activities) recordEnd(ctx context.Context, end workflows.End, f frame, record task) (workflows.Ended, error) {
	if err := errors.Join(checkBuild(end.Build, f.stage, f.spec), checkEnd(end)); err != nil {
		return workflows.Ended{}, a.refuseInput(err)
	}
	ended := a.checkNotice(ctx, end)
	a.Due.set(end.Build, end.Status, ended.Notify)
	err := a.runFrame(ctx, end.Build, f, func(ctx context.Context, work *upkeep.Run) error {
		if end.Status == core.StatusWaiting {
			record = func(ctx context.Context, work *upkeep.Run) error {
				return work.NoteWait(ctx, holderOf(ctx), toEnding(end))
			}
		}
		if err := record(ctx, work); err != nil {
			return err
		}
		a.reportEnd(ctx, work, end)
		return nil
	})
	if err != nil {
		a.Due.set(end.Build, end.Status, false)
	}
	return ended, err
}

package console

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/show"
)

// AnyRun lets every run of an index end first.
func AnyRun(string) bool { return true }

// InTurn begins a run. With wait it lets the run of the index end before that holds the lease, where yields allows it.
func InTurn[T any](
	ctx context.Context, a *App, controller control.Control, index string, wait bool, yields func(run string) bool,
	begin func() (T, error),
) (T, error) {
	for over := false; ; {
		run, err := begin()
		if !wait || !fault.Is(err, fault.LeaseHeld) {
			return run, err
		}
		other, unknown := controller.ReadStatus(ctx, index)
		if unknown != nil || other.Status == core.StatusPaused {
			return run, err
		}
		if core.IsTerminal(other.Status) { // it ended after the refusal, so a second refusal has another cause
			if over {
				return run, err
			}
			over = true
			continue
		}
		if !yields(other.Run) {
			return run, err
		}
		if over = false; !a.JSON {
			fmt.Fprintf(a.Err, "%s runs: this command waits for its end\n", other.Run)
		}
		first := control.Run{Run: other.Run, RunID: other.RunID}
		if _, err := a.FollowRun(ctx, controller, first.ExactName(), show.NewBar(a.Err, a.JSON)); err != nil {
			return run, err
		}
	}
}

// AwaitRun waits for a run where it is to, and says where it was joined; else it reports how to watch it.
func (a *App) AwaitRun(ctx context.Context, controller control.Control, run control.Run, waits bool) error {
	if waits {
		if run.Attached && !a.JSON {
			fmt.Fprintf(a.Err, "%s is already running; waiting for it%s\n", run.Run, describeJoined(run))
		}
		return a.WaitForRun(ctx, controller, run)
	}
	return a.PrintOut(run, func(w io.Writer) {
		what := "started"
		if run.Attached {
			what = "is already running" + describeJoined(run)
		}
		fmt.Fprintf(w, "%s %s; to watch it: unweaver status %s --watch\n", run.Run, what, run.Run)
	})
}

// describeJoined says what of the corpus a run that was joined may not have.
func describeJoined(run control.Run) string {
	if run.Begun == nil {
		return ""
	}
	return " (it started at " + run.Begun.UTC().Format("15:04:05") + " UTC, so it may miss later changes of the corpus; " +
		"to index them, run this command again after it ends)"
}

// WaitForRun follows a run to its end, or to a pause, and shows its report. With --json the report is all that standard
// output gets, and what happens meanwhile goes to standard error, one JSON object a line.
func (a *App) WaitForRun(ctx context.Context, controller control.Control, run control.Run) error {
	watching := show.Watcher(show.NewBar(a.Err, false))
	if a.JSON {
		events := show.NewStream(a.Err)
		events.WriteBegin(run)
		watching = events
	}
	status, err := a.FollowRun(ctx, controller, run.ExactName(), watching)
	if err != nil {
		return err
	}
	return a.ReportRun(status)
}

// StreamRun waits for a run and shows it: with --json events and report are one stream on standard output.
func (a *App) StreamRun(ctx context.Context, controller control.Control, run control.Run) error {
	if !a.JSON {
		return a.WaitForRun(ctx, controller, run)
	}
	events := show.NewStream(a.Out)
	events.WriteBegin(run)
	status, err := a.FollowRun(ctx, controller, run.ExactName(), events)
	if err != nil {
		return err
	}
	a.Exit = ExitOf(status.Report)
	return events.WriteReport(status)
}

// FollowRun shows a watcher how a run stands until it ends or pauses.
func (a *App) FollowRun(
	ctx context.Context, controller control.Control, run string, watching show.Watcher,
) (control.Status, error) {
	for delay := 50 * time.Millisecond; ; delay = min(delay*3/2, 500*time.Millisecond) {
		status, err := controller.ReadStatus(ctx, run)
		if err != nil && ctx.Err() == nil && !fault.Is(err, fault.RunNotFound) {
			return status, err
		}
		if err == nil {
			watching.ShowStatus(status)
			if core.IsTerminal(status.Status) || status.Status == core.StatusPaused {
				watching.EndStatus()
				return status, nil
			}
		}
		select {
		case <-ctx.Done():
			watching.EndStatus()
			name, _, _ := strings.Cut(run, "#") // of this run exactly
			hint := "the run continues: unweaver status " + name + " --watch shows it, unweaver cancel " + name + " ends it"
			if a.Started { // its stack ends with this command
				hint = "the run stops until the stack runs again: unweaver dev, or run the same command"
			}
			return status, fault.Interrupted.At("wait for", name).Because("interrupted").Advise(hint)
		case <-time.After(delay):
		}
	}
}

// ReportRun shows a run and sets the exit code.
func (a *App) ReportRun(status control.Status) error {
	a.Exit = ExitOf(status.Report)
	return a.PrintOut(status, func(w io.Writer) { show.Report(w, status) })
}

// ExitOf gives the exit code of a run. One that completed exits with errors while anything is failed, also since
// an earlier run.
func ExitOf(report core.Report) int {
	switch report.Status {
	case core.StatusFailed, core.StatusCancelled:
		return ExitFailed
	case core.StatusErrors:
		return ExitErrors
	case core.StatusHeld:
		if !report.Published {
			return ExitHeld
		}
	case core.StatusPaused:
		return ExitPaused
	case core.StatusCompleted:
		if show.HasFailures(report) && report.Reason != show.DryRun { // which failed at nothing
			return ExitErrors
		}
	}
	return ExitDone
}

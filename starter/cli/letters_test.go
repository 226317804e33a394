package cli_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli"
)

func TestDeadLettersAreListedAndShown(t *testing.T) {
	fake := &fakeControl{letters: []core.Letter{
		{
			Chunk: "aa", Document: "a.md", Ordinal: 3, Reason: "bad_model_output", Kind: "content", Attempts: 2,
			Raw: "Sorry,\nno.", Text: "Tin.",
		},
		{
			Chunk: "bb", Document: "b.md", Reason: "model_refused", Kind: "system", Attempts: 1,
			Discarded: &core.Discarded{At: time.Unix(0, 0).UTC(), Why: "a table"},
		},
	}}
	got := run(t, fake, "dead-letters", "list", "--index", "docs")
	if !strings.Contains(got.out, "aa  content bad_model_output   2 attempts a.md, passage 3\n") ||
		strings.Contains(got.out, "bb") || !strings.Contains(got.out, "1 dead letter, and 1 discarded (--all shows them)") {
		t.Errorf("%s%s", got.out, got.err)
	}
	if got = run(t, fake, "dead-letters", "list", "--index", "docs", "--all"); !strings.Contains(got.out,
		"b.md, passage 0  discarded 1970-01-01: a table") {
		t.Errorf("%s", got.out)
	}
	if got = run(t, fake, "dead-letters", "show", "aa", "--index", "docs"); !strings.Contains(got.out,
		"the last answer:\n  Sorry,\n  no.\nthe passage:\n  Tin.\n") {
		t.Errorf("%s", got.out)
	}
	for _, args := range []string{"list", "show aa", "replay", "discard aa"} {
		got = run(t, fake, append([]string{"dead-letters"}, strings.Fields(args)...)...)
		assert.True(t, got.exit == cli.ExitUsage && strings.Contains(got.err, "add --index NAME"), "%s: %+v", args, got)
	}
}

func TestWhatFailedIsAskedForAgain(t *testing.T) {
	fake := &fakeControl{retried: control.Run{Run: "docs/retry-1"}}
	for _, c := range []struct{ args, asked string }{
		{"retry-failed docs/g1", "retry-failed docs/g1 []"},
		{"retry-failed --index docs", "retry-failed docs []"},
		{"dead-letters replay aa bb --index docs", "retry-failed docs [aa bb]"},
		{"dead-letters discard aa --index docs --why old", "discard docs [aa] old"},
	} {
		fake.asked = nil
		got := run(t, fake, strings.Fields(c.args)...)
		assert.True(t, got.exit == cli.ExitDone && strings.Join(fake.asked, ";") == c.asked,
			"%s: %+v asked %q", c.args, got, fake.asked)
	}
	if got := run(t, &fakeControl{}, "retry-failed", "docs"); !strings.Contains(got.out, "docs: no failed passage") {
		t.Errorf("%s", got.out)
	}
}

// queued refuses to begin a run until the status of the index was seen so often.
type queued struct {
	fakeControl
	until int
}

func (q *queued) refused(what string) error {
	if q.looks < q.until {
		return fault.LeaseHeld.At(what, "docs").Because("another run builds it")
	}
	return nil
}

func (q *queued) BuildIndex(ctx context.Context, r control.IndexRequest) (control.Run, error) {
	run, err := q.fakeControl.BuildIndex(ctx, r)
	return run, errors.Join(err, q.refused("index"))
}

func (q *queued) RetryFailed(ctx context.Context, r control.LettersRequest) (control.Run, error) {
	run, err := q.fakeControl.RetryFailed(ctx, r)
	return run, errors.Join(err, q.refused("ask again"))
}

func (q *queued) PurgeDocuments(ctx context.Context, r control.PurgeRequest) (control.PurgeAnswer, error) {
	answer, err := q.fakeControl.PurgeDocuments(ctx, r)
	return answer, errors.Join(err, q.refused("purge"))
}

// A build begins after a round of retry-failed or a purge where the command waits for the end, too; a round and a purge
// begin after any run. What stands still is not waited for.
func TestABuildAndARoundBeginInTurnWhereTheyWait(t *testing.T) {
	at := func(run, status string) control.Status {
		out := finished(status)
		out.Run = run
		return out
	}
	done := at("docs/g1", core.StatusCompleted)
	for _, c := range []struct {
		args     string
		statuses []control.Status
		until    int
		exit     int
		asked    int // for a run
		says     string
	}{
		{"index --index docs --wait", []control.Status{
			at("docs/retry-1", core.StatusRunning), at("docs/retry-1", core.StatusWaiting),
			at("docs/retry-1", core.StatusCompleted), done,
		}, 3, cli.ExitDone, 2, "docs/retry-1 runs: this command waits"},
		{"index --index docs --wait", []control.Status{
			at("docs/purge-1", core.StatusRunning), at("docs/purge-1", core.StatusFailed), done,
		}, 2, cli.ExitDone, 2, "docs/purge-1 runs"},
		{"index --index docs", []control.Status{at("docs/retry-1", core.StatusRunning)}, 9, cli.ExitUsage, 1, "builds it"},
		{"index --index docs --wait", []control.Status{at("docs/g9", core.StatusRunning)}, 9, cli.ExitUsage, 1, "builds it"},
		{"index --index docs --rebuild --wait", []control.Status{
			at("docs/g9", core.StatusRunning), at("docs/g9", core.StatusCompleted),
		}, 2, cli.ExitDone, 2, "docs/g9 runs: this command waits"},
		{"index --index docs --wait --generation g1", []control.Status{at("docs/retry-1", core.StatusRunning)}, 9,
			cli.ExitUsage, 1, "builds it"},
		{"index --index docs --wait", []control.Status{
			at("docs/retry-1", core.StatusRunning), at("docs/retry-1", core.StatusPaused),
		}, 9, cli.ExitUsage, 2, "builds it"},
		{"index --index docs --wait", []control.Status{at("docs/retry-1", core.StatusCompleted), done}, 1, cli.ExitDone, 2, ""},
		{"index --index docs --wait", []control.Status{at("docs/retry-1", core.StatusCompleted)}, 9, cli.ExitUsage, 2,
			"builds it"},
		{"retry-failed docs/g1 --wait", []control.Status{
			at("docs/g9", core.StatusRunning), at("docs/g9", core.StatusCompleted), at("docs/retry-2", core.StatusCompleted),
		}, 2, cli.ExitDone, 2, "docs/g9 runs"},
		{"purge a.md --index docs --yes --wait", []control.Status{
			at("docs/purge-1", core.StatusRunning), at("docs/purge-1", core.StatusCompleted),
		}, 2, cli.ExitDone, 2, "docs/purge-1 runs"},
		{"purge a.md --index docs --yes", []control.Status{at("docs/purge-1", core.StatusRunning)}, 9, cli.ExitUsage, 1,
			"builds it"},
		{"retry-failed docs", []control.Status{at("docs/g9", core.StatusRunning)}, 9, cli.ExitUsage, 1, "builds it"},
	} {
		fake := &queued{until: c.until}
		fake.statuses, fake.retried = c.statuses, control.Run{Run: "docs/retry-2"}
		fake.purging.Purge = &core.Purge{ID: "p1", Ended: time.Unix(0, 0)} // an earlier one did what is asked for
		t.Chdir(t.TempDir())
		got := in(t, withConnection(fake, ""), nil, strings.Fields(c.args)...)
		asked := len(slices.DeleteFunc(fake.asked, func(what string) bool { return strings.HasPrefix(what, "status ") }))
		assert.True(t, got.exit == c.exit && asked == c.asked && strings.Contains(got.err, c.says),
			"%s: exit %d after %d times\n%s%s", c.args, got.exit, asked, got.out, got.err)
	}
}

func TestARoundThatGoesOnIsJoined(t *testing.T) {
	fake := &fakeControl{
		retried:  control.Run{Run: "docs/retry-1", Attached: true},
		statuses: []control.Status{finished(core.StatusCompleted)},
	}
	if got := run(t, fake, "retry-failed", "docs"); !strings.Contains(got.out, "docs/retry-1 is already running; to") {
		t.Errorf("%+v", got)
	}
	if got := run(t, fake, "retry-failed", "docs", "--wait"); got.exit != cli.ExitDone ||
		!strings.Contains(got.err, "docs/retry-1 is already running; waiting for it") {
		t.Errorf("%+v", got)
	}
}

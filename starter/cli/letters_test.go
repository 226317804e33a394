package cli_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	got := says(t, fake, "dead-letters list --index docs", cli.ExitDone,
		"aa  content bad_model_output   2 attempts a.md, passage 3\n", "1 dead letter, and 1 discarded (--all shows them)")
	assert.NotContains(t, got.out, "bb")
	says(t, fake, "dead-letters list --index docs --all", cli.ExitDone, "b.md, passage 0  discarded 1970-01-01: a table")
	says(t, fake, "dead-letters show aa --index docs", cli.ExitDone,
		"the last answer:\n  Sorry,\n  no.\nthe passage:\n  Tin.\n")
	for _, args := range []string{"list", "show aa", "replay", "discard aa"} {
		says(t, fake, "dead-letters "+args, cli.ExitUsage, "add --index NAME")
	}
}

func TestWhatFailedIsAskedForAgain(t *testing.T) {
	fake := &fakeControl{retried: control.Run{Run: "docs/retry-1"}}
	for args, asked := range map[string]string{
		"retry-failed docs/g1":                           "retry-failed docs/g1 []",
		"retry-failed --index docs":                      "retry-failed docs []",
		"dead-letters replay aa bb --index docs":         "retry-failed docs [aa bb]",
		"dead-letters discard aa --index docs --why old": "discard docs [aa] old",
	} {
		fake.asked = nil
		says(t, fake, args, cli.ExitDone)
		assert.Equal(t, []string{asked}, fake.asked)
	}
	says(t, &fakeControl{}, "retry-failed docs", cli.ExitDone, "docs: no failed passage")
	fake.retried.Attached, fake.statuses = true, []control.Status{finished(core.StatusCompleted)}
	contains(t, run(t, fake, "retry-failed", "docs").out, "docs/retry-1 is already running; to")
	contains(t, run(t, fake, "retry-failed", "docs", "--wait").err, "docs/retry-1 is already running; waiting for it")
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

func purgeOf() control.PurgeAnswer {
	digest := core.PurgedKey("docs", "a.md")
	return control.PurgeAnswer{
		Plan: core.PurgePlan{
			Index: "docs", Documents: []core.PurgeDocument{{Key: "a.md", Digest: digest, Known: true, Chunks: 3}},
			Current: "g2", Classes: 7, Shortenings: 1, Entries: map[string]int64{"extract": 3, "embed": 10},
			Drops: []core.PurgeGeneration{
				{Generation: "g2", State: "published", Current: true}, {Generation: "g1", State: "published", Tags: []string{"may"}},
			},
			Probes: []string{"s3://a/probes.jsonl"},
		},
		Purge: &core.Purge{ID: "p1", Documents: []core.Digest{digest}},
		Run:   &control.Run{Run: "docs/purge-1"},
	}
}

// Nothing is purged before somebody saw what goes, and confirmed it.
func TestAPurgeTellsWhatGoesAndWantsToBeConfirmed(t *testing.T) {
	c := &fakeControl{purging: purgeOf()}
	says(t, c, "purge docs/a.md b.md --yes", cli.ExitUsage)
	assert.Empty(t, c.asked, "keys without an index")
	for _, one := range []struct {
		args, asked string
		exit        int
		says        []string
	}{
		{"purge docs a.md", "purge docs [a.md] false true false", cli.ExitUsage, []string{
			"a.md", "3 passages", "at most 7 entity texts", "13 entries", "g1 (published, tagged may)",
			"g2 (published; served until", "s3://a/probes.jsonl", "--yes",
		}},
		{"purge a.md --index docs --dry-run --yes --json", "purge docs [a.md] false true true", cli.ExitDone,
			[]string{`"drops"`}},
		{"purge a.md b.jsonl#7 --index docs --yes --allow-return", "purge docs [a.md b.jsonl#7] true false true", cli.ExitDone,
			[]string{"docs/purge-1 started"}},
	} {
		c = &fakeControl{purging: purgeOf()}
		says(t, c, one.args, one.exit, one.says...)
		assert.Equal(t, []string{one.asked}, c.asked)
	}
}

// A purge that is done exits 0 whatever stands failed from other runs; of an object with rows the plan names these.
func TestAPurgeThatIsDoneSucceeds(t *testing.T) {
	purging := purgeOf()
	purging.Plan.Documents[0] = core.PurgeDocument{Key: "a.json", Rows: []string{"a.json#1", "a.json#2"}}
	for state, exit := range map[string]int{core.PurgeDone: 0, core.PurgePending: 1} {
		c := &fakeControl{purging: purging, purges: control.PurgesAnswer{Purges: []core.Purge{{ID: "p1", State: state}}}}
		c.statuses = []control.Status{{Report: core.Report{Status: core.StatusErrors, Seconds: 38.5, IdleSeconds: 27.5}}}
		got := run(t, c, "purge", "docs", "a.md", "--yes", "--wait")
		assert.True(t, (got.exit == 0) == (exit == 0), "%s: exit %d, %s", state, got.exit, got.err)
		assert.Contains(t, got.out, "such as a.json#1, a.json#2")
		assert.Contains(t, got.out, "  11.0 s")
	}
}

// How purges stand says what is left to be done.
func TestPurgesTellWhatIsLeft(t *testing.T) {
	digest := core.PurgedKey("docs", "a.md")
	c := &fakeControl{purges: control.PurgesAnswer{Purges: []core.Purge{{
		ID: "p1", State: core.PurgePending, Documents: []core.Digest{digest}, Left: []string{"wait for a reader"},
		Gone: core.Purged{Generations: 2, Ledger: 4}, Shared: 1, Ended: time.Time{},
	}}}}
	contains(t, run(t, c, "purge", "list", "docs").out, "p1 pending: "+digest.Short(16), "2 generations",
		"4 ledger entries", "1 ledger entry", "unfinished: wait for a reader")
	says(t, c, "purge list --index docs --readmit a.md", cli.ExitDone, "may be indexed again")
	assert.Equal(t, "purges docs [a.md]", c.asked[1])
}

func TestABackfillIsAskedForWithItsChoiceAndThrottle(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys.txt")
	require.NoError(t, os.WriteFile(keys, []byte("a.md\r\nb c.md\n\nrows.jsonl#7\n"), 0o600))
	fake := &fakeControl{}
	says(t, fake, "backfill start old --index docs --prefix 2019/ --from 2026-03-01 --to 2026-06-01T02:00:00+02:00 "+
		"--concurrency 4 --calls-per-minute 30 --documents "+keys, cli.ExitDone)
	day := func(month time.Month) time.Time { return time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC) }
	want := core.BackfillChoice{
		Prefix: "2019/", From: day(3), To: day(6), Documents: []string{"a.md", "b c.md", "rows.jsonl#7"},
	}
	assert.True(t, fake.backfill.Choice.Equal(want) && fake.backfill.Name == "old" &&
		fake.backfill.Throttle == (core.BackfillThrottle{Concurrency: 4, CallsPerMinute: 30}), "%+v", fake.backfill)
	fake.attached = true
	says(t, fake, "backfill start old --index docs", cli.ExitDone, "is already running; nothing changed")
	for _, bad := range []string{"--prefix a", "--index docs --from yesterday", "--index docs --documents " + keys + ".none"} {
		says(t, fake, "backfill start old "+bad, cli.ExitUsage)
	}
}

func TestABackfillIsShownAndSteered(t *testing.T) {
	one := core.Backfill{Index: "docs", Name: "old", Choice: core.BackfillChoice{Prefix: "2019/"}}
	one.Status, one.Base, one.Generation, one.Parent, one.Rebased = core.StatusCompleted, "g1", "g3", "g2", true
	one.Builds = []core.BackfillBuild{
		{Run: "docs/b-1", Parent: "g1", Why: core.BackfillYielded}, {Run: "docs/b-2", Parent: "g2"},
	}
	one.Documents, one.Progress, one.ChunksDone = 40, 1, 55
	fake := &fakeControl{backfills: []core.Backfill{one}}
	says(t, fake, "backfill status old --index docs", cli.ExitDone, "backfill old of docs: completed", "prefix 2019/",
		"40 documents", "docs/b-1 on g1; failed: yielded", "published: g3, on g2 (rebased: it began on g1)")
	says(t, fake, "backfill list --index docs --json", cli.ExitDone, `"rebased"`)
	fake.asked = nil
	for _, command := range []string{"pause", "resume", "cancel"} {
		says(t, fake, "backfill "+command+" old --index docs", cli.ExitDone)
	}
	assert.Equal(t, []string{"backfill-pause docs/old", "backfill-resume docs/old", "backfill-cancel docs/old"}, fake.asked)
	run(t, fake, "backfill", "resume", "old", "--index", "docs", "--budget-calls", "500")
	assert.True(t, fake.budget != nil && fake.budget.Calls == 500, "%+v", fake.budget)
	fake.backfills[0].Status = core.StatusPaused
	says(t, fake, "backfill status old --index docs --wait", cli.ExitPaused)
}

func TestSchedulesAreAppliedFromTheConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nightly.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(`indexes:
  docs: { corpus: ./docs, schedule: { cron: "0 3 * * *", timezone: Europe/Berlin } }
  more: { corpus: ./more, schedule: { cron: "@weekly" } }
  none: { corpus: ./none }
`)
	fake := &fakeControl{}
	says(t, fake, "schedule apply -f "+file, cli.ExitDone, "docs: created")
	want := []string{"schedule-apply docs 0 3 * * * Europe/Berlin", "schedule-apply more @weekly UTC"}
	assert.Equal(t, want, fake.asked)
	says(t, fake, "schedule apply --index none -f "+file, cli.ExitUsage, "indexes.none.schedule.cron is not set")
	write("indexes:\n  docs:\n    corpus: ./docs\n    schedule:\n      cron: 0 25 * * *\n      timezone: Mars/Olympus\n")
	says(t, fake, "schedule apply -f "+file, cli.ExitUsage, ":5:", ":6:", `"25"`, "Mars/Olympus")
	assert.Equal(t, want, fake.asked)
}

func TestSchedulesAreShownAndSteered(t *testing.T) {
	at := time.Date(2026, 11, 22, 2, 0, 0, 0, time.UTC)
	fake := &fakeControl{triggered: control.Triggered{Running: "docs/g7"}, schedules: []control.Scheduled{{
		Index: "docs", Timezone: "UTC", Next: []time.Time{at.Add(24 * time.Hour)}, Missed: 2, Overlapped: 1,
		Nights: []control.NightRun{
			{Due: at, Status: "skipped", Reason: "another_run", By: "docs/g7"},
			{Due: at.Add(-time.Hour), Status: "failed", Reason: "lease_held"},
		},
	}}}
	says(t, fake, "schedule list", cli.ExitDone, "docs  next 2026-11-23 02:00 UTC",
		"2026-11-22 02:00  skipped: run docs/g7 was building it", "2026-11-22 01:00  failed: lease_held",
		"skipped: 2 missed by more than catchup, 1 because the")
	for args, c := range map[string]struct{ asked, says string }{
		"pause docs --reason holidays": {"schedule-pause docs holidays", ""}, "resume docs": {"schedule-resume docs ", ""},
		"trigger docs": {"schedule-trigger docs", "nothing started: run docs/g7 is"}, "delete docs": {"schedule-delete docs", ""},
	} {
		fake.asked = nil
		says(t, fake, "schedule "+args, cli.ExitDone, c.says)
		assert.Equal(t, []string{c.asked}, fake.asked)
	}
}

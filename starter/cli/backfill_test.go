package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/starter/cli"
)

func TestABackfillIsAskedForWithItsChoiceAndThrottle(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys.txt")
	require.NoError(t, os.WriteFile(keys, []byte("a.md\r\nb c.md\n\nrows.jsonl#7\n"), 0o600))
	fake := &fakeControl{}
	got := run(t, fake, "backfill", "start", "old", "--index", "docs", "--prefix", "2019/", "--from", "2026-03-01",
		"--to", "2026-06-01T02:00:00+02:00", "--documents", keys, "--concurrency", "4", "--calls-per-minute", "30")
	day := func(month time.Month) time.Time { return time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC) }
	want := core.BackfillChoice{
		Prefix: "2019/", From: day(3), To: day(6), Documents: []string{"a.md", "b c.md", "rows.jsonl#7"},
	}
	if got.exit != cli.ExitDone || !fake.backfill.Choice.Equal(want) || fake.backfill.Name != "old" ||
		fake.backfill.Throttle != (core.BackfillThrottle{Concurrency: 4, CallsPerMinute: 30}) {
		t.Errorf("%+v: %+v", got, fake.backfill)
	}
	fake.attached = true
	got = run(t, fake, "backfill", "start", "old", "--index", "docs")
	assert.True(t, strings.Contains(got.out, "is already running; nothing changed"), "%+v", got)
	for _, bad := range [][]string{
		{"backfill", "start", "old", "--prefix", "a"},
		{"backfill", "start", "old", "--index", "docs", "--from", "yesterday"},
		{"backfill", "start", "old", "--index", "docs", "--documents", keys + ".none"},
	} {
		assert.Equal(t, cli.ExitUsage, run(t, fake, bad...).exit, "%q", bad)
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
	got := run(t, fake, "backfill", "status", "old", "--index", "docs")
	for _, line := range []string{
		"backfill old of docs: completed", "prefix 2019/", "40 documents", "docs/b-1 on g1; failed: yielded",
		"published: g3, on g2 (rebased: it began on g1)",
	} {
		assert.Contains(t, got.out, line, "no")
	}
	if got := run(t, fake, "backfill", "list", "--index", "docs", "--json"); !strings.Contains(got.out, `"rebased"`) {
		t.Errorf("%+v", got)
	}
	fake.asked = nil
	for _, command := range []string{"pause", "resume", "cancel"} {
		assert.Equal(t, cli.ExitDone, run(t, fake, "backfill", command, "old", "--index", "docs").exit)
	}
	want := []string{"backfill-pause docs/old", "backfill-resume docs/old", "backfill-cancel docs/old"}
	assert.True(t, slices.Equal(fake.asked, want), "%q", fake.asked)
	run(t, fake, "backfill", "resume", "old", "--index", "docs", "--budget-calls", "500")
	assert.True(t, fake.budget != nil && fake.budget.Calls == 500, "%+v", fake.budget)
	fake.backfills[0].Status = core.StatusPaused
	if got := run(t, fake, "backfill", "status", "old", "--index", "docs", "--wait"); got.exit != cli.ExitPaused {
		t.Errorf("a paused one is waited for: %+v", got)
	}
}

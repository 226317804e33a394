package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/starter/cli"
)

func TestSchedulesAreAppliedFromTheConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nightly.yaml")
	write := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write(`indexes:
  docs: { corpus: ./docs, schedule: { cron: "0 3 * * *", timezone: Europe/Berlin } }
  more: { corpus: ./more, schedule: { cron: "@weekly" } }
  none: { corpus: ./none }
`)
	fake := &fakeControl{}
	got := run(t, fake, "schedule", "apply", "-f", file)
	want := "schedule-apply docs 0 3 * * * Europe/Berlin;schedule-apply more @weekly UTC"
	if got.exit != cli.ExitDone || strings.Join(fake.asked, ";") != want || !strings.Contains(got.out, "docs: created") {
		t.Errorf("%+v asked %q", got, fake.asked)
	}
	fake.asked = nil
	if got = run(t, fake, "schedule", "apply", "-f", file, "--index", "none"); got.exit != cli.ExitUsage ||
		!strings.Contains(got.err, "indexes.none.schedule.cron is not set") || len(fake.asked) > 0 {
		t.Errorf("%+v", got)
	}
	write("indexes:\n  docs:\n    corpus: ./docs\n    schedule:\n      cron: 0 25 * * *\n      timezone: Mars/Olympus\n")
	got = run(t, fake, "schedule", "apply", "-f", file)
	for _, part := range []string{":5:", ":6:", `"25"`, "Mars/Olympus"} {
		assert.True(t, got.exit == cli.ExitUsage && strings.Contains(got.err, part) && len(fake.asked) == 0,
			"want %q in %+v", part, got)
	}
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
	got := run(t, fake, "schedule", "list")
	for _, part := range []string{
		"docs  next 2026-11-23 02:00 UTC", "2026-11-22 02:00  skipped: run docs/g7 was building it",
		"2026-11-22 01:00  failed: lease_held", "skipped: 2 missed by more than catchup, 1 because the",
	} {
		assert.True(t, strings.Contains(got.out, part), "want %q in %s%s", part, got.out, got.err)
	}
	for args, asked := range map[string]string{
		"pause docs --reason holidays": "schedule-pause docs holidays", "resume docs": "schedule-resume docs ",
		"trigger docs": "schedule-trigger docs", "delete docs": "schedule-delete docs",
	} {
		fake.asked = nil
		got = run(t, fake, append([]string{"schedule"}, strings.Fields(args)...)...)
		assert.True(t, got.exit == cli.ExitDone && strings.Join(fake.asked, ";") == asked,
			"%s: %+v asked %q", args, got, fake.asked)
		if strings.HasPrefix(args, "trigger") && !strings.Contains(got.out, "nothing started: run docs/g7 is") {
			t.Errorf("%s", got.out)
		}
	}
}

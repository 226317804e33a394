package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/starter/cli"
)

func planOf(documents ...core.Planned) *core.Plan {
	return &core.Plan{Format: core.PlanFormat, Parent: "g1", Manifest: "m1", Documents: documents}
}

func TestAPlanIsWrittenAndABuildRefusedThatWouldDoOtherwise(t *testing.T) {
	added := core.Planned{Document: "a.md", Reason: "added", Version: "v1"}
	dry := control.Status{}
	dry.Status, dry.Reason, dry.Documents = core.StatusCompleted, "dry_run", 1
	dry.Estimate = &core.Estimate{Extract: core.Range{Low: 1, High: 1}, Runs: 3}
	dry.Shares = []core.Share{{Reason: "added", Documents: 1, Chunks: 4, Fresh: 4, Calls: 4}}
	dry.Why = &core.Why{Document: "a.md", Reason: "added", Chunks: 4, Fresh: 4, Calls: 4, Version: "v1"}
	file := filepath.Join(t.TempDir(), "plan.json")
	fake := &fakeControl{statuses: []control.Status{dry}, plan: planOf(added)}
	got := run(t, fake, "estimate", "--index", "docs", "--why", "a.md", "--out", file)
	for _, want := range []string{
		"added: 1 document, 4 passages, 4 of them new, 4 extractions", "a.md: added; 4 passages", "3 earlier generations",
	} {
		assert.True(t, got.exit == cli.ExitDone && strings.Contains(got.out, want),
			"%d, want %q in %s%s", got.exit, want, got.out, got.err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	fake = &fakeControl{statuses: []control.Status{dry}, plan: planOf(added)}
	got = run(t, fake, "index", "--index", "docs", "--plan", file)
	assert.True(t, got.exit == cli.ExitDone, "as planned: %+v", got)
	assert.Contains(t, strings.Join(fake.asked, " "), "index docs", "nothing was begun")
	moved := planOf(added, core.Planned{Document: "b.md", Reason: "removed"})
	fake = &fakeControl{statuses: []control.Status{dry}, plan: moved}
	got = run(t, fake, "index", "--index", "docs", "--plan", file)
	if got.exit != cli.ExitUsage || !strings.Contains(got.err, "b.md: removed, was as the parent has it") ||
		strings.Contains(strings.Join(fake.asked, " "), "index docs") {
		t.Errorf("not as planned: %+v, asked %q", got, fake.asked)
	}
	require.NoError(t, os.WriteFile(file, []byte(`{"format": 99}`), 0o600))
	got = run(t, fake, "index", "--index", "docs", "--plan", file)
	assert.True(t, got.exit == cli.ExitUsage && strings.Contains(got.err, "format 99"), "another format: %+v", got)
}

func TestARunIsShownBesideItsPlan(t *testing.T) {
	done := control.Status{}
	done.Run, done.Status, done.Documents, done.Calls.Extract = "docs/g1", core.StatusCompleted, 1, 5
	done.Planned = &core.Estimate{Extract: core.Range{Low: 4, High: 6}}
	got := run(t, &fakeControl{statuses: []control.Status{done}}, "status", "docs/g1")
	assert.Contains(t, got.out, "extract 5, planned 4 to 6")
}

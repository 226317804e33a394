package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/starter/cli"
)

func TestGenerationsAreListedAsControlGivesThem(t *testing.T) {
	fake := &fakeControl{kept: []artifact.Generation{
		{
			Generation: "20261122t020000z", Seq: 7, State: "current", Documents: 12, Chunks: 81, Classes: 300,
			Created: time.Date(2026, 11, 22, 2, 0, 5, 0, time.UTC), ContentHash: "0123456789abcdef0123456789abcdef",
		},
		{Generation: "20261121t020000z", Seq: 6, State: "published"},
	}}
	got := run(t, fake, "generations", "--index", "docs")
	lines := strings.Split(got.out, "\n")
	want := "20261122t020000z 7 current 12 81 300 2026-11-22 02:00:05 0123456789abcdef"
	if got.exit != cli.ExitDone || fake.asked[0] != "generations docs" || len(lines) != 4 ||
		strings.Join(strings.Fields(lines[1]), " ") != want {
		t.Errorf("%+v", got)
	}
	as := decoded(t, run(t, fake, "generations", "--index", "docs", "--json").out)
	if list := as["generations"].([]any); as["index"] != "docs" || len(list) != 2 ||
		list[0].(map[string]any)["seq"] != 7.0 {
		t.Errorf("%v", as)
	}
}

func TestRestoreWaitsForItsRun(t *testing.T) {
	fake := &fakeControl{statuses: []control.Status{finished(core.StatusRunning), finished(core.StatusFailed)}}
	got := run(t, fake, "restore", "--index", "docs")
	want := "restore docs,status docs/restore-1,status docs/restore-1"
	assert.True(t, got.exit == cli.ExitFailed && strings.Join(fake.asked, ",") == want, "%+v %v", got, fake.asked)
}

func TestAnAuditTellsWhatDiffersAndFailsWhereSomethingIsLeft(t *testing.T) {
	clean := finished(core.StatusCompleted)
	clean.Audit = &core.Audit{
		Generation: "g7", Sample: "2/7", Checked: core.Audited{Segments: 3, Bytes: 99, Classes: 5, Mentions: 9},
	}
	fake := &fakeControl{statuses: []control.Status{clean}}
	got := run(t, fake, "audit", "--index", "docs", "--sample", "2/7", "--wait")
	asked := strings.Join(fake.asked, ",")
	if got.exit != cli.ExitDone || asked != "audit docs 2/7,status docs/audit-1" ||
		!strings.Contains(got.out, "part 2/7 of generation g7: 3 files (99 B), 9 mentions of 5 entities") ||
		!strings.Contains(got.out, "everything is as it was written") {
		t.Errorf("%+v %v", got, asked)
	}
	drifted := finished(core.StatusFailed)
	drifted.Reason = "drift"
	drifted.Audit = &core.Audit{
		Generation: "g7", Sample: "1/1", Left: 1, Drift: []core.Drift{{Kind: "record", Found: 3, Mended: 2}},
		Findings: []core.Found{{Kind: "record", Object: "key", Why: "it is missing", Remedy: "unweaver audit --repair"}},
	}
	fake = &fakeControl{statuses: []control.Status{drifted}}
	got = run(t, fake, "audit", "--index", "docs", "--repair", "--wait")
	if got.exit != cli.ExitFailed || !strings.Contains(got.out, "differs: record 3 (2 mended); left: 1\n") ||
		!strings.Contains(got.out, "! record key: it is missing\n    unweaver audit --repair\n") ||
		fake.asked[0] != "audit docs 1/1 repair" {
		t.Errorf("%+v %v", got, fake.asked)
	}
	fake = &fakeControl{}
	if got = run(t, fake, "audit", "--index", "docs"); got.exit != cli.ExitDone ||
		!strings.Contains(got.out, "docs/audit-1 started") || len(fake.asked) != 1 {
		t.Errorf("%+v %v", got, fake.asked)
	}
}

func TestDoctorFailsWhereAProbeFailsAndSaysWhatToDo(t *testing.T) {
	fake := &fakeControl{checks: []control.Check{{Name: "artifacts", OK: true, Detail: "/data store 01234567"}}}
	got := run(t, fake, "doctor", "--set", "indexes.docs.corpus=/corpus", "--index", "docs")
	if got.exit != cli.ExitDone || got.out != "ok    artifacts          /data store 01234567\n" ||
		fake.spec.Corpus != "/corpus" {
		t.Errorf("%+v %+v", got, fake.spec)
	}
	fake.checks = append(fake.checks,
		control.Check{Name: "classes", Detail: "connection refused", Hint: "start redis"},
		control.Check{Name: "vectors", Detail: "connection refused (start milvus)", Hint: "start milvus"},
	)
	got = run(t, fake, "doctor")
	if got.exit != cli.ExitFailed || fake.spec.Index != "default" || strings.Count(got.out, "start milvus") != 1 {
		t.Errorf("%+v", got)
	}
	contains(t, got.out, "FAIL  classes            connection refused\n", "start redis\n")
	failing := run(t, fake, "doctor", "--json")
	if as := decoded(t, failing.out); as["ok"] != false || len(as["checks"].([]any)) != 3 ||
		failing.exit != cli.ExitFailed {
		t.Errorf("%+v", failing)
	}
}

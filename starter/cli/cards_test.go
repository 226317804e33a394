package cli_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/starter/cli"
)

func flat(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}

func cards() []runlog.Card {
	published := time.Now().Add(-3 * 24 * time.Hour)
	return []runlog.Card{
		{
			Index: "docs", State: runlog.StatePublished, Documents: 12, Chunks: 81, Classes: 300, Bytes: 5 << 20,
			Published: &published, AgeSeconds: 3 * 86400, Problems: 2,
			LastRun: &runlog.Summary{Run: "docs/g1", Status: core.StatusCompleted, Unchanged: true},
		},
		{
			Index: "new", State: runlog.StateEmpty,
			Running: &runlog.Summary{Run: "new/g1", Status: core.StatusRunning, Stage: "extract", Overall: 0.4},
		},
	}
}

func TestIndexesAreListedByLsAndByStatusWithoutARun(t *testing.T) {
	fake := &fakeControl{Cards: cards()}
	for _, command := range []string{"ls", "status"} {
		contains(t, flat(says(t, fake, command, cli.ExitDone).out),
			"index state documents passages entities size age problems last run\n",
			"docs published 12 81 300 5.2 MB 3 days 2 completed, unchanged\n",
			"new not published 0 0 0 0 B - 0 running, extract, 40 %\n")
	}
	list := decoded(t, run(t, fake, "ls", "--json").out)["indexes"].([]any)
	assert.True(t, len(list) == 2 && list[0].(map[string]any)["bytes"] == 5.0*(1<<20), "%v", list)
	assert.NotContains(t, run(t, fake, "ls").out, "restore")
	damaged := runlog.Card{State: runlog.StateDamaged, Detail: "run: unweaver restore it"}
	fake.Cards = append(fake.Cards, damaged, damaged)
	assert.Equal(t, 1, strings.Count(run(t, fake, "ls").out, "unweaver restore --all"))
	says(t, &fakeControl{}, "ls", cli.ExitDone, "no index yet; to build one: unweaver index")
}

func TestRunsAreListedWithWhatTheyCost(t *testing.T) {
	began := time.Date(2026, 3, 1, 2, 0, 0, 0, time.Local)
	fake := &fakeControl{Summaries: []runlog.Summary{
		{Run: "docs/g2", Status: core.StatusPaused, Reason: "budget_spent", Stage: "extract", Overall: 0.5, Started: began},
		{
			Run: "docs/g1", Status: core.StatusErrors, Started: began, Seconds: 125, Documents: 12, Chunks: 81,
			Calls: 90, Cost: 0.5, Currency: "EUR", Problems: 1,
		},
	}}
	contains(t, flat(run(t, fake, "runs", "docs", "--limit", "5").out),
		"docs/g2 paused, extract, 50 % (budget_spent) 2026-03-01 02:00:00",
		"docs/g1 completed_with_errors 2026-03-01 02:00:00 2m5s 12 81 90 0.5000 EUR 1\n")
	run(t, fake, "runs")
	assert.Equal(t, []string{"runs docs 5", "runs  20"}, fake.Asked)
}

func TestALogTellsStagesPausesRetriesProblemsAndDeadLetters(t *testing.T) {
	at := time.Date(2026, 3, 1, 2, 0, 0, 0, time.Local)
	status := finished(core.StatusErrors)
	status.Version = "v1.2.3"
	status.Events = []core.Event{
		{At: at, Kind: core.EventStarted}, {At: at, Kind: core.EventStage, Stage: "extract"},
		{At: at, Kind: core.EventWaiting, Stage: "extract", Code: "model_unavailable", Detail: "refused", Count: 3},
		{At: at, Kind: core.EventEnded, Status: core.StatusErrors},
	}
	status.Retries = []core.Retry{{
		Stage: "extract", Code: "model_rate_limited", Count: 1, First: at, Last: at.Add(time.Minute), Detail: "429",
	}}
	listed := []core.Problem{
		{Code: "unreadable_document", Object: "a.pdf", Detail: "read a.pdf: it ends early"},
		{Code: "unreadable_document", Object: "b.pdf", Detail: "read b.pdf: it ends early"},
	}
	letters := []core.Problem{{Code: "dead_letter", Object: "c.md, chunk 2 (ff)", Detail: "no JSON"}}
	fake := &fakeControl{Log: runlog.Log{Run: status, Listed: listed, Letters: letters, LettersPath: "/data/letters/"}}
	got := run(t, fake, "logs", "docs")
	contains(t, got.out, "unweaver v1.2.3\n", "2026-03-01 02:00:00  started\n", "02:00:00  stage extract\n",
		"waiting: model_unavailable in stage extract, 3 attempts failed: refused\n", "ended: completed_with_errors\n",
		"  extract model_rate_limited, 1 time, 2026-03-01 02:00:00 to 02:01:00: 429\n",
		"  ! unreadable_document, 2 times: a.pdf, b.pdf: read …: it ends early\n",
		"dead letters, in /data/letters/:\n  ! c.md, chunk 2 (ff): no JSON\n")
	as := decoded(t, run(t, fake, "logs", "docs", "--json").out)
	assert.True(t, len(as["events"].([]any)) == 4 && len(as["letters"].([]any)) == 1 && as["run"] == "docs/g1", "%v", as)
}

func TestAGenerationIsShownWithTheReportOfItsRun(t *testing.T) {
	kept := []artifact.Generation{
		{Generation: "g2", Seq: 2, State: "current", Documents: 1, TextHash: "beef"}, {Generation: "g1", Seq: 1},
	}
	fake := &fakeControl{Kept: kept, Statuses: []control.Status{finished(core.StatusCompleted)}}
	for _, args := range []string{"show docs", "show docs/g2", "show g2 --index docs"} {
		fake.Asked = nil
		says(t, fake, args, cli.ExitDone, "docs/g2  current, number 2", "1 document, 0 passages, 0 entities",
			"text hash beef", "content hash c0ffee")
		assert.Equal(t, "status docs/g2", fake.Asked[1])
	}
	contains(t, run(t, &fakeControl{Kept: kept[1:]}, "show", "docs").err, "it has no published generation")
}

func lines(t *testing.T, text string) []map[string]any {
	var out []map[string]any
	for line := range strings.Lines(text) {
		event := map[string]any{}
		err := json.Unmarshal([]byte(line), &event)
		require.NoError(t, err, "%v in %q", err, line)
		_, err = time.Parse(time.RFC3339, event["at"].(string))
		assert.NoError(t, err, "%v in %q", err, line)
		out = append(out, event)
	}
	return out
}

func TestWaitingWithJSONTellsAStreamOfEventsAndPrintsTheReport(t *testing.T) {
	started := core.Event{At: time.Now(), Kind: core.EventStarted}
	extracting := at("extract", 40, 80, 0.5)
	extracting.Unit, extracting.Events = "chunks", []core.Event{started}
	extracting.Problems = []core.Problem{{Code: "model_rate_limited", Object: "extract", Detail: "429"}}
	embedding := extracting
	embedding.Stage = "embed"
	embedding.Events = append(embedding.Events, core.Event{At: time.Now(), Kind: core.EventStage, Stage: "embed"})
	statuses := []control.Status{extracting, extracting, embedding, finished(core.StatusErrors)}
	for name, args := range map[string][]string{
		"index":   {"index", "--index", "docs", "--wait", "--json"},
		"restore": {"restore", "--index", "docs", "--json"},
		"status":  {"status", "docs", "--watch", "--json"},
	} {
		fake := &fakeControl{Statuses: statuses}
		got := run(t, fake, args...)
		var kinds []string
		stream, want := got.err, "run started problem progress stage progress"
		if name == "status" { // its output is the stream
			stream, want = got.out, want+" report"
		}
		events := lines(t, stream)
		for _, event := range events {
			kinds = append(kinds, event["event"].(string))
		}
		if strings.Join(kinds, " ") != want || got.exit != cli.ExitErrors || (name == "status") != (got.err == "") {
			t.Errorf("%s: exit %d, %v, %s", name, got.exit, kinds, got.err)
			continue
		}
		progress, report := events[3], events[len(events)-1]
		if name != "status" {
			report = decoded(t, got.out) // and nothing besides
		}
		assert.True(t, progress["done"] == 40.0 && progress["total"] == 80.0 && progress["unit"] == "chunks", "%s: %v", name,
			progress)
		assert.True(t, report["status"] == core.StatusErrors && report["content_hash"] == "c0ffee", "%s: %v", name, report)
	}
}

type failing struct {
	fakeControl
	bad string
}

func (f *failing) RestoreIndex(ctx context.Context, index string) (control.Run, error) {
	run, err := f.fakeControl.RestoreIndex(ctx, index)
	if index == f.bad {
		err = fault.LeaseHeld.At("restore", index).Because("a restore of it runs already")
	}
	return run, err
}

func TestRestoreAllGoesOnAfterAnIndexThatCannotBeRestored(t *testing.T) {
	listed := []runlog.Card{
		{Index: "a", State: runlog.StateDamaged}, {Index: "b", State: runlog.StatePublished},
		{Index: "c", State: runlog.StateEmpty}, {Index: "d", State: runlog.StatePublished},
	}
	fake := &failing{fakeControl{Cards: listed, Statuses: []control.Status{finished(core.StatusErrors)}}, "b"}
	t.Chdir(t.TempDir())
	got := in(t, withConnection(fake, ""), nil, "restore", "--all")
	want := "indexes ,restore a,status a/restore-1,restore b,restore d,status d/restore-1"
	assert.Equal(t, want, strings.Join(fake.Asked, ","))
	assert.Equal(t, cli.ExitUsage, got.exit)
	assert.Contains(t, got.err, "restore b: a restore of it runs")
	fake.bad, fake.Asked, fake.Statuses[0] = "", nil, finished(core.StatusCompleted)
	fake.NoCorpus = "/gone is not there"
	got = in(t, withConnection(fake, ""), nil, "restore", "--all")
	assert.True(t, got.exit == cli.ExitDone && strings.Count(got.err, "the next build will fail") == 3, "%+v", got)
	assert.Contains(t, got.err, "d: the corpus cannot be read, so the next build will fail: /gone is not there")
	fake.Cards = listed[2:3]
	got = in(t, withConnection(fake, ""), nil, "restore", "--all")
	assert.NotEqual(t, cli.ExitDone, got.exit, "nothing was restored")
}

func TestTheHelpOfQueryTellsOfEveryMethodAndRule(t *testing.T) {
	got := says(t, &fakeControl{}, "query --help", cli.ExitDone, "\n  aligned   those entities",
		"\n  phragmen  Phragmén", "Examples:\n  unweaver query ")
	for _, name := range slices.Concat(config.Methods, config.Rules) {
		assert.Contains(t, got.out, "\n  "+name+" ")
	}
}

func TestTrendsShowEachNightWithBarsOfTheHighest(t *testing.T) {
	began := time.Date(2026, 3, 1, 2, 0, 0, 0, time.Local)
	fake := &fakeControl{Trends: []runlog.Trends{{
		Index: "docs", Totals: runlog.Totals{
			Nights: 4, Published: 2, Held: 1, Cancelled: 1, Calls: 105, Tokens: 900, Cost: 5.25, Seconds: 190, Bytes: 3 << 20,
		},
		Nights: []core.Night{
			{
				Status: core.StatusCompleted, Published: true, Started: began, Chunks: 400, Share: 1, Calls: 100, Tokens: 800,
				Cost: 5, Currency: "EUR", Seconds: 125, Bytes: 3 << 20, Planned: &core.Missed{Cost: 0.25},
			},
			{
				Status: core.StatusHeld, Reason: "recall", Started: began.AddDate(0, 0, 1), Chunks: 410, Share: 0.01, Calls: 5,
				Cost: 0.25, Currency: "EUR", Seconds: 61, Letters: 2, Planned: &core.Missed{},
			},
			{Status: core.StatusCompleted, Unchanged: true, Started: began.AddDate(0, 0, 2), Currency: "EUR"},
			{Status: core.StatusCancelled, Started: began.AddDate(0, 0, 3), Currency: "EUR", Planned: &core.Missed{Calls: -0.7}},
		},
	}}}
	got := run(t, fake, "trends", "docs")
	contains(t, flat(got.out), "docs: 4 nights, 2 published, 0 unchanged, 1 held, 0 failed, 1 cancelled",
		"cancelled 0 ····· 0.0 % ····· 0 0 ····· 0.0000 EUR ····· 0s - 0 0 B",
		"2026-03-01 02:00:00 completed 400 █████ 100.0 % █████ 100 800 █████ 5.0000 EUR █████ 2m5s +25 % 0 3.1 MB",
		"held (recall) 410 █···· 1.0 % █···· 5 0 █···· 0.2500 EUR ██··· 1m1s in range 2 0 B", "unchanged 0 ····· 0.0 %",
		"total: 105 calls, 900 tokens, cost 5.2500 EUR, 3m10s, 3.1 MB written")
	assert.True(t, fake.Asked[0] == "trends docs 30" && got.exit == cli.ExitDone, "%v %d", fake.Asked, got.exit)
	list := decoded(t, run(t, fake, "trends", "--nights", "7", "--json").out)["trends"].([]any)
	nights := list[0].(map[string]any)["nights"].([]any)
	assert.True(t, len(nights) == 4 && fake.Asked[1] == "trends  7", "%v %v", list, fake.Asked)
	says(t, fake, "trends --nights 0", cli.ExitUsage, "want 1 to 180")
	contains(t, run(t, &fakeControl{}, "trends").out, "no build yet")
}

func TestGenerationsAreListedAsControlGivesThem(t *testing.T) {
	fake := &fakeControl{Kept: []artifact.Generation{
		{
			Generation: "20261122t020000z", Seq: 7, State: "current", Documents: 12, Chunks: 81, Classes: 300,
			Created: time.Date(2026, 11, 22, 2, 0, 5, 0, time.UTC), ContentHash: "0123456789abcdef0123456789abcdef",
		},
		{Generation: "20261121t020000z", Seq: 6, State: "published", Tags: []string{"audit", "law"}},
		{Generation: "20261120t020000z", Seq: 5, State: "discarded", Collected: true},
	}}
	lines := strings.Split(flat(says(t, fake, "generations --index docs", cli.ExitDone).out), "\n")
	require.True(t, fake.Asked[0] == "generations docs" && len(lines) == 5, "%q, asked %q", lines, fake.Asked)
	assert.Equal(t, "20261122t020000z 7 current 12 81 300 2026-11-22 02:00:05 0123456789abcdef", lines[1])
	assert.Contains(t, lines[2], "audit law")
	assert.Contains(t, lines[3], "being deleted")
	as := decoded(t, run(t, fake, "generations", "--index", "docs", "--json").out)
	list := as["generations"].([]any)
	assert.True(t, as["index"] == "docs" && len(list) == 3 && list[0].(map[string]any)["seq"] == 7.0, "%v", as)
}

func TestAnAuditTellsWhatDiffersAndFailsWhereSomethingIsLeft(t *testing.T) {
	audited := func(status, reason string, found core.Audit) *fakeControl {
		ended := finished(status)
		ended.Reason, ended.Audit = reason, &found
		return &fakeControl{Statuses: []control.Status{ended}}
	}
	fake := audited(core.StatusCompleted, "", core.Audit{
		Generation: "g7", Sample: "2/7", Checked: core.Audited{Segments: 3, Bytes: 99, Classes: 5, Mentions: 9},
	})
	says(t, fake, "audit --index docs --sample 2/7 --wait", cli.ExitDone,
		"part 2/7 of generation g7: 3 files (99 B), 9 mentions of 5 entities", "no differences")
	assert.Equal(t, []string{"audit docs 2/7", "status docs/audit-1"}, fake.Asked)
	fake = audited(core.StatusFailed, "drift", core.Audit{
		Generation: "g7", Sample: "1/1", Left: 1, Drift: []core.Drift{{Kind: "record", Found: 3, Mended: 2}},
		Findings: []core.Found{{Kind: "record", Object: "key", Why: "it is missing", Remedy: "unweaver audit --repair"}},
	})
	says(t, fake, "audit --index docs --repair --wait", cli.ExitFailed, "differs: record 3 (2 mended); left: 1\n",
		"! record key: it is missing\n    unweaver audit --repair\n")
	assert.Equal(t, "audit docs 1/1 repair", fake.Asked[0])
	fake = &fakeControl{}
	says(t, fake, "audit --index docs", cli.ExitDone, "docs/audit-1 started")
	assert.Len(t, fake.Asked, 1)
}

func TestDoctorFailsWhereAProbeFailsAndSaysWhatToDo(t *testing.T) {
	fake := &fakeControl{Checks: []control.Check{{Name: "artifacts", OK: true, Detail: "/data store 01234567"}}}
	says(t, fake, "doctor --set indexes.docs.corpus=/corpus --index docs", cli.ExitDone,
		"ok    artifacts          /data store 01234567\n")
	assert.Equal(t, "/corpus", last[core.Spec](fake).Corpus)
	fake.Checks = append(fake.Checks, control.Check{Name: "classes", Detail: "connection refused", Hint: "start redis"},
		control.Check{Name: "vectors", Detail: "connection refused (start milvus)", Hint: "start milvus"})
	got := says(t, fake, "doctor", cli.ExitFailed, "FAIL  classes            connection refused\n", "start redis\n")
	assert.True(t, last[core.Spec](fake).Index == "default" && strings.Count(got.out, "start milvus") == 1, "%+v", got)
	fake.Checks = append(fake.Checks[:1], control.Check{Name: control.CheckWorker, Detail: "none polls"})
	says(t, fake, "doctor --without-workers", cli.ExitDone, "ok    artifacts")
	as := decoded(t, says(t, fake, "doctor --json", cli.ExitFailed).out)
	assert.True(t, as["ok"] == false && len(as["checks"].([]any)) == 2, "%v", as)
}

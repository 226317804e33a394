package cli_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/starter/cli"
)

// flat returns text with runs of blanks as one.
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
	fake := &fakeControl{cards: cards()}
	for _, command := range []string{"ls", "status"} {
		got := run(t, fake, command)
		contains(t, flat(got.out),
			"index state documents passages entities size age problems last run\n",
			"docs published 12 81 300 5.2 MB 3 days 2 completed, unchanged\n",
			"new not published 0 0 0 0 B - 0 running, extract, 40 %\n")
		if got.exit != cli.ExitDone {
			t.Errorf("%s: exit %d", command, got.exit)
		}
	}
	list := decoded(t, run(t, fake, "ls", "--json").out)["indexes"].([]any)
	if len(list) != 2 || list[0].(map[string]any)["bytes"] != 5.0*(1<<20) {
		t.Errorf("%v", list)
	}
	contains(t, run(t, &fakeControl{}, "ls").out, "no index yet; build one with: unweaver index")
}

func TestRunsAreListedWithWhatTheyCost(t *testing.T) {
	began := time.Date(2026, 3, 1, 2, 0, 0, 0, time.Local)
	fake := &fakeControl{runs: []runlog.Summary{
		{Run: "docs/g2", Status: core.StatusPaused, Reason: "budget_spent", Stage: "extract", Overall: 0.5, Started: began},
		{
			Run: "docs/g1", Status: core.StatusErrors, Started: began, Seconds: 125, Documents: 12, Chunks: 81,
			Calls: 90, Cost: 0.5, Currency: "EUR", Problems: 1,
		},
	}}
	got := run(t, fake, "runs", "docs", "--limit", "5")
	contains(t, flat(got.out),
		"docs/g2 paused, extract, 50 % (budget_spent) 2026-03-01 02:00:00",
		"docs/g1 completed_with_errors 2026-03-01 02:00:00 2m5s 12 81 90 0.5000 EUR 1\n")
	if fake.asked[0] != "runs docs 5" {
		t.Errorf("asked %v", fake.asked)
	}
	if run(t, fake, "runs"); fake.asked[1] != "runs  20" {
		t.Errorf("of all indexes: asked %v", fake.asked)
	}
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
	fake := &fakeControl{log: runlog.Log{Run: status, Listed: listed, Letters: letters, LettersPath: "/data/letters/"}}
	got := run(t, fake, "logs", "docs")
	contains(t, got.out, "unweaver v1.2.3\n", "2026-03-01 02:00:00  started\n", "02:00:00  stage extract\n",
		"waiting: model_unavailable in stage extract, 3 tries failed: refused\n", "ended: completed_with_errors\n",
		"  extract model_rate_limited, 1 time, 2026-03-01 02:00:00 to 02:01:00: 429\n",
		"  ! unreadable_document, 2 times: a.pdf, b.pdf: read …: it ends early\n",
		"dead letters, in /data/letters/:\n  ! c.md, chunk 2 (ff): no JSON\n")
	as := decoded(t, run(t, fake, "logs", "docs", "--json").out)
	if len(as["events"].([]any)) != 4 || len(as["letters"].([]any)) != 1 || as["run"] != "docs/g1" {
		t.Errorf("%v", as)
	}
}

func TestAGenerationIsShownWithTheReportOfItsRun(t *testing.T) {
	kept := []artifact.Generation{
		{Generation: "g2", Seq: 2, State: "current", Documents: 1, TextHash: "beef"}, {Generation: "g1", Seq: 1},
	}
	fake := &fakeControl{kept: kept, statuses: []control.Status{finished(core.StatusCompleted)}}
	for _, args := range [][]string{{"show", "docs"}, {"show", "docs/g2"}, {"show", "g2", "--index", "docs"}} {
		fake.asked = nil
		got := run(t, fake, args...)
		contains(t, got.out, "docs/g2  current, number 2", "1 document, 0 passages, 0 entities", "text hash beef", "content hash c0ffee")
		if fake.asked[1] != "status docs/g2" || got.exit != cli.ExitDone {
			t.Errorf("%v: asked %v, exit %d", args, fake.asked, got.exit)
		}
	}
	unpublished := &fakeControl{kept: kept[1:]}
	if got := run(t, unpublished, "show", "docs"); !strings.Contains(got.err, "nothing of it is published") {
		t.Errorf("%+v", got)
	}
}

// lines decodes a stream of events.
func lines(t *testing.T, text string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(text) {
		event := map[string]any{}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if _, err := time.Parse(time.RFC3339, event["at"].(string)); err != nil {
			t.Errorf("%v in %q", err, line)
		}
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
	last := finished(core.StatusErrors)
	statuses := []control.Status{extracting, extracting, embedding, last}
	for name, args := range map[string][]string{
		"index":   {"index", "--index", "docs", "--wait", "--json"},
		"restore": {"restore", "--index", "docs", "--json"},
		"status":  {"status", "docs", "--watch", "--json"},
	} {
		fake := &fakeControl{statuses: statuses}
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
		if progress["done"] != 40.0 || progress["total"] != 80.0 || progress["unit"] != "chunks" {
			t.Errorf("%s: %v", name, progress)
		}
		if report["status"] != core.StatusErrors || report["content_hash"] != "c0ffee" {
			t.Errorf("%s: %v", name, report)
		}
	}
}

// failing is a control that cannot restore one index.
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
	fake := &failing{fakeControl{cards: listed, statuses: []control.Status{finished(core.StatusErrors)}}, "b"}
	t.Chdir(t.TempDir())
	got := in(t, withConnection(fake, ""), nil, "restore", "--all")
	asked := strings.Join(fake.asked, ",")
	want := "indexes ,restore a,status a/restore-1,restore b,restore d,status d/restore-1"
	if got.exit != cli.ExitUsage || asked != want || !strings.Contains(got.err, "restore b: a restore of it runs") {
		t.Errorf("%+v\nasked %s", got, asked)
	}
	fake.bad, fake.asked, fake.statuses[0] = "", nil, finished(core.StatusCompleted)
	fake.noCorpus = "/gone is not there"
	got = in(t, withConnection(fake, ""), nil, "restore", "--all")
	if got.exit != cli.ExitDone || strings.Count(got.err, "the next build will fail") != 3 ||
		!strings.Contains(got.err, "d: the next build will fail, as its corpus cannot be read: /gone is not there") {
		t.Errorf("%+v", got)
	}
	fake.cards = listed[2:3]
	if got = in(t, withConnection(fake, ""), nil, "restore", "--all"); got.exit == cli.ExitDone {
		t.Errorf("nothing was restored: %+v", got)
	}
}

func TestEveryCommandThatIsRunHasExamples(t *testing.T) {
	for _, command := range cli.Commands().Commands() {
		all := append(command.Commands(), command)
		for _, one := range all {
			if one.Runnable() && !strings.Contains(one.Example, "unweaver "+one.Name()) &&
				!strings.Contains(one.Example, one.Parent().Name()+" "+one.Name()) {
				t.Errorf("%s has no example that calls it: %q", one.CommandPath(), one.Example)
			}
		}
	}
}

func TestTheHelpOfQueryTellsOfEveryMethodAndRule(t *testing.T) {
	if got := cli.MethodHelp(); !slices.Equal(got, config.Methods) {
		t.Errorf("methods %v, want %v", got, config.Methods)
	}
	if got := cli.RuleHelp(); !slices.Equal(got, config.Rules) {
		t.Errorf("rules %v, want %v", got, config.Rules)
	}
	got := run(t, &fakeControl{}, "query", "--help")
	contains(t, got.out, "\n  aligned   those entities", "\n  phragmen  Phragmén", "Examples:\n  unweaver query ")
}

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	"github.com/unweaver/unweaver/internal/testkit/controltest"
	"github.com/unweaver/unweaver/starter/cli"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

type fakeControl = controltest.Recorder

func last[T any](c *fakeControl) T { return controltest.Last[T](c) }

type result struct {
	exit     int
	out, err string
}

// in runs the command line in a folder of its own, with connect in place of what it would connect to.
func in(t *testing.T, connect console.Connector, env []string, args ...string) result {
	var out, errs bytes.Buffer
	app := &console.App{Out: &out, Err: &errs, Env: env, Connect: connect, Self: "/nonexistent/unweaver"}
	for _, variable := range env { // a script that stands for this program
		if path, ok := strings.CutPrefix(variable, self); ok {
			app.Self = path
		}
	}
	return result{cli.Run(t.Context(), app, args), out.String(), errs.String()}
}

func withConnection(c any, queries string) console.Connector {
	return func(context.Context, *config.Config) (console.Connection, error) {
		return console.Connection{Control: control.Of(c), HTTP: queries}, nil
	}
}

func run(t *testing.T, c *fakeControl, args ...string) result {
	t.Chdir(t.TempDir())
	return in(t, withConnection(c, ""), nil, args...)
}

// says runs a command line over a control in an empty folder, as does does.
func says(t *testing.T, c *fakeControl, args string, exit int, parts ...string) result {
	t.Chdir(t.TempDir())
	return does(t, withConnection(c, ""), args, exit, parts...)
}

func finished(status string) control.Status {
	return control.Status{
		Report: core.Report{
			Index: "docs", Generation: "g1", Run: "docs/g1", Status: status, Documents: 12, Chunks: 81, Classes: 300,
			Mentions: 900, ContentHash: "c0ffee",
		},
		Overall: 1,
	}
}

func decoded(t *testing.T, text string) map[string]any {
	out := map[string]any{}
	err := json.Unmarshal([]byte(text), &out)
	require.NoError(t, err, "no JSON: %v\n%s", err, text)
	return out
}

func contains(t *testing.T, text string, wanted ...string) {
	for _, want := range wanted {
		assert.Contains(t, text, want)
	}
}

func TestWhatIsAskedWronglyIsUsageAndConnectsToNothing(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"indx", "unknown command"},
		{"--colour", "unknown flag"},
		{"index", "no index is named"},
		{"index a b --index docs", "want at most a CORPUS, got 2 arguments"},
		{"index --index docs --set nonsense", "want path=value"},
		{"index --index docs --set indexes.docs.keep=0", "want 1 to 10000, got 0"},
		{"index --index docs --config none.yaml", "name a readable file with --config"},
		{"status --watch", "no run is named"},
		{"ls docs", "want no argument"},
		{"logs", "want a RUN, got 0 arguments"},
		{"show", "want a GENERATION, got 0 arguments"},
		{"runs docs --limit -1", `--limit requires a whole number that is not negative, got "-1"`},
		{"restore --all --index docs", "give either --index or --all"},
		{"status a b", "want at most a RUN"},
		{"pause", "want a RUN, got 0 arguments"},
		{"cancel a b", "want a RUN, got 2 arguments"},
		{"resume", "want a RUN, got 0 arguments"},
		{"resume docs --budget-calls -1", "--budget-calls requires a whole number that is not negative"},
		{"resume docs --budget-tokens -1", "--budget-tokens requires a whole number that is not negative"},
		{"resume docs --budget-money NaN", "--budget-money requires a number that is not negative"},
		{"resume docs --budget-money +Inf", "--budget-money requires a number that is not negative"},
		{"resume docs --budget-calls many", `--budget-calls requires a whole number, got "many"`},
		{"generations", "no index is named"},
		{"dead-letters show", "(see: unweaver dead-letters show --help)"},
		{"restore", "give either --index or --all"},
		{"audit", "no index is named"},
		{"audit --index docs --sample 8/7", `"8/7" is no part of a whole`},
		{"query who?", "no index is named"},
		{"query x docs --top-chunks abc", `--top-chunks requires a whole number, got "abc"`},
		{"query x docs --top-chunks 0", `--top-chunks requires a whole number, 1 or more, got "0"`},
		{"keys rotate x --overlap=-1h", "--overlap requires a time such as 90s or 12h that is not negative"},
		{"query --index docs", "want a QUESTION in quotes and an INDEX, got 0 arguments"},
		{"query who? --index docs --param damping", "want name=value"},
		{"config validate x", "want no argument"},
		{"eval", "at least one of the flags in the group [dataset suite questions] is required"},
		{"dev --http-port 99999", "--http-port: want 0 to 65535, got 99999"},
		{"dev --temporal-port 65536", "--temporal-port: want 0 to 65535, got 65536"},
		{"keys create --expires -1d", "whole days"},
		{"keys create --expires 1.5d", "whole days"},
		{"keys create --expires soon", "90d, 36h"},
		{"keys create --expires 40000d", "whole days"},
		{"branch docs --as exp --set shortening.treshold=900", "unknown key"},
		{"branch docs --as exp --set keep=many", "keep"},
		{"branch docs --as exp --set keep", "path=value"},
		{"branch docs --set keep=2", "no name"},
		{"branch docs --delete exp --as other", "cannot be combined"},
		{"branch", "INDEX"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			fake, args := &fakeControl{}, strings.Fields(tc.args)
			got := run(t, fake, args...)
			assert.True(t, got.exit == console.ExitUsage && strings.Contains(got.err, tc.want) && len(fake.Asked) == 0,
				"exit %d, asked %v, %q is not in %s", got.exit, fake.Asked, tc.want, got.err)
			assert.True(t, strings.HasPrefix(got.err, "unweaver: "), "%s", got.err)
			code := decoded(t, run(t, fake, append([]string{"--json"}, args...)...).err)["code"]
			assert.False(t, code != string(fault.Usage) && code != string(fault.BadConfig), "code %v", code)
		})
	}
}

func TestAnErrorOfControlIsShownWithCodeAndHint(t *testing.T) {
	broken := &fakeControl{Err: fault.LeaseHeld.At("index", "docs").Because("run docs/g0 builds it").Advise("wait for it")}
	for _, args := range []string{
		"index --index docs", "status docs", "pause docs", "resume docs", "cancel docs", "generations --index docs",
		"restore --index docs", "audit --index docs", "doctor",
	} {
		got := says(t, broken, args, console.ExitUsage)
		assert.Equal(t, result{console.ExitUsage, "", "unweaver: index docs: run docs/g0 builds it (wait for it)\n"}, got, args)
		as := decoded(t, says(t, broken, args+" --json", console.ExitUsage).err)
		assert.True(t, as["code"] == "lease_held" && as["hint"] == "wait for it" && as["error"] != "", "%v: %v", args, as)
	}
}

// What is refused, so that other words, other settings or another moment help, exits with 2; every other code with 1.
func TestEveryCodeThatEndsACommandHasItsExitCode(t *testing.T) {
	refused := strings.Fields(`usage bad_config unknown_index unknown_generation generation_collected not_found
		invalid_parameter data_dir_in_use port_taken unauthorized forbidden misdirected unsupported_media_type body_timeout
		method_not_allowed precondition_failed unknown_run run_ended
		lease_held plan_moved budget_spent corpus_missing corpus_refused endpoint_refused`)
	for _, code := range fault.Codes() {
		want := console.ExitFailed
		if slices.Contains(refused, string(code)) {
			want = console.ExitUsage
		}
		ended := code.At("resume run", "docs/g0").Because("it is so")
		says(t, &fakeControl{Err: fmt.Errorf("again: %w", ended)}, "resume docs", want)
		assert.Equal(t, want, new(config.Process).Exit(ended, io.Discard), "%s ends a server with", code)
	}
	got := run(t, &fakeControl{Err: fmt.Errorf("the wire broke")}, "status", "docs", "--json")
	as := decoded(t, got.err)
	assert.True(t, got.exit == console.ExitFailed && as["code"] == "internal" && as["error"] == "the wire broke", "%+v", got)
}

func TestAFailureToCloseIsTold(t *testing.T) {
	t.Chdir(t.TempDir())
	closing := func(context.Context, *config.Config) (console.Connection, error) {
		failed := func() error { return fault.StoreDown.At("close", "classes") }
		return console.Connection{Control: control.Of(&fakeControl{}), Close: failed}, nil
	}
	does(t, closing, "pause docs", console.ExitFailed, "close classes")
}

func TestPauseAndCancelTellWhatIsInFlight(t *testing.T) {
	for calls, says := range map[int64]string{
		0: ", no call was in flight\n", 1: ", 1 call was in flight: its answer is paid for and kept\n",
		12: ", 12 calls were in flight: their answers are paid for and kept\n",
	} {
		fake := &fakeControl{Stopped: control.Stopped{InFlight: &calls}}
		for _, command := range []string{"pause", "cancel"} {
			assert.Equal(t, "docs/g1: "+command+says, run(t, fake, command, "docs/g1").out)
			as := decoded(t, run(t, fake, command, "docs/g1", "--json").out)
			assert.True(t, as["in_flight"] == float64(calls) && as["run"] == "docs/g1" && as["done"] == command &&
				slices.Contains(fake.Asked, command+" docs/g1"), "%v, asked %q", as, fake.Asked)
		}
	}
}

func TestLimitGivesWhatItsFlagsSay(t *testing.T) {
	fake := &fakeControl{}
	says(t, fake, "limit docs/g1 --concurrency 4 --requests-per-minute 0 --budget-calls 9", console.ExitDone,
		"docs/g1: limit, concurrency 4, 0 requests a minute, with a budget of 9 calls\n")
	got := last[control.LimitRequest](fake)
	assert.True(t, got.Budget.Calls == 9 && *got.Limits.Concurrency == 4 && got.Limits.TokensPerMinute == nil, "%+v", got)
	for _, bad := range []string{"", "--concurrency 0", "--tokens-per-minute -1", "--budget-calls -1"} {
		says(t, &fakeControl{}, "limit docs/g1 "+bad, console.ExitUsage)
	}
}

func TestResumeGivesANewBudgetOnlyWhereOneIsGiven(t *testing.T) {
	for _, tc := range []struct {
		flags string
		want  *core.Budget
		text  string
	}{
		{"", nil, "docs: resume\n"},
		{" --budget-calls 20", &core.Budget{Calls: 20}, "docs: resume, with a budget of 20 calls\n"},
		{" --budget-tokens 7 --budget-money 1.5", &core.Budget{Tokens: 7, Money: 1.5},
			"docs: resume, with a budget of 7 tokens, 1.5000 in money\n"},
		{" --budget-calls 0", &core.Budget{}, "docs: resume, with its earlier budget\n"},
	} {
		fake := &fakeControl{}
		assert.Equal(t, tc.text, says(t, fake, "resume docs"+tc.flags, console.ExitDone).out)
		assert.Equal(t, tc.want, last[*core.Budget](fake), tc.flags)
		as := decoded(t, says(t, fake, "resume docs --json"+tc.flags, console.ExitDone).out)
		assert.Equal(t, tc.want != nil, as["budget"] != nil, "%v: %v", tc.flags, as)
	}
}

func TestSettingsComeFromTheFileTheEnvironmentAndTheCommandLine(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	writeFiles(t, map[string]string{
		"unweaver.yaml": "indexes: {docs: {corpus: here, keep: 7}}\n",
		"other.yaml":    "indexes: {docs: {corpus: s3://bucket/docs, keep: 8}}\n",
	})
	here, other, there := filepath.Join(dir, "here"), "s3://bucket/docs", filepath.Join(dir, "there")
	for _, c := range []struct {
		env, args string
		keep      int
		corpus    string
	}{
		{"", "", 7, here},
		{"UNWEAVER_CONFIG=other.yaml", "", 8, other},
		{"UNWEAVER_CONFIG=none.yaml", "--config other.yaml", 8, other},
		{"UNWEAVER_INDEXES_DOCS_KEEP=9", "", 9, here},
		{"UNWEAVER_INDEXES_DOCS_KEEP=9", "there --set indexes.docs.keep=10", 10, there},
	} {
		fake := &fakeControl{}
		args := append([]string{"index", "--index", "docs"}, strings.Fields(c.args)...)
		got := in(t, withConnection(fake, ""), []string{c.env}, args...)
		spec := last[control.IndexRequest](fake).Spec
		assert.True(t, got.exit == console.ExitDone && spec.Keep == c.keep && spec.Corpus == c.corpus, "%+v: %+v, keep %d of %s",
			c, got, spec.Keep, spec.Corpus)
	}
}

// evil holds what a terminal acts on: a title, a cleared screen, C1 as one byte and as a character, a turned direction.
const evil = "x\x1b]0;PWNED\a\x1b[2J\u009b31m\x9d\u202e\u2028gpj.exe\u2066\x7f\rend"

const forged = evil + "\nFORGED" // a line end, after which words of others would look like the program's

// evilControl answers every question with it.
type evilControl struct{ *fakeControl }

func (evilControl) ReadStatus(context.Context, string) (control.Status, error) {
	var status control.Status
	status.Index, status.Generation, status.Status = "docs", "g1", core.StatusFailed
	status.Reason, status.Detail = forged, forged
	status.Problems = []core.Problem{{Code: forged, Object: forged, Detail: forged}}
	return status, nil
}

func (evilControl) ReadOverlay(context.Context, string) (control.Overlaid, error) {
	return control.Overlaid{}, nil
}
func (evilControl) ReadLog(context.Context, string) (runlog.Log, error) {
	at := core.Event{Kind: core.EventEnded, Status: forged, Code: forged, Detail: forged}
	letter := core.Problem{Object: forged, Detail: forged}
	out := runlog.Log{Letters: []core.Problem{letter}}
	out.Events, out.Problems = []core.Event{at}, []core.Problem{letter}
	return out, nil
}
func (evilControl) ListRuns(context.Context, string, int) ([]runlog.Summary, error) {
	return []runlog.Summary{{Run: "docs/g1", Status: core.StatusFailed, Reason: forged}}, nil
}
func (evilControl) ListBackfills(context.Context, control.BackfillNamed) ([]core.Backfill, error) {
	return []core.Backfill{{Name: "a", Choice: core.BackfillChoice{Prefix: forged}}}, nil
}
func (evilControl) PauseRun(context.Context, string) (control.Stopped, error) {
	return control.Stopped{}, fault.EngineDown.At("pause", evil).Because(evil).Advise(evil)
}
func (evilControl) RunDoctor(context.Context, core.Spec) ([]control.Check, error) {
	return []control.Check{{Name: "corpus", Detail: forged, Hint: forged}}, nil
}

func TestControlCharactersNeverReachATerminal(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		chunk := map[string]any{"id": "00", "document": forged, "title": forged, "heading": []any{forged}, "text": evil, "score": 1}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"index": "docs", "generation": "g1", "chunks": []any{chunk}, "answer": map[string]any{"text": evil},
			"entities": []any{map[string]any{"id": "0", "name": evil}},
		})
	}))
	t.Cleanup(server.Close)
	connect := func(context.Context, *config.Config) (console.Connection, error) {
		return console.Connection{Control: control.Of(evilControl{&fakeControl{}}), HTTP: server.URL}, nil
	}
	for _, args := range [][]string{
		{"status", "docs"}, {"logs", "docs"}, {"runs"}, {"pause", "docs"}, {"doctor"}, {"query", "who?", "--index", "docs"},
		{"status", evil}, {evil}, {"backfill", "list", "docs"},
		{"config", "show", "--config", evil},
	} {
		for _, format := range []string{"", "--json"} {
			var out, errs bytes.Buffer
			app := &console.App{Out: &out, Err: &errs, Connect: connect}
			if format != "" {
				args = append(args[:len(args):len(args)], format)
			}
			cli.Run(t.Context(), app, args)
			both := out.String() + errs.String()
			bad := strings.IndexAny(both, "\x1b\a\x7f\r\u009b\u202e\u2028\u2066")
			assert.True(t, bad < 0 && !strings.Contains(both, "\x9d"), "%q prints %q", args, both)
			assert.NotContains(t, both, "\nFORGED", args)
			assert.True(t, strings.Contains(both, "PWNED"), "%q did not come to print it: %.200s", args, both)
			assert.False(t, format != "" && out.Len() > 0 && !json.Valid(out.Bytes()), "%q, %s", args, out.String())
		}
	}
}

func TestOrdinaryTextIsPrintedAsItIs(t *testing.T) {
	var out bytes.Buffer
	writer := show.NewCleaned(&out)
	const text = "Größe\t日本語 🙂 naïve\n"
	for i := range len(text) { // also where a character comes in pieces
		n, err := writer.Write([]byte(text[i : i+1]))
		require.True(t, n == 1 && err == nil, "%v %v", n, err)
	}
	assert.True(t, out.String() == text, "%q", out.String())
}

// does runs a command line whose words have no blanks, and requires its exit and parts of what it prints.
func does(t *testing.T, connect console.Connector, args string, exit int, parts ...string) result {
	got := in(t, connect, nil, strings.Fields(args)...)
	assert.Equal(t, exit, got.exit, "%s: %+v", args, got)
	contains(t, got.out+got.err, parts...)
	return got
}

func writeFiles(t *testing.T, content map[string]string) {
	for path, text := range content {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

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
		contains(t, flat(says(t, fake, command, console.ExitDone).out),
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
	says(t, &fakeControl{}, "ls", console.ExitDone, "no index yet; to build one: unweaver index")
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
	for _, args := range []string{"show docs", "show docs/g2"} {
		fake.Asked = nil
		says(t, fake, args, console.ExitDone, "docs/g2  current, number 2", "1 document, 0 passages, 0 entities",
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
		if strings.Join(kinds, " ") != want || got.exit != console.ExitErrors || (name == "status") != (got.err == "") {
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
	assert.Equal(t, console.ExitUsage, got.exit)
	assert.Contains(t, got.err, "restore b: a restore of it runs")
	fake.bad, fake.Asked, fake.Statuses[0] = "", nil, finished(core.StatusCompleted)
	fake.NoCorpus = "/gone is not there"
	got = in(t, withConnection(fake, ""), nil, "restore", "--all")
	assert.True(t, got.exit == console.ExitDone && strings.Count(got.err, "the next build will fail") == 3, "%+v", got)
	assert.Contains(t, got.err, "d: the corpus cannot be read, so the next build will fail: /gone is not there")
	fake.Cards = listed[2:3]
	got = in(t, withConnection(fake, ""), nil, "restore", "--all")
	assert.NotEqual(t, console.ExitDone, got.exit, "nothing was restored")
}

func TestTheHelpOfQueryTellsOfEveryMethodAndRule(t *testing.T) {
	got := says(t, &fakeControl{}, "query --help", console.ExitDone, "\n  aligned   those entities",
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
	assert.True(t, fake.Asked[0] == "trends docs 30" && got.exit == console.ExitDone, "%v %d", fake.Asked, got.exit)
	list := decoded(t, run(t, fake, "trends", "--nights", "7", "--json").out)["trends"].([]any)
	nights := list[0].(map[string]any)["nights"].([]any)
	assert.True(t, len(nights) == 4 && fake.Asked[1] == "trends  7", "%v %v", list, fake.Asked)
	says(t, fake, "trends --nights 0", console.ExitUsage, "want 1 to 180")
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
	lines := strings.Split(flat(says(t, fake, "generations --index docs", console.ExitDone).out), "\n")
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
	says(t, fake, "audit --index docs --sample 2/7 --wait", console.ExitDone,
		"part 2/7 of generation g7: 3 files (99 B), 9 mentions of 5 entities", "no differences")
	assert.Equal(t, []string{"audit docs 2/7", "status docs/audit-1"}, fake.Asked)
	fake = audited(core.StatusFailed, "drift", core.Audit{
		Generation: "g7", Sample: "1/1", Left: 1, Drift: []core.Drift{{Kind: "record", Found: 3, Mended: 2}},
		Findings: []core.Found{{Kind: "record", Object: "key", Why: "it is missing", Remedy: "unweaver audit --repair"}},
	})
	says(t, fake, "audit --index docs --repair --wait", console.ExitFailed, "differs: record 3 (2 mended); left: 1\n",
		"! record key: it is missing\n    unweaver audit --repair\n")
	assert.Equal(t, "audit docs 1/1 repair", fake.Asked[0])
	fake = &fakeControl{}
	says(t, fake, "audit --index docs", console.ExitDone, "docs/audit-1 started")
	assert.Len(t, fake.Asked, 1)
}

func TestDoctorFailsWhereAProbeFailsAndSaysWhatToDo(t *testing.T) {
	fake := &fakeControl{Checks: []control.Check{{Name: "artifacts", OK: true, Detail: "/data store 01234567"}}}
	says(t, fake, "doctor --set indexes.docs.corpus=/corpus --index docs", console.ExitDone,
		"ok    artifacts          /data store 01234567\n")
	assert.Equal(t, "/corpus", last[core.Spec](fake).Corpus)
	fake.Checks = append(fake.Checks, control.Check{Name: "classes", Detail: "connection refused", Hint: "start redis"},
		control.Check{Name: "vectors", Detail: "connection refused (start milvus)", Hint: "start milvus"})
	got := says(t, fake, "doctor", console.ExitFailed, "FAIL  classes            connection refused\n", "start redis\n")
	assert.True(t, last[core.Spec](fake).Index == "default" && strings.Count(got.out, "start milvus") == 1, "%+v", got)
	fake.Checks = append(fake.Checks[:1], control.Check{Name: control.CheckWorker, Detail: "none polls"})
	says(t, fake, "doctor --without-workers", console.ExitDone, "ok    artifacts")
	as := decoded(t, says(t, fake, "doctor --json", console.ExitFailed).out)
	assert.True(t, as["ok"] == false && len(as["checks"].([]any)) == 2, "%v", as)
}

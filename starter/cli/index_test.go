package cli_test

import (
	"bytes"
	"context"
	"fmt"
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
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/starter/cli"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func TestIndexStartsARunAndSaysHowToWatchIt(t *testing.T) {
	fake := &fakeControl{}
	got := says(t, fake, "index /corpus --index docs --generation g1 --replace-corpus --rebuild", console.ExitDone)
	assert.Equal(t, "docs/g1 started; to watch it: unweaver status docs/g1 --watch\n", got.out)
	request := last[control.IndexRequest](fake)
	assert.True(t, request.Spec.Corpus == "/corpus" && request.Generation == "g1" && request.ReplaceCorpus &&
		request.Rebuild, "%+v", request)
	as := decoded(t, run(t, fake, "index", "--index", "docs", "--json").out)
	assert.True(t, as["run"] == "docs/g1" && as["attached"] == false, "%v", as)
	fake.Attached = true
	says(t, fake, "index --index docs", console.ExitDone, "docs/g1 is already running")
	assert.Zero(t, fake.Looks, "it waits without being asked to")
}

func TestIndexWaitsForTheEndAndExitsByIt(t *testing.T) {
	running := finished(core.StatusRunning)
	running.Stage = "extract"
	standing := finished(core.StatusCompleted)
	standing.Unchanged, standing.ProblemsTotal, standing.DocumentsFailed = true, 3, 3
	letters := finished(core.StatusCompleted)
	letters.DeadLetters = 1
	unread := finished(core.StatusCompleted)
	unread.DocumentsFailed = 1
	dry := unread
	dry.Reason = "dry_run"
	for _, tc := range []struct {
		name string
		last control.Status
		exit int
	}{
		{"completed", finished(core.StatusCompleted), console.ExitDone},
		{"failed", finished(core.StatusFailed), console.ExitFailed},
		{"cancelled", finished(core.StatusCancelled), console.ExitFailed},
		{"completed with errors", finished(core.StatusErrors), console.ExitErrors},
		{"held", finished(core.StatusHeld), console.ExitHeld},
		{"paused", finished(core.StatusPaused), console.ExitPaused},
		{"unchanged, with problems of the parent", standing, console.ExitErrors},
		{"completed, with dead letters of the parent", letters, console.ExitErrors},
		{"completed, with documents that stay unreadable", unread, console.ExitErrors},
		{"an estimate that finds them", dry, console.ExitDone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake := &fakeControl{Statuses: []control.Status{running, tc.last}}
			got := run(t, fake, "index", "--index", "docs", "--wait")
			assert.True(t, got.exit == tc.exit && strings.HasPrefix(got.out, "docs/g1  "+tc.last.Status) && fake.Looks == 2,
				"exit %d after %d looks\n%s", got.exit, fake.Looks, got.out)
			fake.Looks = 1
			seen := run(t, fake, "status", "docs/g1")
			assert.True(t, seen.exit == tc.exit && seen.out == got.out, "status differs: exit %d\n%s", seen.exit, seen.out)
			as := says(t, fake, "status docs --json", tc.exit)
			assert.True(t, decoded(t, as.out)["status"] == tc.last.Status, "JSON: exit %d\n%s", as.exit, as.out)
		})
	}
}

func TestARunThatIsNotYetSeenIsWaitedFor(t *testing.T) {
	fake := &late{fakeControl: fakeControl{Statuses: []control.Status{finished(core.StatusCompleted)}}, misses: 2}
	t.Chdir(t.TempDir())
	got := in(t, withConnection(fake, ""), nil, "restore", "--index", "docs")
	assert.True(t, got.exit == console.ExitDone && fake.misses == 0 && strings.Contains(got.out, "completed"), "%+v", got)
}

type late struct {
	fakeControl
	misses int
}

func (l *late) ReadStatus(ctx context.Context, run string) (control.Status, error) {
	if l.misses > 0 {
		l.misses--
		return control.Status{}, fault.RunNotFound.At("find run", run)
	}
	return l.fakeControl.ReadStatus(ctx, run)
}

// interrupted is a control whose user goes when the run is seen to go on.
type interrupted struct {
	fakeControl
	leave func()
}

func (i *interrupted) ReadStatus(ctx context.Context, run string) (control.Status, error) {
	if i.Looks > 0 {
		i.leave()
	}
	return i.fakeControl.ReadStatus(ctx, run)
}

func TestAnInterruptLeavesTheRunAlone(t *testing.T) {
	running := finished(core.StatusRunning)
	running.Stage = "extract"
	t.Chdir(t.TempDir())
	for _, json := range [][]string{nil, {"--json"}} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		fake := &interrupted{fakeControl{Statuses: []control.Status{running}}, cancel}
		var out, errs bytes.Buffer
		app := &console.App{Out: &out, Err: &errs, Connect: withConnection(fake, "")}
		exit := cli.Run(ctx, app, append([]string{"index", "--index", "docs", "--wait"}, json...))
		assert.True(t, exit == console.ExitFailed && out.Len() == 0 && !strings.Contains(strings.Join(fake.Asked, " "), "cancel"),
			"exit %d, %s, asked %v", exit, out.String(), fake.Asked)
		contains(t, errs.String(), "the run continues: unweaver status docs/g1", "interrupted")
		var last map[string]any
		for line := range strings.Lines(errs.String()) {
			if json != nil {
				last = decoded(t, line)
			}
		}
		assert.True(t, json == nil || last["code"] == "interrupted" && strings.Contains(fmt.Sprint(last["hint"]), "continues"),
			"%v", last)
	}
}

// A stack of the command's own ends with it, and the run does not go on until another takes it up.
func TestAnInterruptSaysThatTheRunOfAStackOfItsOwnStandsStill(t *testing.T) {
	running := finished(core.StatusRunning)
	running.Stage = "extract"
	data := filepath.Join(t.TempDir(), "data")
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fake := &interrupted{fakeControl{Statuses: []control.Status{running}}, cancel}
	bin := script(t, fmt.Sprintf(`
trap 'kill $child; exit 0' TERM
printf '{"http":"%s","pid":%%d,"token":"%s"}' $$ > "$7/dev.json.new" && mv "$7/dev.json.new" "$7/dev.json"
sleep 60 & child=$!
wait $child
`, served(t, fake), token))
	var out, errs bytes.Buffer
	app := &console.App{Out: &out, Err: &errs, Env: []string{"PATH=" + os.Getenv("PATH")}, Self: bin}
	exit := cli.Run(ctx, app, []string{"index", "/corpus", "--index", "docs", "--wait", "--data-dir", data})
	assert.True(t, exit == console.ExitFailed && !strings.Contains(errs.String(), "continues"), "%d, %s", exit, errs.String())
	contains(t, errs.String(), "interrupted (the run stops until the stack runs again: unweaver dev, or run the same command")
}

// Whatever is interrupted says so, and not what the interrupt made fail.
func TestAnInterruptIsSaid(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx := musttest.EndedContext(t)
	var out, errs bytes.Buffer
	fake := &fakeControl{Err: fmt.Errorf("ask: %w", ctx.Err())}
	app := &console.App{Out: &out, Err: &errs, Connect: withConnection(fake, "")}
	exit := cli.Run(ctx, app, []string{"pause", "docs"})
	assert.True(t, exit == console.ExitFailed && strings.HasPrefix(errs.String(), "unweaver: interrupted") &&
		!strings.Contains(errs.String(), "canceled"), "exit %d, %s", exit, errs.String())
}

func TestADryRunShowsRanges(t *testing.T) {
	dry := finished(core.StatusCompleted)
	dry.Reason = "dry_run"
	dry.Calls = core.Calls{Extract: 7}
	fake := &fakeControl{Statuses: []control.Status{dry}}
	says(t, fake, "index --index docs --dry-run", console.ExitDone, "would pay: 7 extract, 0 shorten")
	assert.Contains(t, fake.Asked, "estimate docs")
	dry.Estimate = &core.Estimate{
		Extract: core.Range{Low: 1200, High: 1300}, Shorten: core.Range{Low: 0, High: 90},
		Embed: core.Range{Low: 210, High: 210}, Tokens: core.Range{Low: 1.2e6, High: 1.4e6},
		Cost: core.Range{Low: 0.53, High: 0.61}, Seconds: core.Range{Low: 720, High: 900.4},
	}
	fake = &fakeControl{Statuses: []control.Status{dry}}
	got := says(t, fake, "index --index docs --dry-run", console.ExitDone, "would need extract calls  1200 to 1300\n",
		"would need shorten calls  0 to 90\n", "would need embed calls    210\n", "would need tokens         1200000 to 1400000\n",
		"would need cost           0.5300 to 0.6100\n", "would need time           12m0s to 15m0s\n")
	assert.NotContains(t, got.out, "would pay", "two predictions")
	as := decoded(t, run(t, fake, "index", "--index", "docs", "--dry-run", "--json").out)
	shorten := as["estimate"].(map[string]any)["shorten"].(map[string]any)
	assert.True(t, shorten["low"] == 0.0 && shorten["high"] == 90.0, "%v", as["estimate"])
}

func TestADryRunNamesNoArtifactAndNoPriceThatIsNotSet(t *testing.T) {
	dry := finished(core.StatusCompleted)
	dry.Reason, dry.Classes, dry.Mentions = "dry_run", 0, 0
	dry.Estimate = &core.Estimate{Tokens: core.Range{Low: 100, High: 200}}
	for _, code := range []string{"a", "b", "c", "d", "e", "f"} {
		dry.Problems = append(dry.Problems, core.Problem{Code: code, Object: code + ".pdf"})
	}
	got := run(t, &fakeControl{Statuses: []control.Status{dry}}, "index", "--index", "docs", "--dry-run")
	contains(t, got.out, "  12 documents, 81 passages\n",
		"  would need cost           ? (no price is set: models.*.price)\n", "  problems: 6\n", "  … and 1 more\n")
	assert.NotRegexp(t, `classes|0\.0000|report\.json|unweaver logs`, got.out)
}

func TestAReportNamesWhatFailedAndWhereTheRestIs(t *testing.T) {
	bad := finished(core.StatusErrors)
	bad.DeadLetters, bad.Refused, bad.DocumentsFailed, bad.ChunksFailed, bad.Stale = 2, 4, 3, 5, 2
	bad.DocumentsEmpty, bad.ProblemsTotal, bad.ProblemsPath = 1, 117, "docs/generations/g1/problems.jsonl"
	for _, object := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		bad.Problems = append(bad.Problems,
			core.Problem{Code: "unreadable_document", Object: object + ".pdf", Detail: "the file ends early"})
	}
	bad.Problems[1].Detail = ""
	got := run(t, &fakeControl{Statuses: []control.Status{bad}}, "status", "docs")
	contains(t, got.out,
		"  not read: 4 of the files and rows\n",
		"  failed: 3 documents, 5 passages; 2 documents serve the earlier version (stale)\n",
		"  without text: 1 document\n",
		"  dead letters: 2 in docs/generations/g1/dead-letters/\n",
		"  problems: 117, all listed in docs/generations/g1/problems.jsonl\n",
		"  ! unreadable_document, 6 times: a.pdf, c.pdf, d.pdf and 3 more: the file ends early\n"+
			"  ! unreadable_document b.pdf\n  … and 110 more: unweaver logs docs/g1\n",
	)
	one := finished(core.StatusErrors)
	one.Documents, one.DocumentsFailed, one.Refused, one.Stale = 1, 1, 1, 1
	for _, code := range []string{"a", "b", "c", "d", "e", "f"} {
		one.Problems = append(one.Problems, core.Problem{Code: code, Object: code + ".pdf"})
	}
	got = run(t, &fakeControl{Statuses: []control.Status{one}}, "status", "docs")
	contains(t, got.out, "  1 document, 81 passages", "not read: 1 of the files and rows\n",
		"failed: 1 document, 0 passages; 1 document serves the earlier version (stale)\n", "  ! e e.pdf\n  … and 1 more")
	assert.False(t, strings.Contains(got.out, "f.pdf"), "more than five distinct problems:\n%s", got.out)
}

func TestAnUnchangedNightNamesWhatStandsFailedSinceItsParent(t *testing.T) {
	night := finished(core.StatusCompleted)
	night.Generation, night.Run, night.Unchanged = "g9", "docs/g9", true
	says(t, &fakeControl{Statuses: []control.Status{night}}, "status docs", console.ExitDone,
		"docs/g9  completed  nothing changed\n")
	night.ProblemsTotal, night.ProblemsPath, night.DeadLetters = 1, "docs/generations/g4/problems.jsonl", 1
	night.Problems = []core.Problem{{Code: "bad_model_output", Object: "chunk 7", Detail: "no JSON"}}
	says(t, &fakeControl{Statuses: []control.Status{night}}, "status docs", console.ExitErrors,
		"nothing changed, but earlier failures remain\n", "dead letters: 1 in docs/generations/g4/dead-letters/\n",
		"! bad_model_output chunk 7: no JSON\n")
}

func TestAReportShowsWhatWasBuiltAndPaid(t *testing.T) {
	status := finished(core.StatusRunning)
	status.Stage, status.Overall, status.Rate, status.ETASeconds = "extract", 0.5, 12, 90
	status.Detail = "waits for a worker"
	status.Diff = core.Diff{Added: 1, Changed: 2, Removed: 3, Same: 4}
	status.Calls = core.Calls{Extract: 5, Shorten: 6, Embed: 7}
	status.Tokens = core.Tokens{Prompt: 8, Completion: 9, Embedding: 10}
	status.Cost, status.Seconds = 0.25, 61.5
	status.LedgerHits = core.Calls{Extract: 11}
	status.Models.Chat, status.Models.Embedding = "openai gpt", "openai e"
	status.Stages = []core.StageProgress{
		{Name: "plan", Seconds: 0.4}, {Name: "extract", Done: 40, Total: 81, Seconds: 61.1},
	}
	status.Currency = "EUR"
	got := run(t, &fakeControl{Statuses: []control.Status{status}}, "status", "docs")
	want := `docs/g1  running
  waits for a worker
  50 % done, stage extract, 40/81 passages, 12/s, 1m2s so far, 1m30s left
  12 documents, 81 passages, 300 entities, 900 mentions  [openai gpt / openai e]
  since the previous generation: 1 added, 2 changed, 0 moved, 3 removed, 4 unchanged
  paid: 5 extract, 6 shorten, 7 embed calls; 8 prompt, 9 completion, 10 embedding tokens; cost 0.2500 EUR
  from the ledger: 11 extract, 0 shorten, 0 embed
  61.5 s  plan 0.4  extract 61.1
  content hash c0ffee
`
	assert.True(t, got.out == want && got.exit == console.ExitDone, "exit %d\n%s", got.exit, got.out)
	status.Status = core.StatusPaused // nothing is left to wait for, before it is resumed
	contains(t, run(t, &fakeControl{Statuses: []control.Status{status}}, "status", "docs").out, "1m2s so far, paused\n")
	places := 8
	status.Limits, status.Budget = &core.LiveLimits{Concurrency: &places}, &core.Budget{Calls: 90}
	contains(t, run(t, &fakeControl{Statuses: []control.Status{status}}, "status", "docs").out,
		"  changed during the run: concurrency 8, a budget of 90 calls\n")
}

func TestAReportSaysWhatIsMissingFromIt(t *testing.T) {
	unanswered := func(s *control.Status) {
		s.Unsettled = core.Spent{
			Calls:  core.Calls{Extract: 15, Embed: 1},
			Tokens: core.Tokens{Prompt: 1600, Completion: 160, Embedding: 20}, Cost: 0.072,
		}
		s.Retries = []core.Retry{{Stage: "extract", Code: "model_rate_limited", Count: 26}}
	}
	retried := "  retried: extract model_rate_limited, 26 times, last at "
	for _, c := range []struct {
		state  string
		change func(*control.Status)
		says   []string
	}{
		{core.StatusCompleted, unanswered, []string{retried, "  16 more calls unanswered because a process died, perhaps billed: " +
			"about 1600 prompt, 160 completion, 20 embedding tokens; cost 0.0720\n"}},
		{core.StatusRunning, unanswered, []string{retried, "  16 more calls in flight, or lost because a process died: "}},
		{core.StatusCompleted, func(s *control.Status) { s.Tokens = core.Tokens{Prompt: 10} },
			[]string{"10 prompt, 0 completion, 0 embedding tokens; no price is set (models.*.price)\n"}},
		{core.StatusRunning, func(s *control.Status) { s.Problems = []core.Problem{{Code: "unreadable", Object: "a.md"}} },
			[]string{"problems: 1 so far\n"}},
		{core.StatusCompleted, func(s *control.Status) {
			s.Calls.Extract, s.Planned = 5, &core.Estimate{Extract: core.Range{Low: 4, High: 6}}
		}, []string{"extract 5, planned 4 to 6"}},
	} {
		status := finished(c.state)
		c.change(&status)
		got := run(t, &fakeControl{Statuses: []control.Status{status}}, "status", "docs")
		contains(t, got.out, c.says...)
		assert.NotContains(t, got.out, "report.json", "no report is written yet, or it is not needed")
	}
}

func at(stage string, done, total int64, overall float64) control.Status {
	status := finished(core.StatusRunning)
	status.Stage, status.Overall, status.Rate, status.ETASeconds = stage, overall, 3, 0
	status.Tokens = core.Tokens{Prompt: 1, Completion: 2, Embedding: 3}
	status.Stages = []core.StageProgress{{Name: stage, Done: done, Total: total}}
	return status
}

func TestProgressIsOneLineAStage(t *testing.T) {
	retrying := at("embed", 1, 9, 0.9)
	retrying.Problems = []core.Problem{{
		Code: "model_unavailable", Object: "embed",
		Detail: "embed http://models:8000/v1/embeddings model small: connection refused (check it); it is tried again",
	}}
	retrying.Rate, retrying.Seconds, retrying.Cost, retrying.Currency = 0, 125, 0.5, "EUR"
	waiting := at("embed", 2, 9, 0.9)
	waiting.Status, waiting.Reason = core.StatusWaiting, "store_unavailable"
	since := time.Date(2026, 3, 1, 12, 3, 0, 0, time.Local)
	waiting.Waiting = &core.Waiting{Since: since, Next: since.Add(10 * time.Minute), Tries: 4}
	waiting.Stage = "embed, once more" // else it is a line of the same stage, too soon after the last
	paused := at("load", 0, 9, 0.95)
	paused.Status, paused.Reason = core.StatusPaused, "budget_spent"
	fake := &fakeControl{Statuses: []control.Status{
		{Report: core.Report{Status: core.StatusRunning}},
		at("plan", 1, 2, 0.01), at("plan", 2, 2, 0.02),
		at("extract", 40, 80, 0.5), retrying, waiting, paused,
	}}
	got := run(t, fake, "index", "--index", "docs", "--wait")
	want := `[........................]   1 %  plan     1/2 documents  3.0/s  0s so far  6 tokens
[############............]  50 %  extract  40/80 passages  3.0/s  0s so far  6 tokens
[#####################...]  90 %  embed    1/9 texts  -/s  2m5s so far  6 tokens  cost 0.5000 EUR  ` +
		`retrying: model_unavailable: embed http://models:8000/v1/embeddings model small: connection refused
[#####################...]  90 %  embed, once more 2/9 parts  3.0/s  0s so far  6 tokens  ` +
		`waiting for store_unavailable since 12:03, next attempt 12:13 (4 failed); unweaver resume retries now
[######################..]  95 %  load     0/9 parts  3.0/s  0s so far  6 tokens  paused: budget_spent
`
	assert.True(t, got.err == want && got.exit == console.ExitPaused, "exit %d\n%s", got.exit, got.err)
	fake.Looks = 0
	quiet := run(t, fake, "index", "--index", "docs", "--wait", "--json")
	lines(t, quiet.err) // of JSON, each
	assert.True(t, decoded(t, quiet.out)["status"] == core.StatusPaused, "the report: %s", quiet.out)
}

func TestProgressIsRedrawnOnATerminal(t *testing.T) {
	var out bytes.Buffer
	bar := show.Bar{Out: &out, Terminal: true}
	for _, status := range []control.Status{
		at("extract", 40, 80, 0.5), at("extract", 80, 80, 7), at("extract", 0, 80, -7),
	} {
		bar.ShowStatus(status)
	}
	bar.EndStatus()
	lines := strings.Split(out.String(), "\r\x1b[K")
	require.True(t, len(lines) == 5 && lines[0] == "" && lines[4] == "" && !strings.Contains(out.String(), "\n"),
		"%q", out.String())
	for i, want := range []string{" 50 %", "[########################] 100 %", "[........................]   0 %"} {
		assert.Contains(t, lines[i+1], want)
	}
}

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
	fake := &fakeControl{Statuses: []control.Status{dry}, Plan: planOf(added)}
	says(t, fake, "estimate --index docs --why a.md --out "+file, console.ExitDone,
		"added: 1 document, 4 passages, 4 of them new, 4 extractions", "a.md: added; 4 passages", "3 earlier generations")
	info, err := os.Stat(file)
	require.True(t, err == nil && info.Mode().Perm() == 0o600, "%v, %v", info, err)
	fake = &fakeControl{Statuses: []control.Status{dry}, Plan: planOf(added)}
	says(t, fake, "index --index docs --plan "+file, console.ExitDone)
	assert.Contains(t, fake.Asked, "index docs")
	moved := planOf(added, core.Planned{Document: "b.md", Reason: "removed"})
	fake = &fakeControl{Statuses: []control.Status{dry}, Plan: moved}
	says(t, fake, "index --index docs --plan "+file, console.ExitUsage, "b.md: removed, was as the parent has it")
	assert.NotContains(t, fake.Asked, "index docs")
	require.NoError(t, os.WriteFile(file, []byte(`{"format": 99}`), 0o600))
	says(t, fake, "index --index docs --plan "+file, console.ExitUsage, "format 99")
}

func TestWaitFollowsTheRunThatItStartedAndNoOtherOfItsName(t *testing.T) {
	c := &fakeControl{RunID: "r2", Statuses: []control.Status{{Report: core.Report{Status: core.StatusCompleted}}}}
	require.Zero(t, run(t, c, "index", t.TempDir(), "--index", "docs", "--wait").exit)
	assert.True(t, slices.Contains(c.Asked, "status docs/g1#r2"), "asked %q", c.Asked)
}

func TestALostRunIsDeclaredLostAndNotCancelled(t *testing.T) {
	for args, asked := range map[string]string{
		"cancel docs/g1 --lost": "lost docs/g1", "cancel docs/g1": "cancel docs/g1",
	} {
		c := &fakeControl{}
		says(t, c, args, console.ExitDone)
		assert.Equal(t, []string{asked}, c.Asked)
	}
}

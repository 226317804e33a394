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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/controltest"
	"github.com/unweaver/unweaver/starter/cli"
)

type fakeControl = controltest.Recorder

func last[T any](c *fakeControl) T { return controltest.Last[T](c) }

type result struct {
	exit     int
	out, err string
}

// in runs the command line in a folder of its own, with connect in place of what it would connect to.
func in(t *testing.T, connect cli.Connector, env []string, args ...string) result {
	var out, errs bytes.Buffer
	app := &cli.App{Out: &out, Err: &errs, Env: env, Connect: connect, Self: "/nonexistent/unweaver"}
	for _, variable := range env { // a script that stands for this program
		if path, ok := strings.CutPrefix(variable, self); ok {
			app.Self = path
		}
	}
	return result{app.Run(t.Context(), args), out.String(), errs.String()}
}

func withConnection(c control.Control, queries string) cli.Connector {
	return func(context.Context, *config.Config) (cli.Connection, error) {
		return cli.Connection{Control: c, HTTP: queries}, nil
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
			assert.True(t, got.exit == cli.ExitUsage && strings.Contains(got.err, tc.want) && len(fake.Asked) == 0,
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
		got := says(t, broken, args, cli.ExitUsage)
		assert.Equal(t, result{cli.ExitUsage, "", "unweaver: index docs: run docs/g0 builds it (wait for it)\n"}, got, args)
		as := decoded(t, says(t, broken, args+" --json", cli.ExitUsage).err)
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
		want := cli.ExitFailed
		if slices.Contains(refused, string(code)) {
			want = cli.ExitUsage
		}
		ended := code.At("resume run", "docs/g0").Because("it is so")
		says(t, &fakeControl{Err: fmt.Errorf("again: %w", ended)}, "resume docs", want)
		assert.Equal(t, want, new(config.Process).Exit(ended, io.Discard), "%s ends a server with", code)
	}
	got := run(t, &fakeControl{Err: fmt.Errorf("the wire broke")}, "status", "docs", "--json")
	as := decoded(t, got.err)
	assert.True(t, got.exit == cli.ExitFailed && as["code"] == "internal" && as["error"] == "the wire broke", "%+v", got)
}

func TestAFailureToCloseIsTold(t *testing.T) {
	t.Chdir(t.TempDir())
	closing := func(context.Context, *config.Config) (cli.Connection, error) {
		failed := func() error { return fault.StoreDown.At("close", "classes") }
		return cli.Connection{Control: &fakeControl{}, Close: failed}, nil
	}
	does(t, closing, "pause docs", cli.ExitFailed, "close classes")
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
	says(t, fake, "limit docs/g1 --concurrency 4 --requests-per-minute 0 --budget-calls 9", cli.ExitDone,
		"docs/g1: limit, concurrency 4, 0 requests a minute, with a budget of 9 calls\n")
	got := last[control.LimitRequest](fake)
	assert.True(t, got.Budget.Calls == 9 && *got.Limits.Concurrency == 4 && got.Limits.TokensPerMinute == nil, "%+v", got)
	for _, bad := range []string{"", "--concurrency 0", "--tokens-per-minute -1", "--budget-calls -1"} {
		says(t, &fakeControl{}, "limit docs/g1 "+bad, cli.ExitUsage)
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
			"docs: resume, with a budget of 7 tokens, 1.5 in money\n"},
		{" --budget-calls 0", &core.Budget{}, "docs: resume, with its earlier budget\n"},
	} {
		fake := &fakeControl{}
		assert.Equal(t, tc.text, says(t, fake, "resume docs"+tc.flags, cli.ExitDone).out)
		assert.Equal(t, tc.want, last[*core.Budget](fake), tc.flags)
		as := decoded(t, says(t, fake, "resume docs --json"+tc.flags, cli.ExitDone).out)
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
		assert.True(t, got.exit == cli.ExitDone && spec.Keep == c.keep && spec.Corpus == c.corpus, "%+v: %+v, keep %d of %s",
			c, got, spec.Keep, spec.Corpus)
	}
}

// evil holds what a terminal acts on: a title, a cleared screen, C1 as one byte and as a character, a turned direction.
const evil = "x\x1b]0;PWNED\a\x1b[2J\u009b31m\x9d\u202egpj.exe\u2066\x7f\rend"

// evilControl answers every question with it.
type evilControl struct{ control.Control }

func (evilControl) ReadStatus(context.Context, string) (control.Status, error) {
	var status control.Status
	status.Index, status.Generation, status.Status = "docs", "g1", core.StatusFailed
	status.Reason, status.Detail = "internal", evil
	status.Problems = []core.Problem{{Code: "unreadable_document", Object: evil, Detail: evil}}
	return status, nil
}

func (evilControl) ReadOverlay(context.Context, string) (control.Overlaid, error) {
	return control.Overlaid{}, nil
}
func (evilControl) PauseRun(context.Context, string) (control.Stopped, error) {
	return control.Stopped{}, fault.EngineDown.At("pause", evil).Because(evil).Advise(evil)
}
func (evilControl) RunDoctor(context.Context, core.Spec) ([]control.Check, error) {
	return []control.Check{{Name: "corpus", Detail: evil, Hint: evil}}, nil
}

func TestControlCharactersNeverReachATerminal(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		chunk := map[string]any{"id": "00", "document": evil, "title": evil, "text": evil, "score": 1}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"index": "docs", "generation": "g1", "chunks": []any{chunk}, "answer": map[string]any{"text": evil},
			"entities": []any{map[string]any{"id": "0", "name": evil}},
		})
	}))
	t.Cleanup(server.Close)
	connect := func(context.Context, *config.Config) (cli.Connection, error) {
		return cli.Connection{Control: evilControl{}, HTTP: server.URL}, nil
	}
	for _, args := range [][]string{
		{"status", "docs"}, {"pause", "docs"}, {"doctor"}, {"query", "who?", "--index", "docs"}, {"status", evil}, {evil},
		{"config", "show", "--config", evil},
	} {
		for _, format := range []string{"", "--json"} {
			var out, errs bytes.Buffer
			app := &cli.App{Out: &out, Err: &errs, Connect: connect}
			if format != "" {
				args = append(args[:len(args):len(args)], format)
			}
			app.Run(t.Context(), args)
			both := out.String() + errs.String()
			bad := strings.IndexAny(both, "\x1b\a\x7f\r\u009b\u202e\u2066")
			assert.True(t, bad < 0 && !strings.Contains(both, "\x9d"), "%q prints %q", args, both)
			assert.True(t, strings.Contains(both, "PWNED"), "%q did not come to print it: %.200s", args, both)
			assert.False(t, format != "" && out.Len() > 0 && !json.Valid(out.Bytes()), "%q, %s", args, out.String())
		}
	}
}

func TestOrdinaryTextIsPrintedAsItIs(t *testing.T) {
	var out bytes.Buffer
	writer := cli.Printable(&out)
	const text = "Größe\t日本語 🙂 naïve\n"
	for i := range len(text) { // also where a character comes in pieces
		n, err := writer.Write([]byte(text[i : i+1]))
		require.True(t, n == 1 && err == nil, "%v %v", n, err)
	}
	assert.True(t, out.String() == text, "%q", out.String())
}

// does runs a command line whose words have no blanks, and requires its exit and parts of what it prints.
func does(t *testing.T, connect cli.Connector, args string, exit int, parts ...string) result {
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

package cli_test

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/starter/cli"
)

var update = flag.Bool("update", false, "write docs/reference/cli.md again")

const referencePath = "../../docs/reference/cli.md"

const preamble = `# Command line

<!-- Made from starter/cli by: go test ./starter/cli -run Reference -update. Change it there. -->

Every command takes ` + "`--json`" + ` and then prints JSON; errors go to standard error as
` + "`{\"error\", \"code\", \"hint\"}`" + `. What waits for a run writes a [stream of events](#stream-of-events) then.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | failed |
| 2 | usage: a flag, a name that is none, a mistake in the configuration, a command that a run refuses as it stands |
| 3 | completed, and something failed or stands failed since an earlier run |
| 4 | not published: held by a gate. Mend what the report names, or raise the limit (gate, failures), then index again |
| 5 | paused: see ` + "`unweaver resume`" + ` |

A report shows unsettled calls: sent, and not answered before a process died, so that they may have been paid for.
They count against budgets, and are not in what it says was paid.

Where the stores are servers a command talks to Temporal and to them. Else it finds the embedded stack of its data
directory, or starts one for as long as it runs. Without ` + "`--config`" + ` and without an ` + "`unweaver.yaml`" + ` in
the folder it takes the configuration that the running ` + "`unweaver dev`" + ` was started with.

## Stream of events

With ` + "`--json`" + ` what happens to a run is shown as it happens, one JSON object a line, and at least one every ten
seconds while a stage runs: by ` + "`index --wait` and `restore`" + ` on standard error, while standard output gets the
report alone; by ` + "`status --watch`" + ` on standard output, with the report as its last line. Each event has
` + "`at` (RFC 3339) and `event`" + `; readers pass over events and fields that they do not know, and over what else stands
on standard error: ` + "`{\"note\"}`" + ` and the error.

| event | further fields |
| --- | --- |
| ` + "`run`" + ` | which run it is about: ` + "`run`, `run_id`, `attached`" + ` (it ran already). The first line |
| ` + "`started`" + ` | |
| ` + "`stage`" + ` | ` + "`stage`" + `, which begins |
| ` + "`progress`" + ` | ` + "`run`, `status`, `stage`, `done` of `total` (0: not known) in `unit`s, " +
	"`rate` (a second), `overall`" + ` (0 to 1), ` + "`eta_seconds` (0: not known), `seconds`, " +
	"`idle_seconds` (paused or waiting), `documents`, `chunks`, `classes`, `calls`, `tokens`, `cost`, " +
	"`currency`" + `. At most one a second |
| ` + "`problem`" + ` | ` + "`code`, `object`, `detail`" + `: each once |
| ` + "`waiting`" + ` | for an outage to end: ` + "`stage`, `code`, `detail`, `count`" + ` of tries that failed |
| ` + "`paused`" + ` | ` + "`stage`, `code`, `detail`" + ` |
| ` + "`resumed`" + ` | by a person |
| ` + "`ended`" + ` | ` + "`status`, `code`, `detail`" + ` |
| ` + "`report`" + ` | the whole report, as ` + "`status --json`" + ` prints it. The last line of ` +
	"`status --watch`" + ` |

` + "`started`, `stage`, `waiting`, `paused`, `resumed` and `ended`" + ` are in ` + "`report.json`" + ` too, as
` + "`events`; `retries`" + ` there shows what units failed with and were repeated for, by stage and code. The
time left goes by what was measured: the rest of the running stage by its own pace, by bytes where documents differ in
size; later stages by what they took when the generation before was built, else by the pace of extraction. Pauses,
waits and the time in which no process ran do not count.
`

func reference() string {
	var text strings.Builder
	text.WriteString(preamble)
	root := cli.Commands()
	text.WriteString("\n## Flags of every command\n" + block(root.PersistentFlags().FlagUsages()))
	var visit func(command *cobra.Command)
	visit = func(command *cobra.Command) {
		if command.Runnable() {
			about := command.Long
			if about == "" {
				about = command.Short + "."
			}
			fmt.Fprintf(&text, "\n## `%s`\n\n%s\n", command.UseLine(), listed(about))
			if command.Example != "" {
				text.WriteString("\n```sh\n" + dedented(command.Example) + "\n```\n")
			}
			text.WriteString(block(command.LocalNonPersistentFlags().FlagUsages()))
		}
		for _, below := range command.Commands() {
			visit(below)
		}
	}
	visit(root)
	return text.String()
}

// dedented takes the indentation of help off.
func dedented(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n  ", "\n"), "  ")
}

// listed makes the indented choices of help a block.
func listed(text string) string {
	var out strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		if indented := strings.HasPrefix(line, "  "); indented != inside {
			if inside = indented; inside {
				out.WriteString("```text\n")
			} else {
				out.WriteString("```\n")
			}
		}
		out.WriteString(line)
	}
	return out.String()
}

// block shows flags as --help does, or nothing where there are none.
func block(usages string) string {
	if usages == "" {
		return ""
	}
	return "\n```text\n" + usages + "```\n"
}

func TestTheReferenceIsMadeFromTheCommands(t *testing.T) {
	want := reference()
	if *update {
		require.NoError(t, os.WriteFile(referencePath, []byte(want), 0o644))
	}
	got, err := os.ReadFile(referencePath)
	assert.True(t, err == nil && string(got) == want,
		"%s is not what the commands say (%v): go test ./starter/cli -update", referencePath, err)
}

func TestEveryCommandSaysWhatItDoes(t *testing.T) {
	seen := 0
	for _, command := range cli.Commands().Commands() {
		assert.True(t, command.GroupID != "", "unweaver --help lists %s below no group", command.Name())
		if seen++; command.Short == "" || command.Args == nil && command.Runnable() {
			t.Errorf("%s: %q, arguments are checked: %t", command.Name(), command.Short, command.Args != nil)
		}
	}
	assert.True(t, seen >= 13, "%d commands", seen)
}

// A command takes its index in front of its other arguments, alone or with a generation, or as --index.
func TestAnIndexMayStandInFrontOfTheArguments(t *testing.T) {
	for _, args := range []string{
		"rollback docs g1", "rollback docs/g1", "rollback g1 --index docs", "rollback --index docs g1",
	} {
		c := &fakeControl{}
		if got := run(t, c, strings.Fields(args)...); got.exit != 0 || c.move.Index != "docs" || c.move.Generation != "g1" {
			t.Errorf("%s: %+v, %+v", args, got, c.move)
		}
	}
	asked := &queries{bodies: []string{`{"index":"docs","chunks":[]}`}}
	server := httptest.NewServer(asked)
	defer server.Close()
	if got := in(t, withConnection(&fakeControl{}, server.URL), nil, "query", "docs", "Who wove it?"); got.exit != 0 ||
		asked.paths[0] != "/v1/indexes/docs/query" || asked.asked[0]["query"] != "Who wove it?" {
		t.Errorf("query docs QUESTION: %+v", got)
	}
	for args, says := range map[string]string{
		"generations docs more": "want no argument, got 2", "operations": "no index is named",
		"publish docs": "want INDEX GEN, got docs alone", "tag docs g1": "want INDEX GEN NAME, got docs g1 alone",
		"dead-letters show kb": "want INDEX PASSAGE, got kb alone", "rollback": "no index is named",
	} {
		got := run(t, &fakeControl{}, strings.Fields(args)...)
		assert.True(t, got.exit == 2 && strings.Contains(got.err, says), "%s: %+v", args, got)
	}
}

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

	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/starter/cli"
)

var update = flag.Bool("update", false, "write docs/reference/cli.md again")

const referencePath = "../../docs/reference/cli.md"

const firstMade = "\n## Flags of every command\n"

func reference() string {
	var text strings.Builder
	root := cli.Commands()
	text.WriteString(firstMade + block(root.PersistentFlags().FlagUsages()))
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
	raw := musttest.Get(os.ReadFile(referencePath))(t)
	head, _, found := strings.Cut(string(raw), firstMade)
	require.True(t, found)
	want := head + reference()
	if *update {
		require.NoError(t, os.WriteFile(referencePath, []byte(want), 0o644))
	} else {
		assert.True(t, string(raw) == want, "%s is not what the commands say: go test ./starter/cli -update", referencePath)
	}
}

func TestEveryCommandSaysWhatItDoes(t *testing.T) {
	seen := 0
	for _, command := range cli.Commands().Commands() {
		seen++
		assert.True(t, command.GroupID != "", "unweaver --help lists %s below no group", command.Name())
		assert.True(t, command.Short != "" && (command.Args != nil || !command.Runnable()),
			"%s: %q, arguments are checked: %t", command.Name(), command.Short, command.Args != nil)
		for _, one := range append(command.Commands(), command) {
			assert.True(t, !one.Runnable() || strings.Contains(one.Example, "unweaver "+one.Name()) ||
				strings.Contains(one.Example, one.Parent().Name()+" "+one.Name()),
				"%s has no example that calls it: %q", one.CommandPath(), one.Example)
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

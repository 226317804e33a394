package cli_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/starter/cli"
)

var update = flag.Bool("update", false, "write docs/cli.md anew")

const referencePath = "../../docs/cli.md"

const preamble = `# Command line

<!-- Made from starter/cli by: go test ./starter/cli -run Reference -update. Change it there. -->

Every command takes ` + "`--json`" + ` and then prints JSON; errors go to standard error as
` + "`{\"error\", \"code\", \"hint\"}`" + `.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | failed |
| 2 | usage, or a mistake in the configuration |
| 3 | completed, and something failed or stands failed since an earlier run |
| 4 | not published: held by a gate. Mend what the report names, or raise the limit (gate, failures), then index again |
| 5 | paused: see ` + "`unweaver resume`" + ` |

A report tells of unsettled calls: sent, and not answered before a process died, so that they may have been paid for.
They count against budgets, and are not in what it says was paid.

Where the stores are servers a command talks to Temporal and to them. Else it finds the embedded stack of its data
directory, or starts one for as long as it runs.
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
			fmt.Fprintf(&text, "\n## `%s`\n\n%s\n", command.UseLine(), about)
			text.WriteString(block(command.LocalNonPersistentFlags().FlagUsages()))
		}
		for _, below := range command.Commands() {
			visit(below)
		}
	}
	visit(root)
	return text.String()
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
		if err := os.WriteFile(referencePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referencePath)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the commands say (%v): go test ./starter/cli -update", referencePath, err)
	}
}

func TestEveryCommandSaysWhatItDoes(t *testing.T) {
	seen := 0
	for _, command := range cli.Commands().Commands() {
		if seen++; command.Short == "" || command.Args == nil && command.Runnable() {
			t.Errorf("%s: %q, arguments are checked: %t", command.Name(), command.Short, command.Args != nil)
		}
	}
	if seen < 13 {
		t.Errorf("%d commands", seen)
	}
}

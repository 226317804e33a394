package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/starter/cli"
)

// An index is deleted once its name is typed or --yes is given; a dry run asks nothing and deletes nothing.
func TestDeleteAsksForTheName(t *testing.T) {
	for name, tc := range map[string]struct {
		typed string
		flags []string
		asked []string
		exit  int
	}{
		"typed":            {"docs\n", nil, []string{"delete docs true false", "delete docs false true"}, cli.ExitDone},
		"another name":     {"doc\n", nil, []string{"delete docs true false"}, cli.ExitUsage},
		"nothing":          {"", nil, []string{"delete docs true false"}, cli.ExitUsage},
		"a program":        {"docs\n", []string{"--json"}, []string{"delete docs true false"}, cli.ExitUsage},
		"confirmed":        {"", []string{"--yes"}, []string{"delete docs false true"}, cli.ExitDone},
		"confirmed, JSON":  {"", []string{"--yes", "--json"}, []string{"delete docs false true"}, cli.ExitDone},
		"a look":           {"docs\n", []string{"--dry-run"}, []string{"delete docs true false"}, cli.ExitDone},
		"a look, and sure": {"", []string{"--dry-run", "--yes"}, []string{"delete docs true false"}, cli.ExitDone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			fake := &fakeControl{}
			var out, errs bytes.Buffer
			app := &cli.App{In: strings.NewReader(tc.typed), Out: &out, Err: &errs, Connect: withConnection(fake, "")}
			exit := app.Run(t.Context(), append([]string{"delete", "docs", "--reason", "moved"}, tc.flags...))
			assert.Equal(t, tc.exit, exit, "%s%s", out.String(), errs.String())
			assert.Equal(t, tc.asked, fake.asked)
			assert.Equal(t, "moved", fake.operator.Reason)
			if len(tc.flags) == 0 {
				contains(t, out.String(), "docs would be deleted: 2 generations, 61 objects", "tagged generations release",
					"kept: the corpus")
			}
		})
	}
}

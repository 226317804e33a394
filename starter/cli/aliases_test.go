package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods/aliases"
	"github.com/unweaver/unweaver/starter/cli"
)

// What is suggested is a file that a configuration can name, whatever the names hold.
func TestSuggestedAliasesAreAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "aliases.txt")
	require.NoError(t, os.WriteFile(file, []byte("forbid Bern | Berne\n"), 0o600))
	fake := &fakeControl{aliases: core.AliasList{
		Index: "docs", Generation: "g1",
		Suggested: []core.SuggestedOne{
			{Name: "Alpha-Corp", Of: "Alpha\nCorp", Cosine: .5, Spelled: true},
			{Name: "A|B", Of: "A B", Cosine: .99, Spelled: true},
			{Name: "Bern canton", Of: "Bern", Cosine: .98},
			{Name: "IBM", Of: "I.B.M. Corp", Cosine: .96, Verdict: "same", Why: "a\nshort form"},
			{Name: "Salt lake", Of: "Salt Lake", Cosine: .95, Spelled: true, Verdict: "different", Why: "a city"},
			{Name: "Port 1", Of: "Port 2", Cosine: .97, Refused: aliases.WhyNumbers},
		},
		Searched: core.AliasSearch{Classes: 3, Of: 9},
	}}
	got := run(t, fake, "aliases", "suggest", "--index", "docs", "--set", "indexes.docs.aliases="+file)
	table, err := aliases.ReadTable([]byte(got.out))
	assert.True(t, err == nil && len(table) == 2 && table["ibm"] == "i.b.m. corp" && table["alpha-corp"] == "alpha corp",
		"%v, %v of %s%s", table, err, got.out, got.err)
	for _, part := range []string{
		"forbid Bern | Berne", "# cosine 0.500, the same letters\n", "# cosine 0.980: pin Bern canton | Bern",
		"# cosine 0.960, by the model the same (a short form)\npin IBM",
		"# cosine 0.950, the same letters, by the model not the same (a city): pin Salt lake | Salt Lake",
		"5 suggestions of docs/g1, of 3 of its 9 entities",
		"# refused, other numbers, cosine 0.970: pin Port 1 | Port 2",
	} {
		assert.Contains(t, got.out, part)
	}
	if asked := fake.aliasesAsked; !asked.Suggest || string(asked.File) != "forbid Bern | Berne\n" || asked.Classes < 2 {
		t.Errorf("asked %+v", asked)
	}
	assert.Equal(t, cli.ExitUsage, run(t, fake, "aliases", "suggest").exit, "without an index")
}

func TestMappedNamesAreShown(t *testing.T) {
	fake := &fakeControl{aliases: core.AliasList{Index: "docs", Generation: "g1", Aliases: []core.MappedName{
		{Name: "ibm", StandsFor: "international business machines"}, {Name: "nyc", StandsFor: "new york"},
	}, Decided: []core.SuggestedOne{{Name: "IBM", Of: "IBM Germany", Verdict: "different", Why: "a part"}}}}
	for name, want := range map[string]int{"": 2, "the IBM": 1, "International Business Machines": 1, "Bern": 0} {
		args := []string{"aliases", "show", "--index", "docs", "--json"}
		if name != "" {
			args = append(args, name)
		}
		got := run(t, fake, args...)
		shown := decoded(t, got.out)["aliases"].([]any)
		assert.True(t, len(shown) == want, "%q: %v", name, shown)
		_, reported := decoded(t, got.out)["decided"]
		assert.True(t, reported == (name == "" || name == "the IBM"), "%q: %s", name, got.out)
	}
	if got := run(t, fake, "aliases", "show", "--index", "docs"); !strings.Contains(got.out, "nyc") ||
		!strings.Contains(got.out, "docs/g1: 2 names") || !strings.Contains(got.out, "IBM Germany") || fake.aliasesAsked.Suggest {
		t.Errorf("%+v", got)
	}
	if got := run(t, fake, "aliases", "show", "Bern", "--index", "docs"); !strings.Contains(got.out, "is its own entity") {
		t.Errorf("a name that is not mapped: %+v", got)
	}
}

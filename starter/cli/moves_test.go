package cli_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/aliases"
	"github.com/unweaver/unweaver/starter/cli"
)

func TestWhatIsServedIsMovedAsItIsAskedFor(t *testing.T) {
	evening := time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		args string
		want control.MoveRequest
		says string
	}{
		{"rollback", control.MoveRequest{}, "docs now serves  (release 7); before: g2"},
		{"rollback g1", control.MoveRequest{Generation: "g1"}, "docs now serves g1 (release 7); before: g2"},
		{"rollback --to 2026-11-22T18:00:00Z", control.MoveRequest{To: evening}, ""},
		{"publish g3 --force", control.MoveRequest{Generation: "g3", Force: true}, "docs now serves g3"},
		{"discard g3", control.MoveRequest{Generation: "g3"}, "discarded g3"},
		{"tag g1 audit", control.MoveRequest{Generation: "g1", Name: "audit"}, "g1 has the tag audit"},
		{"untag g1 audit", control.MoveRequest{Generation: "g1", Name: "audit"}, "no longer has the tag audit"},
	} {
		c.want.Index, c.want.Action = "docs", strings.Fields(c.args)[0]
		fake := &fakeControl{}
		says(t, fake, c.args+" --index docs --by ada@desk --reason wrong", cli.ExitDone, c.says)
		assert.Equal(t, c.want, fake.move)
		assert.Equal(t, core.Operator{By: "ada@desk", Reason: "wrong"}, fake.operator)
	}
	same := &fakeControl{kept: []artifact.Generation{
		{Generation: "g1", ContentHash: "c"}, {Generation: "g2", ContentHash: "c"},
	}}
	says(t, same, "rollback docs g1", cli.ExitDone, "both have the same content")
	fake := &fakeControl{unchanged: true}
	says(t, fake, "rollback g1 --index docs", cli.ExitDone, "already serves g1: nothing to do")
	assert.Regexp(t, ".@.", fake.operator.By, "the operator by default")
	says(t, &fakeControl{}, "rollback --to yesterday --index docs", cli.ExitUsage)
	refused := &fakeControl{err: fault.GenCollected.At("rollback generation", "g1").Because("it was collected")}
	says(t, refused, "rollback g1 --index docs --json", cli.ExitUsage, `"generation_collected"`)
}

func TestTheTrailIsShownWithWhoAndWhy(t *testing.T) {
	at := time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)
	fake := &fakeControl{operations: []core.Operation{
		{
			ID: "2", At: at, Action: "publish", Index: "docs", From: "g1", To: "g2", Forced: true,
			Operator: core.Operator{By: "bob@web", Via: "key 1a2b3c4d", Reason: "meant to go"},
			Outcome:  &core.OperationOutcome{Result: "failed", Code: "pointer_moved"},
		},
		{ID: "1", At: at, Action: "pause", Index: "docs", Run: "docs/g2", Operator: core.Operator{By: "ada@desk"}},
		{
			ID: "0", At: at, Action: core.ActionLimit, Index: "docs", Run: "docs/g2", Change: "concurrency 8",
			Operator: core.Operator{By: "ada@desk"}, Outcome: &core.OperationOutcome{Result: core.OperationDone},
		},
	}}
	says(t, fake, "operations --index docs --limit 7", cli.ExitDone, "meant to go",
		"bob@web (key 1a2b3c4d): publish g2 (g1 was served), forced: failed (pointer_moved)",
		"ada@desk: pause docs/g2: no outcome is recorded", "ada@desk: limit docs/g2 (concurrency 8): done")
	assert.Equal(t, "operations docs 7", fake.asked[0])
	as := decoded(t, run(t, fake, "operations", "--index", "docs", "--json").out)
	list := as["operations"].([]any)
	assert.True(t, len(list) == 3 && list[0].(map[string]any)["by"] == "bob@web" &&
		list[1].(map[string]any)["outcome"] == nil, "%v", as)
	says(t, &fakeControl{}, "operations --index docs", cli.ExitDone, "no operation is recorded")
}

// Who meets a generation that was held after it was built sees what can be done with it; of a run that was held
// before, nothing can be asked or approved.
func TestAHeldRunSaysHowItIsApprovedOrDropped(t *testing.T) {
	held := finished(core.StatusHeld)
	held.Index, held.Generation, held.ContentHash, held.Reason = "docs", "g7", "ab", "failure_budget"
	says(t, &fakeControl{statuses: []control.Status{held}}, "status docs", cli.ExitHeld,
		"unweaver query docs \"...\" --generation g7", "unweaver diff docs g7", "unweaver publish docs g7",
		"unweaver discard docs g7")
	held.Reason = "mass_deletion"
	assert.NotContains(t, run(t, &fakeControl{statuses: []control.Status{held}}, "status", "docs").out, "publish g7")
}

func TestABranchIsMadeWithItsSettings(t *testing.T) {
	fake := &fakeControl{}
	says(t, fake, "branch docs --as exp --set shortening.threshold=900 --set indexes.exp.models.chat.model=large "+
		"--at g2 --by ada@desk --reason compare", cli.ExitDone, "exp begins with g2 of docs")
	assert.Equal(t, control.BranchRequest{
		Index: "docs", Name: "exp", Generation: "g2",
		Set: map[string]string{"shortening.threshold": "900", "models.chat.model": "large"},
	}, fake.branched)
	assert.Equal(t, "compare", fake.operator.Reason)
	says(t, fake, "branch docs --delete exp", cli.ExitDone, "exp is deleted")
	assert.True(t, fake.branched.Delete)
}

// What the store says of an index counts over the file, and what the file says as well is the file's.
func TestABuildTakesWhatTheStoreSaysOfItsIndex(t *testing.T) {
	file := filepath.Join(t.TempDir(), "unweaver.yaml")
	text := "indexes:\n  docs:\n    corpus: /corpus\n    keep: 7\n    shortening: {threshold: 900}\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	fake := &fakeControl{statuses: []control.Status{{}}, overlays: map[string]control.Overlaid{
		"exp": {Overlay: core.Overlay{Index: "exp", Base: "docs", Set: map[string]string{"shortening.sample": "32"}}},
		"docs": {Overlay: core.Overlay{
			Index: "docs", Set: map[string]string{"shortening.threshold": "900", "shortening.sample": "64"},
		}},
	}}
	run(t, fake, "estimate", "--index", "exp", "--config", file)
	spec := fake.request.Spec
	assert.True(t, spec.Index == "exp" && spec.Corpus == "/corpus" && spec.Keep == 7 && spec.Shortening.Threshold == 900 &&
		spec.Shortening.Sample == 32 && spec.Overlay["shortening.sample"] == "32", "the branch is estimated with %+v", spec)
	run(t, fake, "estimate", "--index", "docs", "--config", file)
	spec = fake.request.Spec
	assert.True(t, spec.Shortening.Sample == 64 && len(spec.Overlay) == 1 && spec.Overlay["shortening.sample"] == "64",
		"the base is estimated with %+v", spec)
}

func TestAPromotionSaysWhatToWriteIntoTheFile(t *testing.T) {
	fake := &fakeControl{}
	says(t, fake, "promote exp --reason better", cli.ExitDone, "indexes.exp.keep: 2")
	assert.True(t, fake.move.Action == core.ActionPromote && fake.move.Index == "exp", "%+v", fake.move)
}

func TestADifferenceIsShownWithTheQuestionsThatHaveOtherChunks(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var asked struct {
			Query, Generation string
			Answer            bool
		}
		err := json.NewDecoder(request.Body).Decode(&asked)
		assert.True(t, err == nil && !asked.Answer, "asked %+v, %v", asked, err)
		chunk := "c1"
		if asked.Query == "When?" && asked.Generation == "g2" {
			chunk = "c2"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"chunks": []map[string]string{{"id": chunk, "document": chunk + ".md"}}})
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "questions.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"question":"Who?"}`+"\n"+`{"question":"When?"}`+"\n"), 0o600))
	fake := &fakeControl{difference: core.Difference{
		Index: "docs", From: core.DifferenceSide{Generation: "g1", State: "current"},
		To:        core.DifferenceSide{Generation: "g2", State: "held", Counts: core.Counts{Documents: 9}},
		Documents: core.DocumentDifference{Moved: 1, Listed: []core.Change{{Change: "moved", Object: "b", From: "a"}}},
		Classes:   core.ClassDifference{Born: 7, Listed: []core.Change{{Change: "born", Object: "Tolmin"}}},
	}}
	got := in(t, withConnection(fake, server.URL), nil, "diff", "g2", "--index", "docs", "--questions", file)
	for _, part := range []string{
		"docs: g1 (current) → g2 (held)", "0 → 9: 0 added, 0 changed, 1 moved", "b, was a", "7 added", "born     Tolmin",
		"of 2 questions, 1 return different passages first", "When?", "before: c1.md", "after:  c2.md",
	} {
		assert.True(t, strings.Contains(got.out, part), "%q is not in %s%s", part, got.out, got.err)
	}
	assert.True(t, !strings.Contains(got.out, "Who?") && fake.asked[0] == "diff docs  g2", "%s, %v", got.out, fake.asked)
	got = run(t, fake, "diff", "g1", "g2", "--index", "docs", "--json")
	assert.True(t, fake.asked[1] == "diff docs g1 g2" && decoded(t, got.out)["classes"].(map[string]any)["born"] == 7.0,
		"%+v", got)
	assert.Equal(t, cli.ExitUsage, run(t, fake, "diff", "--index", "docs", "--questions", file+".none").exit)
}

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
		"5 suggestions of docs/g1, of 3 of its 9 entities", "# refused, other numbers, cosine 0.970: pin Port 1 | Port 2",
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
		shown := decoded(t, run(t, fake, args...).out)
		assert.Len(t, shown["aliases"], want, name)
		_, reported := shown["decided"]
		assert.Equal(t, name == "" || name == "the IBM", reported, name)
	}
	says(t, fake, "aliases show --index docs", cli.ExitDone, "nyc", "docs/g1: 2 names", "IBM Germany")
	assert.False(t, fake.aliasesAsked.Suggest)
	says(t, fake, "aliases show Bern --index docs", cli.ExitDone, "is its own entity")
}

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

package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/aliases"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/starter/cli/console"
)

func TestWhatIsServedIsMovedAsItIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		args string
		want control.MoveRequest
		says string
	}{
		{"rollback", control.MoveRequest{}, "docs now serves  (release 7); before: g2"},
		{"rollback g1", control.MoveRequest{Generation: "g1"}, "docs now serves g1 (release 7); before: g2"},
		{"publish g3 --force", control.MoveRequest{Generation: "g3", Force: true}, "docs now serves g3"},
		{"discard g3", control.MoveRequest{Generation: "g3"}, "discarded g3"},
		{"tag g1 audit", control.MoveRequest{Generation: "g1", Name: "audit"}, "g1 has the tag audit"},
		{"untag g1 audit", control.MoveRequest{Generation: "g1", Name: "audit"}, "no longer has the tag audit"},
	} {
		c.want.Index, c.want.Action = "docs", strings.Fields(c.args)[0]
		fake := &fakeControl{}
		says(t, fake, c.args+" --index docs --by ada@desk --reason wrong", console.ExitDone, c.says)
		assert.Equal(t, c.want, last[control.MoveRequest](fake))
		assert.Equal(t, core.Operator{By: "ada@desk", Reason: "wrong"}, fake.By)
	}
	same := &fakeControl{Kept: []artifact.Generation{
		{Generation: "g1", ContentHash: "c"}, {Generation: "g2", ContentHash: "c"},
	}}
	says(t, same, "rollback docs g1", console.ExitDone, "both have the same content")
	fake := &fakeControl{Unchanged: true}
	says(t, fake, "rollback g1 --index docs", console.ExitDone, "already serves g1: nothing to do")
	assert.Regexp(t, ".@.", fake.By.By, "the operator by default")
	refused := &fakeControl{Err: fault.GenCollected.At("rollback generation", "g1").Because("it was collected")}
	says(t, refused, "rollback g1 --index docs --json", console.ExitUsage, `"generation_collected"`)
}

func TestTheTrailIsShownWithWhoAndWhy(t *testing.T) {
	at := time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)
	fake := &fakeControl{Operations: []core.Operation{
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
	says(t, fake, "operations --index docs --limit 7", console.ExitDone, "meant to go",
		"bob@web (key 1a2b3c4d): publish g2 (g1 was served), forced: failed (pointer_moved)",
		"ada@desk: pause docs/g2: no outcome is recorded", "ada@desk: limit docs/g2 (concurrency 8): done")
	assert.Equal(t, "operations docs 7", fake.Asked[0])
	as := decoded(t, run(t, fake, "operations", "--index", "docs", "--json").out)
	list := as["operations"].([]any)
	assert.True(t, len(list) == 3 && list[0].(map[string]any)["by"] == "bob@web" &&
		list[1].(map[string]any)["outcome"] == nil, "%v", as)
	says(t, &fakeControl{}, "operations --index docs", console.ExitDone, "no operation is recorded")
}

// Who meets a generation that was held after it was built sees what can be done with it; of a run that was held
// before, nothing can be asked or approved.
func TestAHeldRunSaysHowItIsApprovedOrDropped(t *testing.T) {
	held := finished(core.StatusHeld)
	held.Index, held.Generation, held.ContentHash, held.Reason = "docs", "g7", "ab", "failure_budget"
	says(t, &fakeControl{Statuses: []control.Status{held}}, "status docs", console.ExitHeld,
		"unweaver query docs \"...\" --generation g7", "unweaver diff docs g7", "unweaver publish docs g7",
		"unweaver discard docs g7")
	held.Reason = "mass_deletion"
	assert.NotContains(t, run(t, &fakeControl{Statuses: []control.Status{held}}, "status", "docs").out, "publish g7")
}

func TestABranchIsMadeWithItsSettings(t *testing.T) {
	fake := &fakeControl{}
	says(t, fake, "branch docs --as exp --set shortening.threshold=900 --set indexes.exp.models.chat.model=large "+
		"--at g2 --by ada@desk --reason compare", console.ExitDone, "exp begins with g2 of docs")
	assert.Equal(t, control.BranchRequest{
		Index: "docs", Name: "exp", Generation: "g2",
		Set: map[string]string{"shortening.threshold": "900", "models.chat.model": "large"},
	}, last[control.BranchRequest](fake))
	assert.Equal(t, "compare", fake.By.Reason)
	says(t, fake, "branch docs --as exp --set corpus=other", console.ExitDone)
	assert.Equal(t, musttest.Get(filepath.Abs("other"))(t), last[control.BranchRequest](fake).Set["corpus"])
	says(t, fake, "branch docs --delete exp", console.ExitDone, "exp is deleted")
	assert.True(t, last[control.BranchRequest](fake).Delete)
}

func TestQuestionsAreKeptAsTheyAreAsked(t *testing.T) {
	fake := &fakeControl{Watched: []core.Question{{ID: "7c", Question: "Who?", Labels: []string{"hr"}}}}
	says(t, fake, "watch add --index docs Who? When? --labels hr --notify legal", console.ExitDone, "kept: 2 standing questions")
	like := core.Question{Question: "Who?", Labels: []string{"hr"}, Notify: "legal"}
	when := like
	when.Question = "When?"
	assert.Equal(t, []core.Question{like, when}, last[control.WatchRequest](fake).Add)
	says(t, fake, "watch list --index docs", console.ExitDone, "7c  hr              Who?")
	says(t, fake, "watch remove --index docs 7c", console.ExitDone, "removed")
	assert.Equal(t, "7c", last[control.WatchRequest](fake).Remove)
	says(t, fake, "watch add --index docs", console.ExitUsage, "a QUESTION")
	changed := core.WatchedChange{Question: core.Question{Question: "Who?"}}
	changed.Before.Passages = []core.Citation{{Document: "a.md"}, {Document: "a.md"}, {Document: "b.md"}}
	report := core.Report{Watched: &core.Watched{Questions: 3, Changed: 1, Since: "g1", Listed: []core.WatchedChange{changed}}}
	out := run(t, &fakeControl{Statuses: []control.Status{{Report: report}}}, "status", "docs").out
	for _, part := range []string{"1 of 3 standing questions changed; compared with g1", "before: a.md, b.md\n", "ranks moved"} {
		assert.Contains(t, out, part)
	}
}

// What the store says of an index counts over the file, and what the file says as well is the file's.
func TestABuildTakesWhatTheStoreSaysOfItsIndex(t *testing.T) {
	file := filepath.Join(t.TempDir(), "unweaver.yaml")
	text := "indexes:\n  docs:\n    corpus: /corpus\n    keep: 7\n    shortening: {threshold: 900}\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	fake := &fakeControl{Statuses: []control.Status{{}}, Overlays: map[string]control.Overlaid{
		"exp": {Overlay: core.Overlay{Index: "exp", Base: "docs", Set: map[string]string{"shortening.sample": "32"}}},
		"docs": {Overlay: core.Overlay{
			Index: "docs", Set: map[string]string{"shortening.threshold": "900", "shortening.sample": "64"},
		}},
	}}
	run(t, fake, "estimate", "--index", "exp", "--config", file)
	spec := last[control.IndexRequest](fake).Spec
	assert.True(t, spec.Index == "exp" && spec.Corpus == "/corpus" && spec.Keep == 7 && spec.Shortening.Threshold == 900 &&
		spec.Shortening.Sample == 32 && spec.Overlay["shortening.sample"] == "32", "the branch is estimated with %+v", spec)
	run(t, fake, "estimate", "--index", "docs", "--config", file)
	spec = last[control.IndexRequest](fake).Spec
	assert.True(t, spec.Shortening.Sample == 64 && len(spec.Overlay) == 1 && spec.Overlay["shortening.sample"] == "64",
		"the base is estimated with %+v", spec)
}

func TestAPromotionSaysWhatToWriteIntoTheFile(t *testing.T) {
	fake := &fakeControl{}
	says(t, fake, "promote exp --reason better", console.ExitDone, "indexes.exp.keep: 2")
	move := last[control.MoveRequest](fake)
	assert.True(t, move.Action == core.ActionPromote && move.Index == "exp", "%+v", move)
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
	fake := &fakeControl{Difference: core.Difference{
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
	assert.True(t, !strings.Contains(got.out, "Who?") && fake.Asked[0] == "diff docs  g2", "%s, %v", got.out, fake.Asked)
	got = run(t, fake, "diff", "g1", "g2", "--index", "docs", "--json")
	assert.True(t, fake.Asked[1] == "diff docs g1 g2" && decoded(t, got.out)["classes"].(map[string]any)["born"] == 7.0,
		"%+v", got)
	assert.Equal(t, console.ExitUsage, run(t, fake, "diff", "--index", "docs", "--questions", file+".none").exit)
}

func TestTheNightThatTookADocumentAwayIsShown(t *testing.T) {
	served := &queries{bodies: []string{`{"index":"docs","good":{"generation":"g1","rank":2,"top":5},
"bad":{"generation":"g2"},"causes":[{"text":"document a.md was added; without this, rank 2","confirmed":true},{"text":"weights"}],
"ranking":[{"document":"m.md","before":2,"after":0,"expected":true,"change":"same"}],
"notices":["g0 was skipped"],"questions":5,"tokens":7}`}}
	server := httptest.NewServer(served)
	defer server.Close()
	args := []string{"bisect", "docs", "Who?", "--expect", "m.md", "--to", "g9", "--top", "5"}
	got := in(t, withConnection(&fakeControl{}, server.URL), nil, args...)
	for _, part := range []string{
		"g1 returns m.md at rank 2 of 5\ng2 does not", "✓ document a.md was added; without this, rank 2\n", "  weights",
		"2       -      m.md        same ←", "unweaver diff docs g1 g2\n", "note: g0 was skipped", "5 questions, 7 tokens",
	} {
		assert.Contains(t, got.out, part, got.err)
	}
	assert.Equal(t, map[string]any{"query": "Who?", "expect": "m.md", "to": "g9", "top_chunks": 5.0}, served.asked[0])
	assert.Equal(t, "/v1/indexes/docs/bisect", served.paths[0])
	got = in(t, withConnection(&fakeControl{}, server.URL), nil, append(args, "--json")...)
	assert.Equal(t, 5.0, decoded(t, got.out)["questions"])
	assert.Equal(t, console.ExitUsage, run(t, &fakeControl{}, "bisect", "docs", "Who?").exit, "nothing is expected")
}

// What is suggested is a file that a configuration can name, whatever the names hold.
func TestSuggestedAliasesAreAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "aliases.txt")
	require.NoError(t, os.WriteFile(file, []byte("forbid Bern | Berne\n"), 0o600))
	fake := &fakeControl{Aliases: core.AliasList{
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
	asked := last[control.AliasesRequest](fake)
	assert.True(t, asked.Suggest && string(asked.File) == "forbid Bern | Berne\n" && asked.Classes >= 2, "%+v", asked)
	assert.Equal(t, console.ExitUsage, run(t, fake, "aliases", "suggest").exit, "without an index")
}

func TestMappedNamesAreShown(t *testing.T) {
	fake := &fakeControl{Aliases: core.AliasList{Index: "docs", Generation: "g1", Aliases: []core.MappedName{
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
	says(t, fake, "aliases show --index docs", console.ExitDone, "nyc", "docs/g1: 2 names", "IBM Germany")
	assert.False(t, last[control.AliasesRequest](fake).Suggest)
	says(t, fake, "aliases show Bern --index docs", console.ExitDone, "is its own entity")
}

// An index is deleted only with --yes; without it, and in a dry run, the command shows what would go.
func TestDeleteRequiresConfirmation(t *testing.T) {
	for flags, tc := range map[string]struct {
		asked string
		exit  int
	}{
		"":                 {"delete docs true false", console.ExitUsage},
		" --json":          {"delete docs true false", console.ExitUsage},
		" --yes":           {"delete docs false true", console.ExitDone},
		" --dry-run":       {"delete docs true false", console.ExitDone},
		" --dry-run --yes": {"delete docs true false", console.ExitDone},
	} {
		fake := &fakeControl{}
		got := says(t, fake, "delete docs --reason moved"+flags, tc.exit)
		assert.Equal(t, []string{tc.asked}, fake.Asked, flags)
		assert.Equal(t, "moved", fake.By.Reason)
		if flags == "" {
			contains(t, got.out, "docs would be deleted: 2 generations, 61 objects", "tagged generations release",
				"kept: the corpus")
		}
	}
}

func TestDeadLettersAreListedAndShown(t *testing.T) {
	fake := &fakeControl{Letters: []core.Letter{
		{
			Chunk: "aa", Document: "a.md", Ordinal: 3, Reason: "bad_model_output", Kind: "content", Attempts: 2,
			Raw: "Sorry,\nno.", Text: "Tin.",
		},
		{
			Chunk: "bb", Document: "b.md", Reason: "model_refused", Kind: "system", Attempts: 1,
			Discarded: &core.Discarded{At: time.Unix(0, 0).UTC(), Why: "a table"},
		},
	}}
	got := says(t, fake, "dead-letters list --index docs", console.ExitDone,
		"aa  content bad_model_output   2 attempts a.md, passage 3\n", "1 dead letter, and 1 discarded (--all shows them)")
	assert.NotContains(t, got.out, "bb")
	says(t, fake, "dead-letters list --index docs --all", console.ExitDone, "b.md, passage 0  discarded 1970-01-01: a table")
	says(t, fake, "dead-letters show aa --index docs", console.ExitDone,
		"the last answer:\n  Sorry,\n  no.\nthe passage:\n  Tin.\n")
	for _, args := range []string{"list", "show aa", "replay", "discard aa"} {
		says(t, fake, "dead-letters "+args, console.ExitUsage, "add --index NAME")
	}
}

func TestWhatFailedIsAskedForAgain(t *testing.T) {
	fake := &fakeControl{Retried: control.Run{Run: "docs/retry-1"}}
	for args, asked := range map[string]string{
		"retry-failed docs/g1":                           "retry-failed docs/g1 []",
		"retry-failed docs":                              "retry-failed docs []",
		"dead-letters replay aa bb --index docs":         "retry-failed docs [aa bb]",
		"dead-letters discard aa --index docs --why old": "discard docs [aa] old",
	} {
		fake.Asked = nil
		says(t, fake, args, console.ExitDone)
		assert.Equal(t, []string{asked}, fake.Asked)
	}
	says(t, &fakeControl{}, "retry-failed docs", console.ExitDone, "docs: no failed passage")
	fake.Retried.Attached, fake.Statuses = true, []control.Status{finished(core.StatusCompleted)}
	contains(t, run(t, fake, "retry-failed", "docs").out, "docs/retry-1 is already running; to")
	contains(t, run(t, fake, "retry-failed", "docs", "--wait").err, "docs/retry-1 is already running; waiting for it")
}

// queued refuses to begin a run until the status of the index was seen so often.
type queued struct {
	fakeControl
	until int
}

func (q *queued) refused(what string) error {
	if q.Looks < q.until {
		return fault.LeaseHeld.At(what, "docs").Because("another run builds it")
	}
	return nil
}

func (q *queued) BuildIndex(ctx context.Context, r control.IndexRequest) (control.Run, error) {
	run, err := q.fakeControl.BuildIndex(ctx, r)
	return run, errors.Join(err, q.refused("index"))
}
func (q *queued) RetryFailed(ctx context.Context, r control.LettersRequest) (control.Run, error) {
	run, err := q.fakeControl.RetryFailed(ctx, r)
	return run, errors.Join(err, q.refused("ask again"))
}
func (q *queued) PurgeDocuments(ctx context.Context, r control.PurgeRequest) (control.PurgeAnswer, error) {
	answer, err := q.fakeControl.PurgeDocuments(ctx, r)
	return answer, errors.Join(err, q.refused("purge"))
}

// A build begins after a round of retry-failed or a purge where the command waits for the end, too; a round and a purge
// begin after any run. What stands still is not waited for.
func TestABuildAndARoundBeginInTurnWhereTheyWait(t *testing.T) {
	at := func(run, status string) control.Status {
		out := finished(status)
		out.Run = run
		return out
	}
	done := at("docs/g1", core.StatusCompleted)
	for _, c := range []struct {
		args     string
		statuses []control.Status
		until    int
		exit     int
		asked    int // for a run
		says     string
	}{
		{"index --index docs --wait", []control.Status{
			at("docs/retry-1", core.StatusRunning), at("docs/retry-1", core.StatusWaiting),
			at("docs/retry-1", core.StatusCompleted), done,
		}, 3, console.ExitDone, 2, "docs/retry-1 runs: this command waits"},
		{"index --index docs --wait", []control.Status{
			at("docs/purge-1", core.StatusRunning), at("docs/purge-1", core.StatusFailed), done,
		}, 2, console.ExitDone, 2, "docs/purge-1 runs"},
		{"index --index docs", []control.Status{at("docs/retry-1", core.StatusRunning)}, 9, console.ExitUsage, 1, "builds it"},
		{"index --index docs --wait", []control.Status{at("docs/g9", core.StatusRunning)}, 9, console.ExitUsage, 1, "builds it"},
		{"index --index docs --rebuild --wait", []control.Status{
			at("docs/g9", core.StatusRunning), at("docs/g9", core.StatusCompleted),
		}, 2, console.ExitDone, 2, "docs/g9 runs: this command waits"},
		{"index --index docs --wait --generation g1", []control.Status{at("docs/retry-1", core.StatusRunning)}, 9,
			console.ExitUsage, 1, "builds it"},
		{"index --index docs --wait", []control.Status{
			at("docs/retry-1", core.StatusRunning), at("docs/retry-1", core.StatusPaused),
		}, 9, console.ExitUsage, 2, "builds it"},
		{"index --index docs --wait", []control.Status{at("docs/retry-1", core.StatusCompleted), done}, 1, console.ExitDone, 2, ""},
		{"index --index docs --wait", []control.Status{at("docs/retry-1", core.StatusCompleted)}, 9, console.ExitUsage, 2,
			"builds it"},
		{"retry-failed docs/g1 --wait", []control.Status{
			at("docs/g9", core.StatusRunning), at("docs/g9", core.StatusCompleted), at("docs/retry-2", core.StatusCompleted),
		}, 2, console.ExitDone, 2, "docs/g9 runs"},
		{"purge a.md --index docs --yes --wait", []control.Status{
			at("docs/purge-1", core.StatusRunning), at("docs/purge-1", core.StatusCompleted),
		}, 2, console.ExitDone, 2, "docs/purge-1 runs"},
		{"purge a.md --index docs --yes", []control.Status{at("docs/purge-1", core.StatusRunning)}, 9, console.ExitUsage, 1,
			"builds it"},
		{"retry-failed docs", []control.Status{at("docs/g9", core.StatusRunning)}, 9, console.ExitUsage, 1, "builds it"},
	} {
		fake := &queued{until: c.until}
		fake.Statuses, fake.Retried = c.statuses, control.Run{Run: "docs/retry-2"}
		fake.Purging.Purge = &core.Purge{ID: "p1", Ended: time.Unix(0, 0)} // an earlier one did what is asked for
		t.Chdir(t.TempDir())
		got := in(t, withConnection(fake, ""), nil, strings.Fields(c.args)...)
		asked := len(slices.DeleteFunc(fake.Asked, func(what string) bool { return strings.HasPrefix(what, "status ") }))
		assert.True(t, got.exit == c.exit && asked == c.asked && strings.Contains(got.err, c.says),
			"%s: exit %d after %d times\n%s%s", c.args, got.exit, asked, got.out, got.err)
	}
}

func purgeOf() control.PurgeAnswer {
	digest := core.PurgedKey("docs", "a.md")
	return control.PurgeAnswer{
		Plan: core.PurgePlan{
			Index: "docs", Documents: []core.PurgeDocument{{Key: "a.md", Digest: digest, Known: true, Chunks: 3}},
			Current: "g2", Classes: 7, Shortenings: 1, Entries: map[string]int64{"extract": 3, "embed": 10},
			Drops: []core.PurgeGeneration{
				{Generation: "g2", State: "published", Current: true}, {Generation: "g1", State: "published", Tags: []string{"may"}},
			},
			Probes: []string{"s3://a/probes.jsonl"},
		},
		Purge: &core.Purge{ID: "p1", Documents: []core.Digest{digest}},
		Run:   &control.Run{Run: "docs/purge-1"},
	}
}

// Nothing is purged before somebody saw what goes, and confirmed it.
func TestAPurgeTellsWhatGoesAndWantsToBeConfirmed(t *testing.T) {
	c := &fakeControl{Purging: purgeOf()}
	says(t, c, "purge docs/a.md b.md --yes", console.ExitUsage)
	assert.Empty(t, c.Asked, "keys without an index")
	for _, one := range []struct {
		args, asked string
		exit        int
		says        []string
	}{
		{"purge docs a.md", "purge docs [a.md] false true false", console.ExitUsage, []string{
			"a.md", "3 passages", "at most 7 entity texts", "13 entries", "g1 (published, tagged may)",
			"g2 (published; served until", "s3://a/probes.jsonl", "--yes",
		}},
		{"purge a.md --index docs --dry-run --yes --json", "purge docs [a.md] false true true", console.ExitDone,
			[]string{`"drops"`}},
		{"purge a.md b.jsonl#7 --index docs --yes --allow-return", "purge docs [a.md b.jsonl#7] true false true", console.ExitDone,
			[]string{"docs/purge-1 started"}},
	} {
		c = &fakeControl{Purging: purgeOf()}
		says(t, c, one.args, one.exit, one.says...)
		assert.Equal(t, []string{one.asked}, c.Asked)
	}
}

// A purge that is done exits 0 whatever stands failed from other runs; of an object with rows the plan names these.
func TestAPurgeThatIsDoneSucceeds(t *testing.T) {
	purging := purgeOf()
	purging.Plan.Documents[0] = core.PurgeDocument{Key: "a.json", Rows: []string{"a.json#1", "a.json#2"}}
	for state, exit := range map[string]int{core.PurgeDone: 0, core.PurgePending: 1} {
		c := &fakeControl{Purging: purging, Purges: control.PurgesAnswer{Purges: []core.Purge{{ID: "p1", State: state}}}}
		c.Statuses = []control.Status{{Report: core.Report{Status: core.StatusErrors, Seconds: 38.5, IdleSeconds: 27.5}}}
		got := run(t, c, "purge", "docs", "a.md", "--yes", "--wait")
		assert.True(t, (got.exit == 0) == (exit == 0), "%s: exit %d, %s", state, got.exit, got.err)
		assert.Contains(t, got.out, "such as a.json#1, a.json#2")
		assert.Contains(t, got.out, "  11.0 s")
	}
}

// How purges stand says what is left to be done.
func TestPurgesTellWhatIsLeft(t *testing.T) {
	digest := core.PurgedKey("docs", "a.md")
	c := &fakeControl{Purges: control.PurgesAnswer{Purges: []core.Purge{{
		ID: "p1", State: core.PurgePending, Documents: []core.Digest{digest}, Left: []string{"wait for a reader"},
		Gone: core.Purged{Generations: 2, Ledger: 4}, Shared: 1, Ended: time.Time{},
	}}}}
	contains(t, run(t, c, "purge", "list", "docs").out, "p1 pending: "+digest.Short(16), "2 generations",
		"4 ledger entries", "1 ledger entry", "unfinished: wait for a reader")
	says(t, c, "purge list --index docs --readmit a.md", console.ExitDone, "may be indexed again")
	assert.Equal(t, "purges docs [a.md]", c.Asked[1])
}

func TestABackfillIsAskedForWithItsChoiceAndThrottle(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys.txt")
	require.NoError(t, os.WriteFile(keys, []byte("a.md\r\nb c.md\n\nrows.jsonl#7\n"), 0o600))
	fake := &fakeControl{}
	says(t, fake, "backfill start old --index docs --prefix 2019/ --from 2026-03-01 --to 2026-06-01T02:00:00+02:00 "+
		"--concurrency 4 --calls-per-minute 30 --documents "+keys, console.ExitDone)
	day := func(month time.Month) time.Time { return time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC) }
	want := core.BackfillChoice{
		Prefix: "2019/", From: day(3), To: day(6), Documents: []string{"a.md", "b c.md", "rows.jsonl#7"},
	}
	got := last[control.BackfillRequest](fake)
	assert.True(t, got.Choice.Equal(want) && got.Name == "old" &&
		got.Throttle == (core.BackfillThrottle{Concurrency: 4, CallsPerMinute: 30}), "%+v", got)
	fake.Attached = true
	says(t, fake, "backfill start old --index docs", console.ExitDone, "is already running; nothing changed")
	for _, bad := range []string{"--prefix a", "--index docs --from yesterday", "--index docs --documents " + keys + ".none"} {
		says(t, fake, "backfill start old "+bad, console.ExitUsage)
	}
}

func TestABackfillIsShownAndSteered(t *testing.T) {
	one := core.Backfill{Index: "docs", Name: "old", Choice: core.BackfillChoice{Prefix: "2019/"}}
	one.Status, one.Base, one.Generation, one.Parent, one.Rebased = core.StatusCompleted, "g1", "g3", "g2", true
	one.Builds = []core.BackfillBuild{
		{Run: "docs/b-1", Parent: "g1", Why: "yielded"}, {Run: "docs/b-2", Parent: "g2"},
	}
	one.Documents, one.Progress, one.ChunksDone = 40, 1, 55
	fake := &fakeControl{Backfills: []core.Backfill{one}}
	says(t, fake, "backfill status old --index docs", console.ExitDone, "backfill old of docs: completed", "prefix 2019/",
		"40 documents", "docs/b-1 on g1; failed: yielded", "published: g3, on g2 (rebased: it began on g1)")
	says(t, fake, "backfill list --index docs --json", console.ExitDone, `"rebased"`)
	fake.Asked = nil
	for _, command := range []string{"pause", "resume", "cancel"} {
		says(t, fake, "backfill "+command+" old --index docs", console.ExitDone)
	}
	want := []string{"backfill-pause docs/old", "backfill-resume docs/old", "backfill-cancel docs/old"}
	assert.Equal(t, want, fake.Asked)
	run(t, fake, "backfill", "resume", "old", "--index", "docs", "--budget-calls", "500")
	assert.Equal(t, &core.Budget{Calls: 500}, last[control.BackfillNamed](fake).Budget)
	fake.Backfills[0].Status = core.StatusPaused
	says(t, fake, "backfill status old --index docs --wait", console.ExitPaused)
}

func TestSchedulesAreAppliedFromTheConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nightly.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(`indexes:
  docs: { corpus: ./docs, schedule: { cron: "0 3 * * *", timezone: Europe/Berlin } }
  more: { corpus: ./more, schedule: { cron: "@weekly" } }
  none: { corpus: ./none }
`)
	fake := &fakeControl{}
	says(t, fake, "schedule apply -f "+file, console.ExitDone, "docs: created")
	want := []string{"schedule-apply docs 0 3 * * * Europe/Berlin", "schedule-apply more @weekly UTC"}
	assert.Equal(t, want, fake.Asked)
	says(t, fake, "schedule apply --index none -f "+file, console.ExitUsage, "indexes.none.schedule.cron is not set")
	write("indexes:\n  docs:\n    corpus: ./docs\n    schedule:\n      cron: 0 25 * * *\n      timezone: Mars/Olympus\n")
	says(t, fake, "schedule apply -f "+file, console.ExitUsage, ":5:", ":6:", `"25"`, "Mars/Olympus")
	assert.Equal(t, want, fake.Asked)
}

func TestSchedulesAreShownAndSteered(t *testing.T) {
	at := time.Date(2026, 11, 22, 2, 0, 0, 0, time.UTC)
	fake := &fakeControl{Triggered: control.Triggered{Running: "docs/g7"}, Schedules: []control.Scheduled{{
		Index: "docs", Timezone: "UTC", Next: []time.Time{at.Add(24 * time.Hour)}, Missed: 2, Overlapped: 1,
		Nights: []control.NightRun{
			{Due: at, Status: "skipped", Reason: "another_run", By: "docs/g7"},
			{Due: at.Add(-time.Hour), Status: "failed", Reason: "lease_held"},
		},
	}}}
	says(t, fake, "schedule list", console.ExitDone, "docs  next 2026-11-23 02:00 UTC",
		"2026-11-22 02:00  skipped: run docs/g7 was building it", "2026-11-22 01:00  failed: lease_held",
		"skipped: 2 missed by more than catchup, 1 because the")
	for args, c := range map[string]struct{ asked, says string }{
		"pause docs --reason holidays": {"schedule-pause docs holidays", ""}, "resume docs": {"schedule-resume docs ", ""},
		"trigger docs": {"schedule-trigger docs", "nothing started: run docs/g7 is"}, "delete docs": {"schedule-delete docs", ""},
	} {
		fake.Asked = nil
		says(t, fake, "schedule "+args, console.ExitDone, c.says)
		assert.Equal(t, []string{c.asked}, fake.Asked)
	}
}

// watched ends a transfer once it was seen.
type watched struct {
	*fakeControl
	looks atomic.Int64
	seen  chan struct{}
}

func (c *watched) MoveImage(context.Context, core.ImageRequest) (core.Transfer, error) {
	<-c.seen
	return core.Transfer{Action: core.TransferPush, Index: "docs"}, nil
}

func (c *watched) ReadTransfer(context.Context, core.ImageRequest) (core.Transfer, error) {
	if c.looks.Add(1) == 1 {
		close(c.seen)
	}
	return core.Transfer{Stage: "push", Done: 1 << 20, Bytes: 4 << 20, Seconds: 2}, nil
}

func TestATransferShowsProgressRateAndTimeLeft(t *testing.T) {
	for flag, wanted := range map[string]string{"": "[######..................]  25 %  push     ", " --json": ""} {
		t.Chdir(t.TempDir())
		c := &watched{fakeControl: &fakeControl{}, seen: make(chan struct{})}
		got := does(t, withConnection(c, ""), "push images docs"+flag, console.ExitDone, "docs")
		assert.True(t, strings.Contains(got.err, wanted) && strings.Contains(got.err, "6s left") == (flag == ""), got.err)
		assert.NotContains(t, got.out, "stage")
	}
}

func TestImagesAreAskedForWithAbsolutePaths(t *testing.T) {
	fake := &fakeControl{}
	// Each command has a working directory of its own.
	here := func(name string) string { return filepath.Join(musttest.Get(os.Getwd())(t), name) }
	says(t, fake, "push oci://localhost:5000/a/docs:v1 docs@g2 --sign-key key.pem", console.ExitDone, "docs pushed")
	assert.Equal(t, core.ImageRequest{
		Action: core.TransferPush, Where: "oci://localhost:5000/a/docs:v1", Index: "docs", Generation: "g2",
		Key: here("key.pem"),
	}, last[core.ImageRequest](fake))
	says(t, fake, "import images docs --adopt", console.ExitDone, "docs now serves")
	assert.Equal(t, core.ImageRequest{
		Action: core.TransferPull, Where: here("images"), Index: "docs", Adopt: true,
	}, last[core.ImageRequest](fake))
	assert.Contains(t, says(t, fake, "verify nothing.tar", console.ExitUsage).err, "no such file")
	assert.NotContains(t, says(t, fake, "push https://me:TOKEN@localhost/a docs", console.ExitUsage).err, "TOKEN")
}

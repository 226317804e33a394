package plan_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

func denied(key string) error { return fault.StoreDenied.At("read", key).Because("permission denied") }

// Promises: 14.
func TestProblemsAreReportedEveryNightForAsLongAsTheyStand(t *testing.T) {
	x := newIndex(t, four)
	x.corpus.Set("denied.txt", "secret")
	x.corpus.Open["denied.txt"] = denied("denied.txt")
	x.corpus.Set("image.png", "PNG")
	x.corpus.Set("bad.jsonl", `{"id":"1","text":"fine"}`+"\n{oops\n")
	x.corpus.Set("locked.pdf", "%PDF")
	x.corpus.Set("blank.txt", "  ")
	x.corpus.Set("gone.csv.gz", "no gzip")
	found := map[string]fault.Code{"locked.pdf": fault.Encrypted, "blank.txt": fault.EmptyDocument}
	first := x.night(found)
	want := "unreadable_document bad.jsonl line 2 false; unreadable_document gone.csv.gz false; " +
		"store_denied denied.txt false"
	got := short(x.problems())
	assert.True(t, got == want && first.ProblemCount == 3 && first.Refused == 2 && first.Unreadable == 1 &&
		first.Documents == 7, "first night: %s, %+v", got, first)
	want = "unreadable_document bad.jsonl line 2 false; unreadable_document gone.csv.gz false; " +
		"empty_document blank.txt true; store_denied denied.txt true; " +
		"encrypted_document locked.pdf true"
	for night := range 3 {
		res := x.night(nil)
		got := short(x.problems())
		assert.True(t, got == want, "night %d: %s", night+2, got)
		assert.True(t, res.Unchanged && res.Documents == 5 && res.Unreadable == 2 && res.Empty == 1 && res.Refused == 2 &&
			res.Diff.Unusable == 3 && len(res.Problems) == 5, "night %d: %+v", night+2, res)
	}
	for key, row := range x.planned() {
		assert.True(t, (row.Problem != "") == (key == "denied.txt" || key == "locked.pdf" || key == "blank.txt"),
			"%s has problem %q", key, row.Problem)
	}
}

func TestAHealedDocumentIsAChangeAndALaterProblemToo(t *testing.T) {
	x := newIndex(t, four)
	x.corpus.Open["a.txt"] = denied("a.txt")
	x.night(map[string]fault.Code{"z.txt": fault.Unreadable})
	delete(x.corpus.Open, "a.txt")
	if res := x.night(nil); res.Unchanged || res.Diff.Changed != 1 || res.Unreadable != 1 || res.Documents != 3 {
		t.Errorf("readable again: %+v", res)
	}
	x.corpus.Set("z.txt", "saved again")
	if res := x.night(nil); res.Unchanged || res.Diff.Changed != 1 || res.Unreadable != 0 || res.ProblemCount != 0 {
		t.Errorf("saved again: %+v", res)
	}
	x.corpus.Set("b/c.md", "changed, and closed")
	x.corpus.Open["b/c.md"] = denied("b/c.md")
	res := x.night(nil)
	assert.True(t, !res.Unchanged && res.Diff.Unusable == 1 && res.Diff.Changed == 0 && res.Diff.Removed == 0 &&
		res.Documents == 3, "unreadable since a change: %+v", res)
	x.corpus.Remove("b/c.md")
	if res := x.night(nil); res.Unchanged || res.Diff.Removed != 1 || res.RemovedShare != 0.25 || res.Documents != 3 {
		t.Errorf("what was served until now is removed: %+v", res)
	}
	x.corpus.Set("new.txt", "closed from the start")
	x.corpus.Open["new.txt"] = denied("new.txt")
	x.night(nil)
	x.corpus.Remove("new.txt")
	if res := x.night(nil); res.Unchanged || res.Diff.Removed != 0 || res.RemovedShare != 0 || res.Documents != 3 {
		t.Errorf("what never had content is not removed, but leaves: %+v", res)
	}
	res = x.night(nil)
	assert.True(t, res.Unchanged, "%+v", res)
}

// A document that failed for a reason outside its bytes is tried again although its bytes are the same.
func TestAProblemThatMayHaveGoneIsTriedAgain(t *testing.T) {
	for code, retried := range map[fault.Code]bool{
		fault.StoreDenied: true, fault.DocumentChanged: true, fault.NotFound: true,
		fault.Encrypted: false, fault.BinaryContent: false, fault.TooLarge: false,
	} {
		x := newIndex(t, four)
		x.night(map[string]fault.Code{"a.txt": code})
		res := x.night(nil)
		assert.True(t, res.Unchanged != retried && (res.Diff.Changed == 1) == retried, "%s: %+v", code, res)
	}
}

// An object with rows that breaks takes no documents away as if somebody had deleted them.
// Promises: 15.
func TestRowsOfABrokenObjectAreLostNotRemoved(t *testing.T) {
	x := newIndex(t, four)
	var text strings.Builder
	for i := range 3 {
		fmt.Fprintf(&text, `{"id":"%d","text":"%s"}`+"\n", i, strings.Repeat("long ", 12_000))
	}
	x.corpus.Set("r.jsonl", text.String())
	x.night(nil)
	x.corpus.Open["r.jsonl"] = denied("r.jsonl")
	res := x.night(nil)
	assert.True(t, res.Lost == 3 && res.Diff.Removed == 0 && res.RemovedShare == 0 && res.Refused == 1 &&
		res.Diff.Unusable == 3 && !res.Unchanged && res.ProblemCount == 4, "%+v", res)
	for key, row := range x.planned() {
		lost := row.Object == "r.jsonl"
		assert.True(t, lost == (row.Problem == string(fault.StoreDenied)), "%s is planned with problem %q", key, row.Problem)
	}
	res = x.night(nil)
	assert.True(t, res.Unchanged && res.Lost == 3 && res.ParentListed == 7, "while it stands nothing changes: %+v", res)
	want := "store_denied r.jsonl#2 true"
	assert.True(t, strings.Contains(short(x.problems()), want), "%s, want %s", short(x.problems()), want)
	delete(x.corpus.Open, "r.jsonl")
	x.corpus.Break["r.jsonl"] = errors.New("connection reset")
	if res := x.night(nil); res.Refused == 0 || res.Diff.Changed != 1 || res.Lost != 2 {
		t.Errorf("the row before the break counts, those behind it are kept: %+v", res)
	}
	x.corpus.Remove("r.jsonl")
	if res, err := x.plan(t.Context()); err != nil || res.Diff.Removed != 3 || res.Lost != 0 {
		t.Errorf("an object that is gone takes its rows away: %+v, %v", res, err)
	}
	x.corpus.Set("r.jsonl", text.String())
	delete(x.corpus.Break, "r.jsonl")
	res = x.night(nil)
	assert.True(t, res.Documents == 7 && res.ProblemCount == 0, "%+v", res)
}

// What is wrong with the store is not a document's problem: the stage fails and is repeated.
func TestAStoreThatIsDownStopsThePlan(t *testing.T) {
	down := fault.StoreDown.At("read", "bucket").Because("connection refused")
	for _, key := range []string{"a.txt", "r.jsonl"} {
		x := newIndex(t, four)
		x.corpus.Set("r.jsonl", `{"id":"1"}`)
		x.corpus.Open[key] = down
		musttest.Code(t, musttest.Err(x.plan(t.Context())), fault.StoreDown, key)
	}
}

func TestAnObjectThatCannotBeDescribedIsAProblemOfThatObject(t *testing.T) {
	x := published(t, four)
	x.corpus.Unlisted["a.txt"] = denied("a.txt")
	res := x.night(nil)
	assert.True(t, res.Refused == 1 && res.Lost == 1 && res.Diff.Removed == 0 && res.Documents == 3, "%+v", res)
}

// A read that breaks in the middle, and a document that changes between listing and reading.
func TestReadsThatBreak(t *testing.T) {
	for name, c := range map[string]struct {
		open, broken error
		code         fault.Code
	}{
		"in the middle": {nil, errors.New("unexpected end"), fault.Unreadable},
		"changed":       {fault.Precondition.At("read", "a.txt"), nil, fault.DocumentChanged},
		"deleted":       {fault.NotFound.At("read", "a.txt"), nil, fault.DocumentChanged},
	} {
		x := newIndex(t, four)
		x.corpus.Open["a.txt"], x.corpus.Break["a.txt"] = c.open, c.broken
		res := x.night(nil)
		assert.True(t, res.Unreadable == 1 && res.Documents == 3 && len(res.Problems) == 1 &&
			res.Problems[0].Code == string(c.code) && res.Problems[0].Object == "a.txt", "%s: %+v", name, res)
	}
}

// Promises: 18.
func TestEverythingIsMadeAgainForAReason(t *testing.T) {
	x := newIndex(t, four)
	x.reasons = []string{"chunker chunk/1 → chunk/2"}
	res := x.night(map[string]fault.Code{"z.txt": fault.Encrypted})
	assert.True(t, len(res.Reasons) == 0, "a first build has no reason: %v", res.Reasons)
	res = x.night(nil)
	assert.True(t, !res.Unchanged && fmt.Sprint(res.Reasons) == "[chunker chunk/1 → chunk/2]" && res.Diff.Same == 3 &&
		res.Diff.Changed == 1 && res.Documents == 4 && res.ProblemCount == 0, "%+v", res)
	for key, row := range x.planned() {
		assert.True(t, row.Problem == "", "%s: a new parser may read what the old one could not", key)
	}
	x.reasons = nil
	res = x.night(nil)
	assert.True(t, res.Unchanged, "%+v", res)
}

// Promises: 18.
func TestVersionsAndConfigurationGiveTheirReasons(t *testing.T) {
	now := plan.Made{Parser: "parse/1", Chunker: "chunk/2", Names: "names/1", Analyser: "en/2"}
	for _, c := range []struct {
		parent plan.Made
		want   string
	}{
		{now, "[]"},
		{plan.Made{Parser: "parse/1", Chunker: "chunk/1", Names: "names/1", Analyser: "en/2"}, "[chunker chunk/1 → chunk/2]"},
		{plan.Made{Parser: "parse/1", Chunker: "chunk/2"}, "[names none → names/1 analyser none → en/2]"},
	} {
		assert.Equal(t, c.want, fmt.Sprint(now.ListChanges(c.parent)))
	}
	base := core.Spec{Corpus: "/c", Chunking: core.Chunking{Strategy: "text", MaxTokens: 1500}}
	for want, change := range map[string]func(*core.Spec){
		"[]":                                     func(s *core.Spec) { s.Keep, s.Limits.Concurrency, s.Chat.Price.Prompt = 9, 9, 9 },
		"[config: corpus]":                       func(s *core.Spec) { s.Corpus = "/other" },
		"[config: chunking]":                     func(s *core.Spec) { s.Chunking.MaxTokens = 300 },
		"[config: documents]":                    func(s *core.Spec) { s.Documents = &core.Documents{Encoding: []string{"*=koi8-r"}} },
		"[config: shortening]":                   func(s *core.Spec) { s.Shortening.Sample = 3 },
		"[config: extraction]":                   func(s *core.Spec) { s.Extraction = &core.Extraction{Share: 0.3} },
		"[config: parity]":                       func(s *core.Spec) { s.Parity = true },
		"[config: language]":                     func(s *core.Spec) { s.Retrieval.Language = "de" },
		"[config: chat model config: embedding]": func(s *core.Spec) { s.Chat.Model, s.Embedding.Dimension = "m", 3 },
	} {
		changed := base
		change(&changed)
		got := fmt.Sprint(plan.SpecChanges(base, changed))
		assert.True(t, got == want && (got == "[]") == (base.ConfigDigest() == changed.ConfigDigest()),
			"got %s, want %s; digests equal: %v", got, want, base.ConfigDigest() == changed.ConfigDigest())
	}
	labelled := core.Spec{Documents: &core.Documents{Labels: core.Labels{Field: "labels"}}}
	assert.Equal(t, []string{"config: documents", core.LabelsOff}, plan.SpecChanges(labelled, core.Spec{}))
	read := core.Spec{Documents: &core.Documents{Attachments: true}}
	off, on := plan.SpecChanges(read, core.Spec{}), plan.SpecChanges(core.Spec{}, read)
	assert.True(t, slices.Contains(off, core.AttachmentsOff) && !slices.Contains(on, core.AttachmentsOff),
		"attachments switched off: %q, on: %q", off, on)
}

func TestADocumentThatWasTooLargeIsTriedAgainWhenTheLimitsChange(t *testing.T) {
	x := newIndex(t, four)
	x.night(map[string]fault.Code{"a.txt": fault.TooLarge, "z.txt": fault.Encrypted})
	res := x.night(nil)
	assert.True(t, res.Unchanged && res.Unreadable == 2, "the same limits: %+v", res)
	x.limits = document.DefaultLimits()
	res = x.night(nil)
	assert.True(t, res.Unchanged, "the same limits, written out: %+v", res)
	x.limits.Text = 1 << 40
	res = x.night(map[string]fault.Code{"a.txt": fault.TooLarge})
	assert.True(t, !res.Unchanged && res.Diff.Changed == 1 && res.Unreadable == 1, "other limits: %+v", res)
	res = x.night(nil)
	assert.True(t, res.Unchanged && res.Unreadable == 2, "too large for those too: %+v", res)
	x.parent.Limits = "" // of a release that did not record them
	res = x.night(nil)
	assert.True(t, !res.Unchanged && res.Documents == 3, "limits that are not known: %+v", res)
}

func TestAProblemThatStandsTellsItsCauseEveryNight(t *testing.T) {
	x := published(t, four)
	const cause = "read a.txt: it is encrypted: store it without a password"
	x.corpus.Set("a.txt", "sealed")
	x.causes = []core.Problem{{
		Code: string(fault.Encrypted), Object: "a.txt", Detail: cause + "; what was there before is kept, and is stale",
	}}
	x.night(map[string]fault.Code{"a.txt": fault.Encrypted})
	want := "as in the generation before: " + cause + "; what was there before is kept, and is stale"
	for night := range 4 {
		res := x.night(nil)
		assert.True(t, len(res.Problems) == 1 && res.Problems[0].Detail == want, "night %d: %+v", night, res.Problems)
		x.corpus.Set("z.txt", strings.Repeat("again ", night+1)) // the next is published, and carries the problem on
	}
	x.parent.Generation = "without a list"
	res := x.night(nil)
	assert.True(t, len(res.Problems) == 1 && strings.HasPrefix(res.Problems[0].Detail, "as in the generation before; "),
		"%+v", res.Problems)
}

// Pages that could not be read are reported as long as the document that has them stays, and keep no night busy.
func TestWhatIsMissingOfADocumentIsReportedWhileItStays(t *testing.T) {
	x := newIndex(t, map[string]string{"a.pdf": "%PDF"})
	x.missing = "page 2 has no text (scanned images?)"
	x.night(nil)
	x.part = true
	for range 2 {
		res := x.night(nil)
		want := core.Problem{
			Code: string(fault.PartsMissing), Object: "a.pdf", Detail: "as in the generation before: " + x.missing,
		}
		assert.True(t, res.Unchanged && len(res.Problems) == 1 && res.Problems[0] == want && x.problems()[0].Standing,
			"%+v", res)
	}
	x.corpus.Set("a.pdf", "%PDF again") // it is read again
	res := x.night(nil)
	assert.True(t, !res.Unchanged && len(res.Problems) == 0, "%+v", res)
}

// The result lists the first hundred problems, the file all.
func TestDocumentsThatFailedAreShownFirst(t *testing.T) {
	x := newIndex(t, four)
	for i := range 150 {
		link := fmt.Sprintf("%03d", i)
		x.corpus.Set(link, "")
		x.corpus.Unlisted[link] = fault.NotFollowed.At("list", link)
	}
	x.corpus.Open["z.txt"] = denied("z.txt")
	res, all := x.night(nil), x.problems()
	assert.True(t, len(res.Problems) == plan.MaxProblems && res.ProblemCount == 151 && len(all) == 151 &&
		res.Problems[0].Object == "z.txt" && res.Problems[1].Object == "000" && res.Problems[99].Object == "098",
		"%d problems, %d in the file, %+v first", res.ProblemCount, len(all), res.Problems[0])
}

// written has an object written to in its first readings, at their end.
func (x *index) written(object string, readings int, content func(int) string) {
	n := 0
	x.corpus.Torn = func(key string) {
		if key == object && n < readings {
			n++
			x.corpus.Set(key, content(n))
		}
	}
}

func jsonl(version, rows int) string {
	var text strings.Builder
	for i := range rows {
		fmt.Fprintf(&text, `{"id":"%d","text":"version %d"}`+"\n", i, version)
	}
	return text.String()
}

// Rows of an object that is written to while it is listed are those of one version, the last; none of an earlier
// reading is left, and none is a duplicate.
func TestRowsAreOfOneVersionOfTheirObject(t *testing.T) {
	x := newIndex(t, map[string]string{"r.jsonl": jsonl(0, 5) + "{oops\n", "a.txt": "alpha"})
	x.written("r.jsonl", 2, func(n int) string { return jsonl(n, 5-n) })
	res := x.night(nil)
	require.True(t, res.Documents == 4 && res.Refused == 0 && res.ProblemCount == 0, "%+v", res)
	info := stagetest.Must(x.corpus.Stat(t.Context(), "r.jsonl"))
	for key, row := range x.planned() {
		assert.True(t, row.Object != "r.jsonl" || strings.Contains(string(row.Record), "version 2") && row.ETag == info.ETag,
			"%s: %s", key, row.Record)
	}
	x.corpus.Torn = nil
	res = x.night(nil)
	assert.True(t, res.Unchanged, "the night after: %+v", res)
}

func TestRowsOfAnObjectThatNeverRestsAreLostNotRemoved(t *testing.T) {
	x := published(t, map[string]string{"r.jsonl": jsonl(0, 5), "a.txt": "alpha"})
	x.written("r.jsonl", 100, func(n int) string { return jsonl(n, 5) })
	res := x.night(nil)
	assert.True(t, res.Lost == 5 && res.Documents == 1 && res.Diff.Removed == 0 && res.Diff.Added == 0 &&
		res.Problems[0].Code == string(fault.DocumentChanged), "%+v", res)
	for key, row := range x.planned() {
		assert.True(t, row.Object != "r.jsonl" || row.Problem == string(fault.DocumentChanged), "%s: %q", key, row.Problem)
	}
	x.corpus.Torn = nil
	res = x.night(nil)
	assert.True(t, res.Diff.Changed == 5 && res.ProblemCount == 0, "at rest again: %+v", res)
}

func TestAFileThatIsReplacedWhileItIsPlannedIsTheNewOne(t *testing.T) {
	x := published(t, four)
	x.corpus.Set("a.txt", "alpha two")
	x.written("a.txt", 1, func(int) string { return "alpha three" })
	res := x.night(nil)
	require.True(t, res.Diff.Changed == 1 && res.ProblemCount == 0, "%+v", res)
	info := stagetest.Must(x.corpus.Stat(t.Context(), "a.txt"))
	for key, row := range x.planned() {
		assert.True(t, key != "a.txt" || row.Version == core.Digest(sha256.Sum256([]byte("alpha three"))) &&
			row.ETag == info.ETag && row.Size == info.Size, "%+v", row)
	}
}

func TestADocumentWhoseParserOthersBrokeIsTriedByTheNextRun(t *testing.T) {
	x := newIndex(t, four)
	x.night(map[string]fault.Code{"a.txt": fault.Quarantined, "z.txt": fault.ParseTimeout})
	res := x.night(map[string]fault.Code{"a.txt": fault.Quarantined})
	assert.True(t, !res.Unchanged && res.Diff.Changed == 1 && res.Unreadable == 1 && res.Again && res.Retried == 1,
		"%+v", res)
	x.corpus.Set("new.txt", "new")
	res = x.night(map[string]fault.Code{"a.txt": fault.Quarantined})
	assert.True(t, !res.Again && res.Retried == 1, "something else came too: %+v", res)
	res = x.night(nil)
	assert.True(t, !res.Unchanged && res.Diff.Changed == 1 && res.Unreadable == 1, "%+v", res)
	res = x.night(nil)
	assert.True(t, res.Unchanged && res.Unreadable == 1, "healed: %+v", res)
}

// A broken file that is copied again is the same broken file.
func TestAStaleFileThatWasOnlyTouchedChangesNothing(t *testing.T) {
	x := published(t, four)
	x.corpus.Set("a.txt", "rubbish")
	x.night(map[string]fault.Code{"a.txt": fault.Unreadable})
	x.corpus.Touch("a.txt", "copied")
	res := x.night(nil)
	assert.True(t, res.Unchanged && x.corpus.Reads("a.txt") != 0 && res.Unreadable == 1, "%+v", res)
}

// Where the one object of a corpus breaks, its documents are lost, not a reason to say that there is no corpus.
func TestACorpusOfOneBrokenObjectIsPlanned(t *testing.T) {
	x := published(t, map[string]string{"r.jsonl": jsonl(0, 5)})
	x.corpus.Open["r.jsonl"] = denied("r.jsonl")
	res := x.night(nil)
	assert.True(t, res.Lost == 5 && res.Listed == 5 && res.Documents == 0, "%+v", res)
	x.parent = nil
	musttest.Code(t, musttest.Err(x.plan(t.Context())), fault.CorpusEmpty, "without a parent")
}

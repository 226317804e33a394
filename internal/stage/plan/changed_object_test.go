package plan_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

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

// An object that is never at rest breaks neither the run nor its own rows: they stay what they were.
func TestRowsOfAnObjectThatNeverRestsAreLostNotRemoved(t *testing.T) {
	x := newIndex(t, map[string]string{"r.jsonl": jsonl(0, 5), "a.txt": "alpha"})
	x.night(nil)
	x.written("r.jsonl", 100, func(n int) string { return jsonl(n, 5) })
	res := x.night(nil)
	if res.Lost != 5 || res.Documents != 1 || res.Diff.Removed != 0 || res.Diff.Added != 0 ||
		res.Problems[0].Code != string(fault.DocumentChanged) {
		t.Errorf("%+v", res)
	}
	for key, row := range x.planned() {
		assert.True(t, row.Object != "r.jsonl" || row.Problem == string(fault.DocumentChanged), "%s: %q", key, row.Problem)
	}
	x.corpus.Torn = nil
	res = x.night(nil)
	assert.True(t, res.Diff.Changed == 5 && res.ProblemCount == 0, "at rest again: %+v", res)
}

// A file that is replaced while it is hashed is planned in its new version, with the ETag that belongs to it.
func TestAFileThatIsReplacedWhileItIsPlannedIsTheNewOne(t *testing.T) {
	x := newIndex(t, four)
	x.night(nil)
	x.corpus.Set("a.txt", "alpha two")
	x.written("a.txt", 1, func(int) string { return "alpha three" })
	res := x.night(nil)
	require.True(t, res.Diff.Changed == 1 && res.ProblemCount == 0, "%+v", res)
	info := stagetest.Must(x.corpus.Stat(t.Context(), "a.txt"))
	for key, row := range x.planned() {
		if key == "a.txt" && (row.Version != core.Digest(sha256.Sum256([]byte("alpha three"))) || row.ETag != info.ETag ||
			row.Size != info.Size) {
			t.Errorf("%+v", row)
		}
	}
}

// Stale documents are reported every night while they stand, cost no reading where their bytes are known to be bad, and
// heal with them.
func TestAStaleDocumentStandsUntilItHeals(t *testing.T) {
	for _, code := range []fault.Code{fault.EmptyDocument, fault.Unreadable, fault.ParseMemory, fault.StoreDenied} {
		x := newIndex(t, four)
		x.night(nil)
		good := x.published()["a.txt"]
		x.corpus.Set("a.txt", "rubbish")
		x.night(map[string]fault.Code{"a.txt": code})
		if code == fault.StoreDenied {
			x.corpus.Open["a.txt"] = denied("a.txt")
		}
		x.corpus.Reads("a.txt")
		for night := range 3 {
			res := x.night(nil)
			reads := x.corpus.Reads("a.txt")
			if !res.Unchanged || res.Unreadable != 1 || res.Empty != 0 || res.ParentListed != 4 ||
				short(x.problems()) != string(code)+" a.txt true" || (reads > 0) != (code == fault.StoreDenied) {
				t.Errorf("%s, night %d: %s, %d reads, %+v", code, night, short(x.problems()), reads, res)
			}
		}
		night := x.published()["a.txt"]
		assert.True(t, night.Stale && night.Version == good.Version && night.ListedVersion() != good.Version, "%+v", night)
		delete(x.corpus.Open, "a.txt")
		x.corpus.Set("a.txt", "alpha") // as it was at first
		res := x.night(nil)
		assert.True(t, res.Diff.Changed == 1 && res.Unreadable == 0 && res.ProblemCount == 0, "%s, healed: %+v", code, res)
	}
}

// What breaks its parser by itself is left alone; what others broke is unknown yet, so the next run tries it.
func TestADocumentWhoseParserOthersBrokeIsTriedByTheNextRun(t *testing.T) {
	x := newIndex(t, four)
	x.night(map[string]fault.Code{"a.txt": fault.Quarantined, "z.txt": fault.ParseTimeout})
	if res := x.night(map[string]fault.Code{"a.txt": fault.Quarantined}); res.Unchanged || res.Diff.Changed != 1 ||
		res.Unreadable != 1 || !res.Again || res.Retried != 1 {
		t.Errorf("%+v", res)
	}
	x.corpus.Set("new.txt", "new")
	res := x.night(map[string]fault.Code{"a.txt": fault.Quarantined})
	assert.True(t, !res.Again && res.Retried == 1, "something else came too: %+v", res)
	if res := x.night(nil); res.Unchanged || res.Diff.Changed != 1 || res.Unreadable != 1 {
		t.Errorf("%+v", res)
	}
	if res := x.night(nil); !res.Unchanged || res.Unreadable != 1 {
		t.Errorf("healed: %+v", res)
	}
}

// A broken file that is copied again is the same broken file.
func TestAStaleFileThatWasOnlyTouchedChangesNothing(t *testing.T) {
	x := newIndex(t, four)
	x.night(nil)
	x.corpus.Set("a.txt", "rubbish")
	x.night(map[string]fault.Code{"a.txt": fault.Unreadable})
	x.corpus.Touch("a.txt", "copied")
	res := x.night(nil)
	assert.True(t, res.Unchanged && x.corpus.Reads("a.txt") != 0 && res.Unreadable == 1, "%+v", res)
}

// Where the one object of a corpus breaks, its documents are lost, not a reason to say that there is no corpus.
func TestACorpusOfOneBrokenObjectIsPlanned(t *testing.T) {
	x := newIndex(t, map[string]string{"r.jsonl": jsonl(0, 5)})
	x.night(nil)
	x.corpus.Open["r.jsonl"] = denied("r.jsonl")
	res := x.night(nil)
	assert.True(t, res.Lost == 5 && res.Listed == 5 && res.Documents == 0, "%+v", res)
	x.parent = nil
	_, err := x.plan(t.Context())
	assert.True(t, fault.Is(err, fault.CorpusEmpty), "without a parent: %v", err)
}

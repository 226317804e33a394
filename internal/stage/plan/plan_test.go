package plan_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// index is one index over nights: a corpus that changes, and the generation that the last night left.
type index struct {
	t       *testing.T
	corpus  *documenttest.Corpus
	art     artifact.Index
	parent  *core.Manifest
	reasons []string
	include []string
	exclude []string
	types   []string
	nights  int
	limits  document.Limits
	causes  []core.Problem // that the stages after plan find, of the night that is published
	part    bool           // what did not change stays as the parent has it
	missing string         // of every document that is published
	store   blob.Store     // in place of corpus; nil: that
}

func newIndex(t *testing.T, objects map[string]string) *index {
	store := stagetest.Must(dir.Open(t.TempDir()))
	return &index{t: t, corpus: documenttest.New(objects), art: artifact.Index{Store: store, Name: "i"}}
}

// published returns an index that was built once.
func published(t *testing.T, objects map[string]string) *index {
	x := newIndex(t, objects)
	x.night(nil)
	return x
}

func (x *index) scratch() string { return fmt.Sprintf("i/runs/%d", x.nights) }

func (x *index) plan(ctx context.Context) (plan.Result, error) {
	x.nights++
	var corpus blob.Store = x.corpus
	if x.store != nil {
		corpus = x.store
	}
	return plan.Run(ctx, plan.In{
		Spec: core.Spec{Index: "i", Corpus: "memory", Include: x.include, Exclude: x.exclude,
			Documents: &core.Documents{Types: x.types}},
		Corpus: corpus, Artifacts: x.art, Scratch: x.scratch(),
		Limits: x.limits, Parent: x.parent, Reasons: x.reasons, OnProgress: func(int64) {},
		Part: x.part,
	})
}

// night plans and publishes: broken are the problems that reading the documents brings to light after plan.
func (x *index) night(broken map[string]fault.Code) plan.Result {
	res := stagetest.Must(x.plan(x.t.Context()))
	require.True(x.t, res.Listed == res.Documents+res.Unreadable+res.Empty+res.Lost &&
		res.Documents == res.Diff.Added+res.Diff.Changed+res.Diff.Same+res.Moved, "the counts do not add up: %+v", res)
	if !res.Unchanged {
		x.publish(broken)
	}
	return res
}

// publish writes the documents of the last plan as the stages after it would.
func (x *index) publish(broken map[string]fault.Code) {
	before := x.published()
	out := stagetest.Must(artifact.NewRows())
	defer out.Discard()
	for key, row := range x.planned() {
		document := rows.Document{
			Object: row.Object, Version: row.Version, ETag: row.Mark(), Size: row.Size, Problem: row.Problem,
			Kind: row.Kind, Missing: x.missing,
		}
		if code, ok := broken[key]; ok && row.Problem == "" {
			document.Problem = string(code)
		}
		old := before[key]
		switch {
		case document.Problem == "":
			document.Chunks = []rows.Place{{ID: core.ChunkID(key, row.Version.String(), 0), End: 1}}
		case len(old.Chunks) > 0:
			document.Chunks, document.Version = old.Chunks, old.Version
			document.Stale, document.Found = true, row.Version
		}
		out.Append(key, document.Encode())
	}
	segment, _ := musttest.Get2(out.StoreSegment(x.t.Context(), x.art, 0))(x.t)
	x.parent = &core.Manifest{
		Generation: fmt.Sprintf("g%d", x.nights), Limits: x.limits.Key(), Segments: oneSplit(segment),
	}
	raw, _ := musttest.Get2(blob.Read(x.t.Context(), x.art.Store, x.stored(plan.ProblemsKey(x.scratch()))))(x.t)
	for _, cause := range x.causes {
		raw = append(append(raw, stagetest.Must(json.Marshal(cause))...), '\n')
	}
	x.causes = nil
	key := x.art.GenerationKey(x.parent.Generation, plan.ProblemsName)
	stagetest.Must(blob.Write(x.t.Context(), x.art.Store, key, raw, blob.Cond{}))
}

// oneSplit returns the segments of a generation with one split of documents.
func oneSplit(documents ...core.Segment) core.Segments {
	split := core.Split{Texts: len(documents)}
	for _, segment := range documents {
		split.Documents += segment.Rows
	}
	return core.Segments{Documents: documents, Splits: []core.Split{split}}
}

// published reads the documents of the last night that was not unchanged.
func (x *index) published() map[string]rows.Document {
	all := map[string]rows.Document{}
	if x.parent == nil {
		return all
	}
	for row, err := range artifact.ScanAll(
		x.t.Context(), x.art.Store, x.art.SegmentKey(x.parent.Segments.Documents[0].SHA256)) {
		require.NoError(x.t, err)
		all[string(row.Key)] = stagetest.Must(rows.DecodeDocument(row.Value))
	}
	return all
}

func (x *index) stored(key string) string { return stagetest.Stored(x.t, x.art.Store, key) }

// planned reads plan.rows of the last night, in order.
func (x *index) planned() func(func(string, rows.Plan) bool) {
	return func(yield func(string, rows.Plan) bool) {
		for row, err := range artifact.ScanAll(x.t.Context(), x.art.Store, x.stored(plan.RowsKey(x.scratch()))) {
			require.NoError(x.t, err)
			decoded := stagetest.Must(rows.DecodePlan(row.Value))
			if !yield(string(row.Key), decoded) {
				return
			}
		}
	}
}

// problems reads the file of all problems of the last night.
func (x *index) problems() []plan.Problem {
	raw, _ := musttest.Get2(blob.Read(x.t.Context(), x.art.Store, x.stored(plan.ProblemsKey(x.scratch()))))(x.t)
	var all []plan.Problem
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		var problem plan.Problem
		require.NoError(x.t, json.Unmarshal(lines.Bytes(), &problem))
		all = append(all, problem)
	}
	return all
}

func short(ps []plan.Problem) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprintf("%s %s %v", p.Code, p.Object, p.Standing))
	}
	return strings.Join(out, "; ")
}

var four = map[string]string{"a.txt": "alpha", "b/c.md": "beta", "b/d.html": "gamma", "z.txt": "omega"}

func TestAFirstBuildPlansEveryDocumentInKeyOrder(t *testing.T) {
	x := newIndex(t, four)
	x.corpus.Set(".git/config.txt", "hidden")
	x.corpus.Set("rows.jsonl", `{"id":"2","text":"two"}`+"\n"+`{"id":"1","text":"one"}`+"\n")
	res := x.night(nil)
	assert.True(t, res.Documents == 6 && res.Diff.Added == 6 && !res.Unchanged && res.ProblemCount == 0 &&
		len(res.Units) == 1 && res.Units[0].Documents == 6 && res.RemovedShare == 0, "%+v", res)
	var keys []string
	for key, row := range x.planned() {
		keys = append(keys, key)
		assert.True(t, !row.Version.IsZero() && (row.Line > 0) == (len(row.Record) > 0), "%s: %+v", key, row)
	}
	want := "a.txt b/c.md b/d.html rows.jsonl#1 rows.jsonl#2 z.txt"
	assert.True(t, strings.Join(keys, " ") == want, "got %v, want %s", keys, want)
}

func TestAnUnchangedCorpusIsNotReadAgain(t *testing.T) {
	x := published(t, four)
	assert.True(t, x.corpus.Reads("a.txt") == 1, "a new document is read once, to be hashed")
	res := x.night(nil)
	assert.True(t, res.Unchanged && res.Diff.Same == 4 && res.ParentListed == 4 && x.corpus.Reads("a.txt") == 0,
		"%+v", res)
}

// Promises: 15.
func TestWhatANightChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change                                 func(*documenttest.Corpus)
		added, changed, removed, moved, stayed int64
		share                                  float64
	}{
		"added":   {func(c *documenttest.Corpus) { c.Set("m.txt", "mu") }, 1, 0, 0, 0, 4, 0},
		"changed": {func(c *documenttest.Corpus) { c.Set("a.txt", "alpha two") }, 0, 1, 0, 0, 3, 0},
		"removed": {func(c *documenttest.Corpus) { c.Remove("a.txt") }, 0, 0, 1, 0, 3, 0.25},
		"moved":   {func(c *documenttest.Corpus) { c.Move("a.txt", "new/a.txt") }, 0, 0, 0, 1, 3, 0},
		"moved and one like it added": {func(c *documenttest.Corpus) {
			c.Move("a.txt", "new/a.txt")
			c.Set("copy.txt", "alpha")
		}, 1, 0, 0, 1, 3, 0},
		"the last removed": {func(c *documenttest.Corpus) { c.Remove("z.txt") }, 0, 0, 1, 0, 3, 0.25},
		"replaced": {func(c *documenttest.Corpus) {
			c.Remove("a.txt")
			c.Set("0.txt", "other")
		}, 1, 0, 1, 0, 3, 0.25},
		"three of four": {func(c *documenttest.Corpus) {
			for _, key := range []string{"a.txt", "b/c.md", "z.txt"} {
				c.Remove(key)
			}
		}, 0, 0, 3, 0, 1, 0.75},
	} {
		t.Run(name, func(t *testing.T) {
			x := published(t, four)
			c.change(x.corpus)
			res := x.night(nil)
			got := []int64{res.Diff.Added, res.Diff.Changed, res.Diff.Removed, res.Moved, res.Diff.Same}
			want := []int64{c.added, c.changed, c.removed, c.moved, c.stayed}
			assert.True(t, fmt.Sprint(got) == fmt.Sprint(want) && res.RemovedShare == c.share && !res.Unchanged,
				"got %v, share %v, unchanged %v; want %v, %v", got, res.RemovedShare, res.Unchanged, want, c.share)
			again := x.night(nil)
			assert.True(t, again.Unchanged, "the night after is not unchanged: %+v", again)
		})
	}
}

// A file that was only touched (another ETag, the same bytes) is read, and the same.
func TestADocumentIsComparedByItsBytes(t *testing.T) {
	x := published(t, four)
	x.corpus.Touch("a.txt", "of another upload")
	x.corpus.Reads("a.txt")
	res := x.night(nil)
	assert.True(t, res.Unchanged && x.corpus.Reads("a.txt") == 1 && x.corpus.Reads("z.txt") == 1, "%+v", res)
}

// Promises: 80.
func TestOfRowsWithOneIDTheFirstIsTheDocument(t *testing.T) {
	doubled := `{"id":"7","text":"first"}` + "\n\n" + `{"id":"8"}` + "\n" + `{"id":"7","text":"second"}`
	x := newIndex(t, map[string]string{"r.jsonl": `{"id":"6"}` + "\n" + doubled})
	res := x.night(nil)
	assert.True(t, res.Documents == 3 && res.Listed == 3 && res.Refused == 1 && len(res.Problems) == 1 &&
		res.Problems[0].Code == string(fault.DuplicateRow) && res.Problems[0].Object == "r.jsonl line 5" &&
		strings.Contains(res.Problems[0].Detail, "line 2 has the same id"), "%+v", res)
	for key, row := range x.planned() {
		assert.True(t, key != "r.jsonl#7" || strings.Contains(string(row.Record), "first"), "%s", row.Record)
	}
	res = x.night(nil)
	assert.True(t, res.Unchanged && len(res.Problems) == 1, "the same rows in the next night: %+v", res)
	x.corpus.Set("r.jsonl", doubled)
	res = x.night(nil)
	assert.True(t, res.Diff.Removed == 1 && res.Lost == 0, "a row that is gone: %+v", res)
}

func TestAnEmptyCorpusIsAnError(t *testing.T) {
	for name, objects := range map[string]map[string]string{
		"nothing": nil, "refused only": {"x.exe": "MZ", "y.png": "PNG"},
	} {
		res, err := newIndex(t, objects).plan(t.Context())
		assert.True(t, fault.Is(err, fault.CorpusEmpty) && res.LeftOut.OtherTypes == int64(len(objects)) &&
			len(res.Problems) == 0, "%s: %v, %+v", name, err, res)
	}
}

func TestAStoppedPlanTellsOfTheStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	x := newIndex(t, four)
	x.corpus.Touched = func(string) { cancel() }
	assert.ErrorIs(t, musttest.Err(x.plan(ctx)), context.Canceled)
}

// The objects of a .json list are documents, as lines of a .jsonl are; any other .json is one document. What cannot be
// read, or is empty, removes none of them.
func TestAListOfRecordsIsADocumentEach(t *testing.T) {
	two := `[{"id":"1","text":"one"}, {"id":"2","text":"two"}]`
	x := newIndex(t, map[string]string{
		"list.json": two, "one.json": `{"text":"one"}`, "mixed.json": `[{"id":"1"},{"id":"2"},3]`, "numbers.json": "[1]",
		"packed.json.gz": documenttest.Gzip(two), "twice.json": `[{"id":"7"},{"id":"7"}]`,
	})
	res := x.night(nil)
	planned := maps.Collect(x.planned())
	want := "list.json#1 list.json#2 mixed.json numbers.json one.json packed.json.gz#1 packed.json.gz#2 twice.json#7"
	keys := slices.Sorted(maps.Keys(planned))
	assert.True(t, strings.Join(keys, " ") == want && res.Listed == 8 && res.Refused == 1 &&
		strings.Contains(res.Problems[0].Detail, "record 1 has the same id"), "%v %+v", keys, res)
	row := planned["list.json#2"]
	assert.True(t, row.Kind == "jsonl" && string(row.Record) == `{"id":"2","text":"two"}`, "%+v", row)
	for content, want := range map[string]plan.Result{
		two:                       {Documents: 8},
		`[{"id":"1","text":"o`:    {Documents: 6, Lost: 2},
		"":                        {Documents: 7, Lost: 2},
		"[]":                      {Documents: 7, Lost: 2},
		`[{"id":"1","text":"x"}]`: {Documents: 7, Diff: core.Diff{Changed: 1, Removed: 1}},
		`{"id":"1"}`:              {Documents: 7, Diff: core.Diff{Added: 1, Removed: 2}},
	} {
		x.corpus.Set("list.json", content)
		got, err := x.plan(t.Context())
		want.Diff.Same = got.Diff.Same
		assert.True(t, err == nil && got.Documents == want.Documents && got.Lost == want.Lost &&
			(len(content) <= 4 || content == two || want.Lost != 0 || got.Diff == want.Diff), "%s: %+v %v", content, got, err)
	}
}

// A purged document is left out whatever the corpus has: itself, nothing any more, or an object that cannot be read, of
// which other rows are kept. It counts as purged and never as removed.
// Promises: 136.
func TestAPurgedDocumentIsLeftOutWhateverTheCorpusHas(t *testing.T) {
	x := newIndex(t, four)
	row := func(id string) string { return `{"id":"` + id + `","text":"text ` + id + `"}` + "\n" }
	x.corpus.Set("rows.jsonl", row("1")+row("2")+row("3"))
	x.night(nil)
	x.corpus.Remove("z.txt")
	x.corpus.Set("rows.jsonl", row("1")+"{broken\n") // what became of its other rows is unknown
	x.corpus.Set("new.txt", "new")
	purged := []string{"a.txt", "new.txt", "rows.jsonl#1", "rows.jsonl#2", "z.txt"}
	x.nights++
	res := stagetest.Must(plan.Run(t.Context(), plan.In{
		Spec: core.Spec{Index: "i", Corpus: "memory"}, Corpus: x.corpus, Artifacts: x.art, Scratch: x.scratch(),
		Limits: x.limits, Parent: x.parent, OnProgress: func(int64) {},
		Purged: func(key string) bool { return slices.Contains(purged, key) },
	}))
	keys := slices.Sorted(maps.Keys(maps.Collect(x.planned())))
	want := []string{"b/c.md", "b/d.html", "rows.jsonl#3"}
	assert.True(t, slices.Equal(keys, want), "planned are %q, want %q", keys, want)
	assert.Equal(t, core.LeftOut{Purged: 3}, res.LeftOut)
	assert.True(t, res.Purged == 4 && res.Diff.Removed == 0 && res.Diff.Added == 0 && res.Lost == 1 && !res.Unchanged,
		"%+v", res)
}

// keysOf returns the documents of the last plan.
func (x *index) keysOf() []string {
	var keys []string
	for key := range x.planned() {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func choosing(t *testing.T) *index {
	return newIndex(t, map[string]string{
		"readme.md": "a", "docs/one.md": "b", "docs/drafts/two.md": "c", "src/three.txt": "d", ".git/config.txt": "e",
		"docs/.hidden.md": "f", "node_modules/x/readme.md": "g", "web/node_modules/y/readme.md": "h",
		"web/.cache/node_modules/z.md": "i", ".github/guide.md": "j",
	})
}

// Promises: 99.
func TestHiddenFilesAndPackagesAreLeftOutAndCounted(t *testing.T) {
	x := choosing(t)
	x.corpus.Unlisted["node_modules/x/readme.md"] = fault.NotFollowed.At("list", "node_modules/x/readme.md")
	res := x.night(nil)
	assert.Equal(t, "[docs/drafts/two.md docs/one.md readme.md src/three.txt]", fmt.Sprint(x.keysOf()))
	assert.True(t, reflect.DeepEqual(res.LeftOut, core.LeftOut{Hidden: 3, Packages: 3}) && res.ProblemCount == 0,
		"%+v, %d problems", res.LeftOut, res.ProblemCount)
}

func TestPatternsChooseTheDocuments(t *testing.T) {
	for name, c := range map[string]struct {
		include, exclude []string
		want             string
		out              core.LeftOut
	}{
		"some": {
			[]string{"docs/**", "*.md"}, nil, "[docs/drafts/two.md docs/one.md readme.md]",
			core.LeftOut{Hidden: 3, Packages: 3, NotIncluded: 1},
		},
		"without some": {
			nil, []string{"**/drafts/**", "**/*.txt"}, "[docs/one.md readme.md]",
			core.LeftOut{Hidden: 3, Packages: 3, Excluded: 2},
		},
		"exclude wins": {
			[]string{"docs/*.{md,txt}"}, []string{"docs/one.md", "src/**"}, "",
			core.LeftOut{Hidden: 3, Packages: 3, NotIncluded: 3, Excluded: 1},
		},
		"hidden ones by name": {
			[]string{"**", ".github/**"}, nil, "[.github/guide.md docs/drafts/two.md docs/one.md readme.md src/three.txt]",
			core.LeftOut{Hidden: 2, Packages: 3},
		},
		"packages by name": {
			[]string{"**/node_modules/**"}, nil,
			"[node_modules/x/readme.md web/.cache/node_modules/z.md web/node_modules/y/readme.md]",
			core.LeftOut{Hidden: 3, NotIncluded: 4},
		},
	} {
		x := choosing(t)
		x.include, x.exclude = c.include, c.exclude
		res, err := x.plan(t.Context())
		if c.want == "" {
			assert.True(t, fault.Is(err, fault.CorpusEmpty) && reflect.DeepEqual(res.LeftOut, c.out),
				"%s: %v, %+v", name, err, res.LeftOut)
			continue
		}
		assert.True(t, err == nil && fmt.Sprint(x.keysOf()) == c.want && reflect.DeepEqual(res.LeftOut, c.out),
			"%s: %v, %v, %+v", name, x.keysOf(), err, res.LeftOut)
	}
}

// A file of no known type is read where it holds text, or as the index says; others are counted, and are no problem.
func TestFilesOfOtherTypesAreReadWhereTheyHoldText(t *testing.T) {
	x := newIndex(t, map[string]string{
		"NEWS": "It is blue.", "a.py": "def a(): pass", "wide.log": "\xff\xfea\x00b\x00", "feed.xml": "<a>b</a>",
		"__init__.py": "", "tool": "\x7fELF\x00\x00\x00\x00", "pic.PNG": "text all the same",
		"NEWS.gz": documenttest.Gzip("It was red."), "x.gz": documenttest.Gzip("\x00\x00\x00\x01"),
	})
	x.types = []string{"*.xml=html"}
	want := core.LeftOut{OtherTypes: 4, Extensions: map[string]int64{".py": 1, ".png": 1, ".gz": 1, "no extension": 1}}
	for night := range 2 {
		res := x.night(nil)
		assert.Equal(t, "[NEWS NEWS.gz a.py feed.xml wide.log]", fmt.Sprint(x.keysOf()))
		assert.True(t, reflect.DeepEqual(res.LeftOut, want) && res.ProblemCount == 0 && res.Refused == 0 &&
			(night <= 0 || res.Unchanged), "night %d: %+v", night, res)
		for key, row := range x.planned() {
			assert.True(t, (row.Kind == "html") == (key == "feed.xml"), "%s is read as %s", key, row.Kind)
		}
	}
	x.corpus.Set("NEWS", "\x7fELF\x00\x00\x00\x00")
	res := x.night(map[string]fault.Code{"NEWS": fault.BinaryContent})
	assert.True(t, res.Diff.Removed == 0 && res.Diff.Changed == 1, "a text that became binary: %+v", res)
}

// What lies behind a link that is not followed is not seen, so that no pattern can choose among it.
func TestALinkedFolderThatMayHoldWhatIsIncludedIsNamed(t *testing.T) {
	for pattern, named := range map[string]string{
		"**/*.md": "[src/linked web.d]", "src/**": "[src/linked]", "src/linked/deep/*.x": "[src/linked]",
		"s*/{linked,two}/*": "[src/linked]", "{src/linked,a}/*": "[src/linked web.d]", "*.md": "[]", "docs/**": "[]",
		"src/*.txt": "[]",
	} {
		x := choosing(t)
		x.include = []string{pattern, "readme.md"}
		for _, link := range []string{"src/linked", "web.d", "a.txt"} {
			x.corpus.Set(link, "")
			x.corpus.Unlisted[link] = fault.NotFollowed.At("list", link)
		}
		res, err := x.plan(t.Context())
		names := []string{}
		for _, problem := range res.Problems {
			names = append(names, problem.Object)
		}
		slices.Sort(names)
		if got := fmt.Sprint(names); err != nil || got != named || res.ProblemCount != int64(len(names)) {
			t.Errorf("%s: %s, want %s, %v", pattern, got, named, err)
		}
	}
}

// Promises: 99.
func TestDocumentsThatFallOutOfThePatternsAreRemoved(t *testing.T) {
	x := choosing(t)
	x.night(nil)
	x.exclude = []string{"docs/**"}
	res := x.night(nil)
	assert.True(t, res.Diff.Removed == 2 && res.Diff.Same == 2 && res.RemovedShare == 0.5 && !res.Unchanged &&
		res.Lost == 0, "%+v", res)
	again := x.night(nil)
	assert.True(t, again.Unchanged, "the same patterns, another time: %+v", again.Diff)
	x.exclude = []string{"docs/**", "nothing/**"}
	again = x.night(nil)
	assert.True(t, again.Unchanged, "patterns that choose the same: %+v", again.Diff)
	assert.Empty(t, plan.SpecChanges(core.Spec{}, core.Spec{Include: []string{"a"}}), "patterns make nothing again")
}

// A pattern whose alternatives multiply is tried for years on one name: it is refused, wherever it comes from.
func TestPatternsThatNeverEndAreRefused(t *testing.T) {
	for _, pattern := range []string{
		strings.Repeat("{a,a}", 40) + "b", strings.Repeat("{a,{a,a}}", 12) + "b", strings.Repeat("a", 1001), "", "[",
	} {
		for _, excluded := range []bool{false, true} {
			x := newIndex(t, map[string]string{strings.Repeat("a", 40) + ".txt": "some text"})
			if excluded {
				x.exclude = []string{pattern}
			} else {
				x.include = []string{pattern}
			}
			musttest.Code(t, musttest.Err(x.plan(t.Context())), fault.BadConfig, "%.40q", pattern)
		}
	}
	for _, pattern := range []string{"**/*.{md,txt,pdf,docx}", "{a,b}/{c,d}/**/{e,f}*", strings.Repeat("*a", 100)} {
		assert.Empty(t, core.PatternMistake(pattern), pattern)
	}
}

// A change of the file of metadata beside a document is one of the document, whether or not the others are planned too.
func TestAChangeOfMetadataBesideADocumentIsOneOfTheDocument(t *testing.T) {
	x := published(t, map[string]string{"a.txt": "one", "a.txt.meta.json": "{}", "b.txt": "two"})
	for n, c := range []struct {
		change  func()
		changed int64
	}{
		{func() {}, 0},
		{func() { x.corpus.Set("a.txt.meta.json", `{"a":1}`) }, 1},
		{func() {}, 0},
		{func() { x.corpus.Remove("a.txt.meta.json") }, 1},
	} {
		c.change()
		x.part = true
		made := stagetest.Must(x.plan(t.Context()))
		assert.True(t, made.Made == c.changed && made.Diff.Changed == c.changed, "%d: %+v", n, made)
		x.part = false
		res := x.night(nil)
		assert.True(t, res.Listed == 2 && res.Diff.Changed == c.changed && res.Unchanged == (c.changed == 0), "%d: %+v", n, res)
	}
}

// lateTags gives the tags of later objects alone.
type lateTags struct {
	blob.Store
	asked int
}

func (l *lateTags) ReadTags(_ context.Context, key string) (map[string]string, error) {
	if l.asked++; key < "1500" {
		return nil, blob.ErrTagsRefused
	}
	return nil, nil
}

// Many objects whose tags are refused hide no others behind them.
func TestTagsAreAskedForBehindRefusedOnes(t *testing.T) {
	found := 0
	for run := range 20 {
		ask, corpus := plan.AskTags(t.Context(), fmt.Sprint(run)), &lateTags{}
		for i := 1000; i < 2000; i++ {
			if ask(corpus, fmt.Sprint(i)) == nil {
				found++
				break
			}
		}
		assert.Less(t, corpus.asked, 100)
	}
	assert.Greater(t, found, 15)
}

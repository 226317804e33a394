package plan_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/plan"
)

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
	t.Helper()
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
		"NEWS.gz": packed("It was red."), "x.gz": packed("\x00\x00\x00\x01"),
	})
	x.types = []string{"*.xml=html"}
	want := core.LeftOut{OtherTypes: 4, Extensions: map[string]int64{".py": 1, ".png": 1, ".gz": 1, "no extension": 1}}
	for night := range 2 {
		res := x.night(nil)
		assert.Equal(t, "[NEWS NEWS.gz a.py feed.xml wide.log]", fmt.Sprint(x.keysOf()))
		if !reflect.DeepEqual(res.LeftOut, want) || res.ProblemCount != 0 || res.Refused != 0 || night > 0 && !res.Unchanged {
			t.Errorf("night %d: %+v", night, res)
		}
		for key, row := range x.planned() {
			assert.True(t, (row.Kind == "html") == (key == "feed.xml"), "%s is read as %s", key, row.Kind)
		}
	}
	x.corpus.Set("NEWS", "\x7fELF\x00\x00\x00\x00")
	res := x.night(map[string]fault.Code{"NEWS": fault.BinaryContent})
	assert.True(t, res.Diff.Removed == 0 && res.Diff.Changed == 1, "a text that became binary: %+v", res)
}

func packed(text string) string {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return out.String()
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
	if res.Diff.Removed != 2 || res.Diff.Same != 2 || res.RemovedShare != 0.5 || res.Unchanged || res.Lost != 0 {
		t.Errorf("%+v", res)
	}
	again := x.night(nil)
	assert.True(t, again.Unchanged, "the same patterns, another time: %+v", again.Diff)
	x.exclude = []string{"docs/**", "nothing/**"}
	if again := x.night(nil); !again.Unchanged {
		t.Errorf("patterns that choose the same: %+v", again.Diff)
	}
	reasons := plan.SpecChanges(core.Spec{}, core.Spec{Include: []string{"a"}})
	assert.True(t, len(reasons) <= 0, "patterns make nothing again: %v", reasons)
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
			_, err := x.plan(t.Context())
			assert.True(t, fault.Is(err, fault.BadConfig), "%.40q: %v", pattern, err)
		}
	}
	for _, pattern := range []string{"**/*.{md,txt,pdf,docx}", "{a,b}/{c,d}/**/{e,f}*", strings.Repeat("*a", 100)} {
		why := core.PatternMistake(pattern)
		assert.True(t, why == "", "%s %s", pattern, why)
	}
}

package audit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stage/classmerge"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
	"github.com/unweaver/unweaver/internal/text/classtext"
)

// newIn returns what a unit works on: a generation in whose tables nothing counts.
func newIn() In {
	in := In{
		Artifacts: artifact.Index{Store: blobmemory.New(), Name: "docs"}, Manifest: &core.Manifest{},
		Table: &segments.Table{Files: &segments.Files{}}, OnProgress: func() {},
	}
	in.Manifest.Made.ClassText = classmerge.RecipeVersion(false)
	in.Spec.Shortening.Threshold = 1000
	return in
}

func key(n byte) string { return string([]byte{n, 15: 0}) }

func TestUnitsTogetherCountAllAndKeepAFewFindingsOfEachKind(t *testing.T) {
	var all Result
	for unit := range 3 {
		one := Result{Checked: core.Audited{Classes: 2, Bytes: 5}, Unread: unit == 1}
		one.Content.Add(core.Sum(fmt.Sprint(unit)))
		for n := range Examples {
			one.AddFinding(core.Found{Kind: core.DriftRecord, Object: fmt.Sprint(unit, n)}, n == 0)
		}
		one.AddFinding(core.Found{Kind: fmt.Sprint("kind ", unit)}, false)
		all.Merge(one)
	}
	assert.Equal(t, core.Audited{Classes: 6, Bytes: 15}, all.Checked)
	assert.Equal(t, []core.Drift{{Kind: core.DriftRecord, Found: 3 * Examples, Mended: 3}, {Kind: "kind 0", Found: 1},
		{Kind: "kind 1", Found: 1}, {Kind: "kind 2", Found: 1}}, all.Drift)
	require.Len(t, all.Findings, Examples+3)
	assert.Equal(t, "0 9", all.Findings[Examples-1].Object, "the first ones")
	assert.True(t, all.Unread)
	var again core.SetHash
	for _, unit := range []string{"2", "0", "1"} {
		again.Add(core.Sum(unit))
	}
	assert.Equal(t, again, all.Content, "whatever their order")
}

// Mentions and rows are read once, in one order, however they lie in segments and in which parts they are read.
func TestASourceGivesWhatCountsOnceInOrder(t *testing.T) {
	in, random, dead := newIn(), rand.New(rand.NewPCG(1, 1)), func(number int64) bool { return number%3 == 1 }
	var source Source
	var mentions, classes []string
	noise := strings.Repeat("what is said of it ", 5000) // so that a segment has several frames
	for range 3 {
		var found, made []stagetest.Row
		for n := range byte(40) {
			for i := range random.IntN(5) {
				one := rows.Mention{Number: int64(random.IntN(9)), Document: fmt.Sprint(i / 2), Ordinal: i%2*3 + random.IntN(3)}
				one.Description = noise
				found = append(found, stagetest.Row{Key: key(n), Value: string(one.Encode())})
				if !dead(one.Number) {
					mentions = append(mentions, fmt.Sprint(n+100, one.Document, one.Ordinal))
				}
			}
			if number := int64(len(made)); random.IntN(3) == 0 {
				if made = append(made, stagetest.Row{Key: key(n), Value: noise}); !dead(number) {
					classes = append(classes, fmt.Sprint(n+100))
				}
			}
		}
		source.Mentions = append(source.Mentions, Part{stagetest.Segment(t, in.Artifacts, found...), dead})
		source.Classes = append(source.Classes, Part{stagetest.Segment(t, in.Artifacts, made...), dead})
	}
	for _, bounds := range [][]string{{"", ""}, {"", key(11), key(12), key(30), ""}} {
		var got []mention
		var keys []string
		for i := range len(bounds) - 1 {
			for one := range musttest.All(t, source.mergeMentions(t.Context(), in.Artifacts, bounds[i], bounds[i+1])) {
				got = append(got, one)
			}
			for row := range musttest.All(t, source.mergeRows(t.Context(), in.Artifacts, bounds[i], bounds[i+1])) {
				keys = append(keys, fmt.Sprint(row.Key[0]+100))
			}
		}
		var have []string
		for _, one := range got {
			have = append(have, fmt.Sprint(one.class[0]+100, one.Document, one.Ordinal))
		}
		assert.True(t, slices.IsSorted(have), "mentions in %q", bounds)
		assert.ElementsMatch(t, mentions, have)
		assert.ElementsMatch(t, classes, keys)
		assert.True(t, slices.IsSorted(keys), "rows in %q", bounds)
	}
}

// A row that differs in one part is reported with that part alone; in these tables no class counts, and no mention.
func TestARowIsComparedWithItsMentionsPartByPart(t *testing.T) {
	for want, change := range map[string]func(*rows.Class, *rows.Record){
		"mentions":                func(*rows.Class, *rows.Record) {},
		"name, mentions":          func(_ *rows.Class, record *rows.Record) { record.Name = "Other" },
		"type, mentions":          func(_ *rows.Class, record *rows.Record) { record.Type = "Place" },
		"text digest, mentions":   func(class *rows.Class, _ *rows.Record) { class.Text[0]++ },
		"text, mentions":          func(_ *rows.Class, record *rows.Record) { record.Text += "." },
		"mentions, vector digest": func(class *rows.Class, _ *rows.Record) { class.Vector[0]++ },
		"name, text digest, mentions, vector digest": func(class *rows.Class, record *rows.Record) {
			record.Name, class.Text, class.Vector = "", core.Digest{}, core.Digest{}
		},
	} {
		in := newIn()
		said := rows.Mention{Surface: "Alma", Description: "A port.", Document: "a.txt"}
		fold := classmerge.BeginClass(core.ID{1}, in.Spec)
		fold.Add(said)
		made := fold.End()
		record := rows.Record{ID: core.ID{1}, Name: made.Name, Text: classtext.FinalText(made.Name, made.Descriptions, "", false)}
		class := rows.Class{Text: made.Text, Vector: embed.Digest(record.Text, in.Manifest.Class.Digest())}
		change(&class, &record)
		class.Record = record.Encode()
		mentions := stagetest.Segment(t, in.Artifacts, stagetest.Row{Key: key(1), Value: string(said.Encode())})
		stored := stagetest.Segment(t, in.Artifacts, stagetest.Row{Key: key(1), Value: string(class.Encode())})
		got := musttest.Get(AuditClasses(t.Context(), in, Source{[]Part{{mentions, nil}}, []Part{{stored, nil}}}, "", ""))(t)
		var content core.SetHash
		content.Add(classmerge.Content(core.ID{1}, made))
		assert.Equal(t, content, got.Content, "the hash is that of the mentions")
		require.Len(t, got.Findings, 2)
		assert.Equal(t, "its row differs from its mentions: "+want, got.Findings[0].Why)
		assert.Equal(t, "it has a row, and the class does not count", got.Findings[1].Why)
		// Of a generation that a release with other rules made, names and texts are what its rows say.
		in.Manifest.Made.ClassText = "text/0"
		got = musttest.Get(AuditClasses(t.Context(), in, Source{[]Part{{mentions, nil}}, []Part{{stored, nil}}}, "", ""))(t)
		made.Name, made.Text, content = record.Name, class.Text, core.SetHash{}
		content.Add(classmerge.Content(core.ID{1}, made))
		assert.Equal(t, content, got.Content, want)
		for _, what := range []string{"name", "text digest", "text,"} {
			assert.NotContains(t, got.Findings[0].Why, what, want)
		}
		for name, source := range map[string]Source{"it has mentions but no row": {Mentions: []Part{{mentions, nil}}},
			"it has a row but no mentions": {Classes: []Part{{stored, nil}}}} {
			got = musttest.Get(AuditClasses(t.Context(), in, source, "", ""))(t)
			assert.Equal(t, name, got.Findings[0].Why)
		}
	}
}

func TestADocumentThatDoesNotCountIsReportedUnlessItIsDead(t *testing.T) {
	in := newIn()
	var list []stagetest.Row
	for n := range 5 {
		document := rows.Document{Chunks: make([]rows.Place, n)}
		list = append(list, stagetest.Row{Key: fmt.Sprintf("%d.txt", n), Value: string(document.Encode())})
	}
	got := musttest.Get(AuditDocuments(t.Context(), in, stagetest.Segment(t, in.Artifacts, list...),
		func(row int) bool { return row == 1 }))(t)
	assert.Equal(t, core.Audited{Documents: 4, Chunks: 9}, got.Checked)
	assert.Equal(t, []core.Drift{{Kind: core.DriftDocument, Found: 4}}, got.Drift)
	for _, found := range got.Findings {
		assert.Equal(t, "it does not count", found.Why)
	}
	damaged := stagetest.Segment(t, in.Artifacts, stagetest.Row{Key: "a", Value: "x"})
	assert.Error(t, musttest.Err(AuditDocuments(t.Context(), in, damaged, nil)))
	for _, source := range []Source{{Mentions: []Part{{damaged, nil}}}, {Classes: []Part{{core.Segment{SHA256: "0"}, nil}}}} {
		assert.Error(t, musttest.Err(AuditClasses(t.Context(), in, source, "", "")))
	}
}

package plan_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

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

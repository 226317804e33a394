package enrich_test

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// settings are those of an enrichment.
type settings struct {
	Size  int     `json:"size"`
	Share float64 `json:"share"`
}

// usual are what an index has that says nothing. A specification with them is that of a release without the enrichment.
var usual = settings{Size: 7, Share: 0.5}

func TestSettingsAreReadAsTheyWereSet(t *testing.T) {
	var spec core.Spec
	enrich.SetSettings(&spec, "themes", usual, usual)
	assert.Nil(t, spec.EnrichSettings, "the usual settings are not written")
	assert.Equal(t, usual, enrich.ReadSettings(spec, "themes", usual))
	before := spec
	enrich.SetSettings(&spec, "themes", settings{Share: 0.25}, usual)
	one := spec
	enrich.SetSettings(&spec, "pairs", settings{Size: 9}, usual)
	enrich.SetSettings(&spec, "themes", settings{Size: 8}, usual)
	for name, c := range map[string]struct {
		spec          core.Spec
		themes, pairs settings
	}{
		"none": {before, usual, usual}, "one": {one, settings{Share: 0.25}, usual}, // zero is said, too
		"two": {spec, settings{Size: 8}, settings{Size: 9}},
	} {
		assert.Equal(t, c.themes, enrich.ReadSettings(c.spec, "themes", usual), name)
		assert.Equal(t, c.pairs, enrich.ReadSettings(c.spec, "pairs", usual), name)
	}
	enrich.SetSettings(&spec, "themes", usual, usual)
	assert.Equal(t, usual, enrich.ReadSettings(spec, "themes", usual), "settings stay that were set before")
	assert.Equal(t, settings{Size: 9}, enrich.ReadSettings(spec, "pairs", usual))
	enrich.SetSettings(&spec, "pairs", usual, usual)
	assert.Nil(t, spec.EnrichSettings)
	spec.EnrichSettings = map[string]json.RawMessage{"themes": json.RawMessage(`{"size":9}`)}
	assert.Equal(t, settings{9, 0.5}, enrich.ReadSettings(spec, "themes", usual), "what is not said is usual")
	assert.Panics(t, func() { enrich.SetSettings(&spec, "themes", settings{Share: math.NaN()}, usual) })
}

func TestAFileOfAnEnrichmentIsStoredOnceAndWholeOrNot(t *testing.T) {
	store := blobmemory.New()
	index, made := artifact.Index{Store: store, Name: "docs"}, enrich.Made{}
	write := func(text string, err error) func(io.Writer) (int64, error) {
		return func(to io.Writer) (int64, error) {
			musttest.Get(io.WriteString(to, text))(t)
			return int64(len(text)), err
		}
	}
	broken := errors.New("broken")
	require.ErrorIs(t, made.AddFile(t.Context(), index, "themes", "tree", write("half", broken)), broken)
	require.Error(t, made.AddFile(musttest.EndedContext(t), index, "themes", "tree", write("half", nil)))
	assert.Zero(t, made)
	for info := range musttest.All(t, store.List(t.Context(), "", "")) {
		assert.Fail(t, "a part is stored", info.Key)
	}
	for _, text := range []string{"first", "second", "first"} {
		require.NoError(t, made.AddFile(t.Context(), index, "themes", text, write(text, nil)))
	}
	assert.Equal(t, int64(2), made.Fresh, "equal files are one")
	require.Len(t, made.Files, 3)
	for i, text := range []string{"first", "second", "first"} {
		file := made.Files[i]
		assert.Equal(t, []any{"themes", text, int64(len(text))}, []any{file.Of, file.Kind, file.Rows})
		_, err := store.Stat(t.Context(), index.SegmentKey(file.SHA256))
		require.NoError(t, err)
	}
	assert.Equal(t, made.Files[0].Segment, made.Files[2].Segment)
}

package artifact_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

// A pointer that is cut, or that names no generation or two, is damage, and never an index without a generation.
// Promises: 139.
func TestAPointerNamesOneGenerationOrIsDamaged(t *testing.T) {
	x := artifact.Index{Store: blobmemory.New(), Name: "docs"}
	if pointer, etag, err := x.ReadPointer(t.Context()); err != nil || etag != "" || pointer != (core.Pointer{}) {
		t.Errorf("before the first publication: %+v %q %v", pointer, etag, err)
	}
	sha, err := x.PutManifest(t.Context(), &core.Manifest{Generation: "g1", Seq: 3, Format: core.ManifestFormat})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		raw  string
		read bool // Current gives it, and Pointed does not
	}{
		"empty": {"", false}, "cut": {`{"generation":"g1"`, false}, "null": {"null", false}, "nothing": {"{}", false},
		"no manifest":        {`{"generation":"g1","seq":3,"epoch":1}`, false},
		"no generation":      {`{"manifest":"` + sha + `","seq":3,"epoch":1}`, false},
		"an epoch below all": {`{"generation":"g1","manifest":"` + sha + `","seq":3,"epoch":-1}`, false},
		"two generations":    {`{"generation":"g2","manifest":"` + sha + `","seq":3,"epoch":1}`, true},
		"two numbers":        {`{"generation":"g1","manifest":"` + sha + `","seq":4,"epoch":1}`, true},
		"a manifest that is not there": {`{"generation":"g1","manifest":"` + strings.Repeat("0", 64) + `","seq":3,"epoch":1}`,
			true},
	} {
		must(blob.Write(t.Context(), x.Store, x.CurrentKey(), []byte(c.raw), blob.Cond{}))
		pointer, _, err := x.ReadPointer(t.Context())
		if c.read && err == nil {
			_, err = x.ManifestOf(t.Context(), pointer)
		} else if c.read {
			t.Errorf("%s: %v", name, err)
		}
		assert.True(t, fault.Is(err, fault.SegmentDamage), "%s: %+v %v", name, pointer, err)
	}
	manifest, err := x.ManifestOf(t.Context(), core.Pointer{Generation: "g1", Manifest: sha, Seq: 3, Epoch: 1})
	assert.True(t, err == nil && manifest.Generation == "g1", "%+v %v", manifest, err)
}

func TestAnObjectIsIntactWhereItIsWhatItsNameSays(t *testing.T) {
	x := artifact.Index{Store: blobmemory.New(), Name: "docs"}
	file := must(artifact.NewFile())
	defer file.Discard()
	must(file.Write([]byte("content")))
	segment, _, err := file.PutSegment(t.Context(), x)
	require.NoError(t, err)
	for _, c := range []struct {
		content string
		intact  bool
	}{{"content", true}, {"contenT", false}, {"conten", false}, {"contents", false}, {"", false}} {
		key := x.SegmentKey(segment.SHA256)
		must(blob.Write(t.Context(), x.Store, key, []byte(c.content), blob.Cond{}))
		intact, err := x.IsIntact(t.Context(), segment.SHA256, nil)
		assert.True(t, err == nil && intact == c.intact, "%q is intact: %t, %v", c.content, intact, err)
	}
	require.NoError(t, x.Store.Delete(t.Context(), x.SegmentKey(segment.SHA256)))
	intact, err := x.IsIntact(t.Context(), segment.SHA256, nil)
	assert.True(t, err == nil && !intact, "one that is gone is intact: %t, %v", intact, err)
}

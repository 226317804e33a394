package overlay_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/overlay"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/blobtest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestOverNothingItIsAStoreAsAnyOther(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blob.Store { return overlay.New(blobmemory.New(), blobmemory.New()) })
}

func keys(t *testing.T, store blob.Store) []string {
	var out []string
	for info := range musttest.All(t, store.List(t.Context(), "", "")) {
		out = append(out, info.Key)
	}
	return out
}

func put(t *testing.T, store blob.Store, key, content string) {
	musttest.Get(blob.Write(t.Context(), store, key, []byte(content), blob.Cond{}))(t)
}

func read(ctx context.Context, store blob.Store, key string) string {
	raw, _, err := blob.Read(ctx, store, key)
	if err != nil {
		return "error: " + string(fault.CodeOf(err))
	}
	return string(raw)
}

func TestWhatIsWrittenHidesWhatLiesBelowAndChangesNothingThere(t *testing.T) {
	lower := blobmemory.New()
	put(t, lower, "a", "below a")
	put(t, lower, "c", "below c")
	over := overlay.New(lower, blobmemory.New())
	put(t, over, "a", "above a")
	put(t, over, "b", "above b")
	put(t, over, "d", "above d")
	assert.Equal(t, []string{"a", "b", "c", "d"}, keys(t, over), "listed")
	for info, err := range over.List(t.Context(), "", "") {
		if stat, statErr := over.Stat(t.Context(), info.Key); err != nil || statErr != nil || info.ETag != stat.ETag {
			t.Errorf("%s is listed with the tag %q, and has %q: %v, %v", info.Key, info.ETag, stat.ETag, err, statErr)
		}
	}
	for key, want := range map[string]string{"a": "above a", "b": "above b", "c": "below c"} {
		assert.Equal(t, want, read(t.Context(), over, key), "%s holds", key)
	}
	require.NoError(t, over.Delete(t.Context(), "c"))
	if got := keys(t, lower); !slices.Equal(got, []string{"a", "c"}) || read(t.Context(), lower, "a") != "below a" {
		t.Errorf("below: %v, a holds %q", got, read(t.Context(), lower, "a"))
	}
}

func TestConditionsAreHeldToWhatIsSeen(t *testing.T) {
	lower := blobmemory.New()
	put(t, lower, "a", "below")
	over := overlay.New(lower, blobmemory.New())
	musttest.Refuse(blob.Write(t.Context(), over, "a", nil, blob.Cond{Absent: true}))(t, fault.Precondition)
	info := musttest.Get(over.Stat(t.Context(), "a"))(t)
	assert.NoError(t, musttest.Err(blob.Write(t.Context(), over, "a", []byte("x"), blob.Cond{Match: info.ETag})))
	musttest.Refuse(blob.Write(t.Context(), over, "a", nil, blob.Cond{Match: info.ETag}))(t, fault.Precondition)
}

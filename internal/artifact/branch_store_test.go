package artifact_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/blobtest"
)

func TestAStoreOfBranchesIsAStore(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blob.Store { return artifact.NewBranched(blobmemory.New()) })
}

func TestWhatABranchSharesLiesBelowItsBase(t *testing.T) {
	below := blobmemory.New()
	store := artifact.NewBranched(below)
	branch := artifact.New(store, "exp")
	require.NoError(t, branch.PutBase(t.Context(), "docs"))
	assert.NoError(t, branch.PutBase(t.Context(), "docs"), "it may not be repeated")
	err := branch.PutBase(t.Context(), "other")
	assert.True(t, fault.Is(err, fault.Usage), "the name is given to another base: %v", err)
	for _, key := range []string{"exp/segments/a", "exp/segments/b", "exp/specs/c.json", "exp/lease.json", "exp/current.json"} {
		info, err := blob.Write(t.Context(), store, key, []byte(key), blob.Cond{Absent: true})
		require.True(t, err == nil && info.Key == key, "%s: %+v, %v", key, info, err)
		raw, _, err := blob.Read(t.Context(), store, key)
		assert.True(t, err == nil && string(raw) == key, "%s reads %q, %v", key, raw, err)
	}
	keys := func(of blob.Store, prefix, after string) (out []string) {
		for info, err := range of.List(t.Context(), prefix, after) {
			require.NoError(t, err)
			out = append(out, info.Key)
		}
		return out
	}
	want := []string{"_branches/exp.json", "docs/lease.json", "docs/segments/a", "docs/segments/b", "docs/specs/c.json",
		"exp/current.json"}
	got := keys(below, "", "")
	assert.True(t, slices.Equal(got, want), "below lie %v", got)
	assert.Equal(t, []string{"exp/segments/b"}, keys(store, "exp/segments/", "exp/segments/a"), "listed")
	to := blobmemory.New()
	assert.NoError(t, blob.Copy(t.Context(), to, "copy", store, "exp/segments/a"), "a copy")
	require.NoError(t, store.DeleteAll(t.Context(), []string{"exp/segments/a"}))
	_, err = store.Stat(t.Context(), "docs/segments/a")
	assert.True(t, fault.Is(err, fault.NotFound), "it is there after it was deleted: %v", err)
}

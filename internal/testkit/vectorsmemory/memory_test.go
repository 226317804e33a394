package vectorsmemory_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

func TestConformance(t *testing.T) {
	vectorstest.Run(t, func(*testing.T) vectors.Store { return vectorsmemory.New() })
}

func TestVectorsAreTheStoresOwn(t *testing.T) {
	store := vectorsmemory.New()
	require.NoError(t, store.Create(t.Context(), "c", 2))
	vector := []float32{1, 0}
	require.NoError(t, store.Upsert(t.Context(), "c", []vectors.Row{{Key: "k", Vector: vector}}))
	vector[0] = 0
	for range 2 {
		got, err := store.Fetch(t.Context(), "c", []string{"k"})
		require.True(t, err == nil && slices.Equal(got[0], []float32{1, 0}), "got %v, %v", got, err)
		got[0][1] = 7
	}
}

func TestOnlyALoadedCollectionIsSearched(t *testing.T) {
	store := vectorsmemory.New()
	require.NoError(t, store.Create(t.Context(), "c", 2))
	musttest.Refuse(store.Search(t.Context(), "c", []float32{1, 0}, 1))(t, fault.StoreDown)
}

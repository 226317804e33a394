package artifact_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
)

// Rows of a key may lie in several frames, and keys that a file does not have are asked for too.
func TestRowsUnderKeysAreThoseOfAScan(t *testing.T) {
	store := artifacttest.New()
	rows := must(artifact.NewRows())
	defer rows.Discard()
	random := rand.New(rand.NewPCG(1, 2))
	var all [][2]string
	for i := range 800 {
		key := fmt.Sprintf("k%04d", 2*i)
		for range 1 + random.IntN(60)*(1-min(1, random.IntN(20))) {
			value := fmt.Sprintf("%s %0200d", key, random.IntN(1000))
			rows.Append(key, []byte(value))
			all = append(all, [2]string{key, value})
		}
	}
	require.NoError(t, rows.StoreScratch(t.Context(), store, "f"))
	info, err := store.Stat(t.Context(), "f")
	require.NoError(t, err)
	for _, share := range []int{1, 3, 40, 799, 1600} {
		var keys []string
		for i := range 1600 {
			if random.IntN(1600) < share {
				keys = append(keys, fmt.Sprintf("k%04d", i))
			}
		}
		var want, got [][2]string
		for _, row := range all {
			if slices.Contains(keys, row[0]) {
				want = append(want, row)
			}
		}
		store.Reset()
		for row, err := range artifact.RowsUnder(t.Context(), store, "f", info.Size, slices.Values(keys)) {
			require.NoError(t, err)
			got = append(got, [2]string{string(row.Key), string(row.Value)})
		}
		assert.True(t, slices.Equal(got, want), "%d keys: %d rows, want %d", len(keys), len(got), len(want))
	}
}

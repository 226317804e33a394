package liveset

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
)

// However ids are spread, each is found where it is, and what is not there is not; digests at few looks, others at no
// more than halving takes behind the guesses.
func TestAPlaceIsFoundByItsID(t *testing.T) {
	const n = 5000
	random := rand.New(rand.NewPCG(7, 7))
	for name, first := range map[string]func(i int) uint64{
		"digests":   func(int) uint64 { return random.Uint64() },
		"low":       func(i int) uint64 { return uint64(i) },
		"high":      func(i int) uint64 { return math.MaxUint64 - uint64(i) },
		"equal":     func(int) uint64 { return 1 << 63 },
		"two heaps": func(i int) uint64 { return uint64(i%2) * (math.MaxUint64 - uint64(i)) },
		"steep":     func(i int) uint64 { return math.MaxUint64 >> (i % 64) },
	} {
		ids := make([]core.ID, n)
		for i := range ids {
			binary.BigEndian.PutUint64(ids[i][:], first(i))
			binary.BigEndian.PutUint64(ids[i][8:], uint64(2*i+1))
		}
		slices.SortFunc(ids, func(a, b core.ID) int { return bytes.Compare(a[:], b[:]) })
		looks, most := 0, 0
		find := func(id core.ID, among []core.ID) int {
			before := looks
			place := placeOf(&id, len(among), func(i int) *core.ID { looks++; return &among[i] })
			most = max(most, looks-before)
			return place
		}
		for i, id := range ids {
			require.Equal(t, i, find(id, ids), "%s", name)
		}
		assert.True(t, name != "digests" || looks <= 6*n, "%d looks for %d digests", looks, n)
		for _, id := range ids {
			id[15]-- // the neighbour below, which no class has
			require.Equal(t, -1, find(id, ids), "%s: what is not there is found at", name)
		}
		assert.True(t, most <= mostGuesses+13, "%s: %d looks for one", name, most)
		assert.True(t, find(ids[0], nil) == -1 && find(ids[0], ids[:1]) == 0 && find(ids[1], ids[:1]) == -1, "%s", name)
	}
}

package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
)

// A night looks up what it paid for before, in whatever order: each frame of a pack is read once, and side by side.
func TestLookUpsInADistantPackReadEachFrameOnceAndSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const entries = 1000
		near := blobmemory.New()
		noise := rand.New(rand.NewPCG(1, 2))
		stored := func(yield func(ledger.Stored, error) bool) {
			for i := range entries { // as many first bytes as there are, so that keys are spread over the frames
				key := core.Digest{byte(i >> 2), byte(i << 6)}
				value := make([]byte, 1000)
				for j := range value {
					value[j] = byte(noise.Uint32())
				}
				if !yield(ledger.Stored{Key: key, Value: append(value, fmt.Sprint(i)...)}, nil) {
					return
				}
			}
		}
		require.Equal(t, entries, must(ledger.New(near, newClaims()).PackEntries(t.Context(), ledger.Extract, stored)))
		requests := distance.New(15 * time.Millisecond)
		l := ledger.New(distance.Blob(near, requests), newClaims())
		begin := time.Now()
		if _, err := l.Get(t.Context(), ledger.Extract, key(0), 0); err != nil { // it opens the packs; others wait for it
			t.Fatal(err)
		}
		for range 2 {
			var all sync.WaitGroup
			for i := range entries {
				all.Go(func() {
					key := core.Digest{byte(i >> 2), byte(i << 6)}
					entry, err := l.Get(t.Context(), ledger.Extract, key, 0)
					assert.True(t, err == nil && entry != nil && entry.Packed && string(entry.Value[1000:]) == fmt.Sprint(i),
						"entry %d: %v, %v", i, entry != nil, err)
				})
			}
			all.Wait()
		}
		passed, counted := time.Since(begin), requests.Take()
		t.Logf("%s\n%s", passed, counted)
		assert.True(t, counted.Chain <= 14 && counted.Of("ledger/extract/packs", distance.Get) <= 30,
			"in a chain of %d:\n%s", counted.Chain, counted)
	})
}

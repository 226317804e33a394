package chunk

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
)

// Records of any size do not gather in memory: what is given and not done yet has aheadRoom at most, or is one record.
func TestWhatWaitsIsBoundedByItsBytes(t *testing.T) {
	sizes := []int64{1, aheadRoom, 3 * aheadRoom, aheadRoom / 2, aheadRoom / 2, aheadRoom / 2, 0, 2}
	plan := func(yield func(artifact.Row, error) bool) {
		for _, size := range sizes {
			if !yield(artifact.Row{Key: []byte("r#1"), Value: rows.Plan{Line: 1, Size: size}.Encode()}, nil) {
				return
			}
		}
	}
	room := semaphore.NewWeighted(aheadRoom)
	next, stop := iter.Pull2(streamUpcoming(t.Context(), plan, room))
	defer stop()
	for i, size := range sizes {
		given, err, ok := next()
		require.True(t, ok && err == nil && given.plan.Size == size, "%d: %+v, %v", i, given, err)
		full := !room.TryAcquire(aheadRoom - given.room + 1)
		assert.True(t, full, "a record of %d bytes takes room for %d", size, given.room)
		room.Release(given.room)
	}
	// While nothing is done, a record that takes all the room waits for the one before it.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	given := 0
	for _, err := range streamUpcoming(ctx, plan, semaphore.NewWeighted(aheadRoom)) {
		if err != nil {
			break
		}
		given++
		cancel()
	}
	assert.Equal(t, 1, given)
}

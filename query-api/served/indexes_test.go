package served

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
)

// What the artifact says counts, also where its epoch is lower, as after a backup was put back; of two readings the one
// that began later.
func TestTheLatestReadingOfAPointerCountsWhateverItsEpoch(t *testing.T) {
	x, began := &index{}, time.Now()
	for i, c := range []struct {
		epoch, want int64
		after       time.Duration
	}{{4, 4, 0}, {1, 1, 2 * time.Second}, {9, 1, time.Second}, {2, 2, 3 * time.Second}} {
		x.learnPointer(core.Pointer{Generation: "g", Manifest: "m", Epoch: c.epoch}, core.Pointer{}, began.Add(c.after))
		assert.Equal(t, c.want, x.lastPointer().Epoch, "reading %d: epoch", i)
	}
}

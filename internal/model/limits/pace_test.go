package limits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// What is admitted ahead follows how fast places come free and how long it takes to be admitted.
func TestAsManyAreAdmittedAheadAsHaveTheirTurnMeanwhile(t *testing.T) {
	for _, c := range []struct {
		every, takes time.Duration
		want         int
	}{
		{10 * time.Second, 5 * time.Millisecond, 1},        // a slow model: the next one
		{3125 * time.Microsecond, 5 * time.Millisecond, 4}, // 320 a second, 10 ms each
		{10 * time.Millisecond, 15 * time.Millisecond, 3},  // 512 calls of 5 s, stores far away
		{time.Millisecond, time.Second, 64},                // no more than that
		{10 * time.Millisecond, time.Second, 10},           // 100 ms at most
	} {
		var p pace
		now := time.Now()
		for range 5000 {
			now = now.Add(c.every)
			p.recordFree(now)
		}
		for range 50 {
			p.recordWait(c.takes)
		}
		assert.InDelta(t, float64(c.want)+0.5, p.countAhead(), 0.5, "a place every %s, %s to be admitted", c.every, c.takes)
	}
	var fresh pace
	assert.Equal(t, 1, fresh.countAhead())
}

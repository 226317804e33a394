package dev

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestGarbageIsAShareOfASmallHeapAndBoundedInALargeOne(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 200, 40 << 20: 200, 96 << 20: 200, 128 << 20: 150, 192 << 20: 100, 256 << 20: 75, 4 << 30: 50,
	} {
		got := garbagePercent(live)
		assert.True(t, got == want, "%d MiB live: %d percent, not %d", live>>20, got, want)
	}
}

// One collection may come before the call after the one before has ended: so it is collected until a call comes.
func TestCollectionsAreFollowedByCallsForEver(t *testing.T) {
	called := make(chan struct{}, 1)
	afterCollection(func() {
		select {
		case called <- struct{}{}:
		default: // no test waits
		}
	})
	deadline := time.After(2 * time.Minute)
	for n := 0; n < 3; {
		runtime.GC()
		select {
		case <-called:
			n++
		case <-deadline:
			t.Fatalf("%d calls in two minutes of collections", n)
		default:
			runtime.Gosched()
		}
	}
}

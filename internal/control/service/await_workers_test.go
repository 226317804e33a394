package service_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A start is over once the engine shows the workers that a build needs, or with the patience of who starts.
func TestAStartWaitsUntilWorkersPoll(t *testing.T) {
	b := newBench(t)
	synctest.Test(t, func(t *testing.T) {
		for computers, want := range []time.Duration{10 * time.Second, 0} {
			b.temporal.computers = computers
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			begun := time.Now()
			b.AwaitWorkers(ctx)
			cancel()
			assert.Equal(t, want, time.Since(begun), "%d computing workers", computers)
		}
	})
}

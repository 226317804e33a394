package fault_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
)

// A server that asks to be left alone for days is asked again within minutes.
// Promises: 141.
func TestNoServerIsLeftAloneForLongerThanTheLongestWait(t *testing.T) {
	for wish, want := range map[time.Duration]time.Duration{
		-time.Hour: 0, 0: 0, time.Second: time.Second, 72 * time.Hour: 5 * time.Minute, math.MaxInt64: 5 * time.Minute,
	} {
		limited := fault.ModelRateLimited.At("ask", "model")
		limited.RetryAfter = wish
		got := fault.RetryAfter(fmt.Errorf("while asking: %w", limited))
		assert.True(t, got == want, "a server that asks for %s is left alone for %s, want %s", wish, got, want)
	}
	got := fault.RetryAfter(nil)
	assert.True(t, got == 0, "without an error: %s", got)
}

package memory

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// A process that lives for months does not keep a claim for each text that it ever paid for, and loses none that holds.
func TestClaimsThatRanOutGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClaims()
		got, err := c.Claim(t.Context(), "held", "a", 24*time.Hour)
		require.True(t, err == nil && got, "%v %v", got, err)
		for n := range 50 {
			keys := make([]string, 1000)
			for i := range keys {
				keys[i] = fmt.Sprint(n, " ", i)
			}
			musttest.Get(c.ClaimAll(t.Context(), keys, "a", time.Minute))(t)
			time.Sleep(20 * time.Second)
			if kept := c.kept(); kept > 3001 { // those of a minute ago are just going
				t.Fatalf("%d claims are kept where 3,001 hold", kept)
			}
		}
		time.Sleep(time.Minute) // nothing is claimed
		kept := c.kept()
		assert.True(t, kept == 1 && c.most == 1, "%d claims are kept where one holds, with room for %d", kept, c.most)
		got, _ = c.Claim(t.Context(), "held", "b", time.Minute)
		assert.True(t, !got, "a claim that holds went with the others")
		require.NoError(t, c.Release(t.Context(), "held", "a"))
		time.Sleep(2 * sweepEvery)
		c.mu.Lock()
		assert.True(t, c.sweeper == nil, "nothing is claimed, and is swept all the same")
		c.mu.Unlock()
	})
}

func (c *Claims) kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.claims)
}

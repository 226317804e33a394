package memory

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A process that lives for months does not keep a claim for each text that it ever paid for, and loses none that holds.
func TestClaimsThatRanOutGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClaims()
		if got, err := c.Claim(t.Context(), "held", "a", 24*time.Hour); err != nil || !got {
			t.Fatal(got, err)
		}
		for n := range 50 {
			keys := make([]string, 1000)
			for i := range keys {
				keys[i] = fmt.Sprint(n, " ", i)
			}
			if _, err := c.ClaimAll(t.Context(), keys, "a", time.Minute); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
		}
		if kept := len(c.claims); kept > 3*sweepFrom {
			t.Errorf("%d claims are kept where at most 4,000 hold", kept)
		}
		if got, _ := c.Claim(t.Context(), "held", "b", time.Minute); got {
			t.Error("a claim that holds went with the others")
		}
	})
}

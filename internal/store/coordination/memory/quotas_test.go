package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestABucketNeverHoldsMoreThanAMinute(t *testing.T) {
	claims := memory.NewClaims()
	reserve := func() time.Duration {
		got := musttest.Get(claims.Reserve(t.Context(), "e", 0, 100, 0, 100))(t)
		return got.Wait
	}
	require.Zero(t, reserve(), "the first waits")
	require.NoError(t, claims.Settle(t.Context(), "e", -1_000_000))
	assert.Zero(t, reserve(), "after a refund it waits")
	assert.Positive(t, reserve(), "a refund larger than the window was kept")
}

func TestAQuotaBeginsAgainAtMidnight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewQuotas(nil)
		use := coordination.Use{1, 1, 10}
		before := musttest.Get(store.TakeQuota(t.Context(), "s", "a", use, use))(t)
		time.Sleep(before.Renews)
		require.NoError(t, store.SettleQuota(t.Context(), "s", "a", coordination.Use{1, 1, 99}), "paid after midnight")
		after := musttest.Get(store.TakeQuota(t.Context(), "s", "b", use, use))(t)
		assert.True(t, after.Short < 0 && after.Used == use && after.Renews == 24*time.Hour, "%+v", after)
	})
}

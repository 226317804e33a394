package coordinationtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/store/coordination"
)

// quotas checks that what is taken never passes a limit, and that a reservation is replaced once.
func quotas(t *testing.T, store coordination.Store) {
	limit := coordination.Use{-1, 3, 100, 2e15}
	take := func(id string, want coordination.Use, short int, used coordination.Use) {
		t.Helper()
		got, err := store.TakeQuota(t.Context(), "key:a", id, want, limit)
		ok(t, err)
		assert.True(t, got.Short == short && got.Used == used, "%q takes %v: %+v, want %d and %v", id, want, got, short, used)
		assert.True(t, got.Renews > 0 && got.Renews <= 24*time.Hour, "it renews in %s", got.Renews)
	}
	settle := func(id string, used coordination.Use) {
		t.Helper()
		ok(t, store.SettleQuota(t.Context(), "key:a", id, used))
	}
	take("", coordination.Use{5}, -1, coordination.Use{5})
	take("1", coordination.Use{0, 1, 90, 1e15}, -1, coordination.Use{5, 1, 90, 1e15})
	take("1", coordination.Use{0, 1, 90, 1e15}, -1, coordination.Use{5, 1, 90, 1e15}) // it arrives twice
	take("2", coordination.Use{0, 1, 11, 7}, coordination.UsedTokens, coordination.Use{5, 1, 90, 1e15})
	settle("1", coordination.Use{0, 1, 20, 3})
	settle("1", coordination.Use{0, 1, 20, 3})
	settle("never", coordination.Use{9, 9, 9, 9})
	take("", coordination.Use{}, -1, coordination.Use{5, 1, 20, 3})
	take("3", coordination.Use{0, 1, 80, 7}, -1, coordination.Use{5, 2, 100, 10})
	take("4", coordination.Use{0, 2}, coordination.UsedAnswers, coordination.Use{5, 2, 100, 10})
	settle("3", coordination.Use{0, 1, 500, 2e15}) // more than reserved
	take("5", coordination.Use{0, 0, 0, 1}, coordination.UsedMoney, coordination.Use{5, 2, 520, 2e15 + 3})
	take("", coordination.Use{1}, -1, coordination.Use{6, 2, 520, 2e15 + 3})
}

// quotaRace checks that of many who want the last places at once as many get one as there are.
func quotaRace(t *testing.T, store coordination.Store) {
	var won atomic.Int64
	var racers sync.WaitGroup
	for i := range 40 {
		racers.Go(func() {
			id := ""
			if i%2 == 0 {
				id = fmt.Sprint(i)
			}
			got, err := store.TakeQuota(t.Context(), "race", id, coordination.Use{1, 1}, coordination.Use{-1, 7, -1, -1})
			assert.NoError(t, err)
			if got.Short < 0 {
				won.Add(1)
			}
		})
	}
	racers.Wait()
	got, err := store.TakeQuota(t.Context(), "other", "", coordination.Use{0, 1}, coordination.Unlimited)
	assert.True(t, err == nil && won.Load() == 7 && got.Used == coordination.Use{0, 1}, "%d got one; another %v, %v",
		won.Load(), got, err)
}

package coordinationtest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

const limit = "chat http://127.0.0.1:8000/v1"

// beat reports one want and gives the share.
func beat(t *testing.T, store coordination.Store, member string, want coordination.Want) int {
	t.Helper()
	wants := map[string]coordination.Want{limit: want}
	shares, _, err := store.Beat(t.Context(), member, []byte(member), wants, time.Minute)
	ok(t, err)
	return shares[limit]
}

func fleet(t *testing.T, store coordination.Store) {
	ctx := t.Context()
	if all, err := store.ListMembers(ctx); len(all) != 0 || err != nil {
		t.Errorf("a fleet without a member: %q, %v", all, err)
	}
	for i, value := range []string{"", "two words", "{\"slots\": 64}\n\x00"} {
		for range 2 {
			_, living, err := store.Beat(ctx, fmt.Sprint("worker ", i), []byte(value), nil, time.Minute)
			if ok(t, err); living != i+1 {
				t.Errorf("%d live, want %d", living, i+1)
			}
		}
		all, err := store.ListMembers(ctx)
		if got, is := all[fmt.Sprint("worker ", i)]; err != nil || !is || string(got) != value || len(all) != i+1 {
			t.Errorf("%q of %d, %v; want %q of %d", got, len(all), err, value, i+1)
		}
	}
	ok(t, store.Leave(ctx, "worker 1", nil))
	ok(t, store.Leave(ctx, "nobody", []string{limit}))
	if all, err := store.ListMembers(ctx); len(all) != 2 || all["worker 1"] != nil || err != nil {
		t.Errorf("after one left: %q, %v", all, err)
	}
	_, _, err := store.Beat(ctx, "worker 0", nil, nil, 20*time.Millisecond)
	ok(t, err)
	musttest.Reach(t, "the end of who is silent", func() bool {
		all, err := store.ListMembers(ctx)
		return err == nil && len(all) == 1
	})
}

func shares(t *testing.T, store coordination.Store) {
	all := func(demand, held int) coordination.Want {
		return coordination.Want{Total: 64, Demand: demand, Held: held}
	}
	require.Equal(t, 64, beat(t, store, "a", all(1, 0)), "one alone")
	assert.Zero(t, beat(t, store, "b", all(100, 0)), "what another may still use was given away")
	assert.Equal(t, 32, beat(t, store, "a", all(100, 64)), "one of two who want all")
	assert.Zero(t, beat(t, store, "b", all(100, 0)), "what the other has in flight was given away")
	assert.Equal(t, 32, beat(t, store, "a", all(100, 40)), "the first")
	assert.Equal(t, 24, beat(t, store, "b", all(100, 0)), "what the other gave back")
	beat(t, store, "a", all(10, 10))
	beat(t, store, "a", all(10, 10))
	assert.Equal(t, 54, beat(t, store, "b", all(100, 24)), "the rest of a demand for 10 of 64")
	less := coordination.Want{Total: 30, Demand: 100, Held: 54}
	assert.Equal(t, 20, beat(t, store, "b", less), "under the least total that is reported")
	ok(t, store.Leave(t.Context(), "b", []string{limit}))
	assert.Equal(t, 64, beat(t, store, "a", all(100, 10)), "who is left")
	wants := map[string]coordination.Want{limit: all(100, 64), "embed": all(5, 5)}
	got, _, err := store.Beat(t.Context(), "a", nil, wants, 20*time.Millisecond)
	if ok(t, err); got[limit] != 64 || got["embed"] != 64 || len(got) != 2 {
		t.Errorf("two limits: %v", got)
	}
	musttest.Reach(t, "the share of one that is dead", func() bool {
		return beat(t, store, "c", all(100, 0)) == 64
	})
}

// Whatever is reported in whatever order, a store gives what the arithmetic says, and in all no more than there is.
func shareOfMany(t *testing.T, store coordination.Store) {
	random := rand.New(rand.NewPCG(1, 2))
	total := 1000
	state := map[string]coordination.Want{} // what the store should know
	using := map[string]int{}               // what each may use
	for round := range 400 {
		if round == 300 {
			total = 300 // no turns: those of the store's clock would have to be known here
		}
		member := fmt.Sprint("w", random.IntN(40))
		want := coordination.Want{Total: total, Demand: random.IntN(120), Held: using[member]}
		state[member] = want
		share := coordination.ComputeShare(state, member, 0)
		got := beat(t, store, member, want)
		if level := total / len(state); got != share && level > 0 {
			t.Fatalf("round %d: the store gives %d, the arithmetic %d", round, got, share)
		}
		want.Held = max(got, want.Held)
		state[member], using[member] = want, got
		sum := 0
		for _, share := range using {
			sum += share
		}
		require.True(t, sum <= 1000, "round %d: %d of 1000 may be in flight", round, sum)
	}
}

// Of many who tell at once none is lost, and together they get no more than there is.
func sharers(t *testing.T, store coordination.Store) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	sum := 0
	for i := range 30 {
		wg.Go(func() {
			wants := map[string]coordination.Want{limit: {Total: 100, Demand: 50}}
			shares, _, err := store.Beat(t.Context(), fmt.Sprint(i), nil, wants, time.Minute)
			mu.Lock()
			defer mu.Unlock()
			if sum += shares[limit]; err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all, err := store.ListMembers(t.Context())
	if ok(t, err); sum > 100 || len(all) != 30 {
		t.Errorf("%d of 100 places given to %d of 30", sum, len(all))
	}
}

package fleet

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/store/coordination/memory"
)

// Calls of these tests take 200 to 600 ms, as those of fast model servers do.
const fast = 200 * time.Millisecond

// Processes with equal demand, of whatever number, fill the limit soon after they begin, and never have more of it.
// Promises: 118.
func TestEqualDemandFillsTheLimitFromTheBeginning(t *testing.T) {
	for seed := range uint64(16) {
		random := rand.New(rand.NewPCG(seed, 1))
		processes, each := 2+random.IntN(39), 4+random.IntN(29)
		synctest.Test(t, func(t *testing.T) {
			to, store := server(processes*each), memory.New()
			var fleet []*process
			for range processes {
				fleet = append(fleet, join(t, store, processes*each))
			}
			for _, p := range fleet {
				time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
				p.stop = p.call(t, to, 2*each+random.IntN(4*each), fast)
			}
			time.Sleep(Beat)
			part := filled(to, processes*each, 10*time.Second)
			assert.True(t, part >= 0.95, "%d processes with %d places each use %.1f %% of them", processes, each, 100*part)
			if most := to.most.Load(); most > int64(processes*each) {
				t.Errorf("%d processes with %d places each have %d calls at once", processes, each, most)
			}
			for _, p := range fleet {
				p.die()
			}
		})
	}
}

// Who has nothing more to call leaves its places to the others within a beat, and gets its part back within one.
// Promises: 118.
func TestPlacesOfAnIdleProcessAreUsedWithinABeat(t *testing.T) {
	for _, processes := range []int{2, 3, 10, 40} {
		synctest.Test(t, func(t *testing.T) {
			const each = 16
			total := processes * each
			to, store := server(total), memory.New()
			var fleet []*process
			for range processes {
				p := join(t, store, total)
				p.stop = p.call(t, to, 3*each, fast)
				fleet = append(fleet, p)
				time.Sleep(7 * time.Millisecond)
			}
			first := fleet[0]
			for range 5 {
				time.Sleep(3 * Beat)
				first.stop()
				first.calls.Wait()
				time.Sleep(Beat)
				part := filled(to, total, Beat)
				assert.False(t, part < 0.95, "of %d processes one is idle: %.1f %% of the places are used", processes, 100*part)
				want, _ := first.gate.ReportWant()
				assert.True(t, want.Held == 0, "of %d processes one is idle, and holds %d places", processes, want.Held)
				first.stop = first.call(t, to, 3*each, fast)
				time.Sleep(Beat)
				if want, _ := first.gate.ReportWant(); want.Held < each-1 {
					t.Errorf("of %d processes, one that calls again has %d of its %d places", processes, want.Held, each)
				}
				part = filled(to, total, Beat)
				assert.False(t, part < 0.95, "one of %d processes calls again: %.1f %% of the places are used", processes, 100*part)
			}
			most := to.most.Load()
			assert.True(t, most <= int64(total), "%d calls at once, want at most %d", most, total)
			for _, p := range fleet {
				p.die()
			}
		})
	}
}

// One that used all places a moment ago, and does nothing since, keeps no other waiting that begins.
// Promises: 118.
func TestWhoHadAllLeavesItToThoseThatBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, store := server(48), memory.New()
		fleet := []*process{join(t, store, 48), join(t, store, 48), join(t, store, 48)}
		stop := fleet[0].call(t, to, 1, fast) // as before the first batch
		time.Sleep(time.Second)
		stop()
		fleet[0].calls.Wait()
		for _, p := range fleet[1:] {
			p.stop = p.call(t, to, 64, fast)
		}
		time.Sleep(Beat / 2)
		part := filled(to, 48, 2*Beat)
		assert.True(t, part >= 0.95, "%.1f %% of the places are used", 100*part)
		most := to.most.Load()
		assert.True(t, most <= 48, "%d calls at once, want at most 48", most)
		for _, p := range fleet {
			p.die()
		}
	})
}

// A store that answers slowly is not asked as often as one that answers at once.
func TestASlowStoreIsAskedLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{Store: memory.New(), takes: Beat / 2}
		p := join(t, store, 64)
		p.stop = p.call(t, server(64), 1, fast)
		time.Sleep(time.Minute)
		most := int64(time.Minute/Beat) + 5
		assert.True(t, store.beats.Load() <= most,
			"a store that takes %s for a beat had %d in a minute, want at most %d", store.takes, store.beats.Load(), most)
		p.die()
	})
}

package fleet

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/limits"
	"github.com/unweaver/unweaver/internal/store/coordination"
	memory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// endpoint is a model server: it counts, and refuses what is more than it can take.
type endpoint struct {
	capacity, inflight, most, answered atomic.Int64
}

func (e *endpoint) call(takes time.Duration) error {
	now := e.inflight.Add(1)
	defer e.inflight.Add(-1)
	for most := e.most.Load(); now > most && !e.most.CompareAndSwap(most, now); most = e.most.Load() {
	}
	if now > e.capacity.Load() {
		time.Sleep(takes / 20)
		return fault.ModelRateLimited.At("call", "m")
	}
	time.Sleep(takes)
	e.answered.Add(1)
	return nil
}

type process struct {
	member *Member
	gate   *limits.Gate
	stop   context.CancelFunc
	calls  sync.WaitGroup
}

func start(t *testing.T, store coordination.Fleet, to *endpoint, total, callers int) *process {
	p := join(t, store, total)
	p.stop = p.call(t, to, callers, time.Second)
	return p
}

func join(t *testing.T, store coordination.Fleet, total int) *process {
	p := &process{gate: limits.NewGate()}
	p.member = Join(store, Worker{Queue: "q", Slots: 64, CPU: 4}, slog.New(slog.DiscardHandler))
	p.gate.SetLimit("index", total)
	p.member.ShareGate("chat", p.gate)
	p.stop = func() {}
	return p
}

// call starts so many callers, whose calls take the time given to three times as long, until they are stopped.
func (p *process) call(t *testing.T, to *endpoint, callers int, takes time.Duration) (stop context.CancelFunc) {
	ctx, stop := context.WithCancel(t.Context())
	for i := range callers {
		random := rand.New(rand.NewPCG(uint64(callers), uint64(i)))
		p.calls.Go(func() {
			for musttest.Err(p.gate.Enter(ctx)) == nil {
				p.gate.Leave(to.call(takes + time.Duration(random.Int64N(2*int64(takes)))))
			}
		})
	}
	return stop
}

func startMany(t *testing.T, store coordination.Fleet, to *endpoint, n, total, callers int) (fleet []*process) {
	for range n {
		fleet = append(fleet, start(t, store, to, total, callers))
	}
	return fleet
}

func silence(fleet []*process) {
	for _, p := range fleet {
		p.member.end()
		p.stop()
	}
}

func (p *process) die() {
	p.member.end()
	p.stop()
	p.calls.Wait()
}

func end(fleet []*process) {
	for _, p := range fleet {
		p.die()
	}
}

// filled returns which part of so many places was in use over a time, on average.
func filled(to *endpoint, places int, over time.Duration) float64 {
	sum, samples := 0.0, 0
	for end := time.Now().Add(over); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		sum += float64(to.inflight.Load())
		samples++
	}
	return sum / float64(samples) / float64(places)
}

// checkFilled fails unless the part of the places that is in use over a time lies between two bounds.
func checkFilled(t *testing.T, to *endpoint, places int, over time.Duration, least, most float64, of ...any) {
	part := filled(to, places, over)
	assert.True(t, least <= part && part <= most, "%v %.3f of %d places are used, want %g to %g", of, part, places, least, most)
}

func (e *endpoint) checkMost(t *testing.T, places int) {
	assert.LessOrEqual(t, e.most.Load(), int64(places), "calls at once")
}

func server(capacity int) *endpoint {
	to := &endpoint{}
	to.capacity.Store(int64(capacity))
	return to
}

func TestOneAloneHasAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, after := range []time.Duration{0, 100 * time.Millisecond, time.Hour} { // idle for long, too
			p := start(t, memory.New(), server(64), 64, 0)
			time.Sleep(after)
			synctest.Wait()
			began := time.Now()
			for range 64 {
				require.NoError(t, musttest.Err(p.gate.Enter(t.Context())))
			}
			assert.EqualValues(t, 0, time.Since(began), "%s", after)
			p.die()
		}
	})
}

func TestAFleetFillsThePlacesAndNeverMore(t *testing.T) {
	for name, of := range map[string]struct {
		processes int
		callers   func(i int) int
	}{
		"all equal":     {longtest.Count(30, 100), func(int) int { return 96 }},
		"much at a few": {longtest.Count(32, 100), func(i int) int { return 20 + i%4/3*400 }},
		"just as many":  {20, func(int) int { return 64 }},
		"of every kind": {20, func(i int) int { return 40 + i%5*30 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				total := 64 * of.processes
				to, store := server(total), memory.New()
				var fleet []*process
				for i := range of.processes {
					fleet = append(fleet, start(t, store, to, total, of.callers(i)))
					time.Sleep(30 * time.Millisecond)
				}
				time.Sleep(10 * time.Second)
				checkFilled(t, to, total, 10*time.Second, 0.95, 1)
				to.checkMost(t, total)
				end(fleet)
			})
		})
	}
}

func TestAFleetThatShrinksLeavesAllToOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, store := server(640), memory.New()
		fleet := startMany(t, store, to, 10, 640, 700)
		time.Sleep(20 * time.Second)
		silence(fleet[1:])
		time.Sleep((Lives + 2) * Beat)
		checkFilled(t, to, 640, 5*time.Second, 0.95, 1)
		size, err := Measure(t.Context(), store, Worker{Queue: "q"})
		assert.True(t, err == nil && size == (Size{1, 64, 4, 0}), "%+v live, %v", size, err)
		to.checkMost(t, 640)
		fleet[0].die()
	})
}

func TestAServerWhoseCapacityHalvesIsUsedAsFarAsItGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, store := server(640), memory.New()
		fleet := startMany(t, store, to, 10, 640, 700)
		time.Sleep(20 * time.Second)
		to.capacity.Store(320)
		time.Sleep(30 * time.Second)
		checkFilled(t, to, 320, 30*time.Second, 0.6, 1.1) // 0.74 to 0.91 in 400 runs
		silence(fleet[1:])                                // what they learned goes with their share
		time.Sleep(5 * time.Second)
		to.most.Store(0)
		time.Sleep((Lives + 2) * Beat)
		checkFilled(t, to, 320, 20*time.Second, 0.3, 2)
		to.checkMost(t, 600) // 640 where nothing that was learned went along
		fleet[0].die()
	})
}

type away struct {
	coordination.Store
	down  atomic.Bool
	takes time.Duration
	beats atomic.Int64
}

func (a *away) Beat(
	ctx context.Context, member string, value []byte, wants map[string]coordination.Want, ttl time.Duration,
) (map[string]int, int, error) {
	a.beats.Add(1)
	time.Sleep(a.takes)
	if a.down.Load() {
		return nil, 0, errors.New("no route")
	}
	return a.Store.Beat(ctx, member, value, wants, ttl)
}

func TestWithoutTheStoreAShareIsKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, store := server(640), &away{Store: memory.New()}
		p, other := start(t, store, to, 64, 100), start(t, store, to, 64, 100)
		time.Sleep(20 * time.Second)
		store.down.Store(true)
		checkFilled(t, to, 64, 3*time.Second, 0.95, 1)
		time.Sleep(Lives*Beat + 3*time.Second)
		checkFilled(t, to, 1, 10*time.Second, 1.5, 2)
		late := start(t, store, to, 64, 10)
		time.Sleep(Lives*Beat + 2*Beat)
		checkFilled(t, to, 1, 10*time.Second, 2.5, 3)
		store.down.Store(false)
		time.Sleep(5 * Beat)
		checkFilled(t, to, 64, 10*time.Second, 0.95, 1)
		end([]*process{p, other, late})
	})
}

func TestWhoLeavesGivesItsShareAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, store := server(64), memory.New()
		first, second := start(t, store, to, 64, 100), start(t, store, to, 64, 100)
		time.Sleep(20 * time.Second)
		second.stop()
		second.calls.Wait()
		require.NoError(t, second.member.Leave(t.Context()))
		time.Sleep(Beat + time.Second)
		checkFilled(t, to, 64, 5*time.Second, 0.95, 1)
		first.die()
	})
}

// Fewer places than processes: they take turns, and a strict index that is used no more has no effect.
func TestFewPlacesGoRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, store := server(64), memory.New()
		fleet, strict := startMany(t, store, to, 8, 64, 20), start(t, store, to, 2, 0)
		for _, p := range fleet {
			p.gate.SetLimit("index", 64)
		}
		time.Sleep(20 * time.Second)
		to.most.Store(0)
		checkFilled(t, to, 2, 2*time.Minute, 0.5, 1)
		to.checkMost(t, 2)
		for range 7 { // the others are used on
			time.Sleep(2 * time.Minute)
			for _, p := range fleet {
				p.gate.SetLimit("index", 64)
			}
		}
		checkFilled(t, to, 64, 5*time.Second, 0.95, 1)
		end(append(fleet, strict))
	})
}

func TestALargeFleetBeatsLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		for i := range 1000 {
			value := []byte(`{"queue":"q","slots":64,"cpu":8}`)
			if i%2 == 1 {
				value = []byte(`{"queue":"another","slots":64}`)
			}
			musttest.Get2(store.Beat(t.Context(), string(rune(i)), value, nil, time.Hour))(t)
		}
		musttest.Get2(store.Beat(t.Context(), "garbage", []byte("{"), nil, time.Hour))(t)
		member := Join(store, Worker{Queue: "q", Version: "2", Slots: 1}, slog.New(slog.DiscardHandler))
		time.Sleep(time.Minute)
		member.end()
		<-member.ended
		assert.True(t, member.interval >= 10*time.Second, "one of 1,000 beats every %s", member.interval)
		size, err := Measure(t.Context(), store, Worker{Queue: "q"})
		assert.True(t, err == nil && size == (Size{500, 32000, 4000, 0}), "%+v, %v", size, err)
		size, err = Measure(t.Context(), store, Worker{Queue: "q", Version: "2"})
		assert.True(t, err == nil && size.Workers == 1, "of its version %+v, %v", size, err)
	})
}

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
			checkFilled(t, to, processes*each, 10*time.Second, 0.95, 1)
			to.checkMost(t, processes*each)
			end(fleet)
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
				checkFilled(t, to, total, Beat, 0.95, 1)
				want, _ := first.gate.ReportWant()
				assert.True(t, want.Held == 0, "of %d processes one is idle, and holds %d places", processes, want.Held)
				first.stop = first.call(t, to, 3*each, fast)
				time.Sleep(Beat)
				want, _ = first.gate.ReportWant()
				assert.GreaterOrEqual(t, want.Held, each-1, "places of one of %d that calls again", processes)
				checkFilled(t, to, total, Beat, 0.95, 1)
			}
			to.checkMost(t, total)
			end(fleet)
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
		checkFilled(t, to, 48, 2*Beat, 0.95, 1)
		to.checkMost(t, 48)
		end(fleet)
	})
}

// A store that answers slowly is not asked as often as one that answers at once.
func TestASlowStoreIsAskedLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &away{Store: memory.New(), takes: Beat / 2}
		p := join(t, store, 64)
		p.stop = p.call(t, server(64), 1, fast)
		time.Sleep(time.Minute)
		most := int64(time.Minute/Beat) + 5
		assert.True(t, store.beats.Load() <= most,
			"a store that takes %s for a beat had %d in a minute, want at most %d", store.takes, store.beats.Load(), most)
		p.die()
	})
}

package limits_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/limits"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
)

// slow is a model that many call at once.
type slow struct {
	endpoint
	waits time.Duration
	calls atomic.Int64
}

func (s *slow) Complete(context.Context, model.Call) (model.Reply, error) {
	s.calls.Add(1)
	time.Sleep(s.waits)
	return model.Reply{}, nil
}

// Calls that were let through by no rate at all and wait for a place are held to the rate that is given meanwhile.
func TestARateThatIsGivenHoldsWhatIsQueuedAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &slow{waits: time.Second}
		gate, rates := limits.NewGate(), limits.NewRates(0, 0)
		gate.SetLimit("docs", 1)
		chat := limits.Chat{Chat: below, Limits: limits.Limits{Gate: gate, Shared: memory.New(), Rates: rates}}
		for range 10 {
			go func() { _, _ = chat.Complete(t.Context(), model.Call{}) }()
		}
		synctest.Wait()
		rates.Set(2, 0)
		time.Sleep(20 * time.Second)
		assert.Equal(t, 3, below.calls.Load()) // one was sent before, and a minute's worth goes at once
		rates.Set(0, 0)
		time.Sleep(10 * time.Second)
		assert.Equal(t, int64(10), below.calls.Load())
	})
}

func TestAConcurrencyThatIsGivenCountsForWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &slow{waits: time.Minute}
		gate := limits.NewGate()
		gate.SetLimit("docs", 1)
		chat := limits.Chat{Chat: below, Limits: limits.Limits{Gate: gate}}
		for range 10 {
			go func() { _, _ = chat.Complete(t.Context(), model.Call{}) }()
		}
		synctest.Wait()
		gate.ChangeLimit("docs", 4)
		gate.ChangeLimit("nobody", 1)
		synctest.Wait()
		assert.Equal(t, int64(4), below.calls.Load())
		time.Sleep(10 * time.Minute)
	})
}

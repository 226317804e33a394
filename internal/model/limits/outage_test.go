package limits_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/limits"
)

// stopped refuses every call until it serves.
type stopped struct {
	model.Chat
	serves atomic.Bool
	busy   atomic.Bool // it answers with 429
	asked  atomic.Int64
}

func (s *stopped) Info() model.Info { return model.Info{Endpoint: "e"} }

func (s *stopped) Complete(context.Context, model.Call) (model.Reply, error) {
	s.asked.Add(1)
	if s.busy.Load() {
		return model.Reply{}, fault.ModelRateLimited.At("ask", "e").Because("429")
	}
	if s.serves.Load() {
		return model.Reply{Text: "{}"}, nil
	}
	return model.Reply{}, fault.ModelUnavailable.At("ask", "e").Because("connection refused")
}

// Many callers try a stopped server for five minutes, ten times a second each: it is asked about every ten seconds, all
// of them hear the cause at once, and it is asked by all soon after it serves. Questions are always sent.
func TestAStoppedServerIsAskedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &stopped{}
		chat := limits.Chat{Chat: server, Limits: limits.Limits{Gate: limits.NewGate()}}
		end := time.Now().Add(5 * time.Minute)
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for time.Now().Before(end) {
					began := time.Now()
					_, err := chat.Complete(t.Context(), model.Call{})
					assert.True(t, fault.Is(err, fault.ModelUnavailable) && time.Since(began) == 0, "%v", err)
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		callers.Wait()
		asked := server.asked.Load()
		assert.True(t, 25 < asked && asked < 60, "asked %d times in five minutes", asked)
		for _, ctx := range []context.Context{model.CallerBound(t.Context()), model.WithUrgency(t.Context())} {
			_, _ = chat.Complete(ctx, model.Call{})
		}
		assert.Equal(t, asked+2, server.asked.Load())
		server.serves.Store(true)
		time.Sleep(10 * time.Second)
		for range 20 {
			_, err := chat.Complete(t.Context(), model.Call{})
			assert.NoError(t, err)
		}
	})
}

// A server that says that it has too much to do is there: the next call is sent.
func TestAServerThatRefusesForNowIsNotAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &stopped{}
		chat := limits.Chat{Chat: server, Limits: limits.Limits{Gate: limits.NewGate()}}
		for range 20 {
			_, _ = chat.Complete(t.Context(), model.Call{})
		}
		time.Sleep(10 * time.Second)
		server.busy.Store(true)
		for range 3 {
			_, err := chat.Complete(t.Context(), model.Call{})
			assert.True(t, fault.Is(err, fault.ModelRateLimited), "%v", err)
		}
	})
}

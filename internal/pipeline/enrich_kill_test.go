package pipeline_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// memorySite returns a fillingSite with the enrichment gem, whose model asks questions.
func memorySite(t *testing.T, refuse func(key string) error) (*site, *bill) {
	t.Helper()
	s, owed := fillingSite(t, refuse)
	s.spec.Enrich = []string{"gem"}
	usual := s.Models
	s.Models = func(spec core.Spec, meter model.Meter) (model.Set, error) {
		set, err := usual(spec, meter)
		set.Chat = model.MeterChat(&stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
			if !strings.Contains(string(call.Schema), `"questions"`) {
				return owed.answer(call)
			}
			owed.pay(call.System + call.User)
			return model.Reply{Text: `{"questions":["What is ` + core.Sum(call.Input).Short(8) + `?","Where is it?"]}`}, nil
		}}, meter)
		return set, err
	}
	return s, owed
}

// The store goes away at writes of an enrichment in turn: what is resumed comes to the same files, and pays for nothing
// twice.
// Promises: 87.
func TestAMemoryWhoseStoreFailsAtAnyWriteIsThatOfAnUndisturbedBuild(t *testing.T) {
	var count, first, last atomic.Int64
	undisturbed, _ := memorySite(t, func(key string) error {
		at := count.Add(1)
		if strings.Contains(key, "ledger/questions") || strings.Contains(key, "enrich") {
			first.CompareAndSwap(0, at)
			last.Store(at)
		}
		return nil
	})
	built(t, undisturbed, func(err error, _ func() error) { t.Fatal(err) })
	want := undisturbed.current(t).Segments.Enriched
	require.True(t, len(want) == 4 && first.Load() != 0 && last.Load()-first.Load() >= 8,
		"%v, writes %d to %d", want, first.Load(), last.Load())
	for at := first.Load(); at <= last.Load(); at += 3 {
		var written atomic.Int64
		var mended atomic.Bool
		s, owed := memorySite(t, func(key string) error {
			if written.Add(1) >= at && !mended.Load() {
				return fault.StoreDown.At("write", key)
			}
			return nil
		})
		s.Ledger.Patience = 30 * time.Millisecond
		halts := 0
		built(t, s, func(err error, _ func() error) {
			if halts++; halts > 1 || !fault.Is(err, fault.StoreDown) {
				t.Fatalf("write %d: halt %d is %v", at, halts, err)
			}
			mended.Store(true)
		})
		got := s.current(t).Segments.Enriched
		assert.True(t, slices.Equal(got, want) && owed.twice == 0 && halts == 1,
			"write %d: %v, want %v; paid twice %d, %d halts", at, got, want, owed.twice, halts)
	}
}

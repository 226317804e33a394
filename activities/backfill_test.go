package activities_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/workflows"
)

// yielding is an engine in which one run goes on until it is cancelled.
type yielding struct {
	closed
	mu        sync.Mutex
	open      string
	cancelled []string
}

func (y *yielding) DescribeRun(_ context.Context, holder run.Holder) (run.Standing, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if holder.Workflow == y.open {
		return run.StandingOpen, nil
	}
	return run.StandingClosed, nil
}

func (y *yielding) Cancel(_ context.Context, holder run.Holder) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.cancelled, y.open = append(y.cancelled, holder.Workflow), ""
	return nil
}

// A build that needs the lease ends the build of a backfill that has it, and no other.
// Promises: 45.
func TestABuildOfABackfillYieldsItsLease(t *testing.T) {
	for _, test := range []struct {
		name, taker, holder string
		yields              bool
	}{
		{"a night", "g1", "build/docs/backfill-old-1-1", true},
		{"another backfill", "backfill-new-1-1", "build/docs/backfill-old-1-1", false},
		{"a night that meets a night", "g1", "build/docs/g0", false},
	} {
		b := newBench(t)
		engine := &yielding{open: test.holder}
		b.Engine = engine
		b.build.Generation = test.taker
		b.hold(t, core.Lease{Workflow: test.holder, Run: "r0", Fence: 7, Heartbeat: time.Second})
		value, err := b.ExecuteActivity(workflows.TakeLease, b.build)
		if !test.yields {
			assert.True(t, err != nil && len(engine.cancelled) == 0 && b.held(t).Workflow == test.holder,
				"%s: %v, %q", test.name, err, engine.cancelled)
			continue
		}
		var fence int64
		if err == nil {
			err = value.Get(&fence)
		}
		assert.True(t, err == nil && fence == 8 && len(engine.cancelled) == 1,
			"%s: fence %d, %v, %q", test.name, fence, err, engine.cancelled)
		control, err := run.ReadControl(t.Context(), b.Ports.Coordination, "docs/backfill-old-1-1")
		assert.True(t, err == nil && control.Stop == run.CommandCancel,
			"%s: %+v, %v: calls of what yields may start", test.name, control, err)
	}
}

// What no program of ours sends is refused before anything is opened for it.
func TestABackfillWithoutAPlainNameIsRefused(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"", "../old", "Old"} {
		b.build.Backfill = name
		_, err := b.ExecuteActivity(workflows.OpenBackfill, b.build)
		assert.True(t, err != nil && typeOf(err) == string(fault.InvalidParam), "%q: %v", name, err)
	}
}

// typeOf returns the code that the engine gets.
func typeOf(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Type()
	}
	return ""
}

package run

import (
	"context"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

// An engine may run a workflow anew under its name: the lease of a run is not the next one's to keep or to give back.
func TestALeaseIsOfOneRunOfItsWorkflow(t *testing.T) {
	index := artifact.Index{Store: blobmemory.New(), Name: "docs"}
	first := Holder{Workflow: "build/docs/g1", Run: "1", Heartbeat: 8 * time.Second}
	next := first
	next.Run = "2"
	open := func(context.Context, Holder) (Standing, error) { return StandingOpen, nil }
	fence, err := TakeLease(t.Context(), index, first, open)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TakeLease(t.Context(), index, next, open); !fault.Is(err, fault.LeaseHeld) {
		t.Errorf("the next run of the workflow takes it: %v", err)
	}
	if err := GiveLease(t.Context(), index, next); err != nil {
		t.Fatal(err)
	}
	if lease, _, err := ReadLease(t.Context(), index); err != nil || lease.Run != "1" || lease.Fence != fence {
		t.Errorf("the lease is %+v, %v", lease, err)
	}
	for name, c := range map[string]struct {
		holder Holder
		fence  int64
		holds  bool
	}{
		"the run":                          {first, fence, true},
		"the next run of the workflow":     {next, fence, false},
		"another workflow":                 {Holder{Workflow: "build/docs/g2", Run: "1"}, fence, false},
		"the run as it was before":         {first, fence - 1, false},
		"the run with a later lease":       {first, fence + 1, false},
		"one that tells nothing but fence": {Holder{}, fence, true},
	} {
		lease, _, err := ReadLease(t.Context(), index)
		if work := (&Run{Job: Job{Fence: c.fence, Holder: c.holder}}); err != nil || work.holds(lease) != c.holds {
			t.Errorf("%s holds it: %t, %v", name, work.holds(lease), err)
		}
	}
}

package run

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// FreeLease takes the lease from a run that a person declares lost; an empty generation stands for whichever run holds
// it. It refuses while runs says that our engine runs it, and while a process renews it, for which it watches the lease
// for a heartbeat. A lease that no run holds is no error. The fence stays, so that a process which comes back finds
// that the lease is not its own any more.
func FreeLease(
	ctx context.Context, index artifact.Index, generation string, runs func(context.Context, Holder) (bool, error),
) error {
	lease, info, err := ReadLease(ctx, index)
	if fault.Is(err, fault.NotFound) || err == nil && lease.Workflow == "" {
		return nil
	}
	if err != nil {
		return err
	}
	run := runOf(lease)
	if generation != "" && run != index.Name+"/"+generation {
		return fault.Usage.At("free the lease of", index.Name).
			Because("run " + run + " holds it, not " + index.Name + "/" + generation).
			Advise("if that one is lost: unweaver cancel " + run + " --lost")
	}
	open, err := runs(ctx, Holder{Workflow: lease.Workflow, Run: lease.Run})
	if err != nil {
		return err
	}
	if open {
		return fault.LeaseHeld.At("free the lease of", index.Name).
			Because("run " + run + " is not lost: Temporal runs it").
			Advise("to end it: unweaver cancel " + run)
	}
	if err := retry.Wait(ctx, heartbeatOf(lease.Heartbeat)); err != nil {
		return err
	}
	err = writeFreeLease(ctx, index, lease.Fence, blob.Cond{Match: info.ETag})
	if fault.Is(err, fault.Precondition) {
		err = fault.LeaseHeld.At("free the lease of", index.Name).
			Because("a process is working on run " + run + ": it changed the lease just now").
			Advise("end the run in its own Temporal (" + describeEngine(lease.Engine) + "), or stop its workers")
	}
	return err
}

// MendLease writes a lease that no run holds over one that cannot be read, with a fence above that of every run whose
// scratch is there. The caller makes sure that nothing builds the index.
func MendLease(ctx context.Context, index artifact.Index) error {
	lease, info, err := ReadLease(ctx, index)
	if !fault.Is(err, fault.SegmentDamage) {
		return err
	}
	if lease, err = mendedLease(ctx, index, lease); err != nil {
		return err
	}
	return writeFreeLease(ctx, index, lease.Fence, blob.Cond{Match: info.ETag})
}

// mendedLease returns a lease without a holder in the place of one that cannot be read. Its fence is above all that
// were given: scratch may be collected by now, so that it is at least the time in milliseconds, which no count of runs
// reaches.
func mendedLease(ctx context.Context, index artifact.Index, damaged core.Lease) (core.Lease, error) {
	_, fence, err := listScratchRuns(ctx, index)
	if damaged.Fence > 0 && damaged.Fence < 1<<62 {
		fence = max(fence, damaged.Fence)
	}
	return core.Lease{Fence: max(fence, time.Now().UnixMilli())}, err
}

// listScratchRuns lists the runs of which scratch is there, of an index and of those that share its lease, and gives
// the highest of their fences.
func listScratchRuns(ctx context.Context, index artifact.Index) (works []string, fence int64, err error) {
	family, _, err := index.ListFamily(ctx)
	if err != nil {
		return nil, 0, err
	}
	seen := map[string]bool{}
	for _, member := range family {
		prefix := strings.TrimSuffix(member.RunKey(""), "/") + "/"
		for object, err := range member.Store.List(ctx, prefix, "") {
			if err != nil {
				return nil, 0, err
			}
			parts := strings.Split(strings.TrimPrefix(object.Key, prefix), "/")
			if work := member.Name + "/" + parts[0]; !seen[work] {
				seen[work] = true
				works = append(works, work)
			}
			if len(parts) < 2 {
				continue
			}
			if found, err := strconv.ParseInt(parts[1], 10, 64); err == nil && found < 1<<62 {
				fence = max(fence, found)
			}
		}
	}
	return works, fence, nil
}

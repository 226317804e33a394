package upkeep

import (
	"context"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// An audit is a reader of its generation, as query-api is: what it reads is not collected. It renews its lease with
// every unit and while it works on one; a run that stands still for longer loses it.
const (
	auditLease = 10 * time.Minute
	auditRenew = time.Minute
)

func (r *Run) leaseGeneration(ctx context.Context, generation string, lease time.Duration) {
	err := r.Coordination.Lease(
		ctx, []coordination.Held{{Index: r.Job.Index, Generation: generation}}, r.Generation, lease)
	if err != nil && ctx.Err() == nil {
		r.Log.Warn("reader lease not renewed", "run_id", r.Name(), "code", string(fault.CodeOf(err)))
	}
}

// holdGeneration keeps the generation from being collected until end is called.
func (r *Run) holdGeneration(ctx context.Context, generation string) (end func()) {
	r.leaseGeneration(ctx, generation, auditLease)
	ctx, cancel := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for retry.Wait(ctx, auditRenew) == nil {
			r.leaseGeneration(ctx, generation, auditLease)
		}
	})
	return func() {
		cancel()
		renewing.Wait()
	}
}

// checkKept returns fault.GenCollected where a generation was collected, or is marked to be: without a reader's lease,
// as an audit that stood still has been, its records and rows may be gone before its files are. One that is not marked
// keeps all of them for as long as the lease lasts that the caller has by now; a mark on the one that is served is
// taken off.
func (r *Run) checkKept(ctx context.Context, generation string) error {
	_, err := r.Index.GenerationRef(ctx, generation)
	if err == nil || fault.Is(err, fault.SegmentDamage) { // a damaged reference is no part of an audit
		if _, err = r.Artifacts.Stat(ctx, collect.MarkKey(r.Index, generation)); fault.Is(err, fault.NotFound) {
			return nil
		}
		if err == nil {
			current, _, err := r.Index.ReadPointer(ctx)
			if err != nil || current.Generation == generation {
				return err
			}
		}
	}
	if err != nil && !fault.Is(err, fault.UnknownGen) {
		return err
	}
	return fault.GenCollected.At("audit", r.Job.Index+"/"+generation).
		Because("newer generations replaced it while the audit was interrupted, and it is deleted or about to be").
		Advise("to audit the served generation: unweaver audit " + r.Job.Index)
}

package run

import (
	"context"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Times of a lease, in heartbeats of its run. A process that works on the run renews the lease when half a heartbeat
// has passed since it last did, and a look at it lets things be deleted for a quarter more: what is done under a lease
// is over before another run, which watches it for a whole heartbeat, can have it.
const (
	renewals = 2 // within a heartbeat
	permits  = 4
)

// keeper is what this process knows about the lease of a run.
type keeper struct {
	mu      sync.Mutex
	fence   int64
	renewed time.Time  // by this process, on its own clock
	trying  sync.Mutex // locked while a unit renews it
}

// isDue reports whether the lease of a fence is to be renewed.
func (k *keeper) isDue(fence int64, every time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fence != fence || time.Since(k.renewed) >= every
}

func (k *keeper) noteRenewal(fence int64, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fence, k.renewed = fence, at
}

func (r *Run) heartbeatInterval() time.Duration { return heartbeatOf(r.Holder.Heartbeat) }

// PermitTime returns for how long a look at the lease lets things be deleted.
func (r *Run) PermitTime() time.Duration { return r.heartbeatInterval() / permits }

// holdsLease reports whether a lease is this run's.
func (r *Run) holdsLease(lease core.Lease) bool {
	if lease.Workflow == "" || lease.Fence != r.Fence {
		return false
	}
	own := r.Holder
	return (own.Workflow == "" || lease.Workflow == own.Workflow) && (own.Run == "" || lease.Run == own.Run)
}

// GuardLease looks at the lease, and is fault.LeaseLost where it is not this run's any more. It is called right before
// what only the holder of the lease may do; what takes longer than permit is done in pieces. A run without a fence, a
// restore, does nothing of that kind and is let through.
func (r *Run) GuardLease(ctx context.Context) error {
	if r.Fence == 0 {
		return nil
	}
	kept := &r.Book.lease
	for range leaseRaces {
		began := time.Now()
		lease, info, err := ReadLease(ctx, r.Index)
		switch {
		case fault.Is(err, fault.NotFound):
			return r.leaseLost("its lease was deleted")
		case err != nil:
			return err
		case lease.Workflow == "":
			return r.leaseLost("another run took its lease")
		case !r.holdsLease(lease):
			return r.leaseLost("run " + runOf(lease) + " has it now")
		case !kept.isDue(r.Fence, r.heartbeatInterval()/renewals):
			return nil
		}
		lease.Renewed = time.Now().UTC()
		_, err = blob.WriteJSON(ctx, r.Artifacts, r.Index.LeaseKey(), lease, blob.Cond{Match: info.ETag})
		if err != nil && !fault.Is(err, fault.Precondition) {
			return err
		}
		// Where another process of the run was faster, the lease has changed since this look began, too: the next look
		// shows it.
		kept.noteRenewal(r.Fence, began)
		if err == nil {
			return nil
		}
	}
	return fault.GenBusy.At("look at the lease of", r.Job.Index).Because("it changes all the time")
}

func (r *Run) leaseLost(why string) error {
	return fault.LeaseLost.At("work on", r.Name()).
		Because(why).
		Advise("the run stops, and its paid results are kept; for details: unweaver status " + r.Job.Index)
}

// Renew renews the lease when it is due, at most once in half a heartbeat for all units of the run in this process.
// It is an error only when the run does not hold its lease any more: a store that does not answer fails no unit.
func (r *Run) Renew(ctx context.Context) error {
	kept := &r.Book.lease
	if r.Fence == 0 || !kept.isDue(r.Fence, r.heartbeatInterval()/renewals) || !kept.trying.TryLock() {
		return nil
	}
	defer kept.trying.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.heartbeatInterval())
	defer cancel()
	err := r.GuardLease(ctx)
	if err == nil {
		r.markCourse(ctx)
		return nil
	}
	if fault.Is(err, fault.LeaseLost) {
		return err
	}
	if ctx.Err() == nil {
		r.Log.Warn("lease not renewed", "run_id", r.Name(), "code", string(fault.CodeOf(err)))
	}
	return nil
}

package build

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Holder is a run of the engine that holds, or wants, the lease of an index.
type Holder struct{ Workflow, Run string }

// Closed tells whether a run of the engine has ended.
type Closed func(ctx context.Context, holder Holder) (bool, error)

// leaseRaces bounds how often the lease is looked at anew when another run writes it at the same moment.
const leaseRaces = 5

// TakeLease makes a run the only builder of its index and gives its fence, which rises with every holder. A lease
// passes on only when the engine says that its holder is closed; taking it twice gives the same fence.
func TakeLease(ctx context.Context, index artifact.Index, holder Holder, closed Closed) (int64, error) {
	var err error
	for range leaseRaces {
		var fence int64
		if fence, err = takeLease(ctx, index, holder, closed); !fault.Is(err, fault.Precondition) {
			return fence, err
		}
	}
	return 0, fault.LeaseHeld.At("build", index.Name).
		Because("other runs take its lease at the same time").
		Advise("wait for them: unweaver status " + index.Name)
}

func takeLease(ctx context.Context, index artifact.Index, holder Holder, closed Closed) (int64, error) {
	old, info, err := readLease(ctx, index)
	cond := blob.Cond{Match: info.ETag}
	switch {
	case fault.Is(err, fault.NotFound):
		cond = blob.Cond{Absent: true}
	case err != nil:
		return 0, err
	case old.Workflow == holder.Workflow && old.Run == holder.Run:
		return old.Fence, nil
	case old.Workflow != "":
		gone, err := closed(ctx, Holder{old.Workflow, old.Run})
		if err != nil {
			return 0, err
		}
		if !gone {
			run := strings.TrimPrefix(old.Workflow, "build/")
			return 0, fault.LeaseHeld.At("build", index.Name).
				Because("another run builds this index: " + run).
				Advise("wait for it (unweaver status " + run + "), or cancel it")
		}
	}
	next := corpus.Lease{Workflow: holder.Workflow, Run: holder.Run, Fence: old.Fence + 1, Taken: time.Now().UTC()}
	_, err = blob.WriteJSON(ctx, index.Store, index.LeaseKey(), next, cond)
	return next.Fence, err
}

// GiveLease gives the lease back where the run holds it; the fence stays, so that it only rises.
func GiveLease(ctx context.Context, index artifact.Index, holder Holder) error {
	lease, info, err := readLease(ctx, index)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil || lease.Workflow != holder.Workflow || lease.Run != holder.Run {
		return err
	}
	free := corpus.Lease{Fence: lease.Fence, Taken: lease.Taken}
	_, err = blob.WriteJSON(ctx, index.Store, index.LeaseKey(), free, blob.Cond{Match: info.ETag})
	return err
}

// readLease names the file where it cannot be read: a lease that nobody understands must not let two runs build.
func readLease(ctx context.Context, index artifact.Index) (corpus.Lease, blob.Info, error) {
	var lease corpus.Lease
	info, err := blob.ReadJSON(ctx, index.Store, index.LeaseKey(), &lease)
	if err == nil && (lease.Fence < 0 || lease.Fence == math.MaxInt64) {
		err = fault.SegmentDamage.At("read", index.LeaseKey()).Because(fmt.Sprintf("its fence is %d", lease.Fence))
	}
	if fault.Is(err, fault.SegmentDamage) {
		err = fault.SegmentDamage.At("read lease", index.Store.Location(index.LeaseKey())).
			Because(err).
			Advise("make sure that nothing builds " + index.Name + ", then remove this file")
	}
	return lease, info, err
}

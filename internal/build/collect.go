package build

import (
	"context"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage/collect"
)

// Collect deletes scratch and what nothing names any more. The report comes first: it is made from scratch.
func (r *Run) Collect(ctx context.Context, holder Holder) error {
	if err := r.Report(ctx, holder, Ending{Status: corpus.StatusRunning}); err != nil {
		return err
	}
	current, _, err := r.Index.Current(ctx)
	if err != nil {
		return err
	}
	refs, err := r.Index.Refs(ctx)
	if err != nil {
		return err
	}
	leased, err := r.Coordination.Leased(ctx, r.Job.Index)
	if err != nil {
		return err
	}
	_, err = collect.Run(ctx, collect.In{
		Artifacts: r.Index, Keep: r.Settings.Keep, Grace: time.Duration(r.Settings.Grace), Scratch: r.Index.Name + "/runs",
		Refs: refs, Current: current, Leased: leased, Vectors: r.Vectors, Now: time.Now().UTC(),
		CollPrefix: "uw_" + corpus.Sum(r.StoreID, r.Job.Index).Short(8) + "_", OnProgress: r.touch,
	})
	if err != nil {
		return err
	}
	if _, err := r.Ledger.Sweep(ctx, ledger.Extract, time.Now()); err != nil {
		return err
	}
	r.Progress.Finish(corpus.Progress{Done: 1})
	return nil
}

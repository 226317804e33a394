package upkeep

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Collect deletes scratch and what nothing names any more: generations beyond the kept ones with their segments, class
// records, vector rows and collections, copies for bulk import of runs that are over, and ledger entries that no
// generation of any index lists. The report comes first: it is made from scratch. A generation that cannot be read is
// listed in the report, and so are copies that cannot be deleted. Standing questions come last: nothing waits for them
// but the end of the run.
func (r *Run) Collect(ctx context.Context, holder run.Holder) error {
	if err := r.WriteReport(ctx, holder, run.Ending{Status: core.StatusRunning}); err != nil {
		return err
	}
	in, err := r.prepareCollect(ctx)
	if err != nil {
		return err
	}
	purging, err := r.beginPurge(ctx, &in)
	if err != nil {
		return err
	}
	result, err := collect.Run(ctx, in)
	if err != nil {
		return err
	}
	for _, generation := range result.Damaged {
		r.Log.Warn("generation cannot be read", "run_id", r.Name(), "generation", generation)
	}
	open, err := r.listOpenBranches(ctx)
	if err != nil {
		return err
	}
	if err := r.Warn(ctx, append(open, result.Problems...)...); err != nil {
		return err
	}
	if err := purging.finishPurges(ctx, in, result); err != nil {
		return err
	}
	if err := r.keepLedger(ctx); err != nil {
		return err
	}
	if err := r.AskWatched(ctx); err != nil {
		return err
	}
	r.Progress.Finish(core.Progress{Done: 1})
	return nil
}

// listOpenBranches returns a problem for each index that shares this one's segments and serves documents without
// labels, where those of this one have labels.
func (r *Run) listOpenBranches(ctx context.Context) (open []core.Problem, err error) {
	if !r.Settings.ReadAs().Labels.IsOn() {
		return nil, nil
	}
	family, _, err := r.Index.ListFamily(ctx)
	for _, member := range family {
		pointer, _, unread := member.ReadPointer(ctx)
		if unread != nil || pointer.Manifest == "" || member.Name == r.Index.Name {
			continue
		}
		if manifest, unread := member.ManifestOf(ctx, pointer); unread == nil && !manifest.Labelled {
			open = append(open, core.Problem{
				Code: publish.LabelsOff, Object: member.Name, Detail: "its documents have no labels: who may read it reads " +
					"all of them. Build it with documents.labels, or delete it",
			})
		}
	}
	return open, err
}

// prepareCollect returns what collect works on.
func (r *Run) prepareCollect(ctx context.Context) (collect.In, error) {
	base, err := r.Index.FindBase(ctx)
	return collect.In{
		Artifacts: r.Index, Keep: r.Settings.Keep, Grace: time.Duration(r.Settings.Grace), Fence: r.Fence,
		Readers: r.Coordination, Records: r.Records, Vectors: r.Vectors,
		Collections: core.CollectionPrefix(r.StoreID, base.Name),
		Staging:     r.Staging, Copies: core.ImportPrefix(r.StoreID),
		OpenTable:  r.OpenTable,
		Guard:      r.GuardLease,
		Permit:     r.PermitTime(),
		Now:        time.Now().UTC(),
		OnProgress: r.Touch,
	}, err
}

// keepLedger keeps every task's part of the ledger small. A generation that cannot be read keeps everything.
func (r *Run) keepLedger(ctx context.Context) error {
	indexes, err := unit.IndexesOf(ctx, r.Artifacts)
	if err != nil {
		return err
	}
	ctx = ledger.WithAlive(ctx, r.Progress.Touch)
	tasks := ledger.Tasks()
	return parallel.Each(ctx, len(tasks), tasksAtOnce, func(ctx context.Context, i int) error {
		return r.keepTask(ctx, indexes, tasks[i])
	})
}

// tasksAtOnce are kept side by side: each is a chain of requests, and holds a sorter of keys.
const tasksAtOnce = 4

// keepTask keeps a task's part of the ledger small.
func (r *Run) keepTask(ctx context.Context, indexes []artifact.Index, task string) error {
	if err := r.GuardLease(ctx); err != nil {
		return err
	}
	if len(r.Settings.Enrich) == 0 && slices.Contains(ledger.OfEnrichments(), task) ||
		task == ledger.Transcribe && r.Settings.VisionBy() == nil ||
		task == ledger.Parse && !r.Settings.ReadAs().Parser.IsOn() {
		if holds, err := r.Ledger.HasEntries(ctx, task); err != nil || !holds { // most installations never had any
			return err
		}
	}
	_, err := r.Ledger.RunUpkeep(ctx, task, listKeys(ctx, indexes, task), time.Now())
	if artifact.IsDamage(err) {
		r.Log.Warn("ledger not cleaned: what it must keep cannot be read", "run_id", r.Name(), "task", task)
		return nil
	}
	if err == nil {
		r.Progress.Touch()
	}
	return err
}

// listKeys gives the keys of a task that generations list, and those of the vectors of standing questions.
func listKeys(ctx context.Context, indexes []artifact.Index, task string) iter.Seq2[core.Digest, error] {
	listed := collect.ListKeys(ctx, indexes, task)
	if task != ledger.Embed {
		return listed
	}
	return func(yield func(core.Digest, error) bool) {
		for _, index := range indexes {
			last, err := index.ReadLastWatch(ctx)
			for _, key := range last.Keys {
				if !yield(key, nil) {
					return
				}
			}
			if err != nil && !yield(core.Digest{}, err) {
				return
			}
		}
		listed(yield)
	}
}

// Settle finishes what a collector that died was deleting, so that what this run finds from now on is there to stay. It
// writes a pointer that is lost again.
func (r *Run) Settle(ctx context.Context) error {
	if err := r.MendPointer(ctx); err != nil {
		return err
	}
	return collect.Settle(ctx, r.Index, r.Vectors, collect.Permit{Look: r.GuardLease, Lasts: r.PermitTime()})
}

package upkeep

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// purging is what collect does for purges that are pending; nil: there are none.
type purging struct {
	*Run
	index   artifact.Index // as it is stored
	pending []core.Purge
	traces  []*purges.Traces
	files   unit.Sizes // of the segments that there were before
}

// beginPurge finds what is to be done, and has collect let it go.
func (r *Run) beginPurge(ctx context.Context, in *collect.In) (*purging, error) {
	p := &purging{Run: r, index: artifact.Index{Store: r.Artifacts, Name: r.Job.Index}}
	all, err := purges.List(ctx, p.index)
	if err != nil {
		return nil, err
	}
	for _, purge := range all {
		if purge.State != core.PurgePending {
			continue
		}
		traces, err := purges.Load(ctx, p.index, purge.ID)
		if err != nil && !artifact.IsDamage(err) {
			return nil, err
		}
		if traces == nil || err != nil { // it was asked for while this run was on its way: the next one begins with it
			continue
		}
		p.pending, p.traces = append(p.pending, purge), append(p.traces, traces)
	}
	if len(p.pending) == 0 {
		return nil, nil
	}
	in.Purged = func(generation string) bool {
		return slices.ContainsFunc(p.traces, func(t *purges.Traces) bool { return t.Holders[generation] })
	}
	if err := p.enrichedPurge(ctx); err != nil {
		return nil, err
	}
	p.files, err = unit.StoredSizes(ctx, p.index, p.Progress.Touch)
	return p, err
}

// finishPurges does the rest of the purges once collect has run: it waits until no process has open what has to go, and
// takes paid results out of the ledger. What it cannot end is recorded, and the next run goes on.
func (p *purging) finishPurges(ctx context.Context, in collect.In, result collect.Result) error {
	if p == nil {
		return nil
	}
	gone := core.Purged{}
	add := func(result collect.Result) {
		gone.Generations += result.Generations
		gone.Segments += result.Deleted
		gone.Records += result.Records
		gone.Rows += result.Rows
	}
	add(result)
	for until := time.Now().Add(purgePatience); ; { // what was marked goes with the next look
		before := result
		var err error
		in.Now = time.Now().UTC()
		if result, err = collect.Run(ctx, in); err != nil {
			return err
		}
		add(result)
		nothing := result.Deleted+result.Generations == 0 || len(result.Damaged) > 0
		if result.Purged == 0 && nothing || time.Now().After(until) {
			break
		}
		if result.Purged > 0 && result.Purged == before.Purged {
			p.Progress.Touch()
			if err := p.pauseForReaders(ctx); err != nil {
				return err
			}
		}
	}
	var left []string
	if result.Purged > 0 {
		left = append(left, fmt.Sprintf(
			"query-api has %d generations open that hold it: they are deleted when it closes them", result.Purged))
	}
	shares, err := p.checkBranches(ctx)
	if err != nil {
		return err
	}
	left = append(left, shares...)
	paying, err := p.listBackfills(ctx)
	if err != nil {
		return err
	}
	left = append(left, paying...)
	if len(result.Damaged) > 0 {
		left = append(left, "a generation cannot be read, so files that it might need are kept: "+
			strings.Join(result.Damaged, ", "))
	}
	if err := p.removeTags(ctx, in); err != nil {
		return err
	}
	after, err := unit.StoredSizes(ctx, p.index, p.Progress.Touch)
	if err != nil {
		return err
	}
	for sha := range p.files {
		if _, there := after[sha]; !there {
			p.Cache.Forget(sha)
		}
	}
	for i := range p.pending {
		gone := gone
		if i > 0 { // they went together
			gone = core.Purged{}
		}
		if err := p.finishPurge(ctx, &p.pending[i], p.traces[i], gone, slices.Clone(left)); err != nil {
			return err
		}
	}
	return nil
}

// checkBranches says of each branch that is there that its generations have what they share with the index.
func (p *purging) checkBranches(ctx context.Context) (left []string, err error) {
	all, err := p.index.ListBranches(ctx)
	for _, branch := range all {
		if branch.State == core.BranchOpen {
			left = append(left, "branch "+branch.Name+" shares its segments: promote it if you want to keep "+
				"what it serves, then delete it")
		}
	}
	return left, err
}

// listBackfills lists each backfill that goes on since before a purge: it may have texts in its scratch, or pay for
// them.
func (p *purging) listBackfills(ctx context.Context) (left []string, err error) {
	all, err := run.ReadBackfills(ctx, p.index)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		before := slices.ContainsFunc(p.pending, func(purge core.Purge) bool { return one.Started.Before(purge.At) })
		if before && !core.IsTerminal(one.Status) {
			left = append(left, "backfill "+one.Name+" is still running: unweaver backfill cancel "+p.index.Name+" "+one.Name+
				"; if Temporal does not run it, first resume it")
		}
	}
	return left, nil
}

// pauseForReaders waits a second. It counts as idle, as no work is done: later estimates of time go by work alone.
func (p *purging) pauseForReaders(ctx context.Context) error {
	if err := p.ChangeState(ctx, func(state *core.RunState) { state.Stop(time.Now().UTC()) }); err != nil {
		return err
	}
	if err := retry.Wait(ctx, time.Second); err != nil {
		return err
	}
	return p.ChangeState(ctx, func(state *core.RunState) { state.GoOn(time.Now().UTC()) })
}

// removeTags takes the tags off generations that are gone because of a purge.
func (p *purging) removeTags(ctx context.Context, in collect.In) error {
	tags, err := p.index.Tags(ctx)
	if err != nil {
		return err
	}
	refs, err := p.index.ListByName(ctx)
	if err != nil {
		return err
	}
	var keys []string
	for generation, names := range tags {
		if _, there := refs[generation]; there || !in.Purged(generation) {
			continue
		}
		for _, name := range names {
			keys = append(keys, p.index.TagKey(generation, name))
		}
	}
	return p.deleteGuarded(ctx, keys)
}

// deleteGuarded deletes objects of the artifact store, once the lease was seen to be held.
func (p *purging) deleteGuarded(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	if err := p.GuardLease(ctx); err != nil {
		return err
	}
	return artifact.DeleteAll(ctx, p.index.Store, keys)
}

// finishPurge does what is left of one purge.
func (p *purging) finishPurge(
	ctx context.Context, purge *core.Purge, traces *purges.Traces, gone core.Purged, left []string,
) error {
	documents, _ := purges.ListExcluded([]core.Purge{*purge})
	if holds, err := p.isServed(ctx, documents); err != nil {
		return err
	} else if holds {
		left = append(left, "the served generation contains it: the run without it was held or has not ended")
	}
	letters, err := p.purgeLetters(ctx, documents)
	if err != nil {
		return err
	}
	gone.Letters = letters
	if err := p.purgeChoices(ctx, documents); err != nil {
		return err
	}
	if len(left) == 0 { // before, a generation still lists its entries
		removed, shared, err := p.purgeLedger(ctx, traces)
		switch {
		case fault.Is(err, fault.GenBusy):
			left = append(left, err.Error())
		case artifact.IsDamage(err):
			left = append(left, "the ledger keeps its entries: the needs of other documents cannot be read: "+err.Error())
		case err != nil:
			return err
		}
		gone.Ledger, purge.Shared = removed, shared
		if traces.Unlisted {
			purge.Forgotten = ledger.OfEnrichments()
		}
	}
	judged, err := p.purgeProbes(ctx, documents)
	if err != nil {
		return err
	}
	left = append(left, judged...)
	if err := p.overwriteStores(ctx); err != nil {
		return err
	}
	purge.Left, purge.Run = left, p.Generation
	was := purge.Gone
	purge.Gone = core.Purged{
		Generations: was.Generations + gone.Generations, Segments: was.Segments + gone.Segments,
		Records: was.Records + gone.Records, Rows: was.Rows + gone.Rows, Ledger: was.Ledger + gone.Ledger,
		Letters: was.Letters + gone.Letters,
	}
	if len(left) == 0 {
		purge.State, purge.Ended = core.PurgeDone, time.Now().UTC()
	}
	if err := p.GuardLease(ctx); err != nil {
		return err
	}
	if err := purges.Write(ctx, p.index, *purge); err != nil || len(left) > 0 {
		return err
	}
	return p.index.Store.Delete(ctx, purges.TracesKey(p.index, purge.ID))
}

// isServed reports whether the generation that is served has one of the documents, even a dead one.
func (p *purging) isServed(ctx context.Context, documents purges.Set) (bool, error) {
	_, manifest, err := p.index.ReadServed(ctx)
	if err != nil || manifest == nil {
		return false, err
	}
	return documents.IsIn(ctx, p.index, manifest, p.Progress.Touch)
}

// ChoosePurge keeps what a run is for: to it the corpus is what the current generation has of it.
func ChoosePurge(ctx context.Context, index artifact.Index, generation, purge string) error {
	_, err := blob.WriteJSON(ctx, index.Store, unit.PurgeFile(index, generation), unit.PurgeRun{Purge: purge}, blob.Cond{})
	return err
}

// listPurged returns the documents that nothing may be made of any more, as far as is known now: those of the index, or
// of the base of a branch.
func (r *Run) listPurged(ctx context.Context) (purges.Set, error) {
	base, err := r.Index.FindBase(ctx)
	if err != nil {
		return purges.Set{}, err
	}
	all, err := purges.List(ctx, base)
	excluded, _ := purges.ListExcluded(all)
	return excluded, err
}

// purgePatience is how long a run waits until no reader has a generation open that has to go.
const purgePatience = 2 * time.Minute

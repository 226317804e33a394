package release

import (
	"context"
	"fmt"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// rollBackIndex makes the index serve a generation that was published before.
func (a *act) rollBackIndex(ctx context.Context) (core.Move, error) {
	if a.current.Generation == "" {
		return core.Move{}, fault.UnknownIndex.At("roll back", a.Index).
			Because("the index has no published generation").
			Advise("to list its generations: unweaver generations " + a.Index)
	}
	target, err := a.findTarget(ctx)
	if err != nil {
		return core.Move{}, err
	}
	move := a.newMove(target)
	if target == a.current.Generation {
		move.Unchanged = true
		return move, nil
	}
	ref, _, err := a.readReference(ctx, target)
	if err != nil {
		return move, err
	}
	switch ref.State {
	case core.GenerationPublished:
	case core.GenerationHeld:
		return move, fault.Usage.At("roll back to", target).
			Because("a gate held this generation, so it was never served").
			Advise(fmt.Sprintf("to see why: unweaver show %s/%s; to approve it: unweaver publish %s %s",
				a.Index, target, a.Index, target))
	default:
		return move, fault.Usage.At("roll back to", target).
			Because("it is " + ref.State).
			Advise("to list the others: unweaver generations " + a.Index)
	}
	manifest, err := a.readComplete(ctx, target, ref.Manifest)
	if err == nil {
		err = a.refuseUnlabelled(ctx, manifest)
	}
	if err != nil {
		return move, err
	}
	return move, a.recordMove(ctx, &move, func() error { return a.flipPointer(ctx, &move, manifest, ref.Manifest) })
}

// findTarget returns the generation that a rollback means.
func (a *act) findTarget(ctx context.Context) (string, error) {
	if a.Generation != "" {
		return a.Generation, nil
	}
	manifest, err := a.index.ManifestOf(ctx, a.current)
	if err != nil {
		return "", err
	}
	if manifest.Index != a.Index { // it was promoted: its parent is the branch's
		if before, err := a.beforePromotion(ctx); err != nil || before != "" {
			return before, err
		}
	}
	if manifest.Parent == "" {
		return "", fault.UnknownGen.At("roll back", a.Index).
			Because("generation " + a.current.Generation + " is the first one: none was served before it").
			Advise("name one of: unweaver generations " + a.Index)
	}
	refs, _, err := a.index.ReadableRefs(ctx)
	if err != nil {
		return "", err
	}
	for name, ref := range refs {
		if ref.Manifest == manifest.Parent && ref.State == core.GenerationPublished {
			return name, nil
		}
	}
	return "", fault.UnknownGen.At("roll back", a.Index).
		Because("the parent of generation " + a.current.Generation + " is no longer kept").
		Advise("name one of: unweaver generations " + a.Index)
}

// readComplete reads the manifest of a generation that is to be served, and makes sure that everything it names is
// there: its files by their sizes, its collections with as many rows as it has, in stores that have not lost their
// memory since they were proven. Its rows are not read: as long as it is kept they are not deleted.
func (a *act) readComplete(ctx context.Context, name, sha string) (*core.Manifest, error) {
	marked, err := a.isMarked(ctx, name)
	if err != nil {
		return nil, err
	}
	if marked {
		return nil, a.newCollectedError(name, "it is no longer kept, and is being deleted")
	}
	manifest, err := a.index.Manifest(ctx, sha)
	if err != nil {
		return nil, err
	}
	if manifest.Generation != name {
		return nil, fault.SegmentDamage.At("open generation", name).
			Because("its reference names the manifest of " + manifest.Generation)
	}
	err = parallel.RunTogether(ctx,
		func(ctx context.Context) error { return a.checkFiles(ctx, manifest) },
		func(ctx context.Context) error { return a.sameStores(ctx, manifest) },
		func(ctx context.Context) error {
			return a.checkRows(ctx, name, manifest.Collections.Classes, manifest.Counts.Classes)
		},
		func(ctx context.Context) error {
			return a.checkRows(ctx, name, manifest.Collections.Chunks, manifest.Counts.Windows)
		},
	)
	if err != nil {
		return nil, err
	}
	return manifest, a.reclaimFiles(ctx, manifest)
}

// checkFiles compares what a manifest names with what lies in the store, by sizes.
func (a *act) checkFiles(ctx context.Context, manifest *core.Manifest) error {
	lost, err := unit.LostSegment(ctx, a.index, manifest)
	if err == nil && lost != "" {
		err = fault.SegmentDamage.At("serve generation", manifest.Generation).Because(lost).
			Advise("choose another: unweaver generations " + a.Index)
	}
	return err
}

// checkRows looks whether a collection has as many rows as a generation has, and makes it ready to be searched.
func (a *act) checkRows(ctx context.Context, generation, collection string, want int64) error {
	count, err := a.Vectors.Count(ctx, collection)
	if err == nil && count >= want {
		return a.Vectors.Load(ctx, collection)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return a.rowsGone(generation, fmt.Sprintf("collection %s should have %d rows, and has %d", collection, count, want))
}

func (a *act) rowsGone(generation, why string) error {
	return fault.GenCollected.At(a.Action+" generation", generation).
		Because(why).
		Advise("reload the stores, without model calls: unweaver restore " + a.Index)
}

// sameStores refuses where the stores are not those that were proven: what they hold of any generation is not known.
func (a *act) sameStores(ctx context.Context, manifest *core.Manifest) error {
	lost, err := unit.StoresLost(ctx, a.index, a.Records, a.Vectors, manifest)
	if err == nil && lost {
		err = a.rowsGone(manifest.Generation, "a store lost its data after the verification, or is a different store")
	}
	return err
}

// reclaimFiles takes what a generation names off the list of what is about to be deleted.
func (a *act) reclaimFiles(ctx context.Context, manifest *core.Manifest) error {
	var wanted []string
	for _, segment := range manifest.Segments.All() {
		wanted = append(wanted, segment.SHA256)
	}
	missing, err := collect.Reclaim(ctx, a.index, wanted, manifest.Collections.Classes, manifest.Collections.Chunks)
	if err == nil && len(missing) > 0 {
		err = a.newCollectedError(manifest.Generation, "segment "+missing[0]+" that it names was deleted")
	}
	return err
}

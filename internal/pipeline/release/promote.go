package release

import (
	"context"
	"fmt"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// promoteBranch makes the base of a branch serve what the branch serves, by the same conditional write as any
// publication: on the epoch that the branch's last night found. What the generation names is the base's already, so
// nothing is copied; its settings come with it, as they are those of what is served (core.Overlay).
func (a *act) promoteBranch(ctx context.Context) (core.Move, error) {
	member, served := a.index, a.current
	base, err := member.FindBase(ctx)
	if err != nil {
		return core.Move{}, err
	}
	if base.Name == member.Name {
		return core.Move{}, fault.Usage.At("promote", member.Name).
			Because("it is not a branch").
			Advise("to approve a generation that a gate held: unweaver publish " + member.Name + " GEN")
	}
	if a.Base != "" && a.Base != base.Name {
		return core.Move{}, fault.NotFound.At("promote", member.Name).
			Because("it is now a branch of another index than " + a.Base).
			Advise("to list the branches of an index: unweaver branch " + a.Base)
	}
	overlay, _, err := OverlayOf(ctx, member)
	if err != nil {
		return core.Move{}, err
	}
	branch, err := run.FindBranch(ctx, base, member.Name, "promote")
	if err != nil {
		return core.Move{}, err
	}
	current, _, err := base.ReadPointer(ctx)
	if err != nil {
		return core.Move{}, err
	}
	a.index, a.current, a.Index, a.Name = base, current, base.Name, member.Name
	a.Generation = served.Generation
	move := a.newMove(served.Generation)
	move.Set = overlay.Set
	if served.Manifest == "" || served.Manifest == branch.Manifest {
		return move, fault.Usage.At("promote", member.Name).
			Because("the branch has no generation of its own yet").
			Advise("first build it: unweaver index --index " + member.Name)
	}
	if served.Manifest == current.Manifest {
		move.Unchanged = true
		return move, nil
	}
	if err := a.refuseRebased(ctx, member, served); err != nil {
		return move, err
	}
	there, err := base.GenerationRef(ctx, served.Generation)
	known := err == nil
	switch {
	case fault.Is(err, fault.UnknownGen):
	case err != nil:
		return move, err
	case there.Manifest != served.Manifest:
		return move, fault.Usage.At("promote", member.Name).
			Because(base.Name + " has a different generation of the name " + served.Generation).
			Advise("build the branch again, under a name of its own: unweaver index --rebuild --index " + member.Name)
	}
	// The branch's own folder reports whether it is being collected, and its stores.json what it was proven in.
	looked := *a
	looked.index, looked.Index = member, member.Name
	manifest, err := looked.readComplete(ctx, served.Generation, served.Manifest)
	if err == nil {
		err = a.refuseUnlabelled(ctx, manifest)
	}
	if err != nil {
		return move, err
	}
	return move, a.recordMove(ctx, &move, func() error { return a.takeOver(ctx, &move, member, manifest, served, known) })
}

// takeOver writes the reference before the flip, so that every collector counts what is about to be served. One that
// the base knows already stays whatever comes of it: it was served before, and may be gone back to.
func (a *act) takeOver(
	ctx context.Context, move *core.Move, member artifact.Index, manifest *core.Manifest, served core.Pointer,
	known bool,
) error {
	if _, err := publish.Store(ctx, a.index, manifest, core.GenerationPublished); err != nil {
		return err
	}
	back := func(cause error) error {
		if known {
			return cause
		}
		// It is not served: it must not pass for one that was. Where another promote just did, its reference stays.
		current, _, err := a.index.ReadPointer(ctx)
		if err != nil || current.Manifest == served.Manifest {
			return cause
		}
		if err := a.Artifacts.Delete(ctx, a.index.GenerationKey(served.Generation, "manifest.json")); err != nil {
			return err
		}
		return cause
	}
	looked := *a
	looked.index = member
	marked, err := looked.isMarked(ctx, served.Generation)
	if err == nil && marked {
		err = a.newCollectedError(served.Generation, "it is no longer kept by "+member.Name+", and is being deleted")
	}
	if err != nil {
		return back(err)
	}
	if err := a.copyFiles(ctx, member, a.index, served.Generation); err != nil {
		return err
	}
	if err := a.flipPointer(ctx, move, manifest, served.Manifest); err != nil {
		if fault.Is(err, fault.PointerMoved) {
			return back(err)
		}
		return err
	}
	return a.copyProven(ctx, member, a.index)
}

// refuseRebased refuses a branch whose base moved since the branch's last night was planned: what the base got since
// would be taken back.
func (a *act) refuseRebased(ctx context.Context, member artifact.Index, served core.Pointer) error {
	again := "to build the branch again, which pays nothing twice: unweaver index --index " + member.Name
	var rebase core.Rebase
	_, err := blob.ReadJSON(ctx, a.Artifacts, member.RebaseKey(), &rebase)
	if artifact.IsDamage(err) {
		return fault.PointerMoved.At("promote", member.Name).
			Because("the generation that its base served during the build is unknown").
			Advise(again)
	}
	if err != nil {
		return err
	}
	if rebase.Generation != served.Generation {
		report, err := member.ReadReport(ctx, rebase.Generation)
		if err != nil && !artifact.IsDamage(err) {
			return err
		}
		over := []string{core.StatusCompleted, core.StatusErrors}
		if err != nil || !report.Unchanged || !slices.Contains(over, report.Status) {
			return fault.PointerMoved.At("promote", member.Name).
				Because("its last run " + member.Name + "/" + rebase.Generation + " did not make the generation it serves, " +
					served.Generation).
				Advise("see: unweaver status " + member.Name + "; " + again)
		}
	}
	if rebase.Release == a.current.Epoch {
		return nil
	}
	return fault.PointerMoved.At("promote", member.Name).
		Because(fmt.Sprintf("%s now serves %s (release %d); it served %s (release %d) when the last run of %s was planned: "+
			"the promotion would undo what changed since", a.Index, a.current.Generation, a.current.Epoch, rebase.Base,
			rebase.Release, member.Name)).
		Advise(again)
}

// copyProven copies what another index of the family knows of the stores.
func (a *act) copyProven(ctx context.Context, from, to artifact.Index) error {
	err := blob.Copy(ctx, a.Artifacts, unit.ProvenKey(to), a.Artifacts, unit.ProvenKey(from))
	if fault.Is(err, fault.NotFound) { // the next night verifies everything
		return nil
	}
	return err
}

// beforePromotion returns what was served before the current generation was promoted; empty: the trail does not tell.
func (a *act) beforePromotion(ctx context.Context) (string, error) {
	operations, err := ListOperations(ctx, a.index, 0)
	if err != nil {
		return "", err
	}
	for _, op := range operations {
		if op.Action == core.ActionPromote && op.To == a.current.Generation && op.From != op.To {
			return op.From, nil
		}
	}
	return "", nil
}

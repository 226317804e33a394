package release

import (
	"context"
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// publishHeld approves a generation that was held: it is proven, and is served as it is.
func (a *act) publishHeld(ctx context.Context) (core.Move, error) {
	move := a.newMove(a.Generation)
	if a.Generation == a.current.Generation {
		move.Unchanged = true
		return move, nil
	}
	ref, _, err := a.readReference(ctx, a.Generation)
	if err != nil {
		return move, err
	}
	begun, err := BegunToPublish(ctx, a.index, a.Generation, ref)
	if err != nil {
		return move, err
	}
	if ref.State != core.GenerationHeld && !begun {
		return move, fault.Usage.At("publish", a.Generation).
			Because("it is " + ref.State + ", not held").
			Advise(fmt.Sprintf("to go back to a published generation: unweaver rollback %s %s", a.Index, a.Generation))
	}
	manifest, err := a.readComplete(ctx, a.Generation, ref.Manifest)
	if err == nil {
		err = a.refuseUnlabelled(ctx, manifest)
	}
	if err != nil {
		return move, err
	}
	if manifest.Parent != a.current.Manifest && !a.Force {
		return move, a.refuseOvertaken(ctx, manifest)
	}
	return move, a.recordMove(ctx, &move, func() error {
		if _, err := publish.Store(ctx, a.index, manifest, core.GenerationPublished); err != nil {
			return err
		}
		err := a.flipPointer(ctx, &move, manifest, ref.Manifest)
		if fault.Is(err, fault.PointerMoved) { // else it would pass for one that was served
			if _, back := publish.Store(ctx, a.index, manifest, core.GenerationHeld); back != nil {
				return back
			}
		}
		return err
	})
}

// BegunToPublish reports whether an approval wrote the reference of a generation and then died, or could not write the
// pointer: the same command finishes it.
func BegunToPublish(
	ctx context.Context, index artifact.Index, generation string, ref core.GenerationRef,
) (bool, error) {
	if ref.State != core.GenerationPublished {
		return false, nil
	}
	operations, err := ListOperations(ctx, index, 0)
	if err != nil {
		return false, err
	}
	for _, op := range operations { // the last first
		if op.To != generation {
			continue
		}
		switch op.Action {
		case core.ActionPublish:
			return op.Outcome == nil || op.Outcome.Result != core.OperationDone, nil
		case core.ActionRollback, core.ActionPromote:
			return false, nil
		}
	}
	return false, nil
}

// refuseOvertaken refuses a generation that was not made from what is served: it has nothing of what came since.
func (a *act) refuseOvertaken(ctx context.Context, manifest *core.Manifest) error {
	from := "no parent"
	if manifest.Parent != "" {
		from = "a deleted generation"
		if parent, err := a.index.Manifest(ctx, manifest.Parent); err == nil {
			from = "generation " + parent.Generation
		}
	}
	served := "nothing is served now"
	if a.current.Generation != "" {
		served = a.current.Generation + " is served now"
	}
	return fault.Usage.At("publish", manifest.Generation).
		Because("it was built from " + from + ", and " + served + ": publishing it would undo what changed since").
		Advise(fmt.Sprintf("to compare: unweaver diff %s %s; to build again, which pays nothing twice: unweaver index "+
			"--index %s; to publish it all the same, add --force", a.Index, manifest.Generation, a.Index))
}

// discardHeld drops a generation that was never served. Its files go with the next collections.
func (a *act) discardHeld(ctx context.Context) (core.Move, error) {
	move := a.newMove(a.Generation)
	if a.Generation == a.current.Generation {
		return move, fault.Usage.At("discard", a.Generation).
			Because("it is the served generation").
			Advise("first roll back to another one: unweaver rollback " + a.Index)
	}
	ref, etag, err := a.readReference(ctx, a.Generation)
	if err != nil {
		return move, err
	}
	switch ref.State {
	case core.GenerationHeld:
	case core.GenerationDiscarded:
		move.Unchanged = true
		return move, nil
	default:
		return move, fault.Usage.At("discard", a.Generation).
			Because("it is " + ref.State + ": only a generation that a gate held can be discarded").
			Advise("the number of kept published generations is set by indexes." + a.Index + ".keep")
	}
	tags, err := a.index.Tags(ctx)
	if err != nil {
		return move, err
	}
	if named := tags[a.Generation]; len(named) > 0 {
		return move, fault.Usage.At("discard", a.Generation).
			Because("it has the tag " + strings.Join(named, ", ")).
			Advise(fmt.Sprintf("first remove the tag: unweaver untag %s %s %s", a.Index, a.Generation, named[0]))
	}
	return move, a.recordMove(ctx, &move, func() error {
		ref.State = core.GenerationDiscarded
		key := a.index.GenerationKey(a.Generation, "manifest.json")
		_, err := blob.WriteJSON(ctx, a.Artifacts, key, ref, blob.Cond{Match: etag})
		if fault.Is(err, fault.Precondition) {
			return fault.GenBusy.At("discard", a.Generation).
				Because("another command is publishing or discarding it").
				Advise("to see the result: unweaver generations " + a.Index)
		}
		return err
	})
}

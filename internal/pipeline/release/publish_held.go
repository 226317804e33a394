package release

import (
	"context"
	"fmt"
	"strings"

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
	begun, err := a.begunToPublish(ctx, ref)
	if err != nil {
		return move, err
	}
	if ref.State != core.GenerationHeld && !begun {
		return move, fault.Usage.At("publish", a.Generation).
			Because("it is " + ref.State + ", and not held").
			Advise(fmt.Sprintf("go back to what was published with: unweaver rollback %s %s", a.Index, a.Generation))
	}
	manifest, err := a.readComplete(ctx, a.Generation, ref.Manifest)
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

// begunToPublish reports whether an approval wrote the reference of a generation and then died, or could not write the
// pointer: the same command finishes it.
func (a *act) begunToPublish(ctx context.Context, ref core.GenerationRef) (bool, error) {
	if ref.State != core.GenerationPublished {
		return false, nil
	}
	operations, err := ListOperations(ctx, a.index, 0)
	if err != nil {
		return false, err
	}
	for _, op := range operations { // the last first
		if op.To != a.Generation {
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
	from := "nothing: it was a first build"
	if manifest.Parent != "" {
		from = "a generation that is gone"
		if parent, err := a.index.Manifest(ctx, manifest.Parent); err == nil {
			from = "generation " + parent.Generation
		}
	}
	served := "nothing is served now"
	if a.current.Generation != "" {
		served = a.current.Generation + " is served now"
	}
	return fault.Usage.At("publish", manifest.Generation).
		Because("it was made from " + from + ", and " + served + ": what changed between the two would be taken back").
		Advise(fmt.Sprintf("see what: unweaver diff %s %s; build again, which pays nothing twice: unweaver index "+
			"--index %s; or give --force", a.Index, manifest.Generation, a.Index))
}

// discardHeld drops a generation that was never served. Its files go with the next collections.
func (a *act) discardHeld(ctx context.Context) (core.Move, error) {
	move := a.newMove(a.Generation)
	if a.Generation == a.current.Generation {
		return move, fault.Usage.At("discard", a.Generation).
			Because("it is what is served").
			Advise("go back to another one first: unweaver rollback " + a.Index)
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
			Because("it is " + ref.State + ": only what a gate held can be discarded").
			Advise("how many published ones stay says indexes." + a.Index + ".keep")
	}
	tags, err := a.index.Tags(ctx)
	if err != nil {
		return move, err
	}
	if named := tags[a.Generation]; len(named) > 0 {
		return move, fault.Usage.At("discard", a.Generation).
			Because("it is tagged: " + strings.Join(named, ", ")).
			Advise(fmt.Sprintf("take the tag off first: unweaver untag %s %s %s", a.Index, a.Generation, named[0]))
	}
	return move, a.recordMove(ctx, &move, func() error {
		ref.State = core.GenerationDiscarded
		key := a.index.GenerationKey(a.Generation, "manifest.json")
		_, err := blob.WriteJSON(ctx, a.Artifacts, key, ref, blob.Cond{Match: etag})
		if fault.Is(err, fault.Precondition) {
			return fault.GenBusy.At("discard", a.Generation).
				Because("somebody else publishes or discards it").
				Advise("look again: unweaver generations " + a.Index)
		}
		return err
	})
}

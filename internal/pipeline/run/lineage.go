package run

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// ReadLineage finds whether the index is a branch, whose records and collections are named after its base, and notes
// what the base serves now: what the base publishes from then on, this run does not know of (see release.Desk,
// promote).
func (r *Run) ReadLineage(ctx context.Context, fixed *Plan) error {
	base, err := r.Index.FindBase(ctx)
	if err != nil || base.Name == r.Index.Name {
		return err
	}
	if _, err := FindBranch(ctx, base, r.Index.Name, "build"); err != nil {
		return err
	}
	fixed.Family = base.Name
	current, _, err := base.ReadPointer(ctx)
	if err != nil {
		return err
	}
	rebase := core.Rebase{Generation: r.Generation, Base: current.Generation, Release: current.Epoch}
	_, err = blob.WriteJSON(ctx, r.Index.Store, r.Index.RebaseKey(), rebase, blob.Cond{})
	return err
}

// FindBranch returns the record of an open branch; of one that was deleted fault.UnknownIndex.
func FindBranch(ctx context.Context, base artifact.Index, name, operation string) (core.Branch, error) {
	branch, _, err := base.ReadBranch(ctx, name)
	if err == nil && branch.State != core.BranchOpen {
		err = fault.UnknownIndex.At(operation, name).
			Because("it was a branch of " + base.Name + ", and was deleted").
			Advise(BranchAnew(base.Name))
	}
	return branch, err
}

// BranchAnew advises what to do about the name of a branch that was deleted.
func BranchAnew(base string) string {
	return "branch under another name: unweaver branch " + base + " --as NAME; this one is free again once the runs of " +
		base + " have deleted its generations"
}

// ReadPulled returns the generations of an index that were pulled.
func ReadPulled(ctx context.Context, index artifact.Index) (out core.PulledGenerations, err error) {
	_, err = blob.ReadJSON(ctx, index.Store, index.PulledKey(), &out)
	if fault.Is(err, fault.NotFound) {
		return core.PulledGenerations{}, nil
	}
	return out, err
}

// RefusePulled returns fault.IndexPulled where an index, or the base of a branch, serves a pulled image that no one
// adopted: a build would change what its origin changes.
func RefusePulled(ctx context.Context, index artifact.Index) error {
	base, err := index.FindBase(ctx)
	if err != nil {
		return err
	}
	all, err := ReadPulled(ctx, base)
	if err != nil || len(all) == 0 {
		return err
	}
	current, _, err := base.ReadPointer(ctx)
	pulled, there := all[current.Manifest]
	if err != nil || !there || pulled.Adopted {
		return err
	}
	return fault.IndexPulled.At("change", index.Name).
		Because("it is a read-only copy of " + pulled.From).
		Advise("change it where it comes from, and pull again; or let builds change it here: unweaver pull " + pulled.From +
			" " + base.Name + " --adopt")
}

// RefuseImageSpec returns fault.BadConfig for a configuration that an image brought, where a corpus is about to be read
// or written: which one, and who may read its documents, is said by the configuration of this place.
func RefuseImageSpec(spec core.Spec) error {
	if !spec.Pulled {
		return nil
	}
	return fault.BadConfig.At("open the corpus of", spec.Index).
		Because("its settings came with an image: their corpus, labels and links do not count here").
		Advise("set indexes." + spec.Index + ".corpus in the configuration, then: unweaver index --index " + spec.Index)
}

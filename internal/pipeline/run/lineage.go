package run

import (
	"context"

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
	var branch core.Branch
	if _, err := blob.ReadJSON(ctx, r.Artifacts, base.BranchKey(r.Index.Name), &branch); err != nil {
		return err
	}
	if branch.State != core.BranchOpen {
		return deletedBranch("build", branch)
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

func deletedBranch(operation string, branch core.Branch) error {
	return fault.UnknownIndex.At(operation, branch.Name).
		Because("it was a branch of " + branch.Base + ", and was deleted").
		Advise(BranchAnew(branch.Base))
}

// BranchAnew advises what to do about the name of a branch that was deleted.
func BranchAnew(base string) string {
	return "branch under another name: unweaver branch " + base + " --as NAME; this one is free again once the runs of " +
		base + " have deleted its generations"
}

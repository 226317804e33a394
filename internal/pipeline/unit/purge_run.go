package unit

import (
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// PurgeRun is what a run is for that does nothing but a purge.
type PurgeRun struct {
	Purge string `json:"purge"`
}

// PurgeFile returns the key of the file that says for which purge a run makes the generation.
func PurgeFile(index artifact.Index, generation string) string {
	return index.GenerationKey(generation, "purge.json")
}

// chosenPurge returns the purge that the run is for; empty: it is a run like others.
func (r *Run) chosenPurge(ctx context.Context) (string, error) {
	var chosen PurgeRun
	_, err := blob.ReadJSON(ctx, r.Artifacts, PurgeFile(r.Index, r.Generation), &chosen)
	if fault.Is(err, fault.NotFound) {
		err = nil
	}
	return chosen.Purge, err
}

// planPurges fixes what the run leaves out, and which purges it goes on with. What these look for is found before the
// first run of them changes anything.
func (r *Run) planPurges(ctx context.Context, fixed *run.Plan) error {
	base, err := r.Index.FindBase(ctx)
	if err != nil {
		return err
	}
	all, err := purges.List(ctx, base)
	if err != nil || len(all) == 0 {
		return err
	}
	fixed.Excluded, _ = purges.ListExcluded(all)
	if base.Name != r.Index.Name { // a branch leaves out what its base does; a purge waits until there is none
		return nil
	}
	if fixed.Purge, err = r.chosenPurge(ctx); err != nil {
		return err
	}
	for _, purge := range all {
		if purge.State != core.PurgePending {
			continue
		}
		fixed.Pending = append(fixed.Pending, purge.ID)
		if _, err := r.findTraces(ctx, purge); err != nil {
			return err
		}
	}
	return nil
}

// findTraces returns what a purge looks for. They are found once; a run that goes on with it adds what came since, such
// as a generation that was held meanwhile.
func (r *Run) findTraces(ctx context.Context, purge core.Purge) (*purges.Traces, error) {
	former, err := purges.Load(ctx, r.Index, purge.ID)
	if err != nil && !artifact.IsDamage(err) {
		return nil, err
	}
	documents, _ := purges.ListExcluded([]core.Purge{purge})
	found, err := purges.Gather(ctx, r.Index, documents, r.Progress.Touch)
	if err != nil {
		return nil, err
	}
	if former != nil {
		found.Merge(former)
	}
	return found, found.Save(ctx, r.Index, purge.ID)
}

// PurgedOf returns what asks whether a key is excluded from builds; nil where none is, so that no key is asked for.
func PurgedOf(excluded purges.Set) func(key string) bool {
	if excluded.IsEmpty() {
		return nil
	}
	return excluded.Has
}

// IndexesOf returns all indexes of a store, in order.
func IndexesOf(ctx context.Context, store blob.Store) ([]artifact.Index, error) {
	names, err := artifact.ListIndexes(ctx, store)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	indexes := make([]artifact.Index, 0, len(names))
	for _, name := range names {
		indexes = append(indexes, artifact.Index{Store: store, Name: name})
	}
	return indexes, nil
}

package build

import (
	"context"
	"maps"
	"slices"
	"sort"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/stage/verify"
	"github.com/unweaver/unweaver/internal/store/artifact"
)

// RestoreFolder is the scratch folder of a restore, which has no fence.
const RestoreFolder = "restore"

// Part is one segment of a kept generation to check against the stores.
type Part struct {
	Manifest string      `json:"manifest"`
	Unit     verify.Unit `json:"unit"`
	Search   bool        `json:"search,omitempty"` // the search segment: read back, and made again where it is damaged
}

// OpenRestore lists the parts of the kept generations, the current one first.
func (r *Run) OpenRestore(ctx context.Context) (int, error) {
	parts, err := r.parts(ctx)
	if err != nil {
		return 0, err
	}
	return len(parts), repairFile.Write(ctx, r.Scratch, parts)
}

// parts lists them. Of rows only those count that are live in their generation, so vectors are listed for each; class
// records are all live, and listed once. A generation that cannot be read is left out, unless it is the current one.
func (r *Run) parts(ctx context.Context) ([]Part, error) {
	current, _, err := r.Index.Current(ctx)
	if err != nil {
		return nil, err
	}
	refs, damaged, err := r.Index.ReadableRefs(ctx)
	if err != nil {
		return nil, err
	}
	for _, generation := range damaged {
		if generation != current.Generation {
			r.Log.Warn("generation left out: its reference cannot be read", "run_id", r.Name(), "generation", generation)
		}
	}
	artifact.Lay(refs, current)
	if len(refs) == 0 {
		return nil, fault.UnknownIndex.At("restore", r.Job.Index).
			Because("no generation of it was ever built").
			Advise("build it with: unweaver index")
	}
	order := slices.Collect(maps.Keys(refs))
	sort.Slice(order, func(i, j int) bool {
		if (order[i] == current.Generation) != (order[j] == current.Generation) {
			return order[i] == current.Generation
		}
		return refs[order[i]].Seq > refs[order[j]].Seq
	})
	var parts []Part
	seen := map[string]bool{}
	for _, generation := range order {
		sha := refs[generation].Manifest
		manifest, err := r.Index.Manifest(ctx, sha)
		if artifact.IsDamage(err) && generation != current.Generation {
			r.Log.Warn("generation left out: it cannot be read", "run_id", r.Name(), "generation", generation)
			continue
		}
		if err != nil {
			return nil, err
		}
		if generation == current.Generation {
			if err := r.remember(ctx, manifest); err != nil {
				return nil, err
			}
		}
		for _, segment := range manifest.Segments.Search {
			parts = append(parts, Part{Manifest: sha, Unit: verify.Unit{Segment: segment}, Search: true})
		}
		for _, unit := range verify.Units(manifest) {
			if unit.Kind == verify.Records && seen[unit.Segment.SHA256] {
				continue
			}
			seen[unit.Segment.SHA256] = true
			parts = append(parts, Part{Manifest: sha, Unit: unit})
		}
	}
	return parts, nil
}

// RestorePart checks one segment's rows and rewrites what is missing. No model is called.
func (r *Run) RestorePart(ctx context.Context, number int) (corpus.Progress, error) {
	progress := corpus.Progress{Done: 1}
	parts, err := repairFile.Read(ctx, r.Scratch)
	if err != nil {
		return progress, err
	}
	part := parts[number]
	err = r.restorePart(ctx, part, &progress)
	if fault.Is(err, fault.NotFound) { // a generation that was collected meanwhile needs nothing any more
		current, _, lookErr := r.Index.Current(ctx)
		if lookErr == nil && current.Manifest != part.Manifest {
			r.Log.Warn("part left out: its generation is gone", "run_id", r.Name())
			err = nil
		}
	}
	if err == nil {
		r.Progress.Finish(progress)
	}
	return progress, err
}

func (r *Run) restorePart(ctx context.Context, part Part, progress *corpus.Progress) error {
	manifest, err := r.Index.Manifest(ctx, part.Manifest)
	if err != nil {
		return err
	}
	if part.Search {
		var fresh bool
		if fresh, err = r.restoreSearch(ctx, manifest, part.Unit.Segment); fresh {
			progress.Written.Segments = 1
		}
	} else {
		var found verify.Result
		found, err = r.checkLive(ctx, manifest, part.Unit)
		if part.Unit.Kind == verify.Records {
			progress.Written.Records = found.Rewritten
		} else {
			progress.Written.Rows = found.Rewritten
		}
	}
	return err
}

// restoreSearch reads a search segment back and makes it again, from the segments it is made from, where it is damaged.
func (r *Run) restoreSearch(ctx context.Context, manifest *corpus.Manifest, segment corpus.Segment) (bool, error) {
	r.Cache.Drop(segment.SHA256) // what the store holds counts, not a copy of it
	_, err := r.Cache.Get(ctx, r.Artifacts, r.Index.SegmentKey(segment.SHA256), segment.SHA256)
	if err == nil || (!fault.Is(err, fault.NotFound) && !fault.Is(err, fault.SegmentDamage)) {
		return false, err
	}
	if err := r.Artifacts.Delete(ctx, r.Index.SegmentKey(segment.SHA256)); err != nil {
		return false, err
	}
	settings, err := r.Index.Spec(ctx, manifest.Spec)
	if err != nil {
		return false, err
	}
	again, fresh, err := r.writeSearch(ctx, manifest.Segments, settings)
	if err == nil && again.SHA256 != segment.SHA256 {
		err = fault.SegmentDamage.At("make search segment of", manifest.Generation).
			Because("it comes out with other content: this program's rules of words are newer").
			Advise("build the index again")
	}
	return fresh, err
}

// Restored loads the collections of the current generation, renews the mirror and records which stores it was proven
// in.
func (r *Run) Restored(ctx context.Context) error {
	current, _, err := r.Index.Current(ctx)
	if err != nil || current.Manifest == "" {
		return err
	}
	manifest, err := r.Index.Manifest(ctx, current.Manifest)
	if err != nil {
		return err
	}
	if err := r.Vectors.Load(ctx, manifest.Collections.Classes); err != nil {
		return err
	}
	if err := r.Vectors.Load(ctx, manifest.Collections.Chunks); err != nil {
		return err
	}
	if err := publish.Mirror(ctx, r.Index, r.Coordination, current); err != nil {
		return err
	}
	return r.proven(ctx, current.Manifest)
}

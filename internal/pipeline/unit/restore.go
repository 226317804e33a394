package unit

import (
	"context"
	"maps"
	"slices"
	"sort"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/verify"
)

// ListParts lists them. Of records and rows only those count that are live in their generation, so they are listed for
// each. A generation that cannot be read is left out, unless it is the current one.
func (r *Run) ListParts(ctx context.Context) ([]run.Part, error) {
	current, _, err := r.Index.ReadPointer(ctx)
	if err != nil {
		return nil, err
	}
	refs, damaged, err := r.Index.ReadableRefs(ctx)
	if err != nil {
		return nil, err
	}
	for _, generation := range damaged {
		if generation != current.Generation { // the pointer says what its reference would
			r.leftOut(generation)
		}
	}
	artifact.LayPointer(refs, current)
	if len(refs) == 0 {
		return nil, fault.UnknownIndex.At("restore", r.Job.Index).
			Because("no generation of the index was ever built").
			Advise("to build it: unweaver index")
	}
	order := slices.Collect(maps.Keys(refs))
	sort.Slice(order, func(i, j int) bool {
		if (order[i] == current.Generation) != (order[j] == current.Generation) {
			return order[i] == current.Generation
		}
		return refs[order[i]].Seq > refs[order[j]].Seq
	})
	var parts []run.Part
	seen, reopened := map[string]bool{}, map[core.Collections]bool{}
	for _, generation := range order {
		sha := refs[generation].Manifest
		manifest, err := r.Index.Manifest(ctx, sha)
		switch {
		case err == nil:
		case generation == current.Generation && !r.Rebuild || !artifact.IsDamage(err): // a rebuild replaces it
			return nil, err
		default:
			r.leftOut(generation)
			continue
		}
		if !reopened[manifest.Collections] {
			if err := r.ReopenVectors(ctx, manifest.Collections); err != nil {
				return nil, err
			}
			reopened[manifest.Collections] = true
		}
		if generation == current.Generation {
			if err := r.Remember(ctx, manifest); err != nil {
				return nil, err
			}
		}
		parts = append(parts, listRepairs(PartsOf(sha, manifest), generation == current.Generation, seen)...)
	}
	return parts, nil
}

func (r *Run) leftOut(generation string) {
	r.Log.Warn("generation left out: it cannot be read", "run_id", r.Name(), "generation", generation)
}

// PartsOf lists the parts of a generation: each file that it names, and what the stores have of it. An audit looks at
// them, a restore repairs them.
func PartsOf(sha string, manifest *core.Manifest) []run.Part {
	var parts []run.Part
	kinds := map[string]string{}
	for _, segment := range SegmentsOf(manifest) {
		kinds[segment.SHA256] = segment.Kind
		parts = append(parts, run.Part{
			Check: run.CheckFile, Manifest: sha, Kind: segment.Kind, Unit: verify.Unit{Segment: segment.Segment},
		})
	}
	for _, unit := range verify.Units(manifest) {
		parts = append(parts, run.Part{
			Check: run.CheckStore, Manifest: sha, Kind: kinds[unit.Segment.SHA256], Unit: unit,
		})
	}
	return parts
}

// listRepairs returns the parts that a restore looks at: files that are made from others, once each, and what the
// stores have; of the current generation also the files that no store is filled from. seen are the files that are
// listed already.
func listRepairs(parts []run.Part, current bool, seen map[string]bool) (out []run.Part) {
	filled := map[string]bool{}
	for _, part := range parts {
		filled[part.Unit.Segment.SHA256] = filled[part.Unit.Segment.SHA256] || part.Check == run.CheckStore
	}
	for _, part := range parts {
		sha := part.Unit.Segment.SHA256
		switch {
		case part.Check == run.CheckStore:
		case IsRemade(part) && seen[sha], !IsRemade(part) && (!current || filled[sha]):
			continue
		case IsRemade(part):
			seen[sha] = true
		}
		out = append(out, part)
	}
	return out
}

package upkeep

import (
	"context"
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// RestoreFolder is the scratch folder of a restore, which has no fence.
const RestoreFolder = "restore"

// OpenRestore lists the parts of the kept generations, the current one first. A pointer that is lost is written again.
func (r *Run) OpenRestore(ctx context.Context) (int, error) {
	if err := r.MendPointer(ctx); err != nil {
		return 0, err
	}
	parts, err := r.ListParts(ctx)
	if err != nil {
		return 0, err
	}
	return len(parts), run.RepairFile.Write(ctx, r.Scratch, parts)
}

// RestorePart repairs one part. No model is called. What is damaged and cannot be
// made from the rest is written down for SealRestore, and everything else is restored; a build makes it again.
func (r *Run) RestorePart(ctx context.Context, number int) (core.Progress, error) {
	progress := core.Progress{Done: 1}
	parts, err := run.RepairFile.Read(ctx, r.Scratch)
	if err != nil {
		return progress, err
	}
	part := parts[number]
	progress.Bytes = part.Unit.Segment.Bytes
	manifest, err := r.Index.Manifest(ctx, part.Manifest)
	if err == nil {
		progress.Written, err = r.RepairPart(ctx, manifest, part)
	}
	if artifact.IsDamage(err) {
		err = r.handleLostPart(ctx, number, part, err)
	}
	if err == nil {
		r.Progress.Finish(progress)
	}
	return progress, err
}

// handleLostPart decides what a part that cannot be read means.
func (r *Run) handleLostPart(ctx context.Context, number int, part run.Part, cause error) error {
	current, _, err := r.Index.ReadPointer(ctx)
	if err != nil {
		return err
	}
	if current.Manifest != part.Manifest || r.Rebuild { // what was collected meanwhile, or is made again, is not missed
		r.Log.Warn("part left out", "run_id", r.Name(), "kind", part.Kind, "code", string(fault.CodeOf(cause)))
		return nil
	}
	if r.Spec != "" { // a build that repairs
		return r.ReusedDamage(cause)
	}
	found := run.Damage{Kind: part.Kind, Object: part.Unit.Segment.SHA256, Why: cause.Error()}
	return run.DamageFile(number).Write(ctx, r.Scratch, found)
}

// SealRestore ends a restore that left nothing out; else it fails with everything that is damaged. What could be
// restored is served all the same.
func (r *Run) SealRestore(ctx context.Context) error {
	parts, err := run.RepairFile.Read(ctx, r.Scratch)
	if err != nil {
		return err
	}
	damage := make([]*run.Damage, len(parts))
	err = parallel.Each(ctx, len(parts), run.CheckWidth, func(ctx context.Context, number int) error {
		found, there, err := run.DamageFile(number).Find(ctx, r.Scratch)
		if there {
			damage[number] = &found
		}
		r.Progress.Touch()
		return err
	})
	if err != nil {
		return err
	}
	var seen []string
	for _, found := range damage {
		if found != nil {
			seen = append(seen, fmt.Sprintf("%s (%s): %s", found.ShortName(), found.Kind, found.Why))
		}
	}
	if len(seen) == 0 {
		return nil
	}
	if err := r.loadServed(ctx); err != nil {
		return err
	}
	return fault.SegmentDamage.At("restore", r.Job.Index).
		Because(fmt.Sprintf("%d of its segments are lost; all else is restored: %s", len(seen), strings.Join(seen, "; "))).
		Advise(r.Index.AdviseRebuild())
}

// FinishRestore loads the collections of the current generation, renews the mirror and records which stores it was
// proven in.
func (r *Run) FinishRestore(ctx context.Context) error {
	err := r.loadServed(ctx)
	if r.Rebuild && artifact.IsDamage(err) { // nothing is served; what replaces it is proven when it is published
		return nil
	}
	if err != nil {
		return err
	}
	current, _, err := r.Index.ReadPointer(ctx)
	if err != nil || current.Manifest == "" {
		return err
	}
	return r.RecordProof(ctx, current.Manifest)
}

// loadServed loads the collections of the current generation and renews the mirror.
func (r *Run) loadServed(ctx context.Context) error {
	current, _, err := r.Index.ReadPointer(ctx)
	if err != nil || current.Manifest == "" {
		return err
	}
	if err := r.loadVectors(ctx, current.Manifest); err != nil {
		return err
	}
	return release.Mirror(ctx, r.Index, r.Coordination, current)
}

// loadVectors makes the collections of a generation ready to be searched.
func (r *Run) loadVectors(ctx context.Context, sha string) error {
	manifest, err := r.Index.Manifest(ctx, sha)
	if err != nil {
		return err
	}
	if err := r.Vectors.Load(ctx, manifest.Collections.Classes); err != nil {
		return err
	}
	return r.Vectors.Load(ctx, manifest.Collections.Chunks)
}

package release

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	stored "github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/verify"
)

// CheckFile returns fault.SegmentDamage where the bytes of a segment are not those that name it.
func (r *Run) CheckFile(ctx context.Context, segment core.Segment) error {
	intact, err := r.Index.IsIntact(ctx, segment.SHA256, r.Progress.Touch)
	if err == nil && !intact {
		err = fault.SegmentDamage.At("read", r.Artifacts.Location(r.Index.SegmentKey(segment.SHA256))).
			Because("it is missing, or its content does not match the checksum in its name")
	}
	return err
}

// CheckStore compares what a store has with the segment that it is from, and writes what is missing there, unless in is
// read only. Of a segment those rows only count that are live in the generation, as the others may have been swept.
func (r *Run) CheckStore(ctx context.Context, in verify.In) (verify.Result, error) {
	open := stored.OpenClasses
	if in.Unit.Kind != verify.Records && in.Unit.Collection == in.Manifest.Collections.Chunks {
		open = stored.OpenChunks
	}
	live, err := open(ctx, r.Cache, r.Index, in.Manifest)
	if err != nil {
		return verify.Result{}, err
	}
	defer live.Release()
	in.Live, in.Seed = live, in.Manifest.Generation
	return verify.Run(ctx, r.storesOf(in))
}

func (r *Run) storesOf(in verify.In) verify.In {
	in.Artifacts, in.Classes, in.Vectors, in.OnProgress = r.Index, r.Records, r.Vectors, r.TouchProgress
	return in
}

// RepairPart makes a part what its generation says, without a model: a file that is made from others is made again,
// what a store lacks is written again. Of any other file it only says that it is damaged.
func (r *Run) RepairPart(
	ctx context.Context, manifest *core.Manifest, part run.Part,
) (written core.Written, err error) {
	if part.Check == run.CheckStore {
		found, err := r.CheckStore(ctx, verify.In{Manifest: manifest, Unit: part.Unit})
		if part.Unit.Kind == verify.Records {
			return core.Written{Records: found.Rewritten}, err
		}
		return core.Written{Rows: found.Rewritten}, err
	}
	sha := part.Unit.Segment.SHA256
	damage := r.CheckFile(ctx, part.Unit.Segment)
	if !unit.IsRemade(part) || !fault.Is(damage, fault.SegmentDamage) {
		return written, damage
	}
	r.Cache.Drop(sha) // what the store holds counts, not a copy of it
	settings, err := r.Index.Spec(ctx, manifest.Spec)
	if err != nil {
		return written, err
	}
	r.Index.Doubt = true
	again, fresh, err := r.Remake(ctx, manifest, part.Kind, sha, settings)
	if err == nil && again.SHA256 != sha {
		err = fault.SegmentDamage.At("make "+part.Kind+" segment of", manifest.Generation).
			Because("it comes out with other content: this program's rules of words are newer").
			Advise(r.Index.AdviseRebuild())
	}
	if fresh {
		written.Segments = 1
	}
	return written, err
}

package release

import (
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/stage/verify"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Verify checks what one class partition or one shard of chunks wrote to the stores, row by row.
func (r *Run) Verify(ctx context.Context, part int) (verify.Result, error) {
	file := run.VerifyFile(part)
	return unit.FinishUnit(ctx, r.Run, file, func(
		ctx context.Context, _ *core.Progress,
	) (result verify.Result, err error) {
		manifest, err := run.ManifestFile.Read(ctx, r.Scratch)
		if err != nil {
			return result, err
		}
		loaded, err := run.LoadFile(part).Read(ctx, r.Scratch)
		if err != nil {
			return result, err
		}
		collection, dimension := manifest.Collections.Chunks, manifest.Chunk.Dimension
		var units []verify.Unit
		if part < manifest.Partitions {
			collection, dimension = manifest.Collections.Classes, manifest.Class.Dimension
			units = append(units, verify.Unit{Kind: verify.Records, Segment: loaded.Rows})
		}
		if loaded.Vectors.SHA256 != "" {
			units = append(units, verify.Unit{
				Kind: verify.Vectors, Segment: loaded.Vectors, Collection: collection, Dimension: dimension,
			})
		}
		found := make([]verify.Result, len(units))
		err = parallel.Each(ctx, len(units), len(units), func(ctx context.Context, i int) (err error) {
			found[i], err = verify.Run(ctx, r.storesOf(verify.In{Manifest: &manifest, Unit: units[i]}))
			return err
		})
		if err != nil {
			return result, err
		}
		for _, one := range found {
			result.Checked += one.Checked
			result.Rewritten += one.Rewritten
		}
		return result, nil
	})
}

// Published is how a build came through its gates.
type Published struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"` // of held
}

// Publish puts the built generation through the gates and makes it the served one. It may be repeated.
func (r *Run) Publish(ctx context.Context) (Published, error) {
	out, err := r.publishGeneration(ctx)
	err = r.ReusedDamage(err)
	if fault.Is(err, fault.PointerMoved) {
		text := err.Error()
		out = Published{Status: core.StatusHeld, Reason: string(fault.PointerMoved)}
		err = run.HeldFile.Write(ctx, r.Scratch, run.Failure{Code: out.Reason, Text: text})
	}
	if err == nil {
		r.Progress.Finish(core.Progress{Done: 1})
	}
	return out, err
}

func (r *Run) publishGeneration(ctx context.Context) (Published, error) {
	fixed, err := r.ReadPlan(ctx)
	if err != nil {
		return Published{}, err
	}
	// What is paid goes on being counted: the manifest is made final once, so that a repeated attempt knows its own
	// flip.
	manifest, err := run.MakeOnce(ctx, r.BaseRun(), run.FinalFile, func(ctx context.Context) (core.Manifest, error) {
		return r.finishManifest(ctx, fixed)
	})
	if err != nil {
		return Published{}, err
	}
	out := Published{Status: core.StatusCompleted}
	state := core.GenerationPublished
	reason, detail, err := r.checkGates(ctx, fixed, manifest.Counts)
	if err != nil {
		return out, err
	}
	if reason == "" && fixed.Purge == "" { // a purge changes the size by what was asked for
		reason, detail = publish.CheckJump(r.Settings, manifest.Counts.Chunks, fixed.ParentChunks, manifest.Cost)
	}
	if err := r.ensureServable(ctx, &manifest, fixed.Source()); err != nil {
		return out, err
	}
	if reason == "" {
		if reason, detail, err = r.checkProbes(ctx, &manifest, fixed); err != nil {
			return out, err
		}
	}
	switch {
	case reason != "":
		out, state = Published{core.StatusHeld, reason}, core.GenerationHeld
	case manifest.Counts.Failed > 0 || manifest.Counts.DeadLetters > 0:
		out.Status = core.StatusErrors
	}
	if err := r.GuardLease(ctx); err != nil {
		return out, err
	}
	sha, err := publish.Store(ctx, r.Index, &manifest, state)
	if err != nil {
		return out, err
	}
	if err := r.KeepProblems(ctx, len(fixed.Plan.Units)); err != nil {
		return out, err
	}
	if state == core.GenerationHeld {
		return out, run.HeldFile.Write(ctx, r.Scratch, run.Failure{Code: reason, Text: detail})
	}
	if err := r.GuardLease(ctx); err != nil {
		return out, err
	}
	if _, err = Flip(ctx, FlipIn{
		Artifacts: r.Index, Mirror: r.Coordination, Generation: manifest.Generation, Manifest: sha, Seq: manifest.Seq,
		Expected: fixed.Epoch,
	}); err != nil {
		if fault.Is(err, fault.PointerMoved) { // one that another overtook could pass for one that was served
			if err := r.GuardLease(ctx); err != nil {
				return out, err
			}
			if _, err := publish.Store(ctx, r.Index, &manifest, core.GenerationHeld); err != nil {
				return out, err
			}
		}
		return out, err
	}
	if err := publish.Alias(ctx, r.Vectors, manifest.Collections); err != nil { // for other programs alone
		r.Log.Warn("alias not pointed", "run_id", r.Name(), "code", string(fault.CodeOf(err)))
	}
	return out, r.RecordProof(ctx, sha)
}

// checkGates says why a generation must not be published, or nothing.
func (r *Run) checkGates(ctx context.Context, fixed run.Plan, counts core.Counts) (reason, detail string, err error) {
	shards, err := run.ShardsFile.Read(ctx, r.Scratch)
	if err != nil {
		return "", "", err
	}
	parent, err := r.ReadParent(ctx, fixed.Parent)
	if err != nil {
		return "", "", err
	}
	if reason, detail = publish.CheckLabels(r.Settings, parent, counts.Documents); reason != "" {
		return reason, detail, nil
	}
	reason, detail = publish.CheckGeneration(r.Settings,
		publish.Documents{
			Readable: counts.Documents, Failed: counts.Failed, Parent: fixed.Plan.ParentListed,
			Lapsed: shards.Lapsed.Documents,
		},
		publish.Chunks{
			Total: counts.Chunks, Failed: counts.DeadLetters, Parent: fixed.ParentChunks, Lapsed: shards.Lapsed.Chunks,
		})
	return reason, detail, nil
}

// finishManifest returns the draft with what is known only now.
func (r *Run) finishManifest(ctx context.Context, fixed run.Plan) (core.Manifest, error) {
	manifest, err := run.ManifestFile.Read(ctx, r.Scratch)
	if err != nil {
		return manifest, err
	}
	if err := r.WithEnrichments(ctx, &manifest); err != nil {
		return manifest, err
	}
	shards, err := run.ShardsFile.Read(ctx, r.Scratch)
	if err != nil {
		return manifest, err
	}
	total, err := run.ReadTotals(ctx, r.Coordination, r.Name())
	if err != nil {
		return manifest, err
	}
	manifest.Tokens, manifest.Cost = total.Tokens, total.Cost
	manifest.Counts.Failed = shards.Failed
	manifest.Seq, err = publish.NextSeq(ctx, r.Index)
	return manifest, err
}

// ensureServable makes sure that everything a generation names is there and served.
func (r *Run) ensureServable(ctx context.Context, manifest *core.Manifest, parent string) error {
	if err := r.sampleReused(ctx, manifest, parent); err != nil {
		return err
	}
	if err := r.readBack(ctx, manifest, parent); err != nil {
		return err
	}
	if err := r.collectionsReady(ctx, manifest); err != nil {
		return err
	}
	return r.reclaimFiles(ctx, manifest)
}

// readBack reads every segment that the generation does not have from its parent, which plan looked after: one that
// was there already, of an older generation, may have been damaged since.
func (r *Run) readBack(ctx context.Context, manifest *core.Manifest, parentSHA string) error {
	damage, err := run.MakeOnce(ctx, r.BaseRun(), run.ReadBackFile, func(ctx context.Context) ([]run.Damage, error) {
		parent, err := r.ReadParent(ctx, parentSHA)
		if err != nil {
			return nil, err
		}
		known := map[string]bool{}
		if parent != nil {
			for _, segment := range unit.SegmentsOf(parent) {
				known[segment.SHA256] = true
			}
		}
		return r.CheckSegments(
			ctx, slices.DeleteFunc(unit.SegmentsOf(manifest), func(s run.Named) bool { return known[s.SHA256] }),
		)
	})
	if err != nil || len(damage) == 0 {
		return err
	}
	return fault.SegmentDamage.At("read back", r.Artifacts.Location(r.Index.SegmentKey(damage[0].Object))).
		Because("its content does not match the checksum in its name").
		Advise(r.Index.AdviseRebuild())
}

// sampleReused samples the vectors that the parent wrote; what this run wrote is verified row by row. A bounded number
// of segments is looked at, which the generation's name chooses, and all of them once a row of one is missing or wrong.
// A store that lost its memory, or was exchanged, is known by its identity, and everything is verified then.
func (r *Run) sampleReused(ctx context.Context, manifest *core.Manifest, parentSHA string) error {
	parent, err := r.ReadParent(ctx, parentSHA)
	if err != nil || parent == nil {
		return err
	}
	units := slices.DeleteFunc(verify.SampleUnits(parent, manifest.Generation), func(unit verify.Unit) bool {
		return unit.Collection != manifest.Collections.Classes && unit.Collection != manifest.Collections.Chunks
	})
	return verify.EachSample(ctx, units, func(ctx context.Context, unit verify.Unit) (verify.Result, error) {
		return r.CheckStore(ctx, verify.In{Manifest: manifest, Unit: unit})
	})
}

// collectionsReady makes sure that both collections are there and loaded.
func (r *Run) collectionsReady(ctx context.Context, manifest *core.Manifest) error {
	total, err := run.ReadTotals(ctx, r.Coordination, r.Name())
	if err != nil {
		return err
	}
	wrote := total.Written.Rows > 0
	ready := func(name string, dimension int) error {
		if err := r.GuardLease(ctx); err != nil {
			return err
		}
		if err := r.Vectors.Create(ctx, name, dimension); err != nil {
			return err
		}
		if sealer, ok := vectors.As[vectors.Sealer](r.Vectors); ok && wrote {
			if err := sealer.Seal(ctx, name); err != nil {
				return err
			}
		}
		r.Progress.Touch()
		return r.Vectors.Load(ctx, name)
	}
	if err := ready(manifest.Collections.Classes, manifest.Class.Dimension); err != nil {
		return err
	}
	return ready(manifest.Collections.Chunks, manifest.Chunk.Dimension)
}

// reclaimFiles takes what a manifest names off the list of what is about to be deleted.
func (r *Run) reclaimFiles(ctx context.Context, manifest *core.Manifest) error {
	var wanted []string
	for _, segment := range manifest.Segments.All() {
		wanted = append(wanted, segment.SHA256)
	}
	collections := manifest.Collections
	missing, err := collect.Reclaim(ctx, r.Index, wanted, collections.Classes, collections.Chunks)
	if err != nil || len(missing) == 0 {
		return err
	}
	return fault.SegmentDamage.At("publish", r.Name()).
		Because("segment " + missing[0] + " that it names was deleted meanwhile").
		Advise("to build it again: unweaver index --index " + r.Job.Index)
}

// RecordProof records which stores a generation was proven in: those that were remembered before they were verified.
func (r *Run) RecordProof(ctx context.Context, sha string) error {
	was, found, err := run.StoresFile.Find(ctx, r.Scratch)
	if err != nil || !found { // the end of a restore that is repeated: it was recorded
		return err
	}
	was.Manifest = sha
	_, err = blob.WriteJSON(ctx, r.Artifacts, unit.ProvenKey(r.Index), was, blob.Cond{})
	return err
}

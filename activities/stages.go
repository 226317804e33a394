package activities

import (
	"cmp"
	"context"
	"slices"

	"go.temporal.io/sdk/activity"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/workflows"
)

// ChunkDocuments chunks one unit of the plan. With the first one's chunks it looks whether the models answer.
func (a *Activities) ChunkDocuments(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return a.runCounted(ctx, u, func(ctx context.Context, work *upkeep.Run) (int64, error) {
		result, err := work.Chunk(ctx, u.N)
		if err == nil && u.N == 0 {
			err = work.RunPreflight(ctx, u.N)
		}
		return result.Counts.Documents, err
	})
}

// SealChunks cuts the units' chunks into shards.
func (a *Activities) SealChunks(ctx context.Context, b workflows.Build) (workflows.Chunked, error) {
	return makeIn(ctx, a, b, ofUnit("chunk"), func(ctx context.Context, work *upkeep.Run) (workflows.Chunked, error) {
		status, unchanged, err := work.CompareParent(ctx)
		if err != nil || unchanged {
			return workflows.Chunked{Unchanged: unchanged, Status: status}, err
		}
		shards, frozen, err := work.SealChunks(ctx)
		out := workflows.Chunked{
			Shards: shards.Chunks, Chunks: shards.CountMade(), Import: frozen.Import != run.Importing{}, Spec: frozen.Spec,
		}
		if err == nil && out.Chunks > 0 {
			out.Batch, err = work.InBatches(ctx)
		}
		return out, err
	})
}

// PayBatches has a server's Batch API answer what extraction needs.
func (a *Activities) PayBatches(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return a.runCounted(ctx, u, func(ctx context.Context, work *upkeep.Run) (int64, error) {
		result, err := work.PayBatches(ctx)
		return result.Known, err
	})
}

// ExtractChunks extracts one batch of a shard.
func (a *Activities) ExtractChunks(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return a.runCounted(ctx, u, func(ctx context.Context, work *upkeep.Run) (int64, error) {
		result, err := work.Extract(ctx, u.N, u.Batch)
		return result.Chunks, err
	})
}

// SealShard joins a shard's batches, of which there are u.Batch.
func (a *Activities) SealShard(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return a.runCounted(ctx, u, func(ctx context.Context, work *upkeep.Run) (int64, error) {
		result, err := work.SealShard(ctx, u.N, u.Batch)
		return result.Chunks, err
	})
}

// SealExtraction numbers the shards' chunks and chooses the number of class partitions.
func (a *Activities) SealExtraction(ctx context.Context, b workflows.Build) (workflows.Extracted, error) {
	return makeIn(ctx, a, b, ofUnit("extract"), func(ctx context.Context, work *upkeep.Run) (workflows.Extracted, error) {
		partitions, err := work.SealExtraction(ctx)
		out := workflows.Extracted{Partitions: partitions.Partitions, Pieces: partitions.Pieces.Count()}
		if len(work.Settings.Enrich) > 0 {
			out.Enrich = partitions.Partitions
		}
		return out, err
	})
}

// ReducePartition reduces one partition of classes.
func (a *Activities) ReducePartition(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return runPart(ctx, a, u, ofPart(u), (*upkeep.Run).Reduce)
}

// ShortenPartition shortens the long class texts of a partition.
func (a *Activities) ShortenPartition(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return runPart(ctx, a, u, ofPart(u), (*upkeep.Run).Shorten)
}

// EmbedPart pays for the new vectors of a class partition or of a shard of chunks.
func (a *Activities) EmbedPart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return runPart(ctx, a, u, ofPart(u), (*upkeep.Run).Embed)
}

// LoadPart loads a class partition or a shard of chunks.
func (a *Activities) LoadPart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return runPart(ctx, a, u, ofPart(u), (*upkeep.Run).Load)
}

// ImportVectors has the vector store import what load wrote for collections that are new.
func (a *Activities) ImportVectors(ctx context.Context, b workflows.Build) (workflows.Receipt, error) {
	return workflows.Receipt{}, a.runFrame(ctx, b, ofUnit("load"),
		func(ctx context.Context, work *upkeep.Run) error { return work.Import(ctx) })
}

// WritePiece writes one split, or one class run.
func (a *Activities) WritePiece(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return a.runWhole(ctx, u, func(ctx context.Context, work *upkeep.Run) error { return work.WritePiece(ctx, u.N) })
}

// WriteSegments writes what queries map, and the manifest as a draft.
func (a *Activities) WriteSegments(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return a.runWhole(ctx, u, func(ctx context.Context, work *upkeep.Run) error {
		_, err := work.WriteSegments(ctx)
		return err
	})
}

// EnrichPart pays for what the enrichments of the generation lack of a part of its chunks.
func (a *Activities) EnrichPart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return a.runWhole(ctx, u, func(ctx context.Context, work *upkeep.Run) error { return work.EnrichPart(ctx, u.N) })
}

// SealEnrichment writes the files of the enrichments.
func (a *Activities) SealEnrichment(ctx context.Context, b workflows.Build) (workflows.Receipt, error) {
	return workflows.Receipt{}, a.runFrame(ctx, b, ofUnit("enrich"),
		func(ctx context.Context, work *upkeep.Run) error { return work.SealEnrichment(ctx) })
}

// VerifyPart checks one partition's records and vectors, or one shard's vectors.
func (a *Activities) VerifyPart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return runPart(ctx, a, u, ofPart(u), (*upkeep.Run).Verify)
}

// runCounted runs a unit that says how many pieces of its stage it did.
func (a *Activities) runCounted(
	ctx context.Context, u workflows.Unit, do func(context.Context, *upkeep.Run) (int64, error),
) (workflows.UnitResult, error) {
	done, err := makeIn(ctx, a, u.Build, ofPart(u), do)
	return workflows.UnitResult{Done: done}, err
}

// runWhole runs a unit that counts as one.
func (a *Activities) runWhole(ctx context.Context, u workflows.Unit, do task) (workflows.UnitResult, error) {
	return a.runCounted(ctx, u, func(ctx context.Context, work *upkeep.Run) (int64, error) { return 1, do(ctx, work) })
}

// runPart runs a unit that counts as one, by its number.
func runPart[R any](
	ctx context.Context, a *Activities, u workflows.Unit, f frame, do func(*upkeep.Run, context.Context, int) (R, error),
) (workflows.UnitResult, error) {
	_, err := makeIn(ctx, a, u.Build, f, func(ctx context.Context, work *upkeep.Run) (R, error) {
		return do(work, ctx, u.N)
	})
	return workflows.UnitResult{Done: 1}, err
}

// PlanBuild lists the corpus, compares it with the parent and fixes what the rest of the run depends on.
func (a *Activities) PlanBuild(ctx context.Context, b workflows.Build) (workflows.Planned, error) {
	planned, err := makeIn(ctx, a, b, ofUnit(core.StagePlan),
		func(ctx context.Context, run *upkeep.Run) (unit.Planned, error) { return run.Plan(ctx) })
	return workflows.Planned(planned), err
}

// RepairPart checks one segment of a kept generation against stores that lost their memory, and writes again what is
// missing.
func (a *Activities) RepairPart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return runPart(ctx, a, u, ofPart(u), (*upkeep.Run).RestorePart)
}

// SealRepair records that the stores hold everything again.
func (a *Activities) SealRepair(ctx context.Context, b workflows.Build) (workflows.Receipt, error) {
	return workflows.Receipt{}, a.runFrame(ctx, b, ofUnit(core.StageRepair),
		func(ctx context.Context, run *upkeep.Run) error { return run.FinishRestore(ctx) })
}

// TakeLease makes this run the only builder of its index and gives its fence. It waits, with heartbeats, where the
// lease of a run that is over may still be used by one of its processes. It does not look at the control record: that
// is the last run's of this name until the lease is taken.
func (a *Activities) TakeLease(ctx context.Context, b workflows.Build) (int64, error) {
	return makeIn(ctx, a, b, frame{stage: "lease", spec: true}, func(ctx context.Context, run *upkeep.Run) (int64, error) {
		taker := leaseHolderOf(ctx, run)
		var err error
		if taker.Engine, err = a.Engine.Identity(ctx); err != nil {
			return 0, err
		}
		fence, err := a.takeLease(ctx, run, taker)
		if err != nil {
			return 0, err
		}
		if err := run.Reopen(ctx, taker); err != nil {
			return fence, err
		}
		under := *run
		under.Fence, under.Holder = fence, taker
		return fence, under.Settle(ctx)
	})
}

// OpenNight names what a night of a schedule builds: the index as its schedule was applied last. Where another run
// builds the index it names that run instead. The night is remembered as the index's newest run.
func (a *Activities) OpenNight(ctx context.Context, in workflows.Night) (workflows.Opened, error) {
	out := workflows.Opened{Build: in.Build}
	err := a.runFrame(ctx, in.Build, ofBare(in.Build, false, nil), func(ctx context.Context, work *upkeep.Run) error {
		digest, err := run.OpenSchedule(ctx, work.Index)
		if err != nil {
			return err
		}
		out.Spec = digest.String()
		if in.Skip {
			if out.By, err = run.FindBuilder(ctx, work.Index, a.Engine.DescribeRun); err != nil {
				return err
			}
			if out.By != "" && !workflows.Yields(out.By) {
				return nil
			}
			out.By = "" // it lets nights go first
		}
		return work.Coordination.SetState(ctx, runlog.LatestBuild(in.Index), []byte(work.Name()))
	})
	return out, err
}

// PublishBuild puts the built generation through the gates and makes it the served one.
func (a *Activities) PublishBuild(ctx context.Context, u workflows.Unit) (workflows.Outcome, error) {
	return makeIn(ctx, a, u.Build, ofPart(u), func(ctx context.Context, run *upkeep.Run) (workflows.Outcome, error) {
		published, err := run.Publish(ctx)
		return workflows.Outcome(published), err
	})
}

// collectAttempts is how often collecting is tried in one night.
const collectAttempts = 3

// CollectGarbage deletes scratch and what nothing names any more.
func (a *Activities) CollectGarbage(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return a.runWhole(ctx, u, func(inner context.Context, run *upkeep.Run) error {
		err := run.Collect(inner, holderOf(ctx))
		if err == nil {
			err = a.warnOfNames(inner, run)
		}
		// The generation is published: what cannot be collected is reported, and tried again by the next night.
		last := activity.GetInfo(ctx).Attempt >= collectAttempts
		if err == nil || inner.Err() != nil || (fault.KindOf(err) == fault.Transient && !last) {
			return err
		}
		problem := core.Problem{Code: string(fault.CodeOf(err)), Object: u.Stage, Detail: err.Error()}
		warned := run.Warn(inner, problem)
		if warned == nil {
			return nil
		}
		return makeFinal(err) // it cannot be recorded now: the end of the run reports it, once that can be written
	})
}

// warnOfNames reports webhooks that standing questions name and this worker's configuration does not.
func (a *Activities) warnOfNames(ctx context.Context, work *upkeep.Run) error {
	questions, err := work.Index.ListQuestions(ctx)
	if artifact.IsDamage(err) { // that is reported where they are asked
		return nil
	}
	var unknown []core.Problem
	for _, question := range questions {
		problem := core.Problem{
			Code: string(fault.BadConfig), Object: "watch",
			Detail: "notify.named has no webhook " + question.Notify + ", which standing questions name",
		}
		isKnown := question.Notify == "" || a.Notify != nil && a.Notify(work.Index.Name).Named[question.Notify] != ""
		if !isKnown && !slices.Contains(unknown, problem) {
			unknown = append(unknown, problem)
		}
	}
	return cmp.Or(err, work.Warn(ctx, unknown...))
}

// makeFinal makes an error one that is not tried again.
func makeFinal(err error) error {
	known := fault.As(err)
	if known == nil {
		return err
	}
	last := *known
	last.Kind = fault.Fatal
	return &last
}

package activities

import (
	"context"

	"github.com/unweaver/unweaver/internal/pipeline/run"
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
	return runPart(ctx, a, u, ofUnit(u.Stage), (*upkeep.Run).Reduce)
}

// ShortenPartition shortens the long class texts of a partition.
func (a *Activities) ShortenPartition(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return runPart(ctx, a, u, ofUnit(u.Stage), (*upkeep.Run).Shorten)
}

// EmbedPart pays for the new vectors of a class partition or of a shard of chunks.
func (a *Activities) EmbedPart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return runPart(ctx, a, u, ofUnit(u.Stage), (*upkeep.Run).Embed)
}

// LoadPart loads a class partition or a shard of chunks.
func (a *Activities) LoadPart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return runPart(ctx, a, u, ofUnit(u.Stage), (*upkeep.Run).Load)
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
	return runPart(ctx, a, u, ofUnit(u.Stage), (*upkeep.Run).Verify)
}

// runCounted runs a unit that says how many pieces of its stage it did.
func (a *Activities) runCounted(
	ctx context.Context, u workflows.Unit, do func(context.Context, *upkeep.Run) (int64, error),
) (workflows.UnitResult, error) {
	f := ofUnit(u.Stage)
	f.bad = checkUnit(u)
	done, err := makeIn(ctx, a, u.Build, f, do)
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
	f.bad = checkUnit(u)
	_, err := makeIn(ctx, a, u.Build, f, func(ctx context.Context, work *upkeep.Run) (R, error) { return do(work, ctx, u.N) })
	return workflows.UnitResult{Done: 1}, err
}

package unit

import (
	"context"
	"maps"
	"sync/atomic"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/stage/shorten"
)

// Chunk chunks one unit of the plan.
func (r *Run) Chunk(ctx context.Context, unit int) (chunk.Result, error) {
	return FinishUnit(ctx, r, run.ChunkFile(unit), func(
		ctx context.Context, progress *core.Progress,
	) (chunk.Result, error) {
		release, err := r.TakePlace(ctx)
		if err != nil {
			return chunk.Result{}, err
		}
		defer func() { release() }()
		fixed, err := run.ReadKept(ctx, r.BaseRun(), run.PlanFile)
		if err != nil {
			return chunk.Result{}, err
		}
		documents, err := r.OpenDocuments(ctx)
		if err != nil {
			return chunk.Result{}, err
		}
		planned := fixed.Plan.Units[unit]
		var bytes atomic.Int64
		in := chunk.In{
			Spec: r.Settings, Corpus: documents, Artifacts: r.Index, Scratch: r.Scratch.Prefix, Unit: unit,
			Tries: r.Tries, Parser: r.Parser, Limits: r.Limits,
			Plan: artifact.ScratchKey(plan.RowsKey(r.Scratch.Prefix), fixed.Plan.Rows),
			From: planned.From, To: planned.To, OnBytes: bytes.Store,
			OnProgress: func(documents int64) { r.Progress.SetWork(documents, bytes.Load()) },
		}
		in.Ledger, in.Unasked = r.Ledger, r.Estimates
		in.TakePlace = r.TakePlace
		in.Away = func(ctx context.Context, do func() error) error {
			release()
			release = func() {}
			err := do()
			if again, taken := r.TakePlace(ctx); taken == nil {
				release = again
			} else if err == nil {
				err = taken
			}
			return err
		}
		if in.Vision, err = r.openVision(); err != nil {
			return chunk.Result{}, err
		}
		if r.Settings.ReadAs().Parser.IsOn() {
			if in.Converter, err = r.Converter(r.Settings); err != nil {
				return chunk.Result{}, err
			}
		}
		if !fixed.Foreign {
			if in.Parent, err = r.ReadParent(ctx, fixed.Parent); err != nil {
				return chunk.Result{}, err
			}
			in.Parent = dropUnreadable(in.Parent, fixed.Damage)
			dead, release, err := r.OpenTombs(ctx, in.Parent)
			defer release()
			if err != nil {
				return chunk.Result{}, err
			}
			in.Dead = dead
		}
		result, err := chunk.Run(ctx, in)
		progress.Done, progress.Bytes, progress.Written.Segments = result.Listed, planned.Bytes, result.Fresh
		progress.Hits.Transcribe = result.Transcripts.Hits
		return result, err
	})
}

// openVision returns what transcribes pages; nil: nothing does.
func (r *Run) openVision() (*chunk.Vision, error) {
	if r.Settings.VisionBy() == nil {
		return nil, nil //nolint:nilnil // none is an answer
	}
	models, err := r.ModelSet()
	if err != nil {
		return nil, err
	}
	return &chunk.Vision{
		Chat: models.ChatOf(core.RoleVision), Health: r.Book.HealthOf(model.Transcribe), Attempt: r.Attempt,
	}, nil
}

// SealChunks cuts the units' chunks into shards and fixes what depends on them.
func (r *Run) SealChunks(ctx context.Context) (run.Shards, run.Frozen, error) {
	shards, err := run.MakeOnce(ctx, r.BaseRun(), run.ShardsFile, r.cutShards)
	if err != nil {
		return shards, run.Frozen{}, r.ReusedDamage(err)
	}
	frozen, err := run.MakeOnce(ctx, r.BaseRun(), run.FrozenFile, func(ctx context.Context) (run.Frozen, error) {
		return r.freezeBuild(ctx, shards)
	})
	return shards, frozen, r.ReusedDamage(err)
}

func (r *Run) cutShards(ctx context.Context) (run.Shards, error) {
	var out run.Shards
	fixed, err := run.PlanFile.Read(ctx, r.Scratch)
	if err != nil {
		return out, err
	}
	asked, _, err := run.PreflightFile.Find(ctx, r.Scratch)
	if err != nil {
		return out, err
	}
	labels := map[core.LabelSet]string{}
	unit := -1
	for chunked, err := range run.ReadEach(ctx, r.BaseRun(), len(fixed.Plan.Units), run.ChunkFile) {
		if err != nil {
			return out, err
		}
		unit++
		r.Progress.Touch()
		out.Counts.Documents += chunked.Counts.Documents
		out.Counts.Chunks += chunked.Counts.Chunks
		out.Counts.Tokens += chunked.Counts.Tokens
		out.Hashes.Merge(chunked.Hashes)
		maps.Copy(labels, chunked.Labels)
		out.Counts.Stale += chunked.Counts.Stale
		out.Counts.Untranscribed += chunked.Counts.Untranscribed
		out.Failed += chunked.Failed
		out.Lapsed.Documents += chunked.Lapsed.Documents
		out.Lapsed.Chunks += chunked.Lapsed.Chunks
		all := int(chunked.Counts.Chunks)
		for from := 0; from < all; from += r.Shard {
			to := min(from+r.Shard, all)
			shard := extract.Shard{Number: len(out.Shards), Unit: unit, From: from, To: to}
			if unit == 0 && from == 0 {
				shard.Asked = asked.Asked
			}
			out.Shards = append(out.Shards, shard)
			out.Chunks = append(out.Chunks, to-from)
		}
	}
	return out, r.addKept(ctx, fixed, &out, labels)
}

// addKept adds what stays of the parent as it is, where the build makes a part of a generation. labels are those of
// what is made.
func (r *Run) addKept(ctx context.Context, fixed run.Plan, out *run.Shards, labels map[core.LabelSet]string) error {
	n, release, err := r.OpenNight(ctx)
	defer release()
	if err == nil {
		err = n.checkLabels(labels)
	}
	if err != nil || n == nil {
		return err
	}
	gone, kept := n.CountGone(), fixed.Plan.Kept
	out.Counts.Documents += kept.Documents
	out.Counts.Stale += kept.Stale
	out.Counts.Untranscribed += kept.Untranscribed
	out.Counts.Chunks += n.parent.Counts.Chunks - gone.Chunks
	out.Counts.Tokens += n.parent.Counts.Tokens - gone.Tokens
	out.Failed += kept.Failed
	out.Lapsed.Documents += kept.Lapsed
	out.Lapsed.Chunks += kept.Chunks
	return nil
}

// readShard reads where a shard of chunks and its text lie.
func (r *Run) readShard(ctx context.Context, number int) (extract.Shard, chunk.Result, error) {
	shards, err := run.ReadKept(ctx, r.BaseRun(), run.ShardsFile)
	if err != nil {
		return extract.Shard{}, chunk.Result{}, err
	}
	shard := shards.Shards[number]
	chunked, err := run.ReadKept(ctx, r.BaseRun(), run.ChunkFile(shard.Unit))
	return shard, chunked, err
}

// Extract extracts one batch of a shard.
func (r *Run) Extract(ctx context.Context, number, batch int) (extract.Result, error) {
	do := func(ctx context.Context, progress *core.Progress) (extract.Result, error) {
		shard, chunked, err := r.readShard(ctx, number)
		if err != nil {
			return extract.Result{}, err
		}
		models, err := r.ModelSet()
		if err != nil {
			return extract.Result{}, err
		}
		if !models.Extractor().Info().Paid {
			release, err := r.TakePlace(ctx)
			if err != nil {
				return extract.Result{}, err
			}
			defer release()
		}
		chooser, done, err := r.openChooser(ctx)
		defer done()
		if err != nil {
			return extract.Result{}, err
		}
		from := shard.From + batch*r.Batch
		result, err := extract.Run(ctx, extract.In{
			Spec: r.Settings, Artifacts: r.Index, Scratch: r.Scratch.Prefix, Gen: r.Generation, Text: chunked.Text,
			Chunks: r.ChunksKey(shard.Unit, chunked), Shard: shard, Batch: batch,
			From: from, To: min(from+r.Batch, shard.To), Attempt: r.Attempt, Chooser: chooser,
			Chat: models.Extractor(), Health: r.Book.HealthOf(model.Extract), Ledger: r.Ledger, OnProgress: r.Progress.Report,
		})
		*progress = result.Progress
		return result, err
	}
	return FinishUnit(ctx, r, run.ExtractFile(number, batch), do)
}

// SealShard joins a shard's batches.
func (r *Run) SealShard(ctx context.Context, number, batches int) (extract.SealResult, error) {
	do := func(ctx context.Context, progress *core.Progress) (extract.SealResult, error) {
		progress.Done = 0 // its batches counted
		shards, err := run.ReadKept(ctx, r.BaseRun(), run.ShardsFile)
		if err != nil {
			return extract.SealResult{}, err
		}
		models, err := r.ModelSet()
		if err != nil {
			return extract.SealResult{}, err
		}
		settings, err := r.withNames(ctx)
		if err != nil {
			return extract.SealResult{}, err
		}
		result, err := extract.Seal(ctx, extract.SealIn{
			Spec: settings, Artifacts: r.Index, Scratch: r.Scratch.Prefix, Shard: shards.Shards[number], Batches: batches,
			Paid: models.Extractor().Info().Paid, Ledger: r.Ledger, OnProgress: r.TouchProgress,
			Batch: func(ctx context.Context, batch int) (extract.Result, error) {
				return run.ExtractFile(number, batch).Read(ctx, r.Scratch)
			},
		})
		if result.Fresh {
			progress.Written.Segments = 1
		}
		return result, err
	}
	return FinishBusy(ctx, r, run.SealFile(number), do)
}

// MentionsPerPartition is how many mentions a class partition holds at most while there are fewer than MaxPartitions:
// few enough that a partition can be repeated after a crash. It is a variable for tests alone.
var MentionsPerPartition int64 = 150_000

// MaxPartitions is how many class partitions a generation has at most.
const MaxPartitions = 256

// SealExtraction gathers the shards' mentions and chooses the number of class partitions.
func (r *Run) SealExtraction(ctx context.Context) (run.Partitions, error) {
	partitions, err := run.MakeOnce(ctx, r.BaseRun(), run.PartitionsFile, r.planPartitions)
	return partitions, r.ReusedDamage(err)
}

func (r *Run) planPartitions(ctx context.Context) (run.Partitions, error) {
	out := run.Partitions{Partitions: 1}
	shards, err := run.ShardsFile.Read(ctx, r.Scratch)
	if err != nil {
		return out, err
	}
	for seal, err := range run.ReadEach(ctx, r.BaseRun(), len(shards.Shards), run.SealFile) {
		if err != nil {
			return out, err
		}
		r.Progress.Touch()
		out.Kept = append(out.Kept, seal.Kept)
		out.Mentions += seal.Mentions
		out.Dead += seal.Fallbacks
		out.Refused += seal.Refused
		out.Failed = append(out.Failed, seal.Failed[:min(len(seal.Failed), plan.MaxProblems-len(out.Failed))]...)
	}
	touched, made, err := r.countTouched(ctx, &out)
	if err != nil {
		return out, err
	}
	for out.Partitions < MaxPartitions && touched > int64(out.Partitions)*MentionsPerPartition {
		out.Partitions *= 2
	}
	fixed, err := run.ReadKept(ctx, r.BaseRun(), run.PlanFile)
	if err != nil {
		return out, err
	}
	out.Pieces = PiecesOf(splitCuts(len(fixed.Plan.Units), shards), made, out.Partitions)
	return out, nil
}

// classReach is how many mentions the classes of a mention have at most, in the mean: much is named often, and reduce
// reads all of it. On two corpora it was 25 to 40.
const classReach = 40

// countTouched returns about how many mentions reduce reads: the new ones, and, where a build makes a part of a
// generation, what the parent has of their classes and of those of chunks that do not count any more. Made is how many
// classes the build makes or ends at most. Dead letters of the parent's other chunks are this generation's too.
func (r *Run) countTouched(ctx context.Context, out *run.Partitions) (touched, made int64, err error) {
	n, release, err := r.OpenNight(ctx)
	defer release()
	if err != nil || n == nil || n.parent.Counts.Chunks == 0 {
		return out.Mentions, out.Mentions, err
	}
	if err := n.carryLetters(ctx, out); err != nil {
		return 0, 0, err
	}
	gone := n.CountGone().Chunks * (n.parent.Counts.Mentions/n.parent.Counts.Chunks + 1)
	made = out.Mentions + gone
	return out.Mentions + min(made*classReach, n.parent.Counts.Mentions), made, nil
}

// Reduce reduces one partition of classes.
func (r *Run) Reduce(ctx context.Context, partition int) (reduce.Result, error) {
	return FinishBusy(ctx, r, run.ReduceFile(partition), func(
		ctx context.Context, _ *core.Progress,
	) (reduce.Result, error) {
		all, err := run.ReadKept(ctx, r.BaseRun(), run.PartitionsFile)
		if err != nil {
			return reduce.Result{}, err
		}
		n, done, err := r.OpenNight(ctx)
		defer done()
		if err != nil {
			return reduce.Result{}, err
		}
		in := reduce.In{
			Spec: r.Settings, Artifacts: r.Index, Scratch: r.Scratch.Prefix, Partition: partition,
			Partitions: all.Partitions, OnProgress: r.Touch,
		}
		if n != nil {
			if in.Night, err = n.newReduceNight(); err != nil {
				return reduce.Result{}, err
			}
		}
		for _, mentions := range all.Kept {
			in.Shards = append(in.Shards, r.Index.SegmentKey(mentions.SHA256))
		}
		return reduce.Run(ctx, in)
	})
}

// ChunksKey returns where the chunks of a unit lie.
func (r *Run) ChunksKey(unit int, chunked chunk.Result) string {
	return artifact.ScratchKey(join.ChunksKey(r.Scratch.Prefix, unit), chunked.Chunks)
}

// reducedKey returns where the reduced classes of a partition lie.
func (r *Run) reducedKey(ctx context.Context, partition int) (string, error) {
	reduced, err := run.ReadKept(ctx, r.BaseRun(), run.ReduceFile(partition))
	return artifact.ScratchKey(reduce.Key(r.Scratch.Prefix, partition), reduced.Rows), err
}

// Shorten shortens the long class texts of a partition.
func (r *Run) Shorten(ctx context.Context, partition int) (shorten.Result, error) {
	do := func(ctx context.Context, progress *core.Progress) (shorten.Result, error) {
		models, err := r.ModelSet()
		if err != nil {
			return shorten.Result{}, err
		}
		source, err := r.reducedKey(ctx, partition)
		if err != nil {
			return shorten.Result{}, err
		}
		result, err := shorten.Run(ctx, shorten.In{
			Spec: r.Settings, Artifacts: r.Index, Scratch: r.Scratch.Prefix, Partition: partition,
			Source: source, Attempt: r.Attempt, Chat: models.ChatOf(core.RoleShortening),
			Health: r.Book.HealthOf(model.Shorten), Ledger: r.Ledger, OnProgress: r.TouchProgress,
		})
		*progress = result.Progress
		progress.Done = 1
		return result, err
	}
	return FinishUnit(ctx, r, run.ShortenFile(partition), do)
}

// FinishUnit does a unit that has not been done yet, and counts what it did: one piece of its stage, where it says
// nothing else.
func FinishUnit[R any](
	ctx context.Context, r *Run, file run.File[R], do func(context.Context, *core.Progress) (R, error),
) (R, error) {
	var progress core.Progress
	result, err := run.MakeOnce(ctx, r.BaseRun(), file, func(ctx context.Context) (R, error) {
		progress.Done = 1
		result, err := do(ctx, &progress)
		return result, r.ReusedDamage(err)
	})
	if err == nil {
		r.Progress.Finish(progress)
	}
	return result, err
}

// FinishBusy does what FinishUnit does, for a unit that fills a core: it waits for a place.
func FinishBusy[R any](
	ctx context.Context, r *Run, file run.File[R], do func(context.Context, *core.Progress) (R, error),
) (R, error) {
	return FinishUnit(ctx, r, file, func(ctx context.Context, progress *core.Progress) (none R, err error) {
		release, err := r.TakePlace(ctx)
		if err != nil {
			return none, err
		}
		defer release()
		return do(ctx, progress)
	})
}

// Touch notes that the unit goes on. It is for stages that count something else than the unit does.
func (r *Run) Touch(int64) { r.Progress.Touch() }

// TouchProgress does what Touch does, for stages that report a whole progress.
func (r *Run) TouchProgress(core.Progress) { r.Progress.Touch() }

// openJoinEnv gives the joins of items what plan fixed. Release it when they are not used any more.
func (r *Run) openJoinEnv(ctx context.Context) (env join.Env, fixed run.Plan, release func(), err error) {
	release = func() {}
	if fixed, err = r.ReadPlan(ctx); err != nil {
		return env, fixed, release, err
	}
	env = join.Env{
		Spec: r.Settings, Artifacts: r.Index, Store: r.StoreID, Family: fixed.Family, Class: fixed.Class, Chunk: fixed.Chunk,
		Collections: fixed.Collections,
	}
	if env.Parent, err = r.ReadParent(ctx, fixed.Source()); err != nil || env.Parent == nil {
		return env, fixed, release, err
	}
	table, err := r.OpenTable(ctx, env.Parent)
	if err != nil {
		return env, fixed, release, err
	}
	env.Table = table
	return env, fixed, table.Release, nil
}

package activities

import (
	"context"
	"fmt"

	"github.com/unweaver/unweaver/internal/build/items"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/embed"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	embedstage "github.com/unweaver/unweaver/internal/stage/embed"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/stage/load"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/stage/shorten"
	"github.com/unweaver/unweaver/workflows"
)

// unit runs one unit of a stage: opened, with heartbeats, skipped when an earlier attempt finished it.
func unit[R any](
	a *Activities,
	ctx context.Context,
	u workflows.Unit,
	name string,
	f func(context.Context, *run) (R, error),
) (R, error) {
	var res R
	r, err := a.open(ctx, u.Build, u.Stage, u.N, u.Batch)
	if err != nil {
		return res, r.outcome(ctx, err)
	}
	err = r.work(ctx, func(ctx context.Context) error {
		ok, err := r.done(ctx, name, &res)
		if ok || err != nil {
			return err
		}
		if res, err = f(ctx, r); err != nil {
			return err
		}
		return r.writeJSON(ctx, name, res)
	})
	return res, err
}

func chunkName(n int) string  { return fmt.Sprintf("chunk-%05d.json", n) }
func sealedName(n int) string { return fmt.Sprintf("sealed-%05d.json", n) }
func reducedName(n int) string {
	return fmt.Sprintf("reduced-%03d.json", n)
}
func loadedName(n int) string { return fmt.Sprintf("loaded-%05d.json", n) }

// ChunkDocuments chunks one unit of the plan.
func (a *Activities) ChunkDocuments(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	res, err := unit(a, ctx, u, chunkName(u.N), func(ctx context.Context, r *run) (chunk.Result, error) {
		release, err := r.cpu(ctx)
		if err != nil {
			return chunk.Result{}, err
		}
		defer release()
		var s sealed
		if err := r.readJSON(ctx, "build.json", &s); err != nil {
			return chunk.Result{}, err
		}
		docs, err := r.Corpora(ctx, r.spec.Corpus)
		if err != nil {
			return chunk.Result{}, err
		}
		p := s.Plan.Units[u.N]
		res, err := chunk.Run(
			ctx,
			chunk.In{
				Spec:       r.spec,
				Corpus:     docs,
				Artifacts:  r.art,
				Scratch:    r.scratch,
				Unit:       u.N,
				From:       p.From,
				To:         p.To,
				OnProgress: r.count,
			},
		)
		r.beat(corpus.Progress{Done: res.Counts.Documents, Written: corpus.Written{Segments: res.Fresh}})
		return res, err
	})
	return workflows.UnitResult{Done: res.Counts.Documents}, err
}

// shards is shards.json.
type shards struct {
	Shards []extract.Shard `json:"shards"`
	Chunks []int           `json:"chunks"` // of each shard
	Counts corpus.Counts   `json:"counts"`
	Hashes corpus.Hashes   `json:"hashes"`
	Failed int64           `json:"failed"`
}

// SealChunks cuts the units' chunks into shards.
func (a *Activities) SealChunks(ctx context.Context, b workflows.Build) (workflows.Chunked, error) {
	u := workflows.Unit{Build: b, Stage: "chunk", N: -1}
	s, err := unit(a, ctx, u, "shards.json", func(ctx context.Context, r *run) (shards, error) {
		var out shards
		var s sealed
		if err := r.readJSON(ctx, "build.json", &s); err != nil {
			return out, err
		}
		for n := range s.Plan.Units {
			var result chunk.Result
			if err := r.readJSON(ctx, chunkName(n), &result); err != nil {
				return out, err
			}
			out.Counts.Documents += result.Counts.Documents
			out.Counts.Chunks += result.Counts.Chunks
			out.Counts.Tokens += result.Counts.Tokens
			out.Hashes.Merge(result.Hashes)
			out.Failed += result.Failed
			chunks := int(result.Counts.Chunks)
			for shard := range b.Shape.Shards(chunks) {
				lo, hi := b.Shape.Shard(shard, chunks)
				out.Shards = append(out.Shards, extract.Shard{Number: len(out.Shards), Unit: n, From: lo, To: hi})
				out.Chunks = append(out.Chunks, hi-lo)
			}
		}
		return out, nil
	})
	if err != nil {
		return workflows.Chunked{}, err
	}
	m, err := unit(
		a,
		ctx,
		u,
		"models.json",
		func(ctx context.Context, r *run) (modelled, error) { return r.models(ctx, s) },
	)
	return workflows.Chunked{Shards: s.Chunks, Chunks: s.Counts.Chunks, Import: m.Import != importing{}}, err
}

// ExtractChunks extracts one batch of a shard.
func (a *Activities) ExtractChunks(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	name := fmt.Sprintf("extract-%05d-%05d.json", u.N, u.Batch)
	res, err := unit(a, ctx, u, name, func(ctx context.Context, r *run) (extract.Result, error) {
		var s shards
		if err := r.readJSON(ctx, "shards.json", &s); err != nil {
			return extract.Result{}, err
		}
		sh := s.Shards[u.N]
		var result chunk.Result
		if err := r.readJSON(ctx, chunkName(sh.Unit), &result); err != nil {
			return extract.Result{}, err
		}
		set, err := r.Models(r.spec)
		if err != nil {
			return extract.Result{}, err
		}
		if !set.Chat.Info().Paid {
			release, err := r.cpu(ctx)
			if err != nil {
				return extract.Result{}, err
			}
			defer release()
		}
		lo, hi := u.Shape.Batch(u.Batch, sh.To-sh.From)
		res, err := extract.Run(
			ctx,
			extract.In{
				Spec:       r.spec,
				Artifacts:  r.art,
				Scratch:    r.scratch,
				Gen:        u.Generation,
				Text:       result.Text,
				Shard:      sh,
				Batch:      u.Batch,
				From:       sh.From + lo,
				To:         sh.From + hi,
				Attempt:    u.Attempt,
				Chat:       set.Chat,
				Ledger:     r.Ledger,
				OnProgress: r.beat,
			},
		)
		r.beat(res.Progress)
		return res, err
	})
	return workflows.UnitResult{Done: res.Chunks}, err
}

// SealShard joins a shard's batches.
func (a *Activities) SealShard(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	batches := u.Batch
	u.Batch = 99999
	res, err := unit(a, ctx, u, sealedName(u.N), func(ctx context.Context, r *run) (extract.SealResult, error) {
		release, err := r.cpu(ctx)
		if err != nil {
			return extract.SealResult{}, err
		}
		defer release()
		var s shards
		if err := r.readJSON(ctx, "shards.json", &s); err != nil {
			return extract.SealResult{}, err
		}
		set, err := r.Models(r.spec)
		if err != nil {
			return extract.SealResult{}, err
		}
		res, err := extract.Seal(
			ctx,
			extract.SealIn{
				Spec: r.spec, Artifacts: r.art, Scratch: r.scratch, Shard: s.Shards[u.N], Batches: batches,
				Paid: set.Chat.Info().Paid, Ledger: r.Ledger, OnProgress: func(int64) {},
			},
		)
		if res.Fresh {
			r.beat(corpus.Progress{Written: corpus.Written{Segments: 1}})
		}
		return res, err
	})
	return workflows.UnitResult{Done: res.Chunks}, err
}

// partitioning is partitions.json.
type partitioning struct {
	Partitions int     `json:"partitions"`
	Bases      []int64 `json:"bases"` // number of each shard's first chunk
	Mentions   int64   `json:"mentions"`
	Fallbacks  int64   `json:"fallbacks"`
	Dead       int64   `json:"dead"`
}

// mentionsPerPartition keeps a partition small enough to be repeated after a crash.
const mentionsPerPartition = 150_000

// SealExtraction numbers the shards' chunks and chooses the number of class partitions.
func (a *Activities) SealExtraction(ctx context.Context, b workflows.Build) (workflows.Extracted, error) {
	u := workflows.Unit{Build: b, Stage: "extract", N: -1}
	p, err := unit(a, ctx, u, "partitions.json", func(ctx context.Context, r *run) (partitioning, error) {
		p := partitioning{Partitions: 1}
		var s shards
		if err := r.readJSON(ctx, "shards.json", &s); err != nil {
			return p, err
		}
		base := int64(0)
		for n, sh := range s.Shards {
			var seal extract.SealResult
			if err := r.readJSON(ctx, sealedName(n), &seal); err != nil {
				return p, err
			}
			p.Bases = append(p.Bases, base)
			base += seal.Chunks
			p.Mentions += seal.Mentions
			p.Fallbacks += seal.Fallbacks
			for batch := range b.Shape.Batches(sh.To - sh.From) {
				var result extract.Result
				if err := r.readJSON(ctx, fmt.Sprintf("extract-%05d-%05d.json", n, batch), &result); err != nil {
					return p, err
				}
				p.Dead += result.Dead
			}
		}
		for p.Partitions < 256 && p.Mentions > int64(p.Partitions)*mentionsPerPartition {
			p.Partitions *= 2
		}
		return p, nil
	})
	return workflows.Extracted{Partitions: p.Partitions}, err
}

// ReducePartition reduces one partition of classes.
func (a *Activities) ReducePartition(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	_, err := unit(a, ctx, u, reducedName(u.N), func(ctx context.Context, r *run) (reduce.Result, error) {
		release, err := r.cpu(ctx)
		if err != nil {
			return reduce.Result{}, err
		}
		defer release()
		var p partitioning
		if err := r.readJSON(ctx, "partitions.json", &p); err != nil {
			return reduce.Result{}, err
		}
		in := reduce.In{
			Spec:       r.spec,
			Artifacts:  r.art,
			Scratch:    r.scratch,
			Partition:  u.N,
			Partitions: p.Partitions,
			OnProgress: func(int64) {},
		}
		for n, base := range p.Bases {
			in.Shards = append(in.Shards, reduce.Shard{Key: extract.MentionsKey(r.scratch, n), Base: base})
		}
		res, err := reduce.Run(ctx, in)
		pr := corpus.Progress{Done: 1}
		if res.Fresh {
			pr.Written.Segments = 1
		}
		r.beat(pr)
		return res, err
	})
	return workflows.UnitResult{Done: 1}, err
}

// ShortenPartition shortens the long class texts of a partition.
func (a *Activities) ShortenPartition(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	_, err := unit(
		a,
		ctx,
		u,
		fmt.Sprintf("short-%03d.json", u.N),
		func(ctx context.Context, r *run) (shorten.Result, error) {
			set, err := r.Models(r.spec)
			if err != nil {
				return shorten.Result{}, err
			}
			res, err := shorten.Run(
				ctx,
				shorten.In{
					Spec:       r.spec,
					Artifacts:  r.art,
					Scratch:    r.scratch,
					Partition:  u.N,
					Source:     reduce.Key(r.scratch, u.N),
					Attempt:    u.Attempt,
					Chat:       set.Chat,
					Ledger:     r.Ledger,
					OnProgress: func(p corpus.Progress) { p.Done = 0; r.beat(p) },
				},
			)
			res.Progress.Done = 1
			r.beat(res.Progress)
			return res, err
		},
	)
	return workflows.UnitResult{Done: 1}, err
}

// part tells which half of the both-stages a unit is: a class partition, or a shard of chunks.
func (r *run) part(ctx context.Context, n int) (p partitioning, shard int, err error) {
	err = r.readJSON(ctx, "partitions.json", &p)
	return p, n - p.Partitions, err
}

// shard gives the segments of a shard of chunks.
func (r *run) shard(ctx context.Context, n int) (items.Shard, error) {
	var s shards
	if err := r.readJSON(ctx, "shards.json", &s); err != nil {
		return items.Shard{}, err
	}
	sh := s.Shards[n]
	var result chunk.Result
	if err := r.readJSON(ctx, chunkName(sh.Unit), &result); err != nil {
		return items.Shard{}, err
	}
	var seal extract.SealResult
	if err := r.readJSON(ctx, sealedName(n), &seal); err != nil {
		return items.Shard{}, err
	}
	return items.Shard{Unit: sh.Unit, From: sh.From, To: sh.To, Text: result.Text, Extract: seal.Extract}, nil
}

// EmbedPart pays for the new vectors of a class partition or of a shard of chunks.
func (a *Activities) EmbedPart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	_, err := unit(
		a,
		ctx,
		u,
		fmt.Sprintf("embedded-%05d.json", u.N),
		func(ctx context.Context, r *run) (corpus.Progress, error) {
			set, err := r.Models(r.spec)
			if err != nil {
				return corpus.Progress{}, err
			}
			env, s, err := r.env(ctx)
			if err != nil {
				return corpus.Progress{}, err
			}
			if err := r.weigh(ctx, s, &set); err != nil {
				return corpus.Progress{}, err
			}
			p, sh, err := r.part(ctx, u.N)
			if err != nil {
				return corpus.Progress{}, err
			}
			in := embedstage.In{
				Env:        env,
				Scratch:    r.scratch,
				OnProgress: func(p corpus.Progress) { p.Done = 0; r.beat(p) },
				Source: embed.Source{
					Embedder: set.Classes,
					Ledger:   r.Ledger,
					Price:    r.spec.Embedding.Price.Prompt,
				},
			}
			var out corpus.Progress
			if sh < 0 {
				from, _ := reduce.Bounds(u.N, p.Partitions)
				out, err = embedstage.Classes(ctx, in, reduce.Key(r.scratch, u.N), shorten.Key(r.scratch, u.N), from)
			} else {
				in.Source.Embedder = set.Chunks
				var shard items.Shard
				if shard, err = r.shard(ctx, sh); err == nil {
					out, err = embedstage.Chunks(ctx, in, shard)
				}
			}
			out.Done = 1
			r.beat(out)
			return out, err
		},
	)
	return workflows.UnitResult{Done: 1}, err
}

// LoadPart loads a class partition or a shard of chunks.
func (a *Activities) LoadPart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	_, err := unit(a, ctx, u, loadedName(u.N), func(ctx context.Context, r *run) (load.Result, error) {
		release, err := r.cpu(ctx)
		if err != nil {
			return load.Result{}, err
		}
		defer release()
		set, err := r.Models(r.spec)
		if err != nil {
			return load.Result{}, err
		}
		env, s, err := r.env(ctx)
		if err != nil {
			return load.Result{}, err
		}
		if err := r.weigh(ctx, s, &set); err != nil {
			return load.Result{}, err
		}
		p, sh, err := r.part(ctx, u.N)
		if err != nil {
			return load.Result{}, err
		}
		in := load.In{
			Env:        env,
			Scratch:    r.scratch,
			Classes:    r.Classes,
			Vectors:    r.Vectors,
			Import:     (sh < 0 && s.Import.Classes) || (sh >= 0 && s.Import.Chunks),
			OnProgress: func(p corpus.Progress) { p.Done = 0; r.beat(p) },
			Source:     embed.Source{Embedder: set.Classes, Ledger: r.Ledger, Price: r.spec.Embedding.Price.Prompt},
		}
		var res load.Result
		if sh < 0 {
			if err := r.Vectors.Create(ctx, s.Collections.Classes, s.Class.Dimension); err != nil {
				return res, err
			}
			from, _ := reduce.Bounds(u.N, p.Partitions)
			res, err = load.Classes(ctx, in, u.N, reduce.Key(r.scratch, u.N), shorten.Key(r.scratch, u.N), from)
		} else {
			if err := r.Vectors.Create(ctx, s.Collections.Chunks, s.Chunk.Dimension); err != nil {
				return res, err
			}
			in.Source.Embedder = set.Chunks
			var shard items.Shard
			if shard, err = r.shard(ctx, sh); err == nil {
				res, err = load.Chunks(ctx, in, sh, shard, p.Bases[sh])
			}
		}
		res.Progress.Done = 1
		r.beat(res.Progress)
		return res, err
	})
	return workflows.UnitResult{Done: 1}, err
}

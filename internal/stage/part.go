package stage

import (
	"cmp"
	"context"
	"iter"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stage/join"
)

// Kind distinguishes classes from chunks: both have vectors and rows, made from different files.
type Kind string

// The kinds.
const (
	Classes Kind = "classes"
	Chunks  Kind = "chunks"
)

// Part is what one activity embeds or loads: the classes of a partition, or the chunks of a shard.
type Part struct {
	Kind      Kind
	Number    int        // of the partition or of the shard
	Partition Partition  // of classes
	Shard     join.Shard // of chunks
}

// Partition names the files of a partition of classes.
type Partition struct {
	Reduced string // scratch file of the reduced classes
	Short   string // scratch file of the shortened texts
}

// StreamClasses streams the classes of the part.
func (p Part) StreamClasses(ctx context.Context, env join.Env) iter.Seq2[join.Class, error] {
	return env.JoinClasses(ctx, p.Partition.Reduced, p.Partition.Short)
}

// StreamChunks streams the chunks of the part.
func (p Part) StreamChunks(ctx context.Context, env join.Env, scratch string) iter.Seq2[join.Chunk, error] {
	key := cmp.Or(p.Shard.Rows, join.ChunksKey(scratch, p.Shard.Unit))
	return env.JoinChunks(ctx, p.Shard, join.StreamRefs(ctx, env.Artifacts.Store, key, p.Shard.From, p.Shard.To))
}

// NewTexts streams the texts of the part whose vectors the parent does not have, in the order of classes or chunks, so
// that what embed paid for together is read together by load.
func (p Part) NewTexts(ctx context.Context, env join.Env, scratch string) iter.Seq2[embed.Item, error] {
	if p.Kind == Classes {
		return p.newClasses(ctx, env)
	}
	return p.newWindows(ctx, env, scratch)
}

func (p Part) newClasses(ctx context.Context, env join.Env) iter.Seq2[embed.Item, error] {
	return func(yield func(embed.Item, error) bool) {
		for class, err := range p.StreamClasses(ctx, env) {
			if err != nil {
				yield(embed.Item{}, err)
				return
			}
			if !class.HasVector && !yield(class.EmbedItem(), nil) {
				return
			}
		}
	}
}

func (p Part) newWindows(ctx context.Context, env join.Env, scratch string) iter.Seq2[embed.Item, error] {
	fingerprint := env.Chunk.Digest()
	return func(yield func(embed.Item, error) bool) {
		for chunk, err := range p.StreamChunks(ctx, env, scratch) {
			if err != nil {
				yield(embed.Item{}, err)
				return
			}
			if chunk.HasVector {
				continue
			}
			for _, window := range chunk.EmbedItems(fingerprint) {
				if !yield(window, nil) {
					return
				}
			}
		}
	}
}

// ReportProgress reports progress to its receiver; nil receives none.
func ReportProgress(to func(core.Progress), progress core.Progress) {
	if to != nil {
		to(progress)
	}
}

package reduce

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stream/extsort"
	"github.com/unweaver/unweaver/internal/stream/merge"
)

// fanIn is how many files are merged at once, each with its reader, its buffers and, far from the store, its
// connection. The shards of a larger generation are merged so many at once, and sorted together on the local disk: what
// is held does not grow with the number of shards.
var fanIn = 128

// sortBytes is how much of them is sorted in memory at once; 0: extsort.RunBytes. It is a variable for tests alone.
var sortBytes int

func byClass(a, b mention) int { return bytes.Compare(a.id[:], b.id[:]) }

// mergeMentions merges the partition's range of all shards; equal ids come in the order of the shards.
func mergeMentions(ctx context.Context, in In) iter.Seq2[mention, error] {
	if len(in.Shards) <= fanIn {
		return mergeShards(ctx, in, in.Shards)
	}
	return func(yield func(mention, error) bool) {
		sorter := extsort.Sorter{Run: sortBytes}
		defer sorter.Close()
		for group := range slices.Chunk(in.Shards, fanIn) {
			for m, err := range mergeShards(ctx, in, group) {
				if err = cmp.Or(err, ctx.Err(), sorter.Err()); err != nil {
					yield(mention{}, err)
					return
				}
				sorter.Add(m.id[:], m.Encode())
			}
			in.OnProgress(0) // no class is done, but it goes on
		}
		for row, err := range sorter.StreamSorted() {
			var m mention
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				m.id = core.ID(row[0])
				m.Mention, err = rows.DecodeMention(row[1])
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// mergeShards merges shards that are open side by side: their number does not enter the chain of requests.
func mergeShards(ctx context.Context, in In, shards []string) iter.Seq2[mention, error] {
	from, to := PartitionBounds(in.Partition, in.Partitions)
	streams := make([]iter.Seq2[mention, error], len(shards))
	for i, shard := range shards {
		streams[i] = shardPart(ctx, in, shard, from, to)
	}
	return merge.MergeStreams(ctx, byClass, streams...)
}

// Package reduce groups mentions into classes. One activity does one partition, a range of class ids, so each class has
// one writer. Steps:
//
//  1. Merge the mention files of the shards, which are sorted by class id. Shards are in chunk order, so the mentions
//     of one class come in chunk order. Many shards are merged into runs on the local disk first.
//  2. Read the mentions of each class once, and make its digest of members, its sample and its surface forms. Memory is
//     bounded, whatever the size of a class.
//  3. Write reduced-<partition>.rows.
package reduce

import (
	"context"
	"fmt"
	"iter"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stage/classmerge"
	"github.com/unweaver/unweaver/internal/text/classtext"
)

// In is what one partition works on. OnProgress receives classes done.
type In struct {
	Spec       core.Spec
	Artifacts  artifact.Index
	Scratch    string
	Shards     []string // keys of their mentions, which are sorted by class
	Partition  int
	Partitions int    // a power of two, at most 256
	Night      *Night // of a build that makes a part of a generation; nil: all of it is made
	OnProgress func(classes int64)
}

// Result is reduced-<partition>.json. With In.Night, Counts and Content are by how much there is more than the parent
// has, or less.
type Result struct {
	Counts  core.Counts  `json:"counts"`
	Content core.SetHash `json:"content"` // the classes' part of the content hash
	Long    int64        `json:"long"`    // classes over the threshold

	Rows string `json:"rows,omitempty"` // name of the file at Key; see artifact.ScratchKey
	Gone string `json:"gone,omitempty"` // In.Night: of the one at GoneKey
}

// Key returns the scratch file of a partition.
func Key(scratch string, partition int) string {
	return fmt.Sprintf("%s/reduced-%03d.rows", scratch, partition)
}

// PartitionBounds gives the ids of a partition as raw keys: from is inclusive, to exclusive; an empty to means the end.
func PartitionBounds(partition, partitions int) (from, to string) {
	step := 256 / partitions
	from = string([]byte{byte(partition * step)})
	if partition+1 < partitions {
		to = string([]byte{byte((partition + 1) * step)})
	}
	return from, to
}

// Run does one partition.
func Run(ctx context.Context, in In) (Result, error) {
	r := &reducer{In: in}
	var err error
	if r.out, err = artifact.NewRows(); err != nil {
		return r.res, err
	}
	defer r.out.Discard()
	if in.Night != nil {
		return r.reduceNight(ctx)
	}
	for m, err := range mergeMentions(ctx, in) {
		if err != nil {
			return r.res, err
		}
		if r.cur == nil || r.cur.ID != m.id {
			r.endClass()
			r.cur = classmerge.BeginClass(m.id, r.Spec)
		}
		r.cur.Add(m.Mention)
		r.res.Counts.Mentions++
	}
	r.endClass()
	r.res.Rows, err = r.out.PutScratch(ctx, in.Artifacts, Key(in.Scratch, in.Partition))
	return r.res, err
}

type reducer struct {
	In
	out     *artifact.Rows
	cur     *classmerge.Class
	classes int64 // written
	res     Result
}

// mention is one row of the merge.
type mention struct {
	id core.ID
	rows.Mention
}

// shardPart gives one shard's mentions of ids in [from, to).
func shardPart(ctx context.Context, in In, shard, from, to string) iter.Seq2[mention, error] {
	return func(yield func(mention, error) bool) {
		reader, err := artifact.OpenRows(ctx, in.Artifacts.Store, shard)
		if err != nil {
			yield(mention{}, err)
			return
		}
		first, end := reader.FrameRange(from, to)
		for row, err := range reader.Scan(ctx, first, end) {
			if err != nil {
				yield(mention{}, err)
				return
			}
			if string(row.Key) < from {
				continue
			}
			if to != "" && string(row.Key) >= to {
				return
			}
			decoded, err := rows.DecodeMention(row.Value)
			if !yield(mention{core.ID(row.Key), decoded}, err) || err != nil {
				return
			}
		}
	}
}

// openWidth is how many shards are opened at once.
const openWidth = 64

// endClass writes the class that streamed by.
func (r *reducer) endClass() {
	c := r.cur
	if c == nil {
		return
	}
	out := c.End()
	r.res.Counts.Classes++
	r.res.Counts.Edges += out.ChunkTotal
	r.res.Content.Add(classmerge.Content(c.ID, out))
	r.putClass(c.ID, out)
	r.cur = nil
}

// putClass writes a class.
func (r *reducer) putClass(id core.ID, class rows.Reduced) {
	if classtext.IsLong(class.Name, class.Descriptions, r.Spec.Shortening.Threshold, r.Spec.Parity) {
		r.res.Long++
	}
	r.out.Append(string(id[:]), class.Encode())
	if r.classes++; r.classes%256 == 0 {
		r.OnProgress(r.classes)
	}
}

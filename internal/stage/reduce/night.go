package reduce

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stage/classmerge"
	"github.com/unweaver/unweaver/internal/stream/merge"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Night is what a build that makes a part of a generation finds of the rest. Its classes are those alone that new
// mentions or mentions that ended belong to; each is made twice, as it was and as it is, and written where its name,
// its type or the descriptions of its text differ: who mentions it is in splits, and its row stays.
type Night struct {
	Parts []Part // mentions of the parent
	// Ended gives the classes whose raw ids lie in [from, to), where an empty to means the end, that chunks of the
	// parent mention which do not count any more, in the order of ids.
	Ended func(from, to string) []core.ID
}

// Part is a mentions segment of the parent.
type Part struct {
	Segment core.Segment
	Was     func(chunk int64) bool // whether a chunk, by its number in the segment, counted in the parent
	Is      func(chunk int64) bool // and counts still
}

// GoneKey returns the scratch file of the ids of a partition's classes that no mention is left of.
func GoneKey(scratch string, partition int) string {
	return fmt.Sprintf("%s/gone-%03d.rows", scratch, partition)
}

// seen is a mention, and when it counts.
type seen struct {
	mention
	was, is bool
}

// inOrder compares two mentions of a class, wherever they lie: by document, by chunk in it, and by position.
func inOrder(a, b seen) int {
	return cmp.Or(
		bytes.Compare(a.id[:], b.id[:]), strings.Compare(a.Document, b.Document), cmp.Compare(a.Ordinal, b.Ordinal),
		cmp.Compare(a.Position, b.Position),
	)
}

func (r *reducer) reduceNight(ctx context.Context) (Result, error) {
	touched, err := r.findTouched(ctx)
	if err != nil {
		return r.res, err
	}
	gone, err := artifact.NewRows()
	if err != nil {
		return r.res, err
	}
	defer gone.Discard()
	var was, is *classmerge.Class
	end := func() {
		if is != nil {
			r.writeDifference(was, is, gone)
		}
	}
	for m, err := range r.streamTouched(ctx, touched) {
		if err != nil {
			return r.res, err
		}
		if is == nil || is.ID != m.id {
			end()
			was, is = classmerge.BeginClass(m.id, r.Spec), classmerge.BeginClass(m.id, r.Spec)
		}
		if m.was {
			was.Add(m.Mention)
			r.res.Counts.Mentions--
		}
		if m.is {
			is.Add(m.Mention)
			r.res.Counts.Mentions++
		}
	}
	end()
	if r.res.Gone, err = gone.PutScratch(ctx, r.Artifacts, GoneKey(r.Scratch, r.Partition)); err != nil {
		return r.res, err
	}
	r.res.Rows, err = r.out.PutScratch(ctx, r.Artifacts, Key(r.Scratch, r.Partition))
	return r.res, err
}

// writeDifference writes what became of a class.
func (r *reducer) writeDifference(was, is *classmerge.Class, gone *artifact.Rows) {
	id, before, now := is.ID, was.End(), is.End()
	if before.Mentions > 0 {
		r.res.Counts.Classes--
		r.res.Counts.Edges -= before.ChunkTotal
		r.res.Content.Sub(classmerge.Content(id, before))
	}
	if now.Mentions > 0 {
		r.res.Counts.Classes++
		r.res.Counts.Edges += now.ChunkTotal
		r.res.Content.Add(classmerge.Content(id, now))
	}
	switch {
	case now.Mentions == 0 && before.Mentions > 0:
		gone.Append(string(id[:]), nil)
	case now.Mentions > 0 && (before.Mentions == 0 || before.Text != now.Text || before.Type != now.Type):
		r.putClass(id, now)
	}
}

// findTouched gives the classes of the partition that new mentions or ended ones belong to, in the order of ids. They
// are as many as a partition has at most, whatever the size of the corpus.
func (r *reducer) findTouched(ctx context.Context) ([]core.ID, error) {
	from, to := PartitionBounds(r.Partition, r.Partitions)
	found := make([][]core.ID, len(r.Shards))
	err := parallel.Each(ctx, len(r.Shards), openWidth, func(ctx context.Context, i int) error {
		for m, err := range shardPart(ctx, r.In, r.Shards[i], from, to) {
			if err != nil {
				return err
			}
			if last := len(found[i]) - 1; last < 0 || found[i][last] != m.id {
				found[i] = append(found[i], m.id)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	touched := slices.Concat(append(found, r.Night.Ended(from, to))...)
	slices.SortFunc(touched, func(a, b core.ID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(touched), nil
}

// streamTouched gives the mentions of touched classes, the parent's and the new ones, in order.
func (r *reducer) streamTouched(ctx context.Context, touched []core.ID) iter.Seq2[seen, error] {
	from, to := PartitionBounds(r.Partition, r.Partitions)
	var streams []iter.Seq2[seen, error]
	for _, part := range r.Night.Parts {
		streams = append(streams, r.streamFormer(ctx, part, touched))
	}
	for _, shard := range r.Shards {
		streams = append(streams, func(yield func(seen, error) bool) {
			for m, err := range shardPart(ctx, r.In, shard, from, to) {
				if !yield(seen{mention: m, is: true}, err) || err != nil {
					return
				}
			}
		})
	}
	return merge.MergeStreams(ctx, inOrder, streams...)
}

// streamFormer gives the mentions of touched classes of one segment of the parent.
func (r *reducer) streamFormer(ctx context.Context, part Part, touched []core.ID) iter.Seq2[seen, error] {
	return func(yield func(seen, error) bool) {
		if len(touched) == 0 {
			return
		}
		key := r.Artifacts.SegmentKey(part.Segment.SHA256)
		for row, err := range artifact.RowsUnder(ctx, r.Artifacts.Store, key, part.Segment.Bytes, rows.KeysOf(touched)) {
			if err != nil {
				yield(seen{}, err)
				return
			}
			decoded, err := rows.DecodeMention(row.Value)
			m := seen{mention: mention{core.ID(row.Key), decoded}}
			if err == nil {
				m.was, m.is = part.Was(decoded.Number), part.Is(decoded.Number)
				if !m.was && !m.is {
					continue
				}
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

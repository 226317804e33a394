package build

import (
	"context"
	"fmt"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/segment"
	"github.com/unweaver/unweaver/internal/stream/par"
)

// mostChunks is how many chunks a split has, and mostRows how many rows a class run. A large corpus has several from
// the beginning, so that writing one again, once much of it is dead, costs a share of a night and not all of a corpus.
const (
	mostChunks  = 400_000
	mostRows    = 4_000_000
	leastChunks = 8_000
	leastRows   = 60_000
	firstPieces = 8
)

func pieceOf(total, least, most int64) int64 { return min(max(total/firstPieces+1, least), most) }

// writeSplits writes the splits and class runs of what the build made, and joins them with what stays of its parent.
func (r *Run) writeSplits(
	ctx context.Context, manifest *corpus.Manifest, written *corpus.Written,
) error {
	fixed, err := r.fixed(ctx)
	if err != nil {
		return err
	}
	n, release, err := r.night(ctx, fixed)
	defer release()
	if err != nil {
		return err
	}
	first := n.numbers()
	var fresh [2]int64
	sides := []func(ctx context.Context) error{
		func(ctx context.Context) (err error) {
			fresh[0], err = r.makeSplits(ctx, &manifest.Segments, first)
			return err
		},
		func(ctx context.Context) (err error) {
			fresh[1], err = r.makeRuns(ctx, &manifest.Segments, first)
			return err
		},
	}
	err = par.Each(ctx, len(sides), len(sides), func(ctx context.Context, i int) error { return sides[i](ctx) })
	if err != nil {
		return err
	}
	written.Segments += fresh[0] + fresh[1]
	renumber(&manifest.Segments, first)
	if n != nil {
		if err := n.join(ctx, manifest, written); err != nil {
			return err
		}
		if err := n.merge(ctx, manifest, written); err != nil {
			return err
		}
	}
	return r.complete(ctx, manifest)
}

// renumber gives the parts that the build wrote numbers that no other part has.
func renumber(segments *corpus.Segments, first numbers) {
	for _, list := range []struct {
		segments []corpus.Segment
		first    int
	}{
		{segments.Documents, first.text},
		{segments.Text, first.text},
		{segments.Extract, first.extract},
		{segments.Mentions, first.extract},
		{segments.Chunks, first.extract},
		{segments.Classes, first.class},
	} {
		for i := range list.segments {
			list.segments[i].Part = list.first + i
		}
	}
}

// makeSplits writes splits of whole units.
func (r *Run) makeSplits(
	ctx context.Context, segments *corpus.Segments, first numbers,
) (fresh int64, err error) {
	shards, err := shardsFile.Read(ctx, r.Scratch)
	if err != nil {
		return 0, err
	}
	made := &splitting{Run: r, segments: segments, first: first, fresh: &fresh}
	most := int(pieceOf(shards.Made(), leastChunks, mostChunks))
	shard := 0
	for unit := range segments.Documents {
		next := segment.SplitUnit{Documents: segments.Documents[unit], Text: segments.Text[unit]}
		chunks := 0
		for shard < len(shards.Shards) && shards.Shards[shard].Unit == unit {
			next.Shards = append(next.Shards, segment.SplitShard{
				Live:     r.Index.SegmentKey(segments.Chunks[shard].SHA256),
				Mentions: r.Index.SegmentKey(segments.Mentions[shard].SHA256),
			})
			chunks += shards.Chunks[shard]
			shard++
		}
		if made.chunks > 0 && made.chunks+chunks > most {
			if err := made.write(ctx); err != nil {
				return fresh, err
			}
		}
		made.units = append(made.units, next)
		made.chunks += chunks
	}
	return fresh, made.write(ctx)
}

// splitting gathers units until a split is full.
type splitting struct {
	*Run
	segments *corpus.Segments
	first    numbers
	fresh    *int64
	units    []segment.SplitUnit
	chunks   int
	text     int // units that are in splits already
	extract  int
}

func (s *splitting) write(ctx context.Context) error {
	if len(s.units) == 0 {
		return nil
	}
	made, expect, fresh, err := segment.Split(ctx, segment.SplitIn{
		Artifacts: s.Index, Spec: s.Settings, Units: s.units, OnProgress: s.touch,
	})
	if err != nil {
		return err
	}
	if fresh {
		*s.fresh++
	}
	extracts := 0
	for _, unit := range s.units {
		extracts += len(unit.Shards)
	}
	made.Rows = int64(expect.Chunks)
	s.segments.Splits = append(s.segments.Splits, corpus.Split{
		Segment: made, Documents: int64(expect.Documents), Chunks: int64(expect.Chunks), Classes: int64(expect.Classes),
		Text: s.first.text + s.text, Texts: len(s.units), Extract: s.first.extract + s.extract, Extracts: extracts,
	})
	s.text += len(s.units)
	s.extract += extracts
	s.units, s.chunks = nil, 0
	return nil
}

// makeRuns writes class runs of whole partitions.
func (r *Run) makeRuns(ctx context.Context, segments *corpus.Segments, first numbers) (fresh int64, err error) {
	var total int64
	for _, classes := range segments.Classes {
		total += classes.Rows
	}
	most := pieceOf(total, leastRows, mostRows)
	for from := 0; from < len(segments.Classes); {
		to, rows := from, int64(0)
		for to < len(segments.Classes) && (rows == 0 || rows+segments.Classes[to].Rows <= most) {
			rows += segments.Classes[to].Rows
			to++
		}
		if rows > 0 {
			made, expect, isNew, err := segment.ClassRun(ctx, segment.ClassRunIn{
				Artifacts: r.Index, Spec: r.Settings, Classes: segments.Classes[from:to], OnProgress: r.touch,
			})
			if err != nil {
				return fresh, err
			}
			if isNew {
				fresh++
			}
			made.Rows = int64(expect.Classes)
			segments.Runs = append(segments.Runs, corpus.Run{Segment: made, Classes: first.class + from, Parts: to - from})
		}
		from = to
	}
	return fresh, nil
}

// join takes what the build wrote, and puts it to what stays of the parent.
func (n *night) join(ctx context.Context, manifest *corpus.Manifest, written *corpus.Written) error {
	partitions, err := partitionsFile.Read(ctx, n.Scratch)
	if err != nil {
		return err
	}
	ended, err := n.endedKeys(ctx, partitions.Partitions)
	if err != nil {
		return err
	}
	if len(manifest.Segments.Runs) == 0 {
		manifest.Segments.Classes = nil // without a row
	}
	out, err := segment.Night(ctx, segment.NightIn{
		Artifacts: n.Index, Spec: n.Settings, Parent: n.parent, Table: n.table, Gone: n.goneKey(n.fixed), Ended: ended,
		New: manifest.Segments, OnProgress: n.touch,
	})
	if err != nil {
		return err
	}
	written.Segments += out.Fresh
	manifest.Segments = out.Segments
	was, made := n.parent.Counts, &manifest.Counts // what was counted with the chunks is the generation's already
	made.Mentions += was.Mentions
	made.Edges += was.Edges
	made.Classes += was.Classes
	made.Windows += was.Windows - out.Counts.Windows
	made.Fallbacks += was.Fallbacks - partitions.Fallbacks // reduce counted the new ones too
	made.DeadLetters = made.Fallbacks                      // a fallback mention stands for each dead letter
	take := func(now *corpus.SetHash, before, gone corpus.SetHash) {
		now.Merge(before)
		now.Without(gone)
	}
	take(&manifest.Hashes.Content, n.parent.Hashes.Content, out.Hashes.Content)
	take(&manifest.Hashes.Text, n.parent.Hashes.Text, out.Hashes.Text)
	take(&manifest.Hashes.Vector, n.parent.Hashes.Vector, out.Hashes.Vector)
	return nil
}

// complete looks whether what a generation lists is as much as it counts: a fault of a build must not be published.
func (r *Run) complete(ctx context.Context, manifest *corpus.Manifest) error {
	table, err := r.table(ctx, manifest)
	if err != nil {
		return err
	}
	defer table.Release()
	var classes, chunks int64
	for range table.Classes() {
		classes++
	}
	for range table.Chunks() {
		chunks++
	}
	for _, count := range []struct {
		of           string
		listed, want int64
	}{{"chunks", chunks, manifest.Counts.Chunks}, {"classes", classes, manifest.Counts.Classes}} {
		if count.listed != count.want {
			return fault.Internal.At("draft", r.Name()).
				Because(fmt.Sprintf("its segments have %d %s, it should have %d", count.listed, count.of, count.want)).
				Advise("report this; " + r.Index.Rebuild())
		}
	}
	return nil
}

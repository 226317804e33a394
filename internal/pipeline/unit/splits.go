package unit

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/segment"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// WriteSplits writes the splits and class runs of what the build made, and joins them with what stays of its parent.
func (r *Run) WriteSplits(
	ctx context.Context, manifest *core.Manifest, written *core.Written,
) error {
	n, release, err := r.OpenNight(ctx)
	defer release()
	if err != nil {
		return err
	}
	first := n.nextNumbers()
	var fresh [2]int64
	err = parallel.RunTogether(ctx, func(ctx context.Context) (err error) {
		fresh[0], err = r.makeSplits(ctx, &manifest.Segments, first)
		return err
	}, func(ctx context.Context) (err error) {
		fresh[1], err = r.makeRuns(ctx, &manifest.Segments, first)
		return err
	})
	if err != nil {
		return err
	}
	written.Segments += fresh[0] + fresh[1]
	renumberParts(&manifest.Segments, first)
	if n != nil {
		if err := n.joinSplits(ctx, manifest, written); err != nil {
			return err
		}
		if err := n.mergeSegments(ctx, manifest, written); err != nil {
			return err
		}
	}
	return r.checkComplete(ctx, manifest)
}

// checkLabels reports whether the documents that a build makes, one of each set of labels, and those that stay of its
// parent have few enough different sets. n is nil where nothing of a parent stays.
func (n *night) checkLabels(made map[core.LabelSet]string) error {
	kept, bytes := map[core.LabelSet]bool{}, 0
	if n != nil {
		for number, file := range n.table.Splits {
			if len(file.LabelSets()) == 0 {
				continue
			}
			dead := n.table.DeadRows(n.parent.Segments.Splits[number].SHA256)
			for row := range file.Documents {
				if (dead == nil || !dead(row)) && !n.ended[number][uint32(row)] {
					kept[file.LabelsOf(row)] = true
				}
			}
		}
	}
	delete(kept, core.Everybody)
	for set := range kept {
		bytes += len(set)
	}
	for _, set := range slices.Sorted(maps.Keys(made)) {
		if !kept[set] {
			kept[set] = true
			bytes += len(set)
		}
		if len(kept) > core.MaxLabelSets || bytes > core.MaxLabelBytes {
			return split.TooManyLabels(made[set], set)
		}
	}
	return nil
}

// renumberParts gives the parts that the build wrote numbers that no other part has.
func renumberParts(segments *core.Segments, first numbers) {
	for _, list := range []struct {
		segments []core.Segment
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

// makeSplits writes splits of whole units, those that no unit of work has written.
func (r *Run) makeSplits(
	ctx context.Context, segments *core.Segments, first numbers,
) (fresh int64, err error) {
	shards, err := run.ShardsFile.Read(ctx, r.Scratch)
	if err != nil {
		return 0, err
	}
	for n, cut := range splitCuts(len(segments.Documents), shards) {
		made, err := r.writtenOr(ctx, n, true, &fresh, func(ctx context.Context) (run.Piece, error) {
			return r.writeSplit(ctx, cut, segments)
		})
		if err != nil {
			return fresh, err
		}
		segments.Splits = append(segments.Splits, core.Split{
			Segment: made.Segment, Documents: made.Documents, Chunks: made.Segment.Rows, Classes: made.Classes,
			Text: first.text + cut.units.From, Texts: cut.units.Count(),
			Extract: first.extract + cut.shards.From, Extracts: cut.shards.Count(),
		})
	}
	return fresh, nil
}

// makeRuns writes class runs of whole partitions, those that no unit of work has written.
func (r *Run) makeRuns(ctx context.Context, segments *core.Segments, first numbers) (fresh int64, err error) {
	for n, cut := range RunCuts(segments.Classes) {
		made, err := r.writtenOr(ctx, n, false, &fresh, func(ctx context.Context) (run.Piece, error) {
			return r.writeRun(ctx, segments.Classes[cut.From:cut.To])
		})
		if err != nil {
			return fresh, err
		}
		segments.Runs = append(segments.Runs, core.Run{
			Segment: made.Segment, Classes: first.class + cut.From, Parts: cut.Count(),
		})
	}
	return fresh, nil
}

// joinSplits takes what the build wrote, and puts it to what stays of the parent.
func (n *night) joinSplits(ctx context.Context, manifest *core.Manifest, written *core.Written) error {
	partitions, err := run.PartitionsFile.Read(ctx, n.Scratch)
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
	settings, err := n.withNames(ctx)
	if err != nil {
		return err
	}
	out, err := segment.JoinNight(ctx, segment.NightIn{
		Artifacts: n.Index, Spec: settings, Parent: n.parent, Table: n.table, Gone: n.goneKey(n.fixed), Ended: ended,
		New: manifest.Segments, OnProgress: n.Touch,
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
	take := func(now *core.SetHash, before, gone core.SetHash) {
		now.Merge(before)
		now.Subtract(gone)
	}
	take(&manifest.Hashes.Content, n.parent.Hashes.Content, out.Hashes.Content)
	take(&manifest.Hashes.Text, n.parent.Hashes.Text, out.Hashes.Text)
	take(&manifest.Hashes.Vector, n.parent.Hashes.Vector, out.Hashes.Vector)
	return nil
}

// checkComplete looks whether what a generation lists is as much as it counts: a fault of a build must not be
// published.
func (r *Run) checkComplete(ctx context.Context, manifest *core.Manifest) error {
	table, err := r.OpenTable(ctx, manifest)
	if err != nil {
		return err
	}
	defer table.Release()
	var classes, chunks int64
	for range table.ClassesLeft(nil) {
		classes++
	}
	for range table.ChunksLeft(nil) {
		chunks++
	}
	for _, count := range []struct {
		of           string
		listed, want int64
	}{{"chunks", chunks, manifest.Counts.Chunks}, {"classes", classes, manifest.Counts.Classes}} {
		if count.listed != count.want {
			return fault.Internal.At("draft", r.Name()).
				Because(fmt.Sprintf("its segments have %d %s, it should have %d", count.listed, count.of, count.want)).
				Advise("report this; " + r.Index.AdviseRebuild())
		}
	}
	return nil
}

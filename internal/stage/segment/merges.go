package segment

import (
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/deletedstats"
	"github.com/unweaver/unweaver/internal/index/segments"
)

// Merges are groups of splits and of class runs, by their places in the lists, of which each becomes one.
type Merges struct{ Splits, Runs [][]int }

// Merge merges groups of segments of a generation, each in no more than one group, and gives the lists without them and
// with what takes their places; what is dead in them is no longer counted. Nothing that counts changes. fresh is how
// many files were new.
func Merge(ctx context.Context, in MergeIn, groups Merges) (out core.Segments, fresh int64, err error) {
	out = in.Listed
	chunks := deadSide{name: core.ChunkSide, analyser: languageOf(in.Spec).Analyser()}
	for _, group := range groups.Splits {
		in.Which = group
		merged, err := MergeSplits(ctx, in)
		if err != nil {
			return out, fresh, err
		}
		fresh += merged.Fresh
		for _, number := range group {
			one := in.Listed.Splits[number]
			chunks.dropSegment(deletedstats.Count(in.Files.Splits[number].Words, in.deadChunks(number)))
			out.Splits = dropSplit(out.Splits, one.SHA256)
			out.Tombs = dropTomb(out.Tombs, one.SHA256)
			for _, list := range []*[]core.Segment{&out.Documents, &out.Text} {
				*list = dropParts(*list, one.Text, one.Texts)
			}
			for _, list := range []*[]core.Segment{&out.Extract, &out.Mentions, &out.Chunks} {
				*list = dropParts(*list, one.Extract, one.Extracts)
			}
		}
		merged.Split.Text, merged.Split.Extract = NextPart(in.Listed.Text, out.Text), NextPart(in.Listed.Extract, out.Extract)
		out.Splits = append(out.Splits, merged.Split)
		out.Documents = append(out.Documents, numberedPart(merged.Documents, merged.Split.Text))
		out.Text = append(out.Text, numberedPart(merged.Text, merged.Split.Text))
		out.Extract = append(out.Extract, numberedPart(merged.Extract, merged.Split.Extract))
		out.Mentions = append(out.Mentions, numberedPart(merged.Mentions, merged.Split.Extract))
		out.Chunks = append(out.Chunks, numberedPart(merged.Chunks, merged.Split.Extract))
	}
	classes := deadSide{name: core.ClassSide, analyser: languageOf(in.Spec).Analyser()}
	for _, group := range groups.Runs {
		in.Which = group
		merged, err := MergeRuns(ctx, in)
		if err != nil {
			return out, fresh, err
		}
		fresh += merged.Fresh
		for _, number := range group {
			one := in.Listed.Runs[number]
			classes.dropSegment(deletedstats.Count(in.Files.Runs[number].Words, neverNil(in.Files.DeadRows(one.SHA256))))
			out.Runs = slices.DeleteFunc(slices.Clone(out.Runs), func(run core.Run) bool { return run.SHA256 == one.SHA256 })
			out.Tombs = dropTomb(out.Tombs, one.SHA256)
			out.Classes = dropParts(out.Classes, one.Classes, one.Parts)
		}
		merged.Run.Classes = NextPart(in.Listed.Classes, out.Classes)
		out.Runs = append(out.Runs, merged.Run)
		out.Classes = append(out.Classes, numberedPart(merged.Classes, merged.Run.Classes))
	}
	out.DeadStats = nil
	for _, side := range []*deadSide{&chunks, &classes} {
		listed, made, err := side.writeStats(ctx, in.Artifacts, in.Listed, in.Files.DeadStats(side.name))
		if err != nil {
			return out, fresh, err
		}
		if made {
			fresh++
		}
		out.DeadStats = append(out.DeadStats, listed...)
	}
	return out, fresh, nil
}

// deadChunks says which chunks of a split do not count.
func (in MergeIn) deadChunks(number int) func(row int) bool {
	file, dead := in.Files.Splits[number], in.Files.DeadRows(in.Listed.Splits[number].SHA256)
	if dead == nil {
		return neverNil(nil)
	}
	return func(row int) bool { return dead(int(file.Chunks[row].Document)) }
}

// neverNil returns a function also where nothing is dead: counting takes nil for all.
func neverNil(dead func(row int) bool) func(row int) bool {
	if dead == nil {
		return func(int) bool { return false }
	}
	return dead
}

// NextPart returns a number that no part of some lists has.
func NextPart(lists ...[]core.Segment) (number int) {
	for _, list := range lists {
		for _, segment := range list {
			number = max(number, segment.Part+1)
		}
	}
	return number
}

func numberedPart(segment core.Segment, part int) core.Segment {
	segment.Part = part
	return segment
}

func dropParts(list []core.Segment, first, count int) []core.Segment {
	return slices.DeleteFunc(slices.Clone(list), func(segment core.Segment) bool {
		return first <= segment.Part && segment.Part < first+count
	})
}

func dropSplit(list []core.Split, sha string) []core.Split {
	return slices.DeleteFunc(slices.Clone(list), func(one core.Split) bool { return one.SHA256 == sha })
}

func dropTomb(list []core.Tomb, sha string) []core.Tomb {
	return slices.DeleteFunc(slices.Clone(list), func(one core.Tomb) bool { return one.Of == sha })
}

// CountDead writes the dead statistics of a side from the segments and bitmaps that it is the sum of.
func CountDead(
	ctx context.Context, index artifact.Index, spec core.Spec, listed core.Segments, files *segments.Files,
	side string,
) (core.Segment, bool, error) {
	counted := deadSide{name: side, analyser: languageOf(spec).Analyser()}
	add := func(change deletedstats.Change) {
		counted.rows += change.Documents
		counted.changes = append(counted.changes, change)
	}
	in := MergeIn{Listed: listed, Files: files}
	if side == core.ChunkSide {
		for number, file := range files.Splits {
			add(deletedstats.Count(file.Words, in.deadChunks(number)))
		}
	} else {
		for number, file := range files.Runs {
			add(deletedstats.Count(file.Words, neverNil(files.DeadRows(listed.Runs[number].SHA256))))
		}
	}
	made, fresh, err := counted.writeStats(ctx, index, listed, nil)
	if err != nil || len(made) == 0 {
		return core.Segment{}, false, err
	}
	return made[0].Segment, fresh, nil
}

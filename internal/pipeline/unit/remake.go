package unit

import (
	"context"
	"slices"
	"sort"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	stored "github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/segment"
)

// remade are the kinds of segments that are made from others, and made again where they are damaged.
var remade = map[string]bool{"split": true, "class run": true, "dead statistics": true}

// IsRemade reports whether a part is a file that is made from others.
func IsRemade(part run.Part) bool { return part.Check == run.CheckFile && remade[part.Kind] }

// Remake makes a segment again from those that it is made from, and says whether it was new.
func (r *Run) Remake(
	ctx context.Context, manifest *core.Manifest, kind, sha string, settings core.Spec,
) (made core.Segment, fresh bool, err error) {
	listed := manifest.Segments
	settings.Names = manifest.Aliases
	switch kind {
	case "split":
		at := slices.IndexFunc(listed.Splits, func(one core.Split) bool { return one.SHA256 == sha })
		units, err := r.unitsOf(ctx, listed, listed.Splits[at])
		if err != nil {
			return made, false, err
		}
		made, _, fresh, err = segment.WriteSplit(ctx, segment.SplitIn{
			Artifacts: r.Index, Spec: settings, Units: units, OnProgress: r.Touch,
		})
		return made, fresh, err
	case "class run":
		at := slices.IndexFunc(listed.Runs, func(one core.Run) bool { return one.SHA256 == sha })
		parts, err := stored.SelectParts(listed.Classes, "classes", listed.Runs[at].Classes, listed.Runs[at].Parts)
		if err != nil {
			return made, false, err
		}
		made, _, fresh, err = segment.ClassRun(ctx, segment.ClassRunIn{
			Artifacts: r.Index, Spec: settings, Classes: parts, OnProgress: r.Touch,
		})
		return made, fresh, err
	}
	at := slices.IndexFunc(listed.DeadStats, func(one core.DeadStat) bool { return one.SHA256 == sha })
	without := listed
	without.DeadStats = nil
	files, err := stored.Open(ctx, r.Cache, r.Index, without, "")
	if err != nil {
		return made, false, err
	}
	defer files.Release()
	return segment.CountDead(ctx, r.Index, settings, without, files, listed.DeadStats[at].Side)
}

// unitsOf finds which shards are of which unit of a split: of the last one that begins with no greater a key.
func (r *Run) unitsOf(ctx context.Context, listed core.Segments, one core.Split) ([]segment.SplitUnit, error) {
	documents, err := stored.SelectParts(listed.Documents, "documents", one.Text, one.Texts)
	if err != nil {
		return nil, err
	}
	texts, err := stored.SelectParts(listed.Text, "texts", one.Text, one.Texts)
	if err != nil {
		return nil, err
	}
	chunks, err := stored.SelectParts(listed.Chunks, "chunks", one.Extract, one.Extracts)
	if err != nil {
		return nil, err
	}
	mentions, err := stored.SelectParts(listed.Mentions, "mentions", one.Extract, one.Extracts)
	if err != nil {
		return nil, err
	}
	units := make([]segment.SplitUnit, len(documents))
	begins := make([]string, len(documents))
	for i := range documents {
		units[i] = segment.SplitUnit{Documents: documents[i], Text: texts[i]}
		reader, err := artifact.OpenRows(ctx, r.Artifacts, r.Index.SegmentKey(documents[i].SHA256))
		if err != nil {
			return nil, err
		}
		if len(reader.Frames) > 0 {
			begins[i] = reader.Frames[0].First
		}
	}
	for i := range chunks {
		key := r.Index.SegmentKey(chunks[i].SHA256)
		for row, err := range artifact.ScanAll(ctx, r.Artifacts, key) {
			if err != nil {
				return nil, err
			}
			chunk, err := rows.DecodeSplitChunk(row.Value)
			if err != nil {
				return nil, err
			}
			unit := sort.Search(len(begins), func(n int) bool { return begins[n] > chunk.Document }) - 1
			if unit < 0 {
				return nil, fault.SegmentDamage.At("read chunks", r.Artifacts.Location(key)).
					Because("they are of no unit of their split").Advise(r.Index.AdviseRebuild())
			}
			units[unit].Shards = append(units[unit].Shards, segment.SplitShard{
				Chunks: key, Mentions: r.Index.SegmentKey(mentions[i].SHA256),
			})
			break
		}
	}
	return units, nil
}

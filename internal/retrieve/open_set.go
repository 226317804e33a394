package retrieve

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/index/segments"
)

// mapSet copies and maps the splits and class runs of a generation, beside each other, and numbers what is live.
func (g *Generation) mapSet(ctx context.Context, cache *localfile.Cache) error {
	listed := g.Manifest.Segments
	files, err := segments.Open(ctx, cache, g.art, listed, g.Language().Analyser())
	if err != nil {
		if fault.Is(err, fault.NotFound) || fault.Is(err, fault.SegmentDamage) {
			return fault.SegmentDamage.At("open segments of", g.Manifest.Generation).Because(err).
				Advise("run: unweaver restore " + g.Manifest.Index + "; if that does not help, " + g.art.AdviseRebuild())
		}
		return err
	}
	var splits []liveset.Split
	for i, one := range listed.Splits {
		splits = append(splits, liveset.Split{
			File: files.Splits[i], Dead: files.DeadRows(one.SHA256),
			Documents: uint32(one.Text), Extract: uint32(one.Extract),
		})
	}
	var runs []liveset.Run
	for i, one := range listed.Runs {
		runs = append(runs, liveset.Run{File: files.Runs[i], Dead: files.DeadRows(one.SHA256)})
	}
	set, err := liveset.New(ctx, g.Manifest.Index, splits, runs)
	if err == nil {
		count := func(side string, _ []lexical.Part) lexical.Dead {
			if file := files.DeadStats(side); file != nil {
				return file
			}
			return nil // no nil pointer of a type
		}
		err = g.setLive(set, count, files.Release)
	}
	if err != nil {
		files.Release()
	}
	return err
}

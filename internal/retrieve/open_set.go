package retrieve

import (
	"context"
	"fmt"
	"sync"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/classrun"
	"github.com/unweaver/unweaver/internal/format/deadstats"
	"github.com/unweaver/unweaver/internal/format/liveset"
	"github.com/unweaver/unweaver/internal/format/split"
	"github.com/unweaver/unweaver/internal/format/tomb"
	"github.com/unweaver/unweaver/internal/lang/text"
	"github.com/unweaver/unweaver/internal/retrieve/lexical"
	"github.com/unweaver/unweaver/internal/store/localfile"
	"github.com/unweaver/unweaver/internal/stream/par"
)

// setFiles are the mapped files of a generation of many segments. Generations of one process share them: the next one
// maps what has changed.
type setFiles struct {
	splits []*split.File
	runs   []*classrun.File
	tombs  map[string]*tomb.File // by the segment whose rows are dead
	dead   map[string]*deadstats.File

	mu       sync.Mutex
	releases []func()
}

// release lets go of all files.
func (f *setFiles) release() {
	for _, release := range f.releases {
		release()
	}
}

// acquire copies a segment and maps the copy, or takes part in a mapping of it.
func acquire[T interface{ Close() }](
	ctx context.Context, g *Generation, cache *localfile.Cache, files *setFiles, segment corpus.Segment,
	open func(path string) (T, error),
) (T, error) {
	key := g.art.SegmentKey(segment.SHA256)
	file, release, err := localfile.Acquire(ctx, cache, g.art.Store, key, segment.SHA256, open)
	if err != nil {
		return file, err
	}
	files.mu.Lock()
	defer files.mu.Unlock()
	files.releases = append(files.releases, release)
	return file, nil
}

// deadRows of a segment; nil where none is.
func (f *setFiles) deadRows(segment string) func(row int) bool {
	if file := f.tombs[segment]; file != nil {
		return file.Dead
	}
	return nil
}

// deadCounts of a side; nil where nothing is dead.
func (f *setFiles) deadCounts(side string) lexical.Dead {
	if file := f.dead[side]; file != nil {
		return file
	}
	return nil
}

// mapSet copies and maps the files of a generation of many segments, beside each other, and numbers what is live.
func (g *Generation) mapSet(ctx context.Context, cache *localfile.Cache) error {
	segments := g.Manifest.Segments
	files, err := g.mapFiles(ctx, cache)
	if err != nil {
		files.release()
		if fault.Is(err, fault.NotFound) || fault.Is(err, fault.SegmentDamage) {
			return fault.SegmentDamage.At("open segments of", g.Manifest.Generation).Because(err).
				Advise("publish another generation, or rebuild the index")
		}
		return err
	}
	var splits []liveset.Split
	for i, one := range segments.Splits {
		splits = append(splits, liveset.Split{
			File: files.splits[i], Dead: files.deadRows(one.SHA256),
			Documents: uint32(one.Text), Extract: uint32(one.Extract),
		})
	}
	var runs []liveset.Run
	for i, one := range segments.Runs {
		runs = append(runs, liveset.Run{File: files.runs[i], Dead: files.deadRows(one.SHA256)})
	}
	set, err := liveset.New(ctx, g.Manifest.Index, splits, runs)
	if err == nil {
		err = g.setLive(set, files.deadCounts(corpus.ChunkSide), files.deadCounts(corpus.ClassSide), files.release)
	}
	if err != nil {
		files.release()
	}
	return err
}

// mapFiles maps them; what it could map before an error is there too.
func (g *Generation) mapFiles(ctx context.Context, cache *localfile.Cache) (*setFiles, error) {
	segments := g.Manifest.Segments
	files := &setFiles{
		splits: make([]*split.File, len(segments.Splits)), runs: make([]*classrun.File, len(segments.Runs)),
		tombs: map[string]*tomb.File{}, dead: map[string]*deadstats.File{},
	}
	var steps []func(context.Context) error
	rows := map[string]tomb.Of{}
	for i, one := range segments.Splits {
		expect := split.Expect{
			Analyser:  text.Analyser,
			Documents: int(one.Documents), Chunks: int(one.Chunks), Classes: int(one.Classes),
		}
		rows[one.SHA256] = tomb.Of{Segment: one.SHA256, Unit: tomb.Documents, Rows: expect.Documents}
		steps = append(steps, func(ctx context.Context) (err error) {
			files.splits[i], err = acquire(ctx, g, cache, files, one.Segment, func(path string) (*split.File, error) {
				return split.Open(path, expect)
			})
			if err == nil { // another generation may have opened it
				err = files.splits[i].Expected(one.SHA256, expect)
			}
			return err
		})
	}
	for i, one := range segments.Runs {
		expect := classrun.Expect{Analyser: text.Analyser, Classes: int(one.Rows)}
		rows[one.SHA256] = tomb.Of{Segment: one.SHA256, Unit: tomb.Classes, Rows: expect.Classes}
		steps = append(steps, func(ctx context.Context) (err error) {
			files.runs[i], err = acquire(ctx, g, cache, files, one, func(path string) (*classrun.File, error) {
				return classrun.Open(path, expect)
			})
			if err == nil { // another generation may have opened it
				err = files.runs[i].Expected(one.SHA256, expect)
			}
			return err
		})
	}
	tombs, dead := make([]*tomb.File, len(segments.Tombs)), make([]*deadstats.File, len(segments.DeadStats))
	for i, one := range segments.Tombs {
		of, known := rows[one.Of]
		if !known {
			return files, fault.SegmentDamage.At("open dead rows of", one.Of).
				Because("the manifest lists no split and no class run of that content, or its dead rows twice").
				Advise("publish another generation, or rebuild the index")
		}
		delete(rows, one.Of)
		steps = append(steps, func(ctx context.Context) (err error) {
			tombs[i], err = acquire(ctx, g, cache, files, one.Segment, func(path string) (*tomb.File, error) {
				return tomb.Open(path, of)
			})
			if err == nil && tombs[i].Rows() != of.Rows { // another generation may have opened it
				err = fault.SegmentDamage.At("open dead rows of", one.Of).
					Because(fmt.Sprintf("it tells of %d rows, the segment has %d", tombs[i].Rows(), of.Rows)).
					Advise("publish another generation, or rebuild the index")
			}
			return err
		})
	}
	sides := map[string]bool{corpus.ChunkSide: true, corpus.ClassSide: true}
	for i, one := range segments.DeadStats {
		if !sides[one.Side] {
			return files, fault.SegmentDamage.At("open dead statistics of", fmt.Sprintf("side %q", one.Side)).
				Because("there is no such side, or the manifest lists it twice").
				Advise("publish another generation, or rebuild the index")
		}
		delete(sides, one.Side)
		steps = append(steps, func(ctx context.Context) (err error) {
			dead[i], err = acquire(ctx, g, cache, files, one.Segment, func(path string) (*deadstats.File, error) {
				return deadstats.Open(path, deadstats.Of{Side: one.Side, Analyser: text.Analyser})
			})
			return err
		})
	}
	err := par.Each(ctx, len(steps), openWidth, func(ctx context.Context, i int) error {
		if err := ctx.Err(); err != nil { // stores that answer at once do not look
			return err
		}
		return steps[i](ctx)
	})
	for i, file := range tombs {
		if file != nil {
			files.tombs[segments.Tombs[i].Of] = file
		}
	}
	for i, file := range dead {
		if file != nil {
			files.dead[segments.DeadStats[i].Side] = file
		}
	}
	return files, err
}

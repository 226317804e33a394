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
	ctx context.Context, o *setOpening, segment corpus.Segment, open func(path string) (T, error),
) (T, error) {
	key := o.art.SegmentKey(segment.SHA256)
	file, release, err := localfile.Acquire(ctx, o.cache, o.art.Store, key, segment.SHA256, open)
	if err != nil {
		return file, err
	}
	o.files.mu.Lock()
	defer o.files.mu.Unlock()
	o.files.releases = append(o.files.releases, release)
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

// setOpening is a set whose files are being mapped.
type setOpening struct {
	*Generation
	cache *localfile.Cache
	files *setFiles
	rows  map[string]tomb.Of // segments whose dead rows may be told of, each once
	tombs []*tomb.File       // as the manifest lists them; nil: not open
	dead  []*deadstats.File
	steps []func(context.Context) error
}

// mapFiles maps them; what it could map before an error is there too.
func (g *Generation) mapFiles(ctx context.Context, cache *localfile.Cache) (*setFiles, error) {
	segments := g.Manifest.Segments
	opening := &setOpening{
		Generation: g, cache: cache, rows: map[string]tomb.Of{},
		files: &setFiles{
			splits: make([]*split.File, len(segments.Splits)), runs: make([]*classrun.File, len(segments.Runs)),
			tombs: map[string]*tomb.File{}, dead: map[string]*deadstats.File{},
		},
		tombs: make([]*tomb.File, len(segments.Tombs)), dead: make([]*deadstats.File, len(segments.DeadStats)),
	}
	opening.addSplits(segments.Splits)
	opening.addRuns(segments.Runs)
	if err := opening.addTombs(segments.Tombs); err != nil {
		return opening.files, err
	}
	if err := opening.addDeadStats(segments.DeadStats); err != nil {
		return opening.files, err
	}
	err := par.Each(ctx, len(opening.steps), openWidth, func(ctx context.Context, i int) error {
		if err := ctx.Err(); err != nil { // stores that answer at once do not look
			return err
		}
		return opening.steps[i](ctx)
	})
	for i, file := range opening.tombs {
		if file != nil {
			opening.files.tombs[segments.Tombs[i].Of] = file
		}
	}
	for i, file := range opening.dead {
		if file != nil {
			opening.files.dead[segments.DeadStats[i].Side] = file
		}
	}
	return opening.files, err
}

// What is shared with another generation was opened by what that expected of it, and is compared once more.

func (o *setOpening) addSplits(splits []corpus.Split) {
	for i, one := range splits {
		expect := split.Expect{
			Analyser:  text.Analyser,
			Documents: int(one.Documents), Chunks: int(one.Chunks), Classes: int(one.Classes),
		}
		o.rows[one.SHA256] = tomb.Of{Segment: one.SHA256, Unit: tomb.Documents, Rows: expect.Documents}
		o.steps = append(o.steps, func(ctx context.Context) error {
			file, err := acquire(ctx, o, one.Segment, func(path string) (*split.File, error) {
				return split.Open(path, expect)
			})
			if err != nil {
				return err
			}
			o.files.splits[i] = file
			return file.Expected(one.SHA256, expect)
		})
	}
}

func (o *setOpening) addRuns(runs []corpus.Segment) {
	for i, one := range runs {
		expect := classrun.Expect{Analyser: text.Analyser, Classes: int(one.Rows)}
		o.rows[one.SHA256] = tomb.Of{Segment: one.SHA256, Unit: tomb.Classes, Rows: expect.Classes}
		o.steps = append(o.steps, func(ctx context.Context) error {
			file, err := acquire(ctx, o, one, func(path string) (*classrun.File, error) {
				return classrun.Open(path, expect)
			})
			if err != nil {
				return err
			}
			o.files.runs[i] = file
			return file.Expected(one.SHA256, expect)
		})
	}
}

func (o *setOpening) addTombs(tombs []corpus.Tomb) error {
	for i, one := range tombs {
		of, known := o.rows[one.Of]
		if !known {
			return notListed("open dead rows of", one.Of,
				"the manifest lists no split and no class run of that content, or its dead rows twice")
		}
		delete(o.rows, one.Of)
		o.steps = append(o.steps, func(ctx context.Context) error {
			file, err := acquire(ctx, o, one.Segment, func(path string) (*tomb.File, error) {
				return tomb.Open(path, of)
			})
			if err != nil {
				return err
			}
			if file.Rows() != of.Rows {
				return notListed("open dead rows of", one.Of,
					fmt.Sprintf("they are of %d rows, the segment has %d", file.Rows(), of.Rows))
			}
			o.tombs[i] = file
			return nil
		})
	}
	return nil
}

func (o *setOpening) addDeadStats(dead []corpus.DeadStat) error {
	sides := map[string]bool{corpus.ChunkSide: true, corpus.ClassSide: true}
	for i, one := range dead {
		if !sides[one.Side] {
			return notListed("open dead statistics of", fmt.Sprintf("side %q", one.Side),
				"there is no such side, or the manifest lists it twice")
		}
		delete(sides, one.Side)
		of := deadstats.Of{Side: one.Side, Analyser: text.Analyser}
		o.steps = append(o.steps, func(ctx context.Context) (err error) {
			o.dead[i], err = acquire(ctx, o, one.Segment, func(path string) (*deadstats.File, error) {
				return deadstats.Open(path, of)
			})
			return err
		})
	}
	return nil
}

func notListed(op, object, why string) error {
	return fault.SegmentDamage.At(op, object).Because(why).
		Advise("publish another generation, or rebuild the index")
}

// Package segments maps the files of a generation into memory: its splits and class runs, their deletion bitmaps, and
// the statistics of the deleted rows. Generations of one process share these mappings, so opening the next generation
// maps only the files that changed.
package segments

import (
	"context"
	"fmt"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/deletedstats"
	"github.com/unweaver/unweaver/internal/index/deletions"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Files are mapped files, in the order of the manifest's lists.
type Files struct {
	Splits []*split.File
	Runs   []*classrun.File

	tombs map[string]*deletions.File // by the segment whose rows are dead
	dead  map[string]*deletedstats.File

	mu       sync.Mutex
	releases []func()
}

// Release lets go of all files. It may be called once.
func (f *Files) Release() {
	for _, release := range f.releases {
		release()
	}
}

// FindTomb returns the bitmap of the dead rows of a segment; nil where none is dead.
func (f *Files) FindTomb(segment string) *deletions.File { return f.tombs[segment] }

// DeadRows returns the test for dead rows of a segment; nil where none is.
func (f *Files) DeadRows(segment string) func(row int) bool {
	if f == nil { // no dead row is known
		return nil
	}
	if file := f.tombs[segment]; file != nil {
		return file.IsDead
	}
	return nil
}

// DeadStats returns what the dead rows of a side count; nil where nothing is dead.
func (f *Files) DeadStats(side string) *deletedstats.File { return f.dead[side] }

// openWidth is how many files are opened at once.
const openWidth = 32

// Open copies and maps the files that a manifest lists, whose words an analyser cut (empty: any, for who looks up no
// word), beside each other; the caller releases them. Errors are those of the stores and of the formats:
// fault.SegmentDamage also where a list names what another does not have, fault.FormatUnknown where another analyser
// cut the words.
func Open(
	ctx context.Context, cache *localfile.Cache, index artifact.Index, listed core.Segments, analyser string,
) (*Files, error) {
	o := newOpening(cache, index, listed)
	o.analyser = analyser
	o.addSplits(listed.Splits)
	o.addRuns(listed.Runs)
	return o.openFiles(ctx)
}

// OpenTombs copies and maps only what says which rows are dead: small files.
func OpenTombs(
	ctx context.Context, cache *localfile.Cache, index artifact.Index, listed core.Segments,
) (*Files, error) {
	return newOpening(cache, index, listed).openFiles(ctx)
}

// opening is a set whose files are being mapped.
type opening struct {
	index  artifact.Index
	cache  *localfile.Cache
	listed core.Segments
	files  *Files
	rows   map[string]deletions.Of // segments whose dead rows may be listed, each once
	tombs  []*deletions.File       // as the manifest lists them; nil: not open
	dead   []*deletedstats.File
	steps  []func(context.Context) error

	analyser string // that cut the words; empty: any
}

func newOpening(cache *localfile.Cache, index artifact.Index, listed core.Segments) *opening {
	rows := map[string]deletions.Of{}
	for _, one := range listed.Splits {
		rows[one.SHA256] = deletions.Of{Segment: one.SHA256, Unit: deletions.Documents, Rows: int(one.Documents)}
	}
	for _, one := range listed.Runs {
		rows[one.SHA256] = deletions.Of{Segment: one.SHA256, Unit: deletions.Classes, Rows: int(one.Rows)}
	}
	return &opening{
		index: index, cache: cache, listed: listed, rows: rows,
		files: &Files{
			Splits: make([]*split.File, len(listed.Splits)), Runs: make([]*classrun.File, len(listed.Runs)),
			tombs: map[string]*deletions.File{}, dead: map[string]*deletedstats.File{},
		},
		tombs: make([]*deletions.File, len(listed.Tombs)), dead: make([]*deletedstats.File, len(listed.DeadStats)),
	}
}

// openFiles adds what is dead and does the steps. After an error everything that was mapped is let go.
func (o *opening) openFiles(ctx context.Context) (*Files, error) {
	err := o.addTombs(o.listed.Tombs)
	if err == nil {
		err = o.addDeadStats(o.listed.DeadStats)
	}
	if err == nil {
		err = parallel.Each(ctx, len(o.steps), openWidth, func(ctx context.Context, i int) error {
			if err := ctx.Err(); err != nil { // stores that answer at once do not look
				return err
			}
			return o.steps[i](ctx)
		})
	}
	if err != nil {
		o.files.Release()
		return nil, err
	}
	for i, file := range o.tombs {
		o.files.tombs[o.listed.Tombs[i].Of] = file
	}
	for i, file := range o.dead {
		o.files.dead[o.listed.DeadStats[i].Side] = file
	}
	return o.files, nil
}

// acquireFile copies a segment and maps the copy, or takes part in a mapping of it.
func acquireFile[T interface{ Close() }](
	ctx context.Context, o *opening, segment core.Segment, open func(path string) (T, error),
) (T, error) {
	key := o.index.SegmentKey(segment.SHA256)
	file, release, err := localfile.Acquire(ctx, o.cache, o.index.Store, key, segment.SHA256, open)
	if err != nil {
		return file, err
	}
	o.files.mu.Lock()
	defer o.files.mu.Unlock()
	o.files.releases = append(o.files.releases, release)
	return file, nil
}

// What is shared with another generation was opened by what that expected of it, and is compared once more.

func (o *opening) addSplits(splits []core.Split) {
	for i, one := range splits {
		expect := split.Expect{
			Analyser:  o.analyser,
			Documents: int(one.Documents), Chunks: int(one.Chunks), Classes: int(one.Classes),
		}
		o.steps = append(o.steps, func(ctx context.Context) error {
			file, err := acquireFile(ctx, o, one.Segment, func(path string) (*split.File, error) {
				return split.Open(path, expect)
			})
			if err != nil {
				return err
			}
			o.files.Splits[i] = file
			return file.CheckExpected(one.SHA256, expect)
		})
	}
}

func (o *opening) addRuns(runs []core.Run) {
	for i, one := range runs {
		expect := classrun.Expect{Analyser: o.analyser, Classes: int(one.Rows)}
		o.steps = append(o.steps, func(ctx context.Context) error {
			file, err := acquireFile(ctx, o, one.Segment, func(path string) (*classrun.File, error) {
				return classrun.Open(path, expect)
			})
			if err != nil {
				return err
			}
			o.files.Runs[i] = file
			return file.CheckExpected(one.SHA256, expect)
		})
	}
}

func (o *opening) addTombs(tombs []core.Tomb) error {
	for i, one := range tombs {
		of, known := o.rows[one.Of]
		if !known {
			return notListed("open dead rows of", one.Of,
				"the manifest lists no split and no class run of that content, or its dead rows twice")
		}
		delete(o.rows, one.Of)
		o.steps = append(o.steps, func(ctx context.Context) error {
			file, err := acquireFile(ctx, o, one.Segment, func(path string) (*deletions.File, error) {
				return deletions.Open(path, of)
			})
			if err != nil {
				return err
			}
			if file.CountRows() != of.Rows {
				return notListed("open dead rows of", one.Of,
					fmt.Sprintf("they are of %d rows, the segment has %d", file.CountRows(), of.Rows))
			}
			o.tombs[i] = file
			return nil
		})
	}
	return nil
}

func (o *opening) addDeadStats(dead []core.DeadStat) error {
	sides := map[string]bool{core.ChunkSide: true, core.ClassSide: true}
	for i, one := range dead {
		if !sides[one.Side] {
			return notListed("open dead statistics of", fmt.Sprintf("side %q", one.Side),
				"there is no such side, or the manifest lists it twice")
		}
		delete(sides, one.Side)
		of := deletedstats.Of{Side: one.Side, Analyser: o.analyser}
		o.steps = append(o.steps, func(ctx context.Context) (err error) {
			o.dead[i], err = acquireFile(ctx, o, one.Segment, func(path string) (*deletedstats.File, error) {
				return deletedstats.Open(path, of)
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

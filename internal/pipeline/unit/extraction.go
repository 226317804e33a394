package unit

import (
	"context"
	"slices"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	stored "github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/extract"
)

// FixExtraction fixes what the chunks of a run are extracted by, from the parent and the settings alone: a run that
// begins anew comes to the same as one that begins. It gives the reason to make everything again where the parent left
// other chunks as they were. A round of retry-failed, and a purge, keep the parent's.
func (r *Run) FixExtraction(fixed *run.Plan, parent *core.Manifest) (reasons []string) {
	before := AskedOf(parent)
	if parent != nil && (r.Attempt > 0 || fixed.Purge != "") {
		fixed.Extraction = before
		return nil
	}
	fixed.Extraction = core.AskOver(before, r.Settings.OwnRequest(), r.Settings.ApplyTo())
	if parent == nil {
		fixed.Extraction.Earlier, fixed.Extraction.Apply = nil, ""
		return nil
	}
	if fixed.Extraction.Request.Digest() == before.Request.Digest() && !fixed.Extraction.Same(before) {
		return []string{"config: passages that extraction is applied to"}
	}
	return nil
}

// AskedOf returns what a parent was extracted by.
func AskedOf(parent *core.Manifest) core.Asked {
	if parent == nil || parent.Extraction == nil {
		return core.Asked{}
	}
	return *parent.Extraction
}

// openChooser opens what chooses the request of a chunk, as the plan fixed it; nil: all have one. Release it.
func (r *Run) openChooser(ctx context.Context) (*extract.Chooser, func(), error) {
	fixed, err := run.ReadKept(ctx, r.BaseRun(), run.PlanFile)
	if err != nil {
		return nil, func() {}, err
	}
	return r.OpenChooser(ctx, fixed)
}

// OpenChooser does what openChooser does, for a plan.
func (r *Run) OpenChooser(ctx context.Context, fixed run.Plan) (*extract.Chooser, func(), error) {
	if len(fixed.Extraction.Earlier) == 0 {
		return nil, func() {}, nil
	}
	former, release, err := r.OpenFormer(ctx, fixed.Parent)
	if err != nil {
		return nil, release, err
	}
	return extract.NewChooser(fixed.Extraction, former), release, nil
}

// OpenFormer opens what a parent has of chunks. In a run that makes everything again since the parent is damaged, what
// cannot be read is not there: such chunks are asked by the current request. Release it.
func (r *Run) OpenFormer(ctx context.Context, manifest string) (
	read func(ctx context.Context, id core.ID) (rows.Extract, bool, error), release func(), err error,
) {
	none := func(context.Context, core.ID) (rows.Extract, bool, error) { return rows.Extract{}, false, nil }
	parent, err := r.ReadParent(ctx, manifest)
	if err != nil || parent == nil {
		return none, func() {}, r.tolerate(err)
	}
	table, err := stored.OpenChunks(ctx, r.Cache, r.Index, parent)
	tables := []*stored.Table{table}
	if r.Rebuild && artifact.IsDamage(err) {
		tables, err = r.openReadable(ctx, parent)
	}
	if err != nil {
		return none, func() {}, err
	}
	release = func() {
		for _, one := range tables {
			one.Release()
		}
	}
	f := &former{run: r, parent: parent, tables: tables, open: map[int]*artifact.Reader{}, frames: map[[2]int][]byte{}}
	return f.readExtraction, release, nil
}

// openReadable opens the splits of a damaged parent that can be read, the newest first; where what is dead in one
// cannot be, nothing is.
func (r *Run) openReadable(ctx context.Context, parent *core.Manifest) (out []*stored.Table, err error) {
	for _, split := range slices.Backward(parent.Segments.Splits) {
		one := *parent
		one.Segments.Splits = []core.Split{split}
		table, err := stored.OpenChunks(ctx, r.Cache, r.Index, &one)
		if artifact.IsDamage(err) {
			one.Segments.Tombs = nil
			table, err = stored.OpenChunks(ctx, r.Cache, r.Index, &one)
		}
		if err == nil {
			out = append(out, table)
		} else if !artifact.IsDamage(err) {
			for _, opened := range out {
				opened.Release()
			}
			return nil, err
		}
	}
	return out, nil
}

// tolerate drops an error about damage in a run that trusts nothing of the parent.
func (r *Run) tolerate(err error) error {
	if r.Rebuild && artifact.IsDamage(err) {
		return nil
	}
	return err
}

// former reads extractions of a parent. Chunks are asked for in their order, so that few frames are kept.
type former struct {
	run    *Run
	parent *core.Manifest
	tables []*stored.Table // a chunk counts in the first that has it

	mu     sync.Mutex
	open   map[int]*artifact.Reader // by part
	frames map[[2]int][]byte        // by part and number
}

// formerFrames is how many frames are kept.
const formerFrames = 16

func (f *former) readExtraction(ctx context.Context, id core.ID) (out rows.Extract, found bool, err error) {
	part, number, counts := 0, 0, false
	for i := 0; i < len(f.tables) && !counts; i++ {
		part, number, counts = f.tables[i].FindExtraction(id)
	}
	if !counts {
		return out, false, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	frame, err := f.readFrame(ctx, part, number)
	for err == nil && len(frame) > 0 {
		key, value, rest, ok := rowfile.NextRow(frame)
		if !ok {
			break
		}
		if string(key) == string(id[:]) {
			out, err = rows.DecodeExtract(value)
			return out, err == nil, f.run.tolerate(err)
		}
		frame = rest
	}
	return out, false, f.run.tolerate(err)
}

// readFrame reads a frame of a part.
func (f *former) readFrame(ctx context.Context, part, number int) ([]byte, error) {
	at := [2]int{part, number}
	if frame, ok := f.frames[at]; ok {
		return frame, nil
	}
	reader := f.open[part]
	if reader == nil {
		listed := f.parent.Segments.Extract
		i := slices.IndexFunc(listed, func(one core.Segment) bool { return one.Part == part })
		if i < 0 {
			return nil, nil
		}
		var err error
		key := f.run.Index.SegmentKey(listed[i].SHA256)
		if reader, err = artifact.OpenRowsOf(ctx, f.run.Index.Store, key, listed[i].Bytes); err != nil {
			return nil, err
		}
		f.open[part] = reader
	}
	frame, err := reader.Frame(ctx, number)
	if err != nil {
		return nil, err
	}
	if len(f.frames) >= formerFrames {
		clear(f.frames)
	}
	f.frames[at] = frame
	return frame, nil
}

package load

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// ImportIn is one collection to be filled by bulk import.
type ImportIn struct {
	Artifacts  artifact.Index
	Staging    blob.Store // the bucket that the vector store reads
	Vectors    vectors.Store
	Kind       string
	Collection string
	Dimension  int
	Files      []corpus.Segment
	State      string // key of the record of what was asked for
	Prefix     string // of the copies in the bucket
	Log        *slog.Logger
	Guard      func(context.Context) error // fails when the collection is another run's by now; nil never fails
	OnProgress func(corpus.Progress)       // told of rows imported, at every look at the jobs; nil is allowed
}

// imports is what was asked for. Asked is written before the call and Job after it: a crash between the two leaves a
// file of which nobody can say whether it was taken, and the collection starts again, in a new round, empty.
type imports struct {
	Round int                    `json:"round"`
	Done  bool                   `json:"done"`
	Files map[string]*importFile `json:"files"` // by sha256
}

type importFile struct {
	Asked bool   `json:"asked"`
	Job   string `json:"job,omitempty"`
	Done  bool   `json:"done,omitempty"`
}

// rounds after which the collection is left empty: verify then writes every row, which needs no import.
const rounds = 3

// pollEvery is how often jobs are asked about.
const pollEvery = 300 * time.Millisecond

// Import fills a collection that no generation names from its vectors segments. It may be repeated at any point: no
// file is ever imported twice into one state of the collection, and at the end the collection holds each row once, or
// nothing.
func Import(ctx context.Context, in ImportIn) error {
	im := importing{ImportIn: in}
	var ok bool
	if im.store, ok = in.Vectors.(vectors.Importer); !ok {
		return fault.Internal.At("import into", in.Collection).Because("this vector store does not import")
	}
	_, err := blob.ReadJSON(ctx, in.Artifacts.Store, in.State, &im.state)
	if fault.Is(err, fault.NotFound) { // what an abandoned build left goes first
		im.state.Round = -1
		err = im.reset(ctx, "")
	}
	for err == nil && !im.state.Done {
		err = im.round(ctx)
	}
	return err
}

type importing struct {
	ImportIn
	store vectors.Importer
	state imports
}

func (im *importing) save(ctx context.Context) error {
	_, err := blob.WriteJSON(ctx, im.Artifacts.Store, im.State, im.state, blob.Cond{})
	return err
}

// guard is asked before the collection is emptied or filled.
func (im *importing) guard(ctx context.Context) error {
	if im.Guard == nil {
		return nil
	}
	return im.Guard(ctx)
}

// reset empties the collection and begins a new round.
func (im *importing) reset(ctx context.Context, why string) error {
	if why != "" {
		im.Log.Warn("import begins again", "collection", im.Collection, "why", why)
	}
	if err := im.guard(ctx); err != nil {
		return err
	}
	if err := im.Vectors.Drop(ctx, im.Collection); err != nil {
		return err
	}
	if err := im.Vectors.Create(ctx, im.Collection, im.Dimension); err != nil {
		return err
	}
	im.state.Round++
	im.state.Files = map[string]*importFile{}
	im.state.Done = im.state.Round >= rounds
	return im.save(ctx)
}

func (im *importing) path(seg corpus.Segment) string {
	return fmt.Sprintf("%s-%d/%s.parquet", im.Prefix, im.state.Round, seg.SHA256)
}

// round asks for what was not asked for, waits, and looks at the result.
func (im *importing) round(ctx context.Context) error {
	why, err := im.adopt(ctx)
	if err == nil && why == "" {
		err = im.ask(ctx)
	}
	if err == nil && why == "" {
		why, err = im.wait(ctx)
	}
	if err != nil {
		return err
	}
	if why == "" {
		var want int64
		for _, seg := range im.Files {
			want += seg.Rows
		}
		have, err := im.Vectors.Count(ctx, im.Collection)
		if err != nil {
			return err
		}
		if have != want {
			why = fmt.Sprintf("%d rows, want %d", have, want)
		}
	}
	for _, seg := range im.Files { // the store has its own copies, or begins again from ours
		if err := im.Staging.Delete(ctx, im.path(seg)); err != nil {
			return err
		}
	}
	if why != "" {
		return im.reset(ctx, why)
	}
	im.state.Done = true
	return im.save(ctx)
}

// adopt finds the jobs of files that were asked for without an answer.
func (im *importing) adopt(ctx context.Context) (why string, err error) {
	var jobs map[string][]string
	for _, seg := range im.Files {
		file := im.state.Files[seg.SHA256]
		if file == nil || !file.Asked || file.Job != "" {
			continue
		}
		if jobs == nil {
			if jobs, err = im.store.Imports(ctx, im.Collection); err != nil {
				return "", err
			}
		}
		found := jobs[im.path(seg)]
		if len(found) != 1 {
			return fmt.Sprintf("%d jobs are known for a file that was asked for once", len(found)), nil
		}
		file.Job = found[0]
		if err := im.save(ctx); err != nil {
			return "", err
		}
	}
	return "", nil
}

// ask copies the files into the store's bucket and asks for them.
func (im *importing) ask(ctx context.Context) error {
	for _, seg := range im.Files {
		if file := im.state.Files[seg.SHA256]; file != nil && file.Asked {
			continue
		}
		if err := im.stage(ctx, seg); err != nil {
			return err
		}
		if err := im.guard(ctx); err != nil {
			return err
		}
		file := &importFile{Asked: true}
		im.state.Files[seg.SHA256] = file
		if err := im.save(ctx); err != nil {
			return err
		}
		job, err := im.store.Import(ctx, im.Collection, im.path(seg))
		if err != nil {
			return err
		}
		file.Job = job
		if err := im.save(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (im *importing) stage(ctx context.Context, seg corpus.Segment) error {
	body, info, err := im.Artifacts.Store.Get(ctx, im.Artifacts.SegmentKey(seg.SHA256), blob.All)
	if err != nil {
		return err
	}
	_, err = im.Staging.Put(ctx, im.path(seg), body, info.Size, blob.Cond{})
	if cerr := body.Close(); err == nil {
		err = cerr
	}
	return err
}

// wait follows the jobs to their end.
func (im *importing) wait(ctx context.Context) (why string, err error) {
	rows := map[string]int64{}
	for _, seg := range im.Files {
		rows[seg.SHA256] = seg.Rows
	}
	for {
		running := 0
		progress := corpus.Progress{Stage: "load"}
		for sha, file := range im.state.Files {
			if file.Done {
				progress.Done += rows[sha]
				continue
			}
			job, err := im.store.ImportState(ctx, file.Job)
			switch {
			case err != nil:
				return "", err
			case job.Failed != "":
				return "job " + file.Job + " of " + sha[:12] + " failed: " + job.Failed, nil
			case job.Done || job.Unknown: // the count tells what a forgotten job did
				file.Done, job.Rows = true, rows[sha]
			default:
				running++
			}
			progress.Done += job.Rows
		}
		stage.Tell(im.OnProgress, progress)
		if running == 0 {
			return "", im.save(ctx)
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

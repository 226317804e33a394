package load

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
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
	Files      []core.Segment
	State      string // key of the record of what was asked for
	Prefix     string // of the copies in the bucket
	Log        *slog.Logger
	InFlight   int                         // jobs that the store has at once; 0: 8
	Guard      func(context.Context) error // fails when the collection is another run's by now; nil never fails
	OnProgress func(core.Progress)         // receives rows imported, at every look at the jobs; nil is allowed
}

// imports is what was asked for. Releases before read it, and wrote it without what may be left out.
type imports struct {
	Round    int                    `json:"round"`
	Done     bool                   `json:"done"`
	Emptying bool                   `json:"emptying,omitempty"` // the collection may hold what is of no round
	Files    map[string]*importFile `json:"files"`              // by sha256
}

// importFile is a file on its way. Asked is written before the call and Job after it: of one that has the first alone,
// settle finds out whether it was taken.
type importFile struct {
	Asked   bool     `json:"asked"`
	Job     string   `json:"job,omitempty"`
	Done    bool     `json:"done,omitempty"`
	Try     int      `json:"try,omitempty"`     // copies before this one, which are deleted
	Failed  []string `json:"failed,omitempty"`  // jobs of it that failed
	Refused int      `json:"refused,omitempty"` // calls for it, while no job was in flight
	Left    bool     `json:"left,omitempty"`    // to verify, which writes its rows
}

const (
	// rounds after which the collection is left empty: verify then writes every row, which needs no import.
	rounds = 3
	// failures after which a file is left to verify.
	failures = 3
	// refusals of calls for a file after which it is left to verify. The store answers and has no job of ours in flight,
	// so that it is the file, or imports as such, that it does not take; the caller waits longer after each.
	refusals = 20
	// usualInFlight jobs keep the nodes of a store busy; a store takes hundreds at most, and refuses more.
	usualInFlight = 8
)

// Import fills a collection that no generation names from its vectors segments, a job for each: of Parquet files Milvus
// takes one in a job. It may be repeated at any point. A call that was refused or whose answer was lost, and a job that
// failed, are repeated for their file alone; one that fails again and again is left to verify. The collection is
// emptied, to begin again, only where its rows do not add up or it is unknown whether a file was taken. No file is
// ever imported twice into one state of the collection, and at the end the collection holds each row once, or not.
func Import(ctx context.Context, in ImportIn) error {
	im := importing{ImportIn: in}
	if im.InFlight <= 0 {
		im.InFlight = usualInFlight
	}
	var ok bool
	if im.store, ok = vectors.As[vectors.Importer](in.Vectors); !ok {
		return fault.Internal.At("import into", in.Collection).Because("this vector store does not import")
	}
	info, err := blob.ReadJSON(ctx, in.Artifacts.Store, in.State, &im.state)
	im.etag = info.ETag
	if fault.Is(err, fault.NotFound) { // what an abandoned build left goes first
		im.state.Round = -1
		err = im.beginRound(ctx, "")
	} else if err == nil && im.state.Emptying {
		err = im.emptyCollection(ctx)
	}
	for err == nil && !im.state.Done {
		err = im.runRound(ctx)
	}
	return err
}

type importing struct {
	ImportIn
	store vectors.Importer
	state imports
	etag  string // of the state as it was read or written; empty: there is none
	last  string // the file for which a call was refused last, by sha256
}

// saveState writes the state over the one that this attempt knows. An attempt that was frozen while another went on
// finds out here, before it asks for a file that the other has asked for.
func (im *importing) saveState(ctx context.Context) error {
	err := im.writeState(ctx)
	if fault.Is(err, fault.Precondition) {
		return im.overtakenFault()
	}
	return err
}

func (im *importing) writeState(ctx context.Context) error {
	info, err := blob.WriteJSON(ctx, im.Artifacts.Store, im.State, im.state,
		blob.Cond{Absent: im.etag == "", Match: im.etag})
	if err == nil {
		im.etag = info.ETag
	}
	return err
}

func (im *importing) overtakenFault() error {
	return fault.StoreDown.At("import into", im.Collection).
		Because("another attempt of this import is ahead").
		Advise("nothing: the retry continues where that attempt stopped")
}

// checkGuard asks the caller's guard before the collection is emptied or filled.
func (im *importing) checkGuard(ctx context.Context) error {
	if im.Guard == nil {
		return nil
	}
	return im.Guard(ctx)
}

// beginRound begins a new round, for which the collection is emptied.
func (im *importing) beginRound(ctx context.Context, why string) error {
	if why != "" {
		im.Log.Warn("import begins again", "collection", im.Collection, "why", why)
	}
	im.state = imports{Round: im.state.Round + 1, Emptying: true, Files: map[string]*importFile{}}
	if err := im.saveState(ctx); err != nil {
		return err
	}
	return im.emptyCollection(ctx)
}

// emptying is the time in which a collection is emptied after the guard was asked: a process that was frozen in between
// finds its permission gone.
const emptying = 30 * time.Second

// emptyCollection empties the collection. An attempt that does so although another has gone on meanwhile takes away
// what that one imported, and says so in the state.
func (im *importing) emptyCollection(ctx context.Context) error {
	allowed, cancel := context.WithTimeout(ctx, emptying)
	defer cancel()
	err := im.checkGuard(allowed)
	if err == nil {
		err = im.Vectors.Drop(allowed, im.Collection)
	}
	if err == nil {
		err = im.Vectors.Create(allowed, im.Collection, im.Dimension)
	}
	if err != nil {
		return err
	}
	im.state.Emptying = false
	im.state.Done = im.state.Round >= rounds
	if err := im.writeState(ctx); !fault.Is(err, fault.Precondition) {
		return err
	}
	for {
		info, err := blob.ReadJSON(ctx, im.Artifacts.Store, im.State, &im.state)
		if err != nil {
			return err
		}
		im.etag = info.ETag
		im.state = imports{Round: im.state.Round + 1, Emptying: true, Files: map[string]*importFile{}}
		if err := im.writeState(ctx); !fault.Is(err, fault.Precondition) {
			return errors.Join(im.overtakenFault(), err)
		}
	}
}

// fileOf returns the state of a segment's file.
func (im *importing) fileOf(seg core.Segment) *importFile {
	file := im.state.Files[seg.SHA256]
	if file == nil {
		file = &importFile{}
		im.state.Files[seg.SHA256] = file
	}
	return file
}

// pathOf returns the path of a file's copy. Each copy has another name, so that a job of an earlier one finds nothing.
func (im *importing) pathOf(seg core.Segment) string {
	try := ""
	if file := im.fileOf(seg); file.Try > 0 {
		try = fmt.Sprintf("-%d", file.Try)
	}
	return fmt.Sprintf("%s-%d/%s%s.parquet", im.Prefix, im.state.Round, seg.SHA256, try)
}

// runRound brings every file to its end, and looks at the result.
func (im *importing) runRound(ctx context.Context) error {
	why, err := im.fillJobs(ctx)
	if err == nil && why == "" {
		why, err = im.checkRows(ctx)
	}
	if err != nil {
		return err
	}
	var copies []string // the store keeps other copies, or begins again from ours
	for _, seg := range im.Files {
		copies = append(copies, im.pathOf(seg))
	}
	if err := artifact.DeleteAll(ctx, im.Staging, copies); err != nil {
		return err
	}
	if why != "" {
		return im.beginRound(ctx, why)
	}
	im.state.Done = true
	return im.saveState(ctx)
}

// checkRows counts the rows: of each file all, or none where it is left to verify.
func (im *importing) checkRows(ctx context.Context) (why string, err error) {
	var want int64
	for _, seg := range im.Files {
		if !im.fileOf(seg).Left {
			want += seg.Rows
		}
	}
	have, err := im.Vectors.Count(ctx, im.Collection)
	if err == nil && have != want {
		why = fmt.Sprintf("%d rows, want %d", have, want)
	}
	return why, err
}

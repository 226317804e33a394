// Package plan lists a corpus and decides what has to be built. Steps:
//
//  1. List the corpus. Each row of a .jsonl or .csv object becomes a document. Types that cannot be read are refused by
//     name. Everything goes through an external sort by document key. An object that changes while it is read is read
//     again.
//  2. Join with the parent's documents. A file with the ETag and size that the parent recorded keeps its version and is
//     not read; others are read and hashed. A duplicate row id is an error that names both lines. A document of the
//     parent whose object or row cannot be read is planned with its problem, so that its former content is kept.
//  3. Match removed documents with new ones by content: a renamed document is moved, not removed.
//  4. Write plan.rows, cut into units of work, the problems, and the counts.
package plan

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/extsort"
)

// In is what the stage works on. OnProgress receives how many documents were seen.
type In struct {
	Spec      core.Spec
	Corpus    blob.Store
	Artifacts artifact.Index
	Scratch   string // key prefix of the run
	Limits    document.Limits
	Parser    document.Parser // lists attachments, where the index reads them
	Parent    *core.Manifest
	Dead      *segments.Files // of the parent: which of its documents do not count; nil: no parent
	Foreign   bool            // the parent is of another corpus: of its documents nothing is kept
	// Part has planned only what is made: what the parent has of all other documents stays where it is. Without it every
	// document is planned.
	Part bool
	// Retry, where it is set, reports a document of the parent that it is made again although it is the same.
	Retry func(key string) bool
	// Renamed, where it is set, reports the same of a document that has a name whose aliases changed.
	Renamed func(key string) bool
	// Untranscribed, where it is not 0, has documents made again whose Untranscribed is as high.
	Untranscribed int
	// Only leaves every document as the parent has it that Retry does not tell of, whatever the corpus has now; it needs
	// Part.
	Only bool
	// Chosen, where it is set, leaves every document as the parent has it that it does not tell of, whatever the corpus
	// has now, and removes none. It is asked by the document's key and the time of its object.
	Chosen func(key string, modified time.Time) bool
	// Hinted, where it is not nil, are the objects that are looked at, by name and not by a listing; it needs Part. Every
	// other document is left as the parent has it, whatever the corpus has now.
	Hinted []string
	// Leave reports documents that the parent does not have that they are left out, as a backfill brings them; may be
	// nil.
	Leave func(key string, modified time.Time) bool
	// Purged, where it is set, reports a document that it is left out whatever the corpus has: what the parent has of it
	// goes, and no gate counts it as removed.
	Purged     func(key string) bool
	Reasons    []string // why everything is made again although it did not change; see Made.Since and SpecChanges
	OnProgress func(documents int64)
	OnBytes    func() // called while a large object is read, from several goroutines; may be nil
	// OnDecision receives every document, one after another, in the order of keys, and then of those that left; may be
	// nil.
	OnDecision func(Decision)
}

// Unit is a range of frames of plan.rows that one chunk activity works on. Documents counts its rows.
type Unit struct {
	From, To  int
	Documents int64
	Bytes     int64
	Text      int64 `json:",omitempty"` // bytes that are expected of them, decoded
}

// Result is plan.json. Listed = Documents + Unreadable + Empty + Lost. Objects that are refused never become documents
// and are in none of these.
type Result struct {
	Listed     int64 `json:"listed"`     // rows of plan.rows: documents of the listing, and those that are lost
	Documents  int64 `json:"documents"`  // of these, the readable ones: Diff.Added + Changed + Same + Moved
	Within     int64 `json:"within"`     // of these, rows and attachments of files: a file may be many documents
	Unreadable int64 `json:"unreadable"` // of these, those that cannot be read, or could not and are the same
	Empty      int64 `json:"empty"`      // of these, those that held no text in the parent and are the same
	Bytes      int64 `json:"bytes"`      // of the readable ones
	Refused    int64 `json:"refused"`    // objects and rows that cannot become documents: an unknown type, a broken file
	Lost       int64 `json:"lost"`       // documents of the parent whose object, or row in it, is refused now: not removed

	LeftOut core.LeftOut `json:"left_out,omitzero"` // objects that were not looked at, as the index says

	Diff         core.Diff `json:"diff"`          // of readable documents; Unusable = Unreadable + Lost + Empty
	Moved        int64     `json:"moved"`         // documents under a new key with content that left under another
	ParentListed int64     `json:"parent_listed"` // documents of the parent that have content
	RemovedShare float64   `json:"removed_share"` // Diff.Removed of ParentListed; what moved or was lost is not removed

	Reasons      []string       `json:"reasons,omitempty"`   // In.Reasons, where there is a parent
	Unchanged    bool           `json:"unchanged"`           // nothing has to be built
	Purged       int64          `json:"purged,omitempty"`    // documents of the parent that go because they were purged
	Retried      int64          `json:"retried,omitempty"`   // of the changed: what they failed with may have gone
	Again        bool           `json:"again,omitempty"`     // nothing else has to be built
	Untagged     stage.Lacking  `json:"untagged,omitzero"`   // of what stays; in no count of problems
	Unlabelled   stage.Lacking  `json:"unlabelled,omitzero"` // the same
	ProblemCount int64          `json:"problem_count"`
	Problems     []core.Problem `json:"problems,omitempty"` // the first MaxProblems; all of them are at ProblemsKey
	Units        []Unit         `json:"units"`
	Made         int64          `json:"made"`           // rows of plan.rows
	Kept         Kept           `json:"kept,omitzero"`  // In.Part: what stays as the parent has it
	Gone         string         `json:"gone,omitempty"` // In.Part: name of the file at GoneKey

	Rows         string `json:"rows,omitempty"`          // name of the file at RowsKey; see artifact.ScratchKey
	ProblemsFile string `json:"problems_file,omitempty"` // of the one at ProblemsKey
}

// MaxProblems is how many problems a report lists.
const MaxProblems = 100

// Kept counts documents that stay as the parent has them: Listed = Made + all of them but the lapsed, which are among
// the stale.
type Kept struct {
	Documents int64 `json:"documents"` // those that can be used
	Empty     int64 `json:"empty"`
	Failed    int64 `json:"failed"` // the stale among them
	Stale     int64 `json:"stale"`
	Lapsed    int64 `json:"lapsed"` // stale ones that have content
	Chunks    int64 `json:"chunks"` // of these

	Untranscribed int64 `json:"untranscribed,omitempty"` // see core.Counts
}

// GoneKey returns the scratch file of the keys of the parent's documents that do not count any more: removed, or made
// again.
func GoneKey(scratch string) string { return scratch + "/gone.rows" }

// RowsKey returns the scratch file of the documents that are built.
func RowsKey(scratch string) string { return scratch + "/plan.rows" }

// Run does the stage. It may be repeated.
func Run(ctx context.Context, in In) (Result, error) {
	if err := checkPatterns(in.Spec); err != nil {
		return Result{}, err
	}
	problems, err := newProblems()
	if err != nil {
		return Result{}, err
	}
	p := &planner{
		In: in, problems: problems, broken: map[string]fault.Code{}, taken: map[string]byte{}, withRows: map[string]bool{},
	}
	defer p.close()
	if err := p.listCorpus(ctx); err != nil {
		return p.makeResult(), err
	}
	if err := p.checkCorpus(ctx); err != nil {
		return p.makeResult(), err
	}
	if err := p.joinParent(ctx); err != nil {
		return p.makeResult(), err
	}
	if err := p.refuseAlone(); err != nil {
		return p.makeResult(), err
	}
	p.res.LeftOut.Backfills, p.res.LeftOut.Purged = p.spared, p.barred
	if p.res.Listed == 0 {
		return p.makeResult(), p.emptyFault()
	}
	if err := p.settleDiff(); err != nil {
		return p.makeResult(), err
	}
	if err := p.writeGone(ctx); err != nil {
		return p.makeResult(), err
	}
	p.res.ProblemsFile, err = p.problems.storeFile(ctx, in.Artifacts, ProblemsKey(in.Scratch))
	return p.makeResult(), err
}

// emptyFault returns the error of a corpus without a document.
func (p *planner) emptyFault() error {
	return fault.CorpusEmpty.At("list corpus", p.Spec.Corpus).
		Because(fmt.Sprintf("it holds no document (%d objects cannot be read, %d are of other types)", p.res.Refused,
			p.res.LeftOut.OtherTypes)).
		Advise("add documents of these types: " + document.Extensions)
}

type planner struct {
	In
	reading chan struct{}   // admits who reads the rows of an object
	hinted  map[string]bool // objects that are looked at; nil: all

	mu        sync.Mutex            // of documents, found, broken, taken, listed, bytes and res, while ranges are listed
	documents extsort.Sorter        // by key
	found     found                 // problems of the listing
	sidecars  extsort.Sorter        // ETags of files of metadata, by the key of the document that they are beside
	alone     extsort.Sorter        // keys of such files without a document
	gone      extsort.Sorter        // documents of the parent that are not listed
	ended     extsort.Sorter        // In.Part: keys of the parent's documents that do not count any more
	contents  extsort.Sorter        // what left and what came, by version
	broken    map[string]fault.Code // objects of which something could not be read, and why; empty ones of rows too
	taken     map[string]byte       // objects with rows that had to be read again: the reading that counts
	withRows  map[string]bool       // objects with rows that are listed
	listed    int64
	bytes     int64 // of what is listed; what was read again counts twice
	spared    int64 // documents that Leave left out
	dirty     bool  // something differs from the parent that no count shows
	barred    int64 // documents of the listing that were purged
	problems  *problems
	former    former
	tags      askedTags
	res       Result
}

func (p *planner) close() {
	p.found.close()
	p.documents.Close()
	p.sidecars.Close()
	p.alone.Close()
	p.gone.Close()
	p.ended.Close()
	p.contents.Close()
	p.problems.discardFile()
}

func (p *planner) makeResult() Result {
	p.res.ProblemCount = p.problems.count
	p.res.Problems = OrderProblems(slices.Concat(p.problems.ranks[0], p.problems.ranks[1]))
	return p.res
}

// settleDiff takes what moved out of what came and left, and draws the conclusions.
func (p *planner) settleDiff() error {
	moved, err := countMoved(&p.contents)
	if err != nil {
		return err
	}
	diff := &p.res.Diff
	diff.Added -= moved
	diff.Removed -= moved
	diff.Unusable = p.res.Unreadable + p.res.Lost + p.res.Empty
	p.res.Moved, diff.Moved = moved, moved
	if p.res.ParentListed > 0 {
		p.res.RemovedShare = float64(diff.Removed) / float64(p.res.ParentListed)
	}
	if p.Parent == nil {
		return nil
	}
	p.res.Reasons = p.Reasons
	p.res.Unchanged = !p.dirty && len(p.Reasons) == 0 && moved == 0 && diff.Added == 0 &&
		diff.Changed == 0 && diff.Removed == 0
	diff.Unchanged = p.res.Unchanged
	p.res.Again = !p.dirty && len(p.Reasons) == 0 && moved == 0 && diff.Added == 0 &&
		diff.Changed == p.res.Retried && diff.Removed == 0 && p.res.Retried > 0
	return nil
}

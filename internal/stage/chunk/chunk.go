// Package chunk turns documents into chunks. From a unit of the plan it writes one text segment (the decoded documents
// in pieces), one documents segment and one scratch file of chunks. It streams documents: memory holds one chunk, the
// places of one document's chunks, and up to 8 MiB of the text of a document that is not read to its end yet.
//
// A document that cannot be read now keeps the text that the parent generation has of it. The text is cut into the same
// chunks again, and the document is marked as stale.
//
// The key of a text piece is the key of its document; its value is the start of the piece (in code points) and its
// text. Pieces of a document are consecutive, so the text of a chunk is a slice of the pieces from its frame on.
package chunk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// In is what one unit works on. OnProgress receives documents done, and right before it OnBytes of the bytes of them
// and of the one that is being read; a nil OnBytes is not called.
type In struct {
	Spec      core.Spec
	Corpus    blob.Store
	Artifacts artifact.Index
	Scratch   string
	Tries     int // of this unit, this one included
	Parser    document.Parser
	Limits    document.Limits
	Parent    *core.Manifest  // nil: there is none, or nothing of it is kept
	Dead      *segments.Files // of the parent: which of its documents do not count; nil: no parent
	Unit      int
	Plan      string             // key of the planned rows; empty: plan.rows
	From, To  int                // frames of them
	Vision    *Vision            // nil: no page is transcribed
	Converter document.Converter // parses the types of documents.parser; nil: none is
	Ledger    *ledger.Ledger     // of what both are paid for
	Unasked   bool               // an estimate: neither is asked
	// Away does what waits for one of both, so that the unit takes no core from others meanwhile; nil: it is just done.
	Away func(ctx context.Context, do func() error) error
	// TakePlace takes a core to render a page meanwhile; nil: none is taken.
	TakePlace  func(ctx context.Context) (release func(), err error)
	OnProgress func(documents int64)
	OnBytes    func(bytes int64)
}

// Result is chunk-<unit>.json. Listed = Counts.Documents + Failed + Empty.
type Result struct {
	Text      core.Segment `json:"text"`
	Documents core.Segment `json:"documents"`
	Counts    core.Counts  `json:"counts"` // Documents: those that gave chunks
	Hashes    core.Hashes  `json:"hashes"`
	Listed    int64        `json:"listed"`            // documents of the unit
	Failed    int64        `json:"failed"`            // could not be read, or not to their end; those of plan included
	Empty     int64        `json:"empty"`             // documents without text, which had none before
	Unadded   int64        `json:"unadded,omitempty"` // of both, those that plan counts as added
	Lapsed    Lapsed       `json:"lapsed"`
	Fresh     int64        `json:"fresh"` // segments that were new

	Transcripts Transcripts              `json:"transcripts,omitzero"`
	Untagged    stage.Lacking            `json:"untagged,omitzero"`
	Unlabelled  stage.Lacking            `json:"unlabelled,omitzero"` // of those with chunks
	Labels      map[core.LabelSet]string `json:"labels,omitempty"`    // a document of each set but core.Everybody

	// Problems are those that this stage found: plan reports its own. They are the first MaxProblems; all are at
	// ProblemsKey.
	Problems     []core.Problem `json:"problems,omitempty"`
	ProblemCount int64          `json:"problem_count"`

	Chunks       string `json:"chunks,omitempty"`        // name of the file at join.ChunksKey; see artifact.ScratchKey
	ProblemsFile string `json:"problems_file,omitempty"` // of the one at ProblemsKey
}

// Lapsed counts, in the parent's units, what cannot be used any more: documents that had content there, and the chunks
// that they had. Their content is kept, stale, where it can be read.
type Lapsed struct {
	Documents int64 `json:"documents"`
	Chunks    int64 `json:"chunks"`
}

// MaxProblems is how many problems of one unit its result lists; a report lists the first hundred of all.
const MaxProblems = 100

// ProblemsKey returns the scratch file of all problems that a unit found, one JSON object a line as in plan's. It is
// there only where ProblemCount is not 0.
func ProblemsKey(scratch string, unit int) string {
	return fmt.Sprintf("%s/chunk-%05d-problems.jsonl", scratch, unit)
}

type builder struct {
	In
	source             blob.Store // the corpus, with what was read ahead
	text, docs, chunks *artifact.Rows
	problems           *artifact.File
	former             *former
	suspects           *suspects
	res                Result
	bytes              int64        // of the documents that are done
	within             atomic.Int64 // of the one that is being read
	tagged             tagged       // of the one that is being read
	held               heldTags
	labelBytes         int     // of the sets of res.Labels
	parentField        *string // the field of labels of the parent's spec; nil: it was not read
	beside             sidecar // that was read last

	refused       atomic.Pointer[string] // why the model takes no pictures
	judging       sync.Mutex             // of a refusal
	takesPictures bool                   // the model took a blank sheet: what it refuses is a page
	down          error                  // why the server is not asked to parse any more
	misses        int                    // files in a row that it failed on for no reason of theirs
}

// reportProgress says how far the unit is.
func (b *builder) reportProgress() {
	if b.OnBytes != nil {
		b.OnBytes(b.bytes + b.within.Load())
	}
	b.OnProgress(b.res.Listed)
}

// reading counts what is read of a document, of which the plan says how large it is.
type reading struct {
	io.Reader
	within *atomic.Int64
	size   int64
}

func (r reading) Read(to []byte) (int, error) {
	n, err := r.Reader.Read(to)
	r.within.Store(min(r.size, r.within.Load()+int64(n)))
	return n, err
}

// Run does one unit.
func Run(ctx context.Context, in In) (Result, error) {
	b := &builder{In: in, former: newFormer(in), res: Result{Labels: map[core.LabelSet]string{}}}
	for _, w := range []**artifact.Rows{&b.text, &b.docs, &b.chunks} {
		var err error
		if *w, err = artifact.NewRows(); err != nil {
			return b.res, err
		}
		defer (*w).Discard()
	}
	var err error
	if b.problems, err = artifact.NewFile(); err != nil {
		return b.res, err
	}
	defer b.problems.Discard()
	if b.suspects, err = openSuspects(ctx, in); err != nil {
		return b.res, err
	}
	defer b.suspects.close(ctx)
	if in.Plan == "" {
		in.Plan = in.Scratch + "/plan.rows"
	}
	plan, err := artifact.OpenRows(ctx, in.Artifacts.Store, in.Plan)
	if err != nil {
		return b.res, err
	}
	if err := b.chunkUnit(ctx, plan.Scan(ctx, in.From, in.To)); err != nil {
		return b.res, err
	}
	return b.finishUnit(ctx)
}

// chunkUnit does the documents of the unit, in the order of the plan.
func (b *builder) chunkUnit(ctx context.Context, plan iter.Seq2[artifact.Row, error]) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	room := semaphore.NewWeighted(aheadRoom)
	source := &aheadStore{Store: b.Corpus}
	b.source = source
	for next, err := range parallel.MapOrdered(ctx, aheadReaders, streamUpcoming(ctx, plan, room), b.readAhead) {
		if err == nil {
			source.expectObject(next)
			b.tagged = next.tagged
			err = b.chunkUpcoming(ctx, next, stop)
		}
		if err != nil {
			stop()
			return err
		}
		room.Release(next.room)
	}
	return nil
}

// chunkUpcoming does one document; whatever else comes of it than success, a panic also, stops what is read ahead.
func (b *builder) chunkUpcoming(ctx context.Context, next upcoming, stop func()) error {
	done := false
	defer func() {
		if !done {
			stop()
		}
	}()
	if err := b.chunkWatched(ctx, next.key, next.plan); err != nil {
		return err
	}
	b.res.Listed++
	b.bytes += next.plan.Size
	b.within.Store(0)
	b.reportProgress()
	done = true
	return nil
}

func (b *builder) finishUnit(ctx context.Context) (Result, error) {
	var err error
	var fresh [2]bool
	if b.res.Text, fresh[0], err = b.text.StoreSegment(ctx, b.Artifacts, b.Unit); err != nil {
		return b.res, err
	}
	if b.res.Documents, fresh[1], err = b.docs.StoreSegment(ctx, b.Artifacts, b.Unit); err != nil {
		return b.res, err
	}
	for _, f := range fresh {
		if f {
			b.res.Fresh++
		}
	}
	if b.res.ProblemCount > 0 {
		b.res.ProblemsFile, err = b.problems.PutScratch(ctx, b.Artifacts, ProblemsKey(b.Scratch, b.Unit))
		if err != nil {
			return b.res, err
		}
	}
	b.res.Chunks, err = b.chunks.PutScratch(ctx, b.Artifacts, join.ChunksKey(b.Scratch, b.Unit))
	return b.res, err
}

// chunkDocument chunks one document. What is wrong with the document is recorded; what is wrong with a store is
// returned.
func (b *builder) chunkDocument(ctx context.Context, key string, plan rows.Plan) error {
	if plan.Problem != "" { // plan found it, and reported it
		return b.addUnusable(ctx, key, &draft{plan: plan}, nil)
	}
	d := &draft{plan: plan}
	defer d.cuts.Close()
	err := b.readDocument(ctx, key, d)
	if err == nil && d.chunks == 0 {
		err = fault.EmptyDocument.At("read", key).Because("it contains no text")
	}
	if err == nil {
		b.res.Counts.Documents++
		b.noteLabels(key, d)
		if err := b.reportMissing(key, d.row.Missing); err != nil {
			return err
		}
		return b.writeDocument(ctx, key, d)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if code := fault.CodeOf(err); fault.KindOf(err) != fault.Content && code != fault.StoreDenied &&
		code != fault.NotFound {
		return err
	}
	return b.addUnusable(ctx, key, d, err)
}

// addUnusable enters a document that has a problem: plan's, or cause. It keeps what the parent has of it, all of it; of
// a new one that breaks off nothing is taken, as half a document would pass for a whole one.
func (b *builder) addUnusable(ctx context.Context, key string, found *draft, cause error) error {
	plan, asked := found.plan, found.row
	code := fault.Code(plan.Problem)
	if cause != nil {
		code = fault.CodeOf(cause)
	}
	d, lost, err := b.keepFormer(ctx, key, plan, code)
	if err != nil {
		return err
	}
	switch {
	case d != nil:
		defer d.cuts.Close()
		b.res.Counts.Stale++
		d.row.Transcribed = append(slices.Clone(d.row.Transcribed), asked.Transcribed...)
		d.row.Untranscribed = asked.Untranscribed
		if err := b.relabelFormer(ctx, key, d); err != nil {
			return err
		}
		if cause != nil {
			cause = fmt.Errorf("%w; what was there before is kept, and is stale", cause)
		}
	case lost != nil:
		cause = errors.Join(cause, fmt.Errorf("what was there before is lost: %w", lost))
	}
	if cause != nil && d == nil && lost == nil {
		_, _, known, err := b.former.findDocument(ctx, key)
		if err != nil {
			return err
		}
		if !known {
			b.res.Unadded++
		}
	}
	if code == fault.EmptyDocument && d == nil && lost == nil {
		b.res.Empty++
	} else {
		b.res.Failed++
	}
	if cause != nil {
		if err := b.addFault(core.Problem{Code: string(code), Object: key, Detail: redact.Text(cause.Error())}); err != nil {
			return err
		}
	}
	if d == nil {
		d = &draft{plan: plan, row: rows.Document{
			Problem: string(code), Transcribed: asked.Transcribed, Untranscribed: asked.Untranscribed,
		}}
	}
	return b.writeDocument(ctx, key, d)
}

// reportMissing records that some of a document could not be read, where that is so.
func (b *builder) reportMissing(key, missing string) error {
	if missing == "" {
		return nil
	}
	return b.addFault(core.Problem{Code: string(fault.PartsMissing), Object: key, Detail: redact.Text(missing)})
}

func (b *builder) addFault(problem core.Problem) error {
	b.res.ProblemCount++
	if len(b.res.Problems) < MaxProblems {
		b.res.Problems = append(b.res.Problems, problem)
	}
	raw, err := json.Marshal(struct {
		core.Problem
		Standing bool `json:"standing"`
	}{Problem: problem})
	if err != nil {
		return fault.Internal.At("encode problem", problem.Object).Because(err)
	}
	_, err = b.problems.Write(append(raw, '\n'))
	return err
}

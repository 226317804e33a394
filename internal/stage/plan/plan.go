// Package plan lists a corpus and decides what has to be built. Steps:
//
//  1. List the corpus; rows of .jsonl and .csv objects are read and become documents of their own; types that are not read
//     are refused by name. Everything goes through an external sort by document key.
//  2. Merge-join with the parent's documents. A file whose ETag, size and time equal the parent's keeps its version
//     unread; others are read and hashed. A duplicate row id is an error that names both lines.
//  3. Write plan.rows, cut into units of work, and the diff.
package plan

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/par"
	"github.com/unweaver/unweaver/internal/stream/spill"
)

// In is what the stage works on. OnProgress is told how many documents were seen.
type In struct {
	Spec       corpus.Spec
	Corpus     blob.Store
	Artifacts  artifact.Index
	Scratch    string // key prefix of the run
	Parent     *corpus.Manifest
	OnProgress func(documents int64)
}

// Unit is a range of frames of plan.rows that one chunk activity works on.
type Unit struct {
	From, To  int
	Documents int64
	Bytes     int64
}

// Result is plan.json.
type Result struct {
	Documents int64            `json:"documents"`
	Bytes     int64            `json:"bytes"`
	Diff      corpus.Diff      `json:"diff"`
	Refused   int64            `json:"refused"`
	Problems  []corpus.Problem `json:"problems,omitempty"`
	Units     []Unit           `json:"units"`
}

// A unit is about this much work: small enough to be repeated after a crash, large enough to be few.
const (
	unitBytes     = 16 << 20
	unitDocuments = 5000
)

// MaxProblems is how many problems a report lists.
const MaxProblems = 100

// Run does the stage.
func Run(ctx context.Context, in In) (Result, error) {
	p := &planner{In: in}
	defer p.sort.Close()
	if err := p.list(ctx); err != nil {
		return p.res, err
	}
	if p.listed == 0 {
		hint := "put documents of these types there: " + document.Extensions
		return p.res, fault.CorpusEmpty.At("list corpus", in.Spec.Corpus).
			Because(fmt.Sprintf("it holds no document (%d objects were refused)", p.res.Refused)).
			Advise(hint)
	}
	err := p.join(ctx)
	return p.res, err
}

type planner struct {
	In
	sort   spill.Sorter
	listed int64
	res    Result
}

func (p *planner) problem(code fault.Code, object, detail string) {
	if len(p.res.Problems) < MaxProblems {
		p.res.Problems = append(p.res.Problems, corpus.Problem{Code: string(code), Object: object, Detail: detail})
	}
}

func (p *planner) list(ctx context.Context) error {
	for in, err := range p.Corpus.List(ctx, "", "") {
		if err != nil {
			if in.Key == "" {
				return err
			}
			p.problem(fault.CodeOf(err), in.Key, err.Error())
			p.res.Refused++
			continue
		}
		kind, gz, hidden, ok := document.KindOf(in.Key)
		if hidden {
			continue
		}
		if !ok {
			p.res.Refused++
			p.problem(fault.UnknownType, in.Key, "this type is not read; known: "+document.Extensions)
			continue
		}
		row := rows.Plan{
			Object:   in.Key,
			Kind:     string(kind),
			Gzip:     gz,
			ETag:     in.ETag,
			Size:     in.Size,
			Modified: in.Modified,
		}
		if !kind.HasRows() {
			p.add(corpus.ObjectKey(in.Key), row)
			continue
		}
		if err := p.rows(ctx, row, kind); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) add(key string, row rows.Plan) {
	p.sort.Add([]byte(key), row.Encode())
	p.listed++
	if p.listed%256 == 0 {
		p.OnProgress(p.listed)
	}
}

// rows adds the rows of one object. An object that breaks in the middle keeps its rows up to there and is a problem.
func (p *planner) rows(ctx context.Context, row rows.Plan, kind document.Kind) error {
	body, _, err := p.Corpus.Get(ctx, row.Object, blob.Range{Length: -1, Match: row.ETag})
	if err != nil {
		return p.unusable(row.Object, err)
	}
	defer func() { _ = body.Close() }()
	plain, err := document.Gunzip(body, row.Gzip, row.Object)
	if err != nil {
		return p.unusable(row.Object, err)
	}
	text, err := document.Decode(plain, row.Object)
	if err != nil {
		return p.unusable(row.Object, err)
	}
	err = document.Rows(text, kind, row.Object, func(x document.Row) error {
		if x.Err != nil {
			p.res.Refused++
			p.problem(fault.CodeOf(x.Err), fmt.Sprintf("%s line %d", row.Object, x.Line), x.Err.Error())
			return ctx.Err()
		}
		one := row
		one.Line, one.Record, one.Version, one.Size = x.Line, x.Canonical, sha256.Sum256(
			x.Canonical,
		), int64(
			len(x.Canonical),
		)
		p.add(corpus.RowKey(row.Object, x.ID), one)
		return ctx.Err()
	})
	if err != nil && ctx.Err() == nil {
		return p.unusable(row.Object, err)
	}
	return err
}

// unusable records an object that cannot be used; store failures stop the stage.
func (p *planner) unusable(object string, err error) error {
	if k := fault.KindOf(err); k != fault.Content && !fault.Is(err, fault.StoreDenied) {
		return err
	}
	p.res.Refused++
	p.problem(fault.CodeOf(err), object, err.Error())
	return nil
}

type planned struct {
	key  string
	row  rows.Plan
	same bool
	add  bool
	bad  error
}

// join walks the sorted listing beside the parent's documents.
func (p *planner) join(ctx context.Context) error {
	w, err := artifact.NewRows()
	if err != nil {
		return err
	}
	defer w.Discard()
	var unit Unit
	cut := func() {
		if unit.Documents > 0 {
			w.Cut()
			p.res.Units = append(p.res.Units, unit)
		}
	}
	parent := newCursor(ctx, p.Artifacts, p.Parent)
	defer parent.stop()
	for d, err := range par.Ordered(ctx, 8, p.joined(parent), p.version) {
		if err != nil {
			return err
		}
		p.count(d)
		if unit.Documents >= unitDocuments || unit.Bytes >= unitBytes {
			cut()
			unit = Unit{From: unit.To}
		}
		unit.To = w.Append(d.key, d.row.Encode()) + 1
		unit.Documents++
		unit.Bytes += d.row.Size
		p.res.Documents++
		p.res.Bytes += d.row.Size
		if p.res.Documents%256 == 0 {
			p.OnProgress(p.res.Documents)
		}
	}
	cut()
	parent.drain()
	if parent.err != nil {
		return parent.err
	}
	p.res.Diff.Removed = parent.removed
	p.res.Diff.Unchanged = p.Parent != nil && p.res.Diff == corpus.Diff{Same: p.res.Documents}
	return w.Scratch(ctx, p.Artifacts.Store, p.Scratch+"/plan.rows")
}

func (p *planner) count(d planned) {
	switch {
	case d.bad != nil:
		p.res.Diff.Unusable++
		p.problem(fault.CodeOf(d.bad), d.key, d.bad.Error())
	case d.same:
		p.res.Diff.Same++
	case d.add:
		p.res.Diff.Added++
	default:
		p.res.Diff.Changed++
	}
}

// joined gives each listed document with what the parent knows of it.
func (p *planner) joined(parent *cursor) iter.Seq2[planned, error] {
	return func(yield func(planned, error) bool) {
		last, lastRow := "", rows.Plan{}
		for kv, err := range p.sort.Sorted() {
			if err != nil {
				yield(planned{}, err)
				return
			}
			d := planned{key: string(kv[0])}
			if d.row, err = rows.DecodePlan(kv[1]); err != nil {
				yield(d, err)
				return
			}
			if d.key == last {
				yield(d, fault.DuplicateRow.At("read", d.row.Object).Because(
					fmt.Sprintf("lines %d and %d have the same id", lastRow.Line, d.row.Line)).Advise(
					"give every row an id of its own"))
				return
			}
			last, lastRow = d.key, d.row
			old, found := parent.seek(d.key)
			d.add = !found
			if found && d.row.Line == 0 && old.ETag == d.row.ETag && old.Size == d.row.Size && old.ETag != "" {
				d.row.Version = old.Version
			}
			d.same = found && d.row.Line > 0 && old.Version == d.row.Version
			if found && d.row.Line == 0 {
				d.same = d.row.Version == old.Version
				if !d.same {
					d.row.Record = old.Version[:] // compared once the file is hashed
				}
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

// version reads and hashes a file whose version is not known.
func (p *planner) version(ctx context.Context, d planned) (planned, error) {
	if d.row.Line > 0 || !d.row.Version.IsZero() {
		d.row.Record = keepRecord(d.row)
		return d, nil
	}
	old := d.row.Record
	d.row.Record = nil
	body, _, err := p.Corpus.Get(ctx, d.row.Object, blob.Range{Length: -1, Match: d.row.ETag})
	if err == nil {
		h := sha256.New()
		_, err = io.Copy(h, body)
		_ = body.Close()
		h.Sum(d.row.Version[:0])
	}
	if err != nil {
		if ctx.Err() != nil {
			return d, ctx.Err()
		}
		d.bad = fault.Unreadable.At("read", d.row.Object).Because(err)
		d.row.Version = corpus.Digest{}
		return d, nil
	}
	d.same = len(old) == 32 && string(old) == string(d.row.Version[:])
	return d, nil
}

func keepRecord(r rows.Plan) []byte {
	if r.Line > 0 {
		return r.Record
	}
	return nil
}

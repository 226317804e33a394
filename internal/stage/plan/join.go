package plan

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/par"
)

// readers is how many files are read and hashed at once.
const readers = 8

// planned is one listed document beside what the parent knows of it.
type planned struct {
	key   string
	row   rows.Plan
	old   rows.Document
	known bool  // the parent has it
	bad   error // it cannot be read
}

// same tells whether the parent has it with these bytes.
func (d planned) same() bool { return d.known && d.bad == nil && d.row.Version == d.old.Version }

// lasting tells whether a problem is one of the bytes, which the same bytes will have again.
func lasting(code fault.Code) bool {
	return code != "" && code.Kind() == fault.Content && code != fault.DocumentChanged
}

// join walks the sorted listing beside the parent's documents and writes plan.rows.
func (p *planner) join(ctx context.Context) error {
	out, err := artifact.NewRows()
	if err != nil {
		return err
	}
	defer out.Discard()
	var unit Unit
	cut := func() {
		if unit.Documents > 0 {
			out.Cut()
			p.res.Units = append(p.res.Units, unit)
		}
	}
	parent := newCursor(ctx, p.Artifacts, p.Parent, p.left)
	defer parent.stop()
	for d, err := range par.Ordered(ctx, readers, p.joined(parent), p.version) {
		if err != nil {
			return err
		}
		p.count(&d)
		if unit.Documents >= unitDocuments || unit.Bytes >= unitBytes {
			cut()
			unit = Unit{From: unit.To}
		}
		unit.To = out.Append(d.key, d.row.Encode()) + 1
		unit.Documents++
		unit.Bytes += d.row.Size
		p.res.Listed++
		if p.res.Listed%256 == 0 {
			p.OnProgress(p.res.Listed)
		}
	}
	cut()
	parent.drain()
	if parent.err != nil {
		return parent.err
	}
	p.res.ParentListed = parent.readable
	return out.Scratch(ctx, p.Artifacts.Store, RowsKey(p.Scratch))
}

// count enters a document into the result. A problem that is found or still stands is written into its row, so that
// the document is not read again for nothing; where everything is made anyway, every document is tried.
func (p *planner) count(d *planned) {
	old := fault.Code(d.old.Problem)
	switch {
	case d.bad != nil:
		code := fault.CodeOf(d.bad)
		standing := d.known && old == code && d.old.ETag == d.row.ETag && d.old.Size == d.row.Size
		p.res.Unreadable++
		p.dirty = p.dirty || !standing
		p.fail(d, code, d.bad.Error(), standing)
		return
	case d.same() && lasting(old) && len(p.Reasons) == 0:
		if old == fault.EmptyDocument {
			p.res.Empty++
		} else {
			p.res.Unreadable++
		}
		p.fail(d, old, "as in the generation before; the document did not change since", true)
		return
	case d.same() && d.old.Problem == "":
		p.res.Diff.Same++
	case d.known:
		p.res.Diff.Changed++
	default:
		p.res.Diff.Added++
		p.contents.Add(d.row.Version[:], came)
	}
	p.res.Documents++
	p.res.Bytes += d.row.Size
}

func (p *planner) fail(d *planned, code fault.Code, detail string, standing bool) {
	d.row.Problem = string(code)
	p.problems.add(code, d.key, detail, standing)
}

// left takes what the parent has and the listing has not.
func (p *planner) left(key string, old rows.Document) {
	switch {
	case p.broken[old.Object] && old.Problem == "":
		p.res.Lost++
		p.problems.add(fault.Unreadable, key, "its object, or its row in it, cannot be read any more", false)
	case old.Problem != "":
		p.dirty = true // it was no document; its row goes
	default:
		p.res.Diff.Removed++
		p.contents.Add(old.Version[:], went)
	}
}

// joined gives each listed document with what the parent knows of it.
func (p *planner) joined(parent *cursor) iter.Seq2[planned, error] {
	return func(yield func(planned, error) bool) {
		last, lastRow := "", rows.Plan{}
		for pair, err := range p.documents.Sorted() {
			if err != nil {
				yield(planned{}, err)
				return
			}
			d := planned{key: string(pair[0])}
			if d.row, err = rows.DecodePlan(pair[1]); err != nil {
				yield(d, err)
				return
			}
			if d.key == last {
				yield(d, fault.DuplicateRow.At("read", d.row.Object).
					Because(fmt.Sprintf("lines %d and %d have the same id", lastRow.Line, d.row.Line)).
					Advise("give every row an id of its own"))
				return
			}
			last, lastRow = d.key, d.row
			d.old, d.known = parent.seek(d.key)
			if d.known && d.row.Line == 0 && unread(d.row, d.old) {
				d.row.Version = d.old.Version
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

// unread tells whether a file need not be read to know its version. One that failed for a reason which may have gone
// (permissions, a change in the middle) is tried again.
func unread(row rows.Plan, old rows.Document) bool {
	return old.ETag != "" && old.ETag == row.ETag && old.Size == row.Size &&
		(old.Problem == "" || lasting(fault.Code(old.Problem)))
}

// version reads and hashes a file whose version is not known.
func (p *planner) version(ctx context.Context, d planned) (planned, error) {
	if d.row.Line > 0 || !d.row.Version.IsZero() {
		return d, nil
	}
	body, _, err := p.Corpus.Get(ctx, d.row.Object, blob.Range{Length: -1, Match: d.row.ETag})
	if err == nil {
		hash := sha256.New()
		_, err = io.Copy(hash, body)
		_ = body.Close()
		if err == nil {
			hash.Sum(d.row.Version[:0])
			return d, nil
		}
		if fault.As(err) == nil { // the store opened it, so what broke is this object
			err = fault.Unreadable.At("read", d.row.Object).Because(err)
		}
	}
	if ctx.Err() != nil {
		return d, ctx.Err()
	}
	code, ofObject := blame(err)
	if !ofObject {
		return d, err
	}
	d.bad = code.At("read", d.row.Object).Because(err)
	return d, nil
}

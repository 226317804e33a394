package plan

import (
	"context"
	"iter"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// readers is how many files are read and hashed at once.
const readers = 8

// planned is one listed document beside what the parent knows of it.
type planned struct {
	key   string
	row   rows.Plan
	old   rows.Document
	known bool       // the parent has it
	bad   error      // it cannot be read
	lost  fault.Code // it is not listed, as its object, or its row in it, cannot be read: why not
	kept  bool       // it is left as the parent has it, whatever the corpus has now
	again bool       // another above it has its key, and is the document
	other bool       // it is of no known type, new, and no text
	twin  int        // of a row, the line of that other

	opens    bool                  // it is opened, to list what is attached to it
	attached []document.Attachment // that was found
}

// isSame reports whether the parent found these bytes.
func (doc planned) isSame() bool {
	return doc.known && doc.bad == nil && doc.row.Version == doc.old.ListedVersion()
}

// hasNewSidecar reports whether the file of metadata beside the document is another than the parent read.
func (doc planned) hasNewSidecar() bool {
	_, beside, _ := strings.Cut(doc.old.ListedMark(), "\n")
	return doc.known && beside != doc.row.Beside
}

// isLasting says whether a problem is one of the bytes, which the same bytes will have again. Documents that break what
// parses them are that: parse codes are given only where the process ended by itself or by its own limits, and a night
// on which nothing changed must publish nothing. Where somebody else killed it, or the processors were busy elsewhere,
// the document is Quarantined, and tried again by the next run.
func isLasting(code fault.Code) bool {
	return code != "" && code.Kind() == fault.Content && code != fault.DocumentChanged && code != fault.Quarantined
}

// hasNewLimits reports whether a document that was too large may be so no more: the limits are others than they were
// then. Where they are the same the outcome is, and trying again would publish a generation for nothing.
func (p *planner) hasNewLimits(code fault.Code) bool {
	return code == fault.TooLarge && p.Parent != nil && p.Parent.Limits != p.Limits.Key()
}

// joinParent walks the sorted listing beside the parent's documents and writes plan.rows.
func (p *planner) joinParent(ctx context.Context) error {
	out, err := artifact.NewRows()
	if err != nil {
		return err
	}
	defer out.Discard()
	units := newCutter(p.bytes)
	cut := func() {
		if units.unit.Documents > 0 {
			out.Cut()
			p.res.Units = append(p.res.Units, units.next())
		}
	}
	p.former, p.tags.ctx, p.tags.seed = former{ctx: ctx}, ctx, p.Scratch
	if p.Parent != nil {
		p.former.key = p.Artifacts.GenerationKey(p.Parent.Generation, ProblemsName)
	}
	parent := newCursor(ctx, p.Artifacts, p.Parent, p.Dead)
	defer parent.stop()
	for doc, err := range parallel.MapOrdered(ctx, readers, p.streamJoined(ctx, parent), p.hashVersion) {
		if err != nil {
			return err
		}
		if doc.again {
			p.refuseTwin(doc)
			continue
		}
		if doc.other {
			p.res.LeftOut.AddOtherType(doc.row.Object)
			continue
		}
		p.countDocument(&doc)
		p.res.Listed++
		stays := p.canStay(&doc)
		p.reportDecision(&doc, !stays)
		if stays {
			p.keepDocument(&doc)
			p.reportMissing(&doc)
			p.countUntagged(&doc)
			if len(doc.old.Chunks) > 0 {
				p.res.Unlabelled.AddUnlabelled(p.Spec, doc.key, doc.old.Meta)
			}
		} else {
			if units.isFull() {
				cut()
			}
			units.addDocument(doc, out.Append(doc.key, doc.row.Encode()))
			p.res.Made++
			p.endDocument(&doc)
		}
		if p.res.Listed%256 == 0 {
			p.OnProgress(p.res.Listed)
		}
	}
	cut()
	if parent.err != nil {
		return parent.err
	}
	p.res.ParentListed = parent.contents
	if err := p.countGone(); err != nil {
		return err
	}
	p.res.Rows, err = out.PutScratch(ctx, p.Artifacts, RowsKey(p.Scratch))
	return err
}

// countDocument enters a document into the result. A problem that is found or still stands is written into its row, so
// that the document is not read again for nothing; where everything is made anyway, every document is tried.
func (p *planner) countDocument(doc *planned) {
	old := fault.Code(doc.old.Problem)
	switch {
	case doc.kept && old == fault.EmptyDocument && !doc.old.Stale:
		p.res.Empty++
		p.failDocument(doc, old, p.former.detailOf(p.Artifacts, doc.key), true)
		return
	case doc.kept && old != "":
		p.res.Unreadable++
		p.failDocument(doc, old, p.former.detailOf(p.Artifacts, doc.key), true)
		return
	case doc.kept:
		p.res.Diff.Same++
	case doc.lost != "":
		standing := doc.old.Stale && old == doc.lost
		p.res.Lost++
		p.dirty = p.dirty || !standing
		detail := "its object, or its row in the object, is no longer readable"
		if doc.lost == fault.EmptyDocument {
			detail = "its object no longer contains rows; remove the object to remove its rows"
		}
		p.failDocument(doc, doc.lost, detail, standing)
		return
	case doc.bad != nil:
		code := fault.CodeOf(doc.bad)
		standing := doc.known && old == code && doc.old.ETag == doc.row.Mark() && doc.old.Size == doc.row.Size
		p.res.Unreadable++
		p.dirty = p.dirty || !standing
		p.failDocument(doc, code, doc.bad.Error(), standing)
		return
	case doc.isSame() && isLasting(old) && len(p.Reasons) == 0 && !p.hasNewLimits(old) && !p.isAskedAgain(doc) &&
		(!p.hasLabelField() || !doc.hasNewSidecar()): // else the labels of what is kept of it may be others
		if old == fault.EmptyDocument && !doc.old.Stale {
			p.res.Empty++
		} else {
			p.res.Unreadable++
		}
		p.failDocument(doc, old, p.former.detailOf(p.Artifacts, doc.key), true)
		return
	case doc.isSame() && doc.old.Problem == "" && !doc.hasNewSidecar() && !p.getsTags(doc):
		p.res.Diff.Same++
		p.dirty = p.dirty || p.isRetried(doc)
	case doc.known:
		p.res.Diff.Changed++
		if doc.isSame() && !doc.hasNewSidecar() {
			p.res.Retried++
		}
	default:
		p.res.Diff.Added++
		if p.Parent != nil { // without one nothing has moved
			p.contents.Add(doc.row.Version[:], came)
		}
	}
	p.res.Documents++
	if doc.row.Object != doc.key {
		p.res.Within++
	}
	p.res.Bytes += doc.row.Size
}

// refuseTwin records a row whose id another row of its object has. It was read, so what the object has no more is
// removed, unlike where a row cannot be read.
func (p *planner) refuseTwin(doc planned) {
	p.res.Refused++
	if doc.row.Line == 0 {
		p.problems.add(fault.DuplicateRow, doc.row.Object, listedTwice(doc.row.Object).Error(), false)
		return
	}
	err := fault.DuplicateRow.At("read", p.formatPlace(doc.row.Object, doc.row.Line)).
		Because(p.countedIn(doc.row.Object, doc.twin) + " has the same id and is the document").
		Advise("give every row a unique id")
	p.problems.add(fault.DuplicateRow, p.formatPlace(doc.row.Object, doc.row.Line), err.Error(), false)
}

func (p *planner) failDocument(doc *planned, code fault.Code, detail string, standing bool) {
	doc.row.Problem = string(code)
	if !p.Foreign && len(doc.old.Chunks) > 0 {
		detail = strings.TrimSuffix(detail, staleSuffix) + staleSuffix
	}
	p.problems.add(code, doc.key, detail, standing)
}

// reportMissing records that some of a document that stays could not be read when it was.
func (p *planner) reportMissing(doc *planned) {
	if doc.old.Missing != "" && doc.row.Problem == "" {
		p.problems.add(fault.PartsMissing, doc.key, standingPrefix+doc.old.Missing, true)
	}
}

// addGone keeps what the parent has and the listing has not. It runs beside count, so it touches p.gone only.
func (p *planner) addGone(key string, old rows.Document) { p.gone.Add([]byte(key), old.Encode()) }

// countGone enters what left into the result, in the order of the keys.
func (p *planner) countGone() error {
	for pair, err := range p.gone.StreamSorted() {
		if err != nil {
			return err
		}
		old, err := rows.DecodeDocument(pair[1])
		if p.Part {
			p.ended.Add(pair[0], nil)
		}
		switch {
		case err != nil:
			return err
		case p.Purged != nil && p.Purged(string(pair[0])):
			p.dirty = true
			p.res.Purged++
		case len(old.Chunks) == 0:
			p.dirty = true // it was no document; its row goes
		default:
			p.res.Diff.Removed++
			p.contents.Add(old.Version[:], went)
			p.decideGone(string(pair[0]), old)
		}
	}
	return nil
}

// streamSorted gives what was listed, in the order of keys, with the files of metadata that stand beside it.
func (p *planner) streamSorted() iter.Seq2[planned, error] {
	return func(yield func(planned, error) bool) {
		sidecars := newSidecarCursor(p)
		defer sidecars.stop()
		for pair, err := range p.documents.StreamSorted() {
			if err != nil {
				yield(planned{}, err)
				return
			}
			doc := planned{key: string(pair[0])}
			doc.row, err = rows.DecodePlan(pair[1][1:])
			if taken, again := p.taken[doc.row.Object]; err == nil && again && taken != pair[1][0] {
				continue
			}
			if err == nil {
				doc.row.Beside, err = sidecars.findFor(doc.key)
			}
			if !yield(doc, err) || err != nil {
				return
			}
		}
		if _, err := sidecars.findFor(""); err != nil {
			yield(planned{}, err)
		}
	}
}

// streamJoined gives each listed document with what the parent knows of it, and those of the parent that are lost.
func (p *planner) streamJoined(ctx context.Context, parent *cursor) iter.Seq2[planned, error] {
	return func(yield func(planned, error) bool) {
		last, lastRow, barred := "", rows.Plan{}, int64(0)
		defer func() { p.barred = barred }()
		for doc, err := range p.streamAll(ctx) {
			if err != nil {
				yield(doc, err)
				return
			}
			if doc.key == last {
				doc.again, doc.twin = true, lastRow.Line
				if !yield(doc, nil) {
					return
				}
				continue
			}
			last, lastRow = doc.key, doc.row
			if !p.sortPassed(parent.passBefore(doc.key), yield) {
				return
			}
			doc.old, doc.known = parent.takeDocument(doc.key)
			if p.Purged != nil && p.Purged(doc.key) {
				barred++
				if doc.known {
					p.addGone(doc.key, doc.old)
				}
				continue
			}
			if p.isUntouched(&doc) {
				if doc.known && !yield(asKept(doc.key, doc.old), nil) {
					return
				}
				continue
			}
			if !doc.known && p.Leave != nil && p.Leave(doc.key, doc.row.Modified) {
				p.spared++
				continue
			}
			if doc.known && !doc.row.IsNested() && canSkipRead(doc.row, doc.old) {
				doc.row.Version = doc.old.ListedVersion()
			}
			if !yield(doc, nil) {
				return
			}
		}
		p.sortPassed(parent.passRest(), yield)
	}
}

// isUntouched reports whether a document stays as the parent has it, or out where that does not have it, whatever the
// corpus has now.
func (p *planner) isUntouched(doc *planned) bool {
	return p.Only && !p.isRetried(doc) || p.Chosen != nil && !p.Chosen(doc.key, doc.row.Modified)
}

// sortPassed sorts what the listing passed over: lost where its object is broken, gone otherwise. Only what has content
// can be lost.
func (p *planner) sortPassed(over iter.Seq2[string, rows.Document], yield func(planned, error) bool) bool {
	for key, old := range over {
		if p.Purged != nil && p.Purged(key) {
			p.addGone(key, old)
			continue
		}
		if p.Only || p.Chosen != nil || p.hinted != nil && !p.hinted[old.Object] {
			if !yield(asKept(key, old), nil) {
				return false
			}
			continue
		}
		code, broken := p.broken[old.Object]
		if !broken || len(old.Chunks) == 0 || p.Foreign {
			p.addGone(key, old)
			continue
		}
		row := rows.Plan{Object: old.Object, Kind: old.Kind, ETag: old.ETag, Size: old.Size, Modified: old.Modified}
		if !yield(planned{key: key, row: row, old: old, known: true, lost: code}, nil) {
			return false
		}
	}
	return true
}

// asKept returns a document of the parent that is left as it is.
func asKept(key string, old rows.Document) planned {
	return planned{key: key, old: old, known: true, kept: true, row: rows.Plan{
		Object: old.Object, Kind: old.Kind, ETag: old.ETag, Size: old.Size, Modified: old.Modified,
		Version: old.ListedVersion(), Problem: old.Problem,
	}}
}

// canSkipRead reports whether a file need not be read to know its version. One that failed for a reason which may have
// gone (permissions, a change in the middle) is tried again.
func canSkipRead(row rows.Plan, old rows.Document) bool {
	return old.ETag != "" && old.ListedMark() == row.Mark() && old.Size == row.Size &&
		(old.Problem == "" || isLasting(fault.Code(old.Problem)))
}

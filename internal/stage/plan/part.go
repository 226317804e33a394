package plan

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
)

// canStay says whether what the parent has of a document stays in place: content, problem, and what distinguishes an
// unread object from a changed one. An object that was written again with the same bytes keeps the time of its first
// version, as it does on a night on which nothing changed. It is asked once the document is counted.
func (p *planner) canStay(doc *planned) bool {
	if doc.kept {
		return true
	}
	if !p.Part || !doc.known || p.isRetried(doc) {
		return false
	}
	old, row := &doc.old, &doc.row
	if old.Object != row.Object || old.Problem != row.Problem || old.ListedVersion() != row.Version ||
		!old.Stale && old.Kind != row.Kind { // what else a stale row says is of what is served
		return false
	}
	if row.IsNested() {
		return !doc.hasNewSidecar()
	}
	return old.ListedMark() == row.Mark() && old.Size == row.Size
}

// isRetried reports whether a document that is the same is made again all the same.
func (p *planner) isRetried(doc *planned) bool {
	return p.Retry != nil && p.Retry(doc.key) || p.isRenamed(doc) || p.isAskedAgain(doc) || p.getsTags(doc)
}

// isAskedAgain reports whether a document has pages that are to be asked for again.
func (p *planner) isAskedAgain(doc *planned) bool {
	return p.Untranscribed > 0 && doc.old.Untranscribed >= p.Untranscribed
}

func (p *planner) isRenamed(doc *planned) bool { return p.Renamed != nil && p.Renamed(doc.key) }

// keepDocument counts a document that stays.
func (p *planner) keepDocument(doc *planned) {
	kept := &p.res.Kept
	old := &doc.old
	switch {
	case old.Problem == "":
		kept.Documents++
	case fault.Code(old.Problem) == fault.EmptyDocument && !old.Stale:
		kept.Empty++
	default:
		kept.Failed++
	}
	if old.Stale {
		kept.Stale++
	}
	if old.Untranscribed > 0 {
		kept.Untranscribed++
	}
	if old.Stale && len(old.Chunks) > 0 {
		kept.Lapsed++
		kept.Chunks += int64(len(old.Chunks))
	}
}

// endDocument notes that what the parent has of a document does not count any more, as the document is made again.
func (p *planner) endDocument(doc *planned) {
	if p.Part && doc.known {
		p.ended.Add([]byte(doc.key), nil)
	}
}

// writeGone writes the keys of all that ended, in order.
func (p *planner) writeGone(ctx context.Context) error {
	if !p.Part {
		return nil
	}
	out, err := artifact.NewRows()
	if err != nil {
		return err
	}
	defer out.Discard()
	for pair, err := range p.ended.StreamSorted() {
		if err != nil {
			return err
		}
		out.Append(string(pair[0]), nil)
	}
	p.res.Gone, err = out.PutScratch(ctx, p.Artifacts, GoneKey(p.Scratch))
	return err
}

package plan

import (
	"context"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// streamAll gives what was listed in the order of keys, each attachment behind its object where the index reads them.
// An object that the parent has in the same version is not opened: its attachments are those of the parent.
func (p *planner) streamAll(ctx context.Context) iter.Seq2[planned, error] {
	if !p.Spec.ReadAs().Attachments {
		return p.streamSorted()
	}
	return func(yield func(planned, error) bool) {
		var waiting []planned // attachments of objects that were opened
		for doc, err := range parallel.MapOrdered(ctx, readers, p.streamHolders(ctx), p.openHolder) {
			for err == nil && len(waiting) > 0 && waiting[0].key < doc.key {
				if !yield(waiting[0], nil) {
					return
				}
				waiting = waiting[1:]
			}
			if doc.bad != nil {
				p.broken[doc.row.Object] = fault.CodeOf(doc.bad)
			}
			if !yield(doc, err) || err != nil {
				return
			}
			for _, one := range doc.attached {
				row := doc.row
				row.Beside = p.besideNested(row.Beside)
				row.Part, row.Kind, row.Size, row.Version = one.Name, string(one.Kind), one.Size, one.Version
				waiting = append(waiting, planned{key: core.RowKey(row.Object, one.Name), row: row})
			}
			slices.SortFunc(waiting, func(a, b planned) int { return strings.Compare(a.key, b.key) })
		}
		for _, doc := range waiting {
			if !yield(doc, nil) {
				return
			}
		}
	}
}

// streamHolders gives what was listed. It marks the objects that must be opened to know what is attached to them, and
// adds what the parent has of the others.
func (p *planner) streamHolders(ctx context.Context) iter.Seq2[planned, error] {
	return func(yield func(planned, error) bool) {
		parent := newCursor(ctx, p.Artifacts, p.Parent, p.Dead)
		defer parent.stop()
		var same []planned // objects in the version of the parent whose attachments may follow
		last := ""
		for doc, err := range p.streamSorted() {
			if err != nil {
				yield(doc, err)
				return
			}
			if !p.yieldUnopened(parent.passBefore(doc.key), same, yield) {
				return
			}
			same = slices.DeleteFunc(same, func(one planned) bool { return one.key+"$" <= doc.key }) // "$" follows "#"
			if kind := document.Kind(doc.row.Kind); kind.HasAttachments() && doc.key != last {
				doc.old, doc.known = parent.takeDocument(doc.key)
				switch {
				case p.Purged != nil && p.Purged(doc.key):
				case doc.known && canSkipRead(doc.row, doc.old) && len(p.Reasons) == 0 && !p.Foreign &&
					!p.hasNewLimits(fault.Code(doc.old.Problem)):
					same = append(same, doc)
				default:
					doc.opens = !p.isUntouched(&doc) && (doc.known || p.Leave == nil || !p.Leave(doc.key, doc.row.Modified))
				}
			}
			if last = doc.key; !yield(doc, nil) {
				return
			}
		}
		if p.yieldUnopened(parent.passRest(), same, yield) && parent.err != nil {
			yield(planned{}, parent.err)
		}
	}
}

// yieldUnopened gives what the parent has of the attachments of objects that are the same.
func (p *planner) yieldUnopened(
	over iter.Seq2[string, rows.Document], same []planned, yield func(planned, error) bool,
) bool {
	for key, old := range over {
		at := slices.IndexFunc(same, func(one planned) bool { return strings.HasPrefix(key, one.key+"#") })
		if at < 0 {
			continue
		}
		row := same[at].row
		row.Beside = p.besideNested(row.Beside)
		row.Part, row.Kind, row.Size, row.Version = key[len(same[at].key)+1:], old.Kind, old.Size, old.ListedVersion()
		if !yield(planned{key: key, row: row}, nil) {
			return false
		}
	}
	return true
}

// openHolder lists what is attached to an object, and takes its version. One in which that cannot be listed cannot be
// read.
func (p *planner) openHolder(ctx context.Context, doc planned) (planned, error) {
	if !doc.opens {
		return doc, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var found []document.Attachment
	doc, err := p.digestFile(ctx, doc, func(body io.Reader) error {
		plain, err := document.Gunzip(body, doc.row.Gzip, doc.row.Object, p.Limits)
		if err != nil {
			return err
		}
		ctx := document.WithReading(ctx, document.Reading{Attached: true, List: true})
		read, err := p.Parser.Parse(ctx, plain, document.Kind(doc.row.Kind), doc.row.Object)
		if err == nil {
			_, err = io.Copy(io.Discard, read.Text)
		}
		found = read.Attached
		return err
	})
	doc.attached = found
	return doc, err
}

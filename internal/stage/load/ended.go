package load

import (
	"bytes"
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/build/items"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/segments"
	"github.com/unweaver/unweaver/internal/stream/spill"
)

// end takes the rows of the parent out that changed classes and classes without a mention have there.
func (l *loader) end(ctx context.Context) error {
	if l.Night == nil {
		return nil
	}
	ids := l.changed
	for row, err := range artifact.ScanAll(ctx, l.Env.Artifacts.Store, l.Night.Gone) {
		if err != nil {
			return err
		}
		ids = append(ids, corpus.ID(row.Key))
	}
	slices.SortFunc(ids, func(a, b corpus.ID) int { return bytes.Compare(a[:], b[:]) })
	var sorter spill.Sorter
	defer sorter.Close()
	for row, err := range l.Night.Table.ClassRows(ctx, l.Env.Artifacts, l.Env.Parent.Segments.Classes, ids) {
		if err != nil {
			return err
		}
		if err := l.ended(row, &sorter); err != nil {
			return err
		}
	}
	out, err := artifact.NewRows()
	if err != nil {
		return err
	}
	defer out.Discard()
	for pair, err := range sorter.Sorted() {
		if err != nil {
			return err
		}
		out.Append(string(pair[0]), pair[1])
		l.res.Counts.Classes-- // of those that count
	}
	l.res.Ended, err = out.PutScratch(ctx, l.Env.Artifacts, items.EndedKey(l.Scratch, l.Part.Number))
	return err
}

// ended takes a row out of the hashes.
func (l *loader) ended(row segments.ClassRow, to *spill.Sorter) error {
	text, err := row.Text()
	if err != nil {
		return err
	}
	id := row.ID.String()
	l.res.Hashes.Text.Sub(corpus.Sum("class", id, text))
	l.res.Hashes.Vector.Sub(corpus.Sum("class", id, row.Vector.String()))
	to.Add(row.ID[:], items.Ended{Place: row.Place, Text: text}.Encode())
	return nil
}

package load

import (
	"bytes"
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/stream/extsort"
)

// endParentRows takes the rows of the parent out that changed classes and classes without a mention have there.
func (l *loader) endParentRows(ctx context.Context) error {
	if l.Night == nil {
		return nil
	}
	ids := l.changed
	for row, err := range artifact.ScanAll(ctx, l.Env.Artifacts.Store, l.Night.Gone) {
		if err != nil {
			return err
		}
		ids = append(ids, core.ID(row.Key))
	}
	slices.SortFunc(ids, func(a, b core.ID) int { return bytes.Compare(a[:], b[:]) })
	var sorter extsort.Sorter
	defer sorter.Close()
	for row, err := range l.Night.Table.ClassRows(ctx, l.Env.Artifacts, l.Env.Parent.Segments.Classes, ids) {
		if err != nil {
			return err
		}
		if err := l.endRow(row, &sorter); err != nil {
			return err
		}
	}
	out, err := artifact.NewRows()
	if err != nil {
		return err
	}
	defer out.Discard()
	for pair, err := range sorter.StreamSorted() {
		if err != nil {
			return err
		}
		out.Append(string(pair[0]), pair[1])
		l.res.Counts.Classes-- // of those that count
	}
	l.res.Ended, err = out.PutScratch(ctx, l.Env.Artifacts, join.EndedKey(l.Scratch, l.Part.Number))
	return err
}

// endRow takes a row out of the hashes.
func (l *loader) endRow(row segments.ClassRow, to *extsort.Sorter) error {
	text, err := row.ReadText()
	if err != nil {
		return err
	}
	id := row.ID.String()
	l.res.Hashes.Text.Sub(core.Sum("class", id, text))
	l.res.Hashes.Vector.Sub(core.Sum("class", id, row.Vector.String()))
	to.Add(row.ID[:], join.Ended{Place: row.Place, Text: text}.Encode())
	return nil
}

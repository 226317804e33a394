package segments

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// ClassRow is the row of a class that counts, as the classes segments of its run have it.
type ClassRow struct {
	rows.Class
	ID    core.ID
	Place Place
}

// ReadText returns the text of the class.
func (c ClassRow) ReadText() (string, error) {
	record, err := rows.DecodeRecord(c.Record)
	return record.Text, err
}

// classesWidth is how many classes segments are read at once.
const classesWidth = 16

// ClassRows reads the rows of those classes that count, of one class run after another, in each in the order of ids.
// listed are the classes segments of the manifest; ids are in order. Only frames that hold one are read. A row that is
// not what its run says is fault.SegmentDamage.
func (t *Table) ClassRows(
	ctx context.Context, index artifact.Index, listed []core.Segment, ids []core.ID,
) iter.Seq2[ClassRow, error] {
	return func(yield func(ClassRow, error) bool) {
		byRun := make([][]core.ID, len(t.Runs))
		for _, id := range ids {
			if place, ok := t.ClassRow(id); ok {
				byRun[place.Segment] = append(byRun[place.Segment], id)
			}
		}
		for run, wanted := range byRun {
			if len(wanted) == 0 {
				continue
			}
			found := 0
			for row, err := range t.rowsOfRun(ctx, index, listed, run, wanted) {
				found++
				if !yield(row, err) || err != nil {
					return
				}
			}
			if found != len(wanted) {
				yield(ClassRow{}, t.damageOf(index, run, fmt.Sprintf("its classes segments have %d of %d of its rows", found,
					len(wanted))))
				return
			}
		}
	}
}

func (t *Table) rowsOfRun(
	ctx context.Context, index artifact.Index, listed []core.Segment, run int, ids []core.ID,
) iter.Seq2[ClassRow, error] {
	return func(yield func(ClassRow, error) bool) {
		parts, err := SelectParts(listed, "classes", t.listed.Runs[run].Classes, t.listed.Runs[run].Parts)
		if err != nil {
			yield(ClassRow{}, err)
			return
		}
		keys := rows.KeysOf(ids)
		read := func(ctx context.Context, part core.Segment) (out []artifact.Row, err error) {
			key := index.SegmentKey(part.SHA256)
			for row, err := range artifact.RowsUnder(ctx, index.Store, key, part.Bytes, keys) {
				if err != nil {
					return nil, err
				}
				out = append(out, artifact.Row{Key: slices.Clone(row.Key), Value: slices.Clone(row.Value)})
			}
			return out, nil
		}
		for part, err := range parallel.MapOrdered(ctx, classesWidth, parallel.Items(parts), read) {
			if err != nil {
				yield(ClassRow{}, err)
				return
			}
			for _, stored := range part {
				row, err := t.classRow(index, run, stored)
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

func (t *Table) classRow(index artifact.Index, run int, stored artifact.Row) (row ClassRow, err error) {
	row.ID = core.ID(stored.Key)
	if row.Class, err = rows.DecodeClass(stored.Value); err != nil {
		return row, err
	}
	row.Place, _ = t.ClassRow(row.ID)
	if known := t.Runs[run].Rows[row.Place.Row]; row.Place.Segment != run || known.Vector != row.Vector.Prefix() ||
		known.Record != rows.RecordDigest(row.Record) {
		return row, t.damageOf(index, run, "its row of class "+row.ID.String()+" is another than that of its classes segment")
	}
	return row, nil
}

func (t *Table) damageOf(index artifact.Index, run int, why string) error {
	return fault.SegmentDamage.At("read", index.SegmentKey(t.listed.Runs[run].SHA256)).Because(why).
		Advise(index.AdviseRebuild())
}

package load

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/rowfile"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/segments"
	"github.com/unweaver/unweaver/internal/stream/par"
	"github.com/unweaver/unweaver/internal/stream/spill"
)

// EndedKey is the scratch file of the rows of classes that do not count any more once those of this part are there: of
// each the id, then an Ended.
func EndedKey(scratch string, partition int) string {
	return fmt.Sprintf("%s/ended-%03d.rows", scratch, partition)
}

// Ended is a row of a class run of the parent that does not count any more.
type Ended struct {
	segments.Place
	Text string // of the class
}

// Encode gives the row's bytes.
func (x Ended) Encode() []byte {
	var enc rowfile.Enc
	enc.U(uint64(x.Segment))
	enc.U(uint64(x.Row))
	enc.S(x.Text)
	return enc.B
}

// DecodeEnded reads one.
func DecodeEnded(b []byte) (Ended, error) {
	dec := rowfile.Dec{B: b}
	ended := Ended{Place: segments.Place{Segment: int(dec.U()), Row: int(dec.U())}, Text: dec.S()}
	return ended, dec.End()
}

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
	byRun := make([][]corpus.ID, len(l.Night.Table.Runs))
	for _, id := range ids {
		if place, ok := l.Night.Table.ClassRow(id); ok {
			byRun[place.Segment] = append(byRun[place.Segment], id)
		}
	}
	var sorter spill.Sorter
	defer sorter.Close()
	for run, ids := range byRun {
		if err := l.endOf(ctx, run, ids, &sorter); err != nil {
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
	l.res.Ended, err = out.PutScratch(ctx, l.Env.Artifacts, EndedKey(l.Scratch, l.Part.Number))
	return err
}

// endOf reads the rows of one run's classes, and takes them out of the hashes.
func (l *loader) endOf(ctx context.Context, run int, ids []corpus.ID, to *spill.Sorter) error {
	if len(ids) == 0 {
		return nil
	}
	listed := l.Env.Parent.Segments
	parts, err := segments.Parts(listed.Classes, "classes", listed.Runs[run].Classes, listed.Runs[run].Parts)
	if err != nil {
		return err
	}
	found := 0
	read := func(ctx context.Context, part corpus.Segment) ([]artifact.Row, error) {
		var out []artifact.Row
		key := l.Env.Artifacts.SegmentKey(part.SHA256)
		for row, err := range artifact.RowsUnder(ctx, l.Env.Artifacts.Store, key, part.Bytes, raw(ids)) {
			if err != nil {
				return nil, err
			}
			out = append(out, artifact.Row{Key: slices.Clone(row.Key), Value: slices.Clone(row.Value)})
		}
		return out, nil
	}
	for part, err := range par.Ordered(ctx, endedWidth, each(parts), read) {
		if err != nil {
			return err
		}
		for _, row := range part {
			id := corpus.ID(row.Key)
			place, _ := l.Night.Table.ClassRow(id)
			if err := l.ended(id, place, row.Value, to); err != nil {
				return err
			}
			found++
		}
	}
	if found != len(ids) {
		return l.unlike(run, fmt.Sprintf("its classes segments have %d of %d of its rows", found, len(ids)))
	}
	return nil
}

// endedWidth is how many classes segments are read at once.
const endedWidth = 16

func each(parts []corpus.Segment) iter.Seq2[corpus.Segment, error] {
	return func(yield func(corpus.Segment, error) bool) {
		for _, part := range parts {
			if !yield(part, nil) {
				return
			}
		}
	}
}

func raw(ids []corpus.ID) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range ids {
			if !yield(string(ids[i][:])) {
				return
			}
		}
	}
}

func (l *loader) ended(id corpus.ID, place segments.Place, value []byte, to *spill.Sorter) error {
	class, err := rows.DecodeClass(value)
	if err != nil {
		return err
	}
	record, err := rows.DecodeRecord(class.Record)
	if err != nil {
		return err
	}
	if row := l.Night.Table.Runs[place.Segment].Rows[place.Row]; row.Vector != class.Vector ||
		row.Record != rows.RecordDigest(class.Record) {
		return l.unlike(place.Segment, "its row of class "+id.String()+" is another than that of its classes segment")
	}
	l.res.Hashes.Text.Sub(corpus.Sum("class", id.String(), record.Text))
	l.res.Hashes.Vector.Sub(corpus.Sum("class", id.String(), class.Vector.String()))
	to.Add(id[:], Ended{place, record.Text}.Encode())
	return nil
}

func (l *loader) unlike(run int, why string) error {
	sha := l.Env.Parent.Segments.Runs[run].SHA256
	return fault.SegmentDamage.At("read", l.Env.Artifacts.SegmentKey(sha)).Because(why).
		Advise(l.Env.Artifacts.Rebuild())
}

package load

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/format/rowfile"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/segments"
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
	l.res.Ended, err = out.PutScratch(ctx, l.Env.Artifacts, EndedKey(l.Scratch, l.Part.Number))
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
	to.Add(row.ID[:], Ended{row.Place, text}.Encode())
	return nil
}

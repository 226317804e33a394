package chunk

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sort"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/extsort"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// former looks up documents of the parent generation. It opens what it needs, and keeps the last frame: documents are
// asked for in the order of their keys.
type former struct {
	artifacts artifact.Index
	parts     []formerPart // of one split after another, each in the order of its keys
	looked    bool         // parts are those that can be read
	lost      error        // of a part that cannot
	frame     []byte       // rows of
	at        [2]int       // part and frame
}

// formerReaders is how many parts are opened at once.
const formerReaders = 16

type formerPart struct {
	documents, text string             // content addresses
	split           int                // that it is of
	first           int64              // number of its first document in the split
	dead            func(row int) bool // documents of the split that do not count; nil: none
	rows            *artifact.Reader
	pieces          *textseg.Reader
}

func newFormer(in In) *former {
	f := &former{artifacts: in.Artifacts, at: [2]int{-1, -1}}
	if in.Parent == nil {
		return f
	}
	texts := map[int]string{}
	for _, segment := range in.Parent.Segments.Text {
		texts[segment.Part] = segment.SHA256
	}
	where := splitsOf(in.Parent.Segments)
	begins := map[int]int64{}
	for _, segment := range in.Parent.Segments.Documents {
		number := where(segment.Part)
		part := formerPart{
			documents: segment.SHA256, text: texts[segment.Part], split: number, first: begins[number],
		}
		if begins[number] += segment.Rows; segment.Rows == 0 {
			continue
		}
		if number >= 0 { // else the split is damaged, and which of them are dead is not known
			part.dead = in.Dead.DeadRows(in.Parent.Segments.Splits[number].SHA256)
		}
		f.parts = append(f.parts, part)
	}
	return f
}

// splitsOf reports which split a part is; -1: of none that can be read.
func splitsOf(listed core.Segments) func(part int) int {
	return func(part int) int {
		return slices.IndexFunc(listed.Splits, func(one core.Split) bool {
			return one.Text <= part && part < one.Text+one.Texts
		})
	}
}

// openParts opens the parts, once. One that cannot be read is left out: what is in the others is kept all the same.
func (f *former) openParts(ctx context.Context) error {
	if f.looked {
		return nil
	}
	damage := make([]error, len(f.parts))
	err := parallel.Each(ctx, len(f.parts), formerReaders, func(ctx context.Context, i int) error {
		rows, err := artifact.OpenRows(ctx, f.artifacts.Store, f.artifacts.SegmentKey(f.parts[i].documents))
		if artifact.IsDamage(err) {
			damage[i], err = err, nil
		}
		f.parts[i].rows = rows
		return err
	})
	if err != nil {
		return err
	}
	for _, found := range damage {
		if f.lost == nil {
			f.lost = found
		}
	}
	f.parts = slices.DeleteFunc(f.parts, func(part formerPart) bool { return part.rows == nil })
	f.looked = true
	return nil
}

// findDocument gives the parent's row of a document, and the part that it is of. Where a part cannot be read, a
// document that no other has may have been in it: that is the error then.
func (f *former) findDocument(ctx context.Context, key string) (old rows.Document, part int, found bool, err error) {
	if err := f.openParts(ctx); err != nil {
		return old, 0, false, err
	}
	old, part, found, err = f.searchSplits(ctx, key)
	if err == nil && !found {
		err = f.lost
	}
	return old, part, found, err
}

// searchSplits asks one split after another: a document counts in one of them at most.
func (f *former) searchSplits(ctx context.Context, key string) (old rows.Document, part int, found bool, err error) {
	for from := 0; from < len(f.parts); {
		to := from + 1
		for to < len(f.parts) && f.parts[to].split == f.parts[from].split {
			to++
		}
		if old, part, found, err = f.lookIn(ctx, key, from, to); found || err != nil {
			return old, part, found, err
		}
		from = to
	}
	return rows.Document{}, 0, false, nil
}

// lookIn looks in the parts [from, to), whose keys are in order.
func (f *former) lookIn(
	ctx context.Context, key string, from, to int,
) (old rows.Document, part int, found bool, err error) {
	after := sort.Search(to-from, func(i int) bool { return f.parts[from+i].rows.Frames[0].First > key })
	if after == 0 {
		return old, 0, false, nil
	}
	part = from + after - 1
	reader := f.parts[part].rows
	at := [2]int{part, reader.Find(key)}
	if f.at != at {
		if f.frame, err = reader.Frame(ctx, at[1]); err != nil {
			return old, part, false, err
		}
		f.at = at
	}
	row := f.parts[part].first
	for _, frame := range reader.Frames[:at[1]] {
		row += frame.Rows
	}
	for raw := f.frame; ; row++ {
		have, value, rest, ok := rowfile.NextRow(raw)
		if !ok || string(have) > key {
			return old, part, false, nil
		}
		if string(have) == key {
			if dead := f.parts[part].dead; dead != nil && dead(int(row)) {
				return old, part, false, nil
			}
			old, err = rows.DecodeDocument(value)
			return old, part, err == nil, err
		}
		raw = rest
	}
}

// openText opens the decoded text of a part.
func (f *former) openText(ctx context.Context, part int) (*textseg.Reader, error) {
	var err error
	p := &f.parts[part]
	if p.pieces == nil {
		p.pieces, err = textseg.Open(ctx, f.artifacts.Store, f.artifacts.SegmentKey(p.text))
	}
	return p.pieces, err
}

// keepFormer drafts a document that cannot be used from what the parent has of it: nil where the parent has nothing.
// The text is cut as any other, so with an unchanged chunker the chunks are the parent's. Where the parent is damaged,
// lost says how.
func (b *builder) keepFormer(
	ctx context.Context, key string, plan rows.Plan, code fault.Code,
) (kept *draft, lost, err error) {
	old, part, found, err := b.former.findDocument(ctx, key)
	if err == nil && (!found || len(old.Chunks) == 0) {
		return nil, nil, nil
	}
	if err == nil {
		kept = &draft{plan: plan, cuts: extsort.Sorter{Run: draftBytes}}
		err = b.recutText(ctx, key, part, old, kept)
	}
	if fault.Is(err, fault.SegmentDamage) || fault.Is(err, fault.NotFound) {
		lost, err = err, nil
	}
	if err == nil {
		b.res.Lapsed.Documents++
		b.res.Lapsed.Chunks += int64(len(old.Chunks))
	}
	if lost != nil || err != nil {
		if kept != nil {
			kept.cuts.Close()
		}
		return nil, lost, err
	}
	kept.row = rows.Document{
		Version: old.Version, Modified: old.Modified, Kind: old.Kind, Title: old.Title, Meta: old.Meta,
		Problem: string(code), Stale: true, Found: plan.Version, Sheets: old.Sheets, Missing: old.Missing,
		Parsed: old.Parsed, Transcribed: old.Transcribed, Untranscribed: old.Untranscribed,
	}
	kept.former = &old
	return kept, nil, nil
}

// relabelFormer gives what is kept of a document the metadata that stand beside it now. It is nobody's where its own
// were read before its labels were, as it may name some.
func (b *builder) relabelFormer(ctx context.Context, key string, d *draft) error {
	field := b.Spec.ReadAs().Labels.Field
	if field == "" {
		return nil
	}
	if b.parentField == nil {
		parent, err := b.Artifacts.Spec(ctx, b.Parent.Spec)
		if err != nil && !artifact.IsDamage(err) {
			return err
		}
		labels := parent.ReadAs().Labels
		b.parentField = &labels.Field
	}
	d.row.Meta = maps.Clone(d.row.Meta) // it is the parent's
	if *b.parentField != field {
		b.hideDocument(d)
	}
	err := b.addBeside(ctx, key, d)
	b.noteLabels(key, d)
	return err
}

// recutText cuts the parent's text of a document, all of it.
func (b *builder) recutText(ctx context.Context, key string, part int, old rows.Document, into *draft) error {
	pieces, err := b.former.openText(ctx, part)
	if err != nil {
		return err
	}
	var column mapped.Column
	defer column.Close()
	runes := 0
	for piece, err := range pieces.Pieces(ctx, key, old.Frame) {
		if err == nil {
			err = column.Put([]byte(piece.Text))
		}
		if err != nil {
			return err
		}
		if piece.Start != runes { // the pieces do not follow each other
			runes = -1
			break
		}
		runes += utf8.RuneCountInString(piece.Text)
	}
	if runes != old.Runes {
		return fault.SegmentDamage.At("read text of", key).
			Because("the generation before has not all of it").
			Advise("restore the generation")
	}
	text, err := mapped.ViewRecords[byte](&column)
	if err != nil {
		return err
	}
	return b.cutText(ctx, bytes.NewReader(text), old.Chunks, into)
}

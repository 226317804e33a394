// Package classrun writes and maps the file of a class run: the classes that one build made, in the order of their ids.
// The file is never changed. It numbers rows by their place in it and refers to no other file. The chunks that mention
// a class are in the splits, so a row changes only when the text of its class changes.
//
//	rows       records in the order of ids     names, name_at     folded names in order (then by id), front-coded
//	name_row   u32 row of each name            stats              Meta as JSON
//	c_*        postings of class texts (package postings)
//	type_row   u16 type of each row, from 1; 0: none. Of a run with types alone; Meta has their names
package classrun

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/stream/extsort"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// Kind and Version of the file.
const (
	Kind    = "classrun"
	Version = 1
)

// Side is the prefix of the postings.
const Side = "c_"

// metaSection holds Meta as JSON.
const metaSection = "stats"

// typeSection holds the types of rows.
const typeSection = "type_row"

// MaxRows is how many rows a run has, at most: they are numbered in 32 bits, and there is room for a bit beside them.
const MaxRows = 1 << 31

// Row is one record of the rows section. Its id is that of its class, or, where documents have labels, of what those of
// one set of labels say of the name (core.FragmentID).
//
// Of the digest of its vector it has what the key of the vector's row has. The whole one is in the run's classes
// segments, row beside row: code that sums vectors reads them there. That of the record is whole, because the
// record's key is.
type Row struct {
	ID     core.ID
	Vector core.DigestPrefix
	Record core.Digest
}

// Meta of the file, in the section "stats".
type Meta struct {
	Analyser string         `json:"analyser"` // the rules that made the terms; questions must be cut by the same
	Language string         `json:"language"`
	Words    postings.Stats `json:"words"`
	Types    []string       `json:"types,omitempty"` // of rows, in the order in which they come first
}

// Expect is what a run must be to serve: what the manifest says of it.
type Expect struct {
	Analyser string // empty: of any, for who looks up no word
	Classes  int
}

// File is an open run. It is safe for concurrent use until Close.
type File struct {
	Meta    Meta
	Rows    []Row
	NameRow []uint32       // place of a name -> row
	Words   *postings.Side // of rows

	f     *mapped.File
	names mapped.Front
	types []uint16 // of rows, in Meta.Types from 1; empty: no row has one
}

// Open maps a run and checks that it is what is expected.
// Errors: those of mapped.Open, fault.FormatUnknown where another analyser made its terms, fault.SegmentDamage where
// its counts are not those.
func Open(path string, expect Expect) (*File, error) {
	file, err := mapped.Open(path, Kind, Version)
	if err != nil {
		return nil, err
	}
	x := &File{f: file, NameRow: mapped.ViewSection[uint32](file, "name_row"), Rows: mapped.ViewSection[Row](file, "rows")}
	x.names = mapped.FrontOf(file, "names", "name_at")
	x.types = mapped.ViewSection[uint16](file, typeSection)
	if err := x.checkMeta(path, expect); err != nil {
		file.Close()
		return nil, err
	}
	return x, nil
}

func (x *File) checkMeta(path string, expect Expect) error {
	if err := json.Unmarshal(x.f.Bytes(metaSection), &x.Meta); err != nil {
		return x.f.UnfitError(err.Error())
	}
	if err := x.CheckExpected(path, expect); err != nil {
		return err
	}
	x.Words = postings.Open(x.f, Side, x.Meta.Words)
	if len(x.NameRow) != len(x.Rows) || x.Words.Documents() != len(x.Rows) {
		return x.f.UnfitError("its sections are of different lengths")
	}
	known := uint16(len(x.Meta.Types))
	if (known > 0 || len(x.types) != 0) && len(x.types) != len(x.Rows) ||
		slices.ContainsFunc(x.types, func(number uint16) bool { return number > known }) {
		return x.f.UnfitError("its types are not those of its rows")
	}
	return nil
}

// CheckExpected reports whether it is what is expected: for a caller that shares it with its opener. Errors are those
// of Open.
func (x *File) CheckExpected(path string, expect Expect) error {
	if err := postings.CheckAnalyser("class run", path, x.Meta.Analyser, expect.Analyser); err != nil {
		return err
	}
	if len(x.Rows) != expect.Classes {
		return x.f.UnfitError(fmt.Sprintf("it has %d classes, the manifest says %d", len(x.Rows), expect.Classes))
	}
	return nil
}

// TypeOf returns the type of a row; empty: it has none.
func (x *File) TypeOf(row int) string {
	if len(x.types) == 0 || x.types[row] == 0 {
		return ""
	}
	return x.Meta.Types[x.types[row]-1]
}

// AppendName appends the folded name at a place of the order of names to a buffer.
func (x *File) AppendName(buf []byte, place int) []byte {
	return x.names.Append(buf, place)
}

// NameID returns the id of the class whose name is at a place of the order of names.
func (x *File) NameID(place int) *core.ID { return &x.Rows[x.NameRow[place]].ID }

// CompareNames orders two names with the ids of their classes, be they of one run or of two: as the name, a zero byte
// and the id do, which is by name and then by id but for names that have a zero byte themselves.
func CompareNames(a []byte, idA *core.ID, b []byte, idB *core.ID) int {
	shared := min(len(a), len(b))
	if order := bytes.Compare(a[:shared], b[:shared]); order != 0 {
		return order
	}
	switch {
	case len(a) == len(b):
		return bytes.Compare(idA[:], idB[:])
	case len(a) > shared && a[shared] != 0:
		return 1
	case len(b) > shared && b[shared] != 0:
		return -1
	}
	return bytes.Compare(nameKey(a, idA), nameKey(b, idB))
}

// nameKey returns what names are sorted by.
func nameKey(name []byte, id *core.ID) []byte { return slices.Concat(name, []byte{0}, id[:]) }

// Close unmaps it.
func (x *File) Close() { x.f.Close() }

// UnfitError returns the error of a reader that found that it does not fit what lies beside it.
func (x *File) UnfitError(why string) error { return x.f.UnfitError(why) }

// Writer makes a run of classes that are given in the order of ids. Its memory does not grow with them but for four
// bytes a class; equal input gives equal bytes. Close it always.
type Writer struct {
	limit  uint64 // of rows
	last   core.ID
	count  uint64
	err    error
	rows   mapped.Column
	byName extsort.Sorter
	words  *postings.Builder
	typeOf mapped.Column // of rows; empty before the first that has a type
	types  []string
}

// NewWriter makes one.
func NewWriter() *Writer { return &Writer{limit: MaxRows, words: postings.NewBuilder()} }

// Close removes temporary files.
func (w *Writer) Close() {
	w.rows.Close()
	w.typeOf.Close()
	w.byName.Close()
	w.words.Close()
}

// Add takes the next class with its folded name (names.Key), its type (empty: it has none) and the terms of its text.
// Its id is greater than those before.
func (w *Writer) Add(row Row, name, typed string, terms []string) error {
	if w.err != nil {
		return w.err
	}
	if w.count > 0 && bytes.Compare(w.last[:], row.ID[:]) >= 0 {
		w.err = fault.Internal.At("write class run", row.ID.String()).
			Because("it comes after " + w.last.String() + ", classes are given in the order of ids")
		return w.err
	}
	if w.count >= w.limit {
		w.err = fault.TooLarge.At("number the classes of", "a class run").
			Because(fmt.Sprintf("the limit is %d", w.limit)).
			Advise("split the corpus into several indexes")
		return w.err
	}
	w.byName.Add(nameKey([]byte(name), &row.ID), binary.BigEndian.AppendUint32(nil, uint32(w.count)))
	w.last = row.ID
	w.count++
	w.err = errors.Join(mapped.PutRecord(&w.rows, row), w.putType(typed), w.words.Add(terms))
	return w.err
}

// putType writes the number of the type of the row that was counted last: 0 is none. Nothing is written before the
// first type, which catches up.
func (w *Writer) putType(name string) error {
	if name == "" && len(w.types) == 0 {
		return nil
	}
	var late error
	for row := uint64(1); len(w.types) == 0 && row < w.count; row++ {
		late = errors.Join(late, mapped.PutRecord(&w.typeOf, uint16(0)))
	}
	if name == "" {
		return mapped.PutRecord(&w.typeOf, uint16(0))
	}
	at := slices.Index(w.types, name)
	if at < 0 {
		at = len(w.types)
		w.types = append(w.types, name)
	}
	if at >= maxTypes {
		return fault.TooLarge.At("number the types of", "a class run").Because(fmt.Sprintf("the limit is %d", maxTypes)).
			Advise("build the index again with: unweaver index --rebuild")
	}
	return errors.Join(late, mapped.PutRecord(&w.typeOf, uint16(at+1)))
}

// maxTypes is how many types the rows of a run have, at most. An index has 64 at a time.
const maxTypes = 1 << 15

// Write ends the run and writes the file, whose terms an analyser made for a language. It gives what Open is to expect.
func (w *Writer) Write(to io.Writer, analyser, language string) (Expect, error) {
	if w.err != nil {
		return Expect{}, w.err
	}
	out := mapped.NewWriter(to, Kind, Version, nil)
	if err := errors.Join(w.rows.WriteSection(out, "rows"), w.writeNames(out)); err != nil {
		return Expect{}, err
	}
	if len(w.types) > 0 {
		if err := w.typeOf.WriteSection(out, typeSection); err != nil {
			return Expect{}, err
		}
	}
	meta := Meta{Analyser: analyser, Language: language, Types: w.types}
	var err error
	if meta.Words, err = w.words.Write(out, Side); err != nil {
		return Expect{}, err
	}
	raw, err := json.Marshal(meta)
	if err != nil {
		return Expect{}, err
	}
	out.BeginSection(metaSection)
	_, _ = out.Write(raw) // Close reports errors
	return Expect{Analyser: analyser, Classes: int(w.count)}, out.Close()
}

func (w *Writer) writeNames(out *mapped.Writer) error {
	defer w.byName.Close()
	var names mapped.FrontWriter
	defer names.Close()
	var rows mapped.Column
	defer rows.Close()
	for sorted, err := range w.byName.StreamSorted() {
		if err != nil {
			return err
		}
		name := sorted[0][:len(sorted[0])-1-len(core.ID{})]
		row := binary.BigEndian.Uint32(sorted[1])
		if err := errors.Join(names.Add(name), mapped.PutRecord(&rows, row)); err != nil {
			return err
		}
	}
	if err := names.Write(out, "names", "name_at"); err != nil {
		return err
	}
	return rows.WriteSection(out, "name_row")
}

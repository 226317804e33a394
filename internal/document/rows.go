package document

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document/tables"
	"github.com/unweaver/unweaver/internal/fault"
)

// Row is one document of a .jsonl or .csv object, or of a .json list of objects.
type Row struct {
	ID        string
	Line      int    // its number in a .json
	Canonical []byte // the record as JSON without blanks, its fields in their order; its sha256 is the version
	Err       error  // the row cannot be used, or not wholly; the object's other rows can

	table *table   // that it is a line of; nil: it is none
	cells []string // of the line
}

// table is what is known of all lines of a CSV.
type table struct {
	head   []string
	sample [][]string // the first lines
	comma  byte

	named map[string]column // by what was asked for: a head may be longer than all rows
}

// column is what the head has of a name.
type column struct {
	at       int  // -1: it has none
	doubtful bool // something else than the head has the name
}

// findColumn looks a name up, once for all rows.
func (t *table) findColumn(name string) column {
	if known, asked := t.named[name]; asked {
		return known
	}
	is := func(cell string) bool { return core.IsNamed(cell, name) }
	found := column{at: slices.IndexFunc(t.head, is)}
	if found.at < 0 {
		within := func(line []string) bool { return slices.ContainsFunc(line, is) }
		found.doubtful = slices.ContainsFunc(t.sample, within) || t.hasNameWithin(is)
	}
	if t.named == nil {
		t.named = map[string]column{}
	}
	t.named[name] = found
	return found
}

// LacksColumn reports whether a field that a line of a table names is not, or may not be, what the table has in the
// column of that name: the line is shorter or longer than the head, or has quotes that may be read otherwise; or
// another line than the head has the name, or the first one has it between other delimiters than those that were found.
// Rows of a table are asked one at a time.
func (r *Row) LacksColumn(name string) bool {
	if r.table == nil {
		return false
	}
	found := r.table.findColumn(name)
	switch {
	case found.at < 0:
		return found.doubtful
	case r.table.comma == '|' && len(r.cells) < len(r.table.head): // the second byte of a letter may be a bar
		return true
	}
	named := len(r.table.head)
	return len(r.cells) <= found.at || len(r.cells) > named && hasValue(r.cells[named:])
}

// hasNameWithin reports whether a cell of the first line has a name between delimiters or quotes that were not found.
func (t *table) hasNameWithin(is func(string) bool) bool {
	if len(t.sample) == 0 {
		return false
	}
	parts := func(r rune) bool { return strings.ContainsRune(",;|\t\"'", r) }
	return slices.ContainsFunc(t.sample[0], func(cell string) bool {
		return slices.ContainsFunc(strings.FieldsFunc(cell, parts), is)
	})
}

// StreamRows streams the rows of an object. f returns an error to stop. A row above the limits is a row with an error,
// and costs no more memory than limits.Row; the rows behind it are read where they can be found.
func StreamRows(reader io.Reader, k Kind, object string, limits Limits, f func(Row) error) error {
	limits = limits.WithDefaults()
	switch k {
	case CSV:
		return csvRows(reader, object, limits, f)
	case JSON:
		return listRows(reader, object, limits, f)
	}
	in := newRecords(reader, nil, limits)
	for {
		read, err := in.next()
		if read.long || len(bytes.TrimSpace(read.raw)) > 0 {
			row := Row{Line: read.line}
			if read.long {
				row.Err = overRow(object, read.line, limits)
			} else {
				row.parseRecord(read.raw, nameLine(object, read.line), limits)
			}
			if ferr := f(row); ferr != nil {
				return ferr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return WrapUnreadable("read", nameLine(object, read.line), err)
		}
	}
}

func overRow(object string, line int, limits Limits) error {
	return OverMax(nameLine(object, line), "row", limits.Row, "the row has more bytes")
}

func nameLine(object string, line int) string { return fmt.Sprintf("%s line %d", object, line) }

// parseRecord fills a row from a JSON object.
func (r *Row) parseRecord(raw []byte, where string, limits Limits) {
	if r.Err = CheckJSON(raw, where, "every line is one JSON object", limits); r.Err != nil {
		return
	}
	record := jsontext.Value(bytes.Clone(raw))
	if record.Kind() != '{' {
		r.Err = fault.Unreadable.At("read", where).Because(errors.New("it is not a JSON object")).
			Advise("write exactly one JSON object per line")
		return
	}
	if err := record.Format(Lenient); err != nil {
		r.Err = fault.Unreadable.At("read", where).Because(err)
		return
	}
	r.fillRow(record, where, limits)
}

// fillRow takes a record, and refuses one with more text than a document may have.
func (r *Row) fillRow(record jsontext.Value, where string, limits Limits) {
	if int64(len(record)) > limits.Text {
		r.Err = limits.OverText(where)
		return
	}
	fields, err := fieldsOf(record, where, limits)
	if err != nil {
		r.Err = WrapUnreadable("read", where, err)
		return
	}
	r.Canonical = record
	if at := idOf(fields); at >= 0 {
		r.ID = fields[at].readScalar()
		return
	}
	sorted := jsontext.Value(bytes.Clone(record)) // the order of its fields says nothing of which record it is
	if err := sorted.Format(Lenient, jsontext.ReorderRawObjects(true)); err != nil {
		r.Err = fault.Unreadable.At("read", where).Because(err)
		return
	}
	sum := sha256.Sum256(sorted)
	r.ID = hex.EncodeToString(sum[:])
}

// IsReserved reports whether a field of a document is its id, title or text, or has what is read from it, and so may
// not be in its metadata as the document says it.
func IsReserved(name string) bool {
	return slices.ContainsFunc(slices.Concat(tables.IDFields, tables.TitleFields, tables.TextFields, []string{
		"metadata", "attached_to", core.MetaTranscribed, AnyField,
	}), func(one string) bool { return strings.EqualFold(one, strings.TrimSpace(name)) })
}

// idOf returns which field is the id of a record; -1: none.
func idOf(fields []field) int {
	return firstOf(fields, tables.IDFields, func(f field) bool { return f.readScalar() != "" })
}

func firstOf(fields []field, names []string, is func(field) bool) int {
	for _, name := range names {
		for i, f := range fields {
			if f.name == name && is(f) {
				return i
			}
		}
	}
	return -1
}

// DecodeRecord returns a row read back: the text field, the title, and every other scalar or list of scalars as
// metadata.
func DecodeRecord(canonical []byte, limits Limits) (title, text string, meta map[string]string, err error) {
	limits = limits.WithDefaults()
	fields, err := fieldsOf(canonical, "", limits)
	if err != nil {
		return "", "", nil, err
	}
	return readRecord(fields, "", limits)
}

// readRecord gives what a record says. Its text is its text field, and behind it what neither title nor metadata say:
// values in values, and long ones; without a text field all fields, in their order.
func readRecord(fields []field, object string, limits Limits) (string, string, map[string]string, error) {
	said := func(f field) bool { return f.value.Kind() == '"' && strings.TrimSpace(f.readScalar()) != "" }
	id, named, body := idOf(fields), firstOf(fields, tables.TitleFields, said), firstOf(fields, tables.TextFields, said)
	title, text, meta := "", "", map[string]string{}
	size := int64(0)
	for _, f := range fields {
		size += int64(len(f.name) + len(f.value))
	}
	out := limits.newLines(size, object)
	if named >= 0 {
		title = strings.TrimSpace(fields[named].readScalar())
	}
	if body >= 0 {
		text = fields[body].readScalar()
		out.left -= int64(len(text))
	}
	for i, f := range fields {
		switch value := f.readMeta(); {
		case i == id, i == named, i == body, strings.TrimSpace(value) == "" && f.value.Kind() == '"':
			continue
		case f.name == "metadata" && f.value.Kind() == '{':
			inner, err := fieldsOf(f.value, object, limits)
			if err != nil {
				return "", "", nil, err
			}
			for _, in := range inner {
				if value := in.readMeta(); value != "" {
					meta[in.name] = value
				} else if err := out.putField(in, f.name); err != nil {
					return "", "", nil, err
				}
			}
			if named < 0 && title == "" {
				title = strings.TrimSpace(meta["title"])
			}
			continue
		case value != "":
			if f.name != "" {
				meta[f.name] = value
			}
			if body >= 0 && len(value) < tables.LongValue && f.name != "" {
				continue
			}
		}
		if err := out.putField(f); err != nil {
			return "", "", nil, err
		}
	}
	switch rest := out.String(); {
	case text == "":
		text = rest
	case rest != "":
		text = strings.TrimRight(text, "\n") + "\n\n" + rest
	}
	if strings.TrimSpace(text) == "" {
		text = title // which is seen all the same
	}
	return title, text, meta, nil
}

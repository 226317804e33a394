package document

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
)

// Row is one document of a .jsonl or .csv object.
type Row struct {
	ID        string
	Line      int
	Canonical []byte // the record as JSON with sorted keys; its sha256 is the version
	Err       error  // the row cannot be used; the object's other rows can
}

// Rows streams the rows of an object. f returns an error to stop. A row above the limits is a row with an error, and
// costs no more memory than limits.Row; the rows behind it are read where they can be found.
func Rows(reader io.Reader, k Kind, object string, limits Limits, f func(Row) error) error {
	limits = limits.Whole()
	if k == CSV {
		return csvRows(reader, object, limits, f)
	}
	in := newRecords(reader, k, limits)
	for {
		raw, line, long, err := in.next()
		if long || len(bytes.TrimSpace(raw)) > 0 {
			row := Row{Line: line}
			if long {
				row.Err = overRow(object, line, limits)
			} else {
				row.parse(raw, object, limits)
			}
			if ferr := f(row); ferr != nil {
				return ferr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unreadable("read", place(object, line), err)
		}
	}
}

func overRow(object string, line int, limits Limits) error {
	return over(place(object, line), "row", limits.Row, "the row has more bytes")
}

func place(object string, line int) string { return fmt.Sprintf("%s line %d", object, line) }

// parse fills a row from a line of JSON.
func (r *Row) parse(raw []byte, object string, limits Limits) {
	where := place(object, r.Line)
	if r.Err = checkJSON(raw, where, limits); r.Err != nil {
		return
	}
	record, err := oneObject(raw)
	if err != nil {
		r.Err = fault.Unreadable.At("read", where).Because(err).Advise("every line is one JSON object")
		return
	}
	r.fill(record)
	r.bound(where, limits)
}

// bound refuses a row with more text than a document may have.
func (r *Row) bound(where string, limits Limits) {
	if int64(len(r.Canonical)) > limits.Text {
		*r = Row{Line: r.Line, Err: limits.overText(where)}
	}
}

// oneObject decodes exactly one JSON object, numbers as they are written.
func oneObject(raw []byte) (map[string]any, error) {
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, errors.New("null is no object")
	}
	return fields, ended(decoder)
}

// ended tells whether nothing follows what was decoded.
func ended(decoder *json.Decoder) error {
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the first value")
	}
	return nil
}

// csvRows reads records one by one: what the parser is given ends where the record ends. The first names the columns.
func csvRows(r io.Reader, object string, limits Limits, f func(Row) error) error {
	source := &counting{reader: r}
	in := newRecords(source, CSV, limits)
	var one bytes.Reader
	reader := csv.NewReader(&one)
	reader.FieldsPerRecord = -1
	reader.LazyQuotes = true
	reader.ReuseRecord = true
	var head []string
	made := int64(0)
	for {
		raw, line, long, err := in.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return unreadable("read", object, err)
		}
		if len(bytes.Trim(raw, "\r\n")) == 0 && !long {
			if err != nil {
				return nil
			}
			continue
		}
		row := Row{Line: line}
		var record []string
		switch {
		case long:
			row.Err = overRow(object, line, limits)
		case int64(bytes.Count(raw, []byte(",")))*fieldBytes > limits.Memory/2:
			row.Err = over(place(object, line), "memory", limits.Memory, "its fields take more than half the bytes")
		default:
			one.Reset(raw)
			if record, err = reader.Read(); err != nil {
				row.Err = fault.Unreadable.At("read", place(object, line)).Because(err)
			} else if len(record) > mostColumns {
				row.Err = manyColumns(object, line, len(record))
			}
		}
		if head == nil {
			if row.Err != nil {
				return row.Err // without names of columns no row can be read
			}
			head = names(record)
			continue
		}
		if row.Err == nil {
			row.fill(columns(head, record))
			row.bound(place(object, line), limits)
		}
		// A long head stands in every row: few bytes could become very many.
		if made += int64(len(row.Canonical)); made > ratioFrom && made/limits.Ratio > source.bytes {
			return over(place(object, line), "ratio", limits.Ratio, "names of columns make its rows so much longer")
		}
		if err := f(row); err != nil {
			return err
		}
	}
}

// mostColumns of a row of CSV: each is a field of the document's metadata.
const mostColumns = 10_000

func manyColumns(object string, line, columns int) error {
	return fault.TooLarge.At("read", place(object, line)).
		Because(fmt.Sprintf("the row has %d columns, above %d, which is fixed", columns, mostColumns)).
		Advise("check the quotes of the file, or leave out columns that nobody searches")
}

// fieldBytes is what a field takes beside its text.
const fieldBytes = 64

func names(record []string) []string {
	head := make([]string, len(record))
	for i, name := range record {
		head[i] = strings.TrimSpace(strings.Clone(name))
	}
	return head
}

func columns(head, record []string) map[string]any {
	fields := make(map[string]any, min(len(head), len(record)))
	for i, value := range record[:min(len(head), len(record))] {
		fields[head[i]] = value
	}
	return fields
}

func (r *Row) fill(m map[string]any) {
	raw, err := json.Marshal(m) // keys of a map come sorted
	if err != nil {
		r.Err = fault.Unreadable.At("encode row", r.ID).Because(err)
		return
	}
	r.Canonical = raw
	for _, k := range []string{"id", "_id", "doc_id", "document_id"} {
		if s := scalar(m[k]); s != "" {
			r.ID = s
			return
		}
	}
	sum := sha256.Sum256(raw)
	r.ID = hex.EncodeToString(sum[:])
}

func scalar(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case json.Number:
		return x.String()
	case bool:
		return fmt.Sprint(x)
	}
	return ""
}

// Record is a row read back: the text field, the title, and every other scalar as metadata.
func Record(canonical []byte) (title, text string, meta map[string]string, err error) {
	record, err := oneObject(canonical)
	if err != nil {
		return "", "", nil, err
	}
	title, text, meta = fields(record)
	return title, text, meta, nil
}

var textFields = []string{"text", "content", "body", "passage", "abstract"}

func fields(m map[string]any) (title, text string, meta map[string]string) {
	used := map[string]bool{"id": true, "_id": true, "doc_id": true, "document_id": true}
	for _, k := range textFields {
		if s, ok := m[k].(string); ok && text == "" {
			text, used[k] = s, true
		}
	}
	for _, k := range []string{"title", "name", "headline"} {
		if s, ok := m[k].(string); ok && title == "" {
			title, used[k] = strings.TrimSpace(s), true
		}
	}
	meta = map[string]string{}
	if mm, ok := m["metadata"].(map[string]any); ok {
		used["metadata"] = true
		for k, v := range mm {
			if s := scalar(v); s != "" {
				meta[k] = s
			}
		}
		if title == "" {
			title = strings.TrimSpace(scalar(mm["title"]))
		}
	}
	var rest []string
	for k, v := range m {
		if s := scalar(v); !used[k] && s != "" {
			meta[k] = s
			rest = append(rest, k)
		}
	}
	if text == "" { // a record without a text field: its fields are the text
		sort.Strings(rest)
		var b strings.Builder
		for _, k := range rest {
			fmt.Fprintf(&b, "%s: %s\n", k, meta[k])
		}
		text = b.String()
	}
	return title, text, meta
}

package document

import (
	"bufio"
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

// maxRow bounds one row, in bytes; a variable so that a test reaches it.
var maxRow = 256 << 20

// Rows streams the rows of an object. f returns an error to stop.
func Rows(reader io.Reader, k Kind, object string, limits Limits, f func(Row) error) error {
	if k == CSV {
		return csvRows(reader, object, f)
	}
	br := bufio.NewReaderSize(reader, 1<<20)
	for line := 1; ; line++ {
		raw, err := readLine(br)
		if len(bytes.TrimSpace(raw)) > 0 {
			row := Row{Line: line}
			m, jerr := oneObject(raw)
			if jerr != nil {
				row.Err = fault.Unreadable.At("read", fmt.Sprintf("%s line %d", object, line)).
					Because(jerr).
					Advise("every line is one JSON object")
			} else {
				row.fill(m)
			}
			if ferr := f(row); ferr != nil {
				return ferr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fault.Unreadable.At("read", fmt.Sprintf("%s line %d", object, line)).Because(err)
		}
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

func readLine(br *bufio.Reader) ([]byte, error) {
	var out []byte
	for {
		part, err := br.ReadSlice('\n')
		out = append(out, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return out, err
		}
		if len(out) > maxRow {
			return nil, fmt.Errorf("the line is longer than %d MiB", maxRow>>20)
		}
	}
}

func csvRows(r io.Reader, object string, f func(Row) error) error {
	reader := csv.NewReader(r)
	reader.FieldsPerRecord = -1
	reader.LazyQuotes = true
	reader.ReuseRecord = true
	head, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fault.Unreadable.At("read", object).Because(err).Advise("the first line names the columns")
	}
	head = append([]string(nil), head...)
	for {
		rec, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		row := Row{}
		if err == nil {
			row.Line, _ = reader.FieldPos(0)
		}
		if err != nil {
			var pe *csv.ParseError
			if !errors.As(err, &pe) {
				return fault.Unreadable.At("read", object).Because(err)
			}
			row.Line = pe.Line
			row.Err = fault.Unreadable.At("read", fmt.Sprintf("%s line %d", object, pe.Line)).Because(pe.Err)
		} else {
			m := map[string]any{}
			for i, v := range rec {
				if i < len(head) {
					m[strings.TrimSpace(head[i])] = v
				}
			}
			row.fill(m)
		}
		if err := f(row); err != nil {
			return err
		}
	}
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

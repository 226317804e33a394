package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unweaver/unweaver/internal/fault"
)

// Lenient lets pass what other programs write: a name twice, and halves of characters.
var Lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// ParseJSON reads one JSON value: an object as a record, any other as lines.
func ParseJSON(raw []byte, object string, limits Limits) (Doc, error) {
	err := CheckJSON(raw, object, "correct the file, or save it again", limits)
	if err != nil {
		return Doc{}, err
	}
	doc, text := Doc{}, ""
	if value := jsontext.Value(raw); value.Kind() == '{' {
		fields, err := fieldsOf(value, object, limits)
		if err == nil {
			doc.Title, text, doc.Meta, err = readRecord(fields, object, limits)
			doc.Blank = unclearFields(fields, doc.Meta, limits)
		}
		if err != nil {
			return Doc{}, WrapUnreadable("read", object, err)
		}
		doc.Title = CutTitle(doc.Title, limits.Title)
	} else {
		out := limits.newLines(int64(len(raw)), object)
		if err := out.putValues(jsontext.NewDecoder(bytes.NewReader(raw), Lenient)); err != nil {
			return Doc{}, WrapUnreadable("read", object, err)
		}
		text = out.String()
	}
	if int64(len(text)) > limits.Text {
		return Doc{}, limits.OverText(object)
	}
	doc.Text = strings.NewReader(text)
	return doc, nil
}

// CheckJSON refuses what is not exactly one JSON value, or is nested too deeply.
func CheckJSON(raw []byte, object, advice string, limits Limits) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(raw), Lenient)
	for values := 0; ; {
		_, err := decoder.ReadToken()
		switch depth := decoder.StackDepth(); {
		case errors.Is(err, io.EOF) && values == 1:
			return nil
		case err == nil && depth > limits.Nesting:
			return OverMax(object, "nesting", limits.Nesting, "its values are nested more deeply")
		case err == nil && depth == 0:
			if values++; values > 1 {
				err = errors.New("there is data after the first value")
				advice = "rename the file to .jsonl if each line is a JSON value"
			}
		}
		if err != nil {
			return syntaxFault(err, raw, object, advice)
		}
	}
}

// syntaxFault says what of a text is no JSON, and where. One that ends too soon is cut.
func syntaxFault(err error, raw []byte, object, advice string) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF):
		return EmptyFile(object)
	case errors.As(err, &syntax):
		where := ""
		if raw != nil {
			at := min(int(syntax.ByteOffset), len(raw))
			where = fmt.Sprintf(" in line %d", 1+bytes.Count(raw[:at], []byte("\n")))
		}
		if syntax.JSONPointer != "" {
			where += fmt.Sprintf(" within %.200q", string(syntax.JSONPointer))
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err, advice = errors.New("it is cut: it ends"+where), "the file is incomplete: save or copy it again"
		} else {
			err = fmt.Errorf("it is not valid JSON%s: %w", where, syntax.Err)
		}
	}
	return fault.Unreadable.At("read", object).Because(err).Advise(advice)
}

// field is one of a record: its name, and its value as JSON.
type field struct {
	name  string
	value jsontext.Value
}

// jsonFieldBytes is what a field of a record takes in memory, as one and as metadata, beside its text.
const jsonFieldBytes = 256

// fieldsOf returns the fields of a JSON object, in their order. They share its memory.
func fieldsOf(record []byte, object string, limits Limits) ([]field, error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(record), Lenient)
	if _, err := decoder.ReadToken(); err != nil {
		return nil, err
	}
	var out []field
	for decoder.PeekKind() != '}' {
		name, err := decoder.ReadToken()
		if err != nil {
			return nil, err
		}
		one := field{name: name.String()}
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, err
		}
		end := decoder.InputOffset()
		one.value = record[end-int64(len(value)) : end]
		if out = append(out, one); int64(len(out))*jsonFieldBytes > limits.Memory/2 {
			return nil, OverMax(object, "memory", limits.Memory, "its fields take more than half the bytes")
		}
	}
	return out, nil
}

// readScalar returns the value of a field as it is read, numbers as they are written, control characters as blanks;
// empty for null, a list and an object.
func (f field) readScalar() string {
	switch f.value.Kind() {
	case '"':
		raw, _ := jsontext.AppendUnquote(nil, f.value) // of half a character it gives what stands for one
		return ShownText(string(raw))
	case '0', 't', 'f':
		return string(f.value)
	}
	return ""
}

// longestList is how long a list of scalars may be as metadata, in bytes.
const longestList = 2000

// readMeta returns the value of a field as metadata: a scalar, or a list of scalars with commas between them; empty for
// what holds more.
func (f field) readMeta() string {
	if f.value.Kind() != '[' || len(f.value) > longestList {
		return f.readScalar()
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(f.value), Lenient)
	_, _ = decoder.ReadToken() // fields have valid values
	var all []string
	for decoder.PeekKind() != ']' {
		value, err := decoder.ReadValue()
		if err != nil || value.Kind() == '[' || value.Kind() == '{' {
			return ""
		}
		if said := strings.TrimSpace(field{value: value}.readScalar()); said != "" {
			all = append(all, said)
		}
	}
	return strings.Join(all, ", ")
}

// lines writes values of JSON, each on a line behind the path that leads to it, up to a number of bytes. A path is
// written with the text that it leads to alone: values without any cost nothing.
type lines struct {
	strings.Builder
	left int64
	over error  // of more
	path []step // to the value that is read
	line []byte
}

// newLines begins lines of what has some bytes. Names are written again and again, so that few bytes could become very
// many.
func (l Limits) newLines(size int64, object string) *lines {
	if most := max(ratioFrom, l.Ratio*size); most < l.Text {
		over := OverMax(object, "ratio", l.Ratio, "it becomes more than that many times its bytes of text")
		return &lines{left: most, over: over}
	}
	return &lines{left: l.Text, over: l.OverText(object)}
}

// step of a path: a field by its name, or an item of a list by its place.
type step struct {
	name string
	item int // -1: a field
}

// longItem is the length in bytes from which on an item of a list has a line of its own.
const longItem = 80

func (l *lines) put(text string) error {
	if text == "" {
		return nil
	}
	l.line = l.line[:0]
	for _, one := range l.path {
		switch {
		case one.item >= 0:
			l.line = append(strconv.AppendInt(append(l.line, '['), int64(one.item), 10), ']')
		case one.name != "":
			if len(l.line) > 0 {
				l.line = append(l.line, '.')
			}
			l.line = append(l.line, one.name...)
		}
	}
	if len(l.line) > 0 {
		l.line = append(l.line, ": "...)
	}
	if l.left -= int64(len(l.line) + len(text) + 1); l.left < 0 {
		return l.over
	}
	_, _ = l.Write(l.line)
	l.WriteString(text)
	l.WriteByte('\n')
	return nil
}

// putField writes a field under others.
func (l *lines) putField(f field, above ...string) error {
	for _, name := range append(above, f.name) {
		l.path = append(l.path, step{name, -1})
	}
	err := l.putValue(jsontext.NewDecoder(bytes.NewReader(f.value), Lenient))
	l.path = l.path[:0]
	return err
}

// putUnder writes a value behind one more step.
func (l *lines) putUnder(one step, decoder *jsontext.Decoder) error {
	l.path = append(l.path, one)
	err := l.putValue(decoder)
	l.path = l.path[:len(l.path)-1]
	return err
}

// putValues writes a value that has no path: each item of a list stands apart.
func (l *lines) putValues(decoder *jsontext.Decoder) error {
	if decoder.PeekKind() != '[' {
		return l.putValue(decoder)
	}
	return l.putList(decoder, func(int) error {
		if l.Len() > 0 {
			l.WriteByte('\n')
		}
		return l.putValue(decoder)
	})
}

func (l *lines) putValue(decoder *jsontext.Decoder) error {
	switch decoder.PeekKind() {
	case '[':
		return l.putList(decoder, func(at int) error { return l.putUnder(step{item: at}, decoder) })
	case '{':
		if _, err := decoder.ReadToken(); err != nil {
			return err
		}
		for decoder.PeekKind() != '}' {
			name, err := decoder.ReadToken()
			if err != nil {
				return err
			}
			if err := l.putUnder(step{name.String(), -1}, decoder); err != nil {
				return err
			}
		}
		_, err := decoder.ReadToken()
		return err
	}
	value, err := decoder.ReadValue()
	if err != nil {
		return err
	}
	return l.put(field{value: value}.readScalar())
}

// putList writes a list: short items that follow each other share a line, nested writes each item that is none.
func (l *lines) putList(decoder *jsontext.Decoder, nested func(at int) error) error {
	if _, err := decoder.ReadToken(); err != nil {
		return err
	}
	var short []string
	flush := func() error {
		text := strings.Join(short, ", ")
		short = short[:0]
		return l.put(text)
	}
	for at := 0; decoder.PeekKind() != ']'; at++ {
		kind := decoder.PeekKind()
		if kind == '[' || kind == '{' {
			if err := errors.Join(flush(), nested(at)); err != nil {
				return err
			}
			continue
		}
		value, err := decoder.ReadValue()
		if err != nil {
			return err
		}
		item := field{value: value}.readScalar()
		if len(item) >= longItem || strings.Contains(item, "\n") {
			err = errors.Join(flush(), l.put(item))
		} else if item != "" {
			short = append(short, item)
		}
		if err != nil {
			return err
		}
	}
	if err := flush(); err != nil {
		return err
	}
	_, err := decoder.ReadToken()
	return err
}

// ErrMixed is given by Rows for a .json list that holds more than objects, and for what is no list: it is one document.
var ErrMixed = errors.New("the list contains values that are not objects")

// ListsRecords reports whether a text that begins like this may be a list of JSON objects, each of which is a document,
// and whether it is a list of nothing, or empty.
func ListsRecords(text io.Reader) (records, empty bool) {
	decoder := jsontext.NewDecoder(text, Lenient)
	if kind := decoder.PeekKind(); kind != '[' {
		_, err := decoder.ReadToken()
		return false, errors.Is(err, io.EOF)
	}
	_, _ = decoder.ReadToken() // peeked
	kind := decoder.PeekKind()
	return kind == '{', kind == ']'
}

// listRows streams the objects of a JSON list. It holds one at a time.
func listRows(reader io.Reader, object string, limits Limits, f func(Row) error) error {
	source := &bounded{reader: reader, left: limits.Row}
	decoder := jsontext.NewDecoder(source, Lenient)
	if decoder.PeekKind() != '[' {
		return ErrMixed
	}
	_, err := decoder.ReadToken()
	number := 1
	for ; err == nil && decoder.PeekKind() == '{'; number++ {
		where := nameRecord(object, number)
		source.left, source.above = limits.Row, OverMax(where, "row", limits.Row, "it has more bytes")
		var value jsontext.Value
		if value, err = decoder.ReadValue(); err != nil {
			break
		}
		row := Row{Line: number}
		row.parseRecord(value, where, limits)
		if err := f(row); err != nil {
			return err
		}
	}
	switch kind := decoder.PeekKind(); {
	case err != nil:
	case kind == ']':
		_, _ = decoder.ReadToken() // peeked
		if _, err = decoder.ReadToken(); errors.Is(err, io.EOF) {
			return nil
		} else if err == nil {
			err = errors.New("there is data after the list")
		}
	case kind != jsontext.KindInvalid:
		return ErrMixed
	default:
		_, err = decoder.ReadToken()
	}
	if known := fault.As(err); known != nil {
		return known
	}
	return syntaxFault(err, nil, nameRecord(object, number), "correct the file, or save it again")
}

func nameRecord(object string, number int) string { return fmt.Sprintf("%s record %d", object, number) }

package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
)

func parseJSON(raw []byte, object string, limits Limits) (Doc, error) {
	if err := checkJSON(raw, object, limits); err != nil {
		return Doc{}, err
	}
	var value any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err := d.Decode(&value)
	if err == nil {
		err = ended(d)
	}
	if err != nil {
		return Doc{}, fault.Unreadable.At("read", object).
			Because(err).
			Advise("the file is not one JSON value; one on each line is a .jsonl")
	}
	if m, ok := value.(map[string]any); ok {
		title, text, meta := fields(m)
		if int64(len(text)) > limits.Text {
			return Doc{}, limits.overText(object)
		}
		if text != "" {
			return Doc{Title: cutTitle(title, limits.Title), Meta: meta, Text: strings.NewReader(text)}, nil
		}
	}
	out := indenter{left: limits.Text}
	if err := out.value(value, 0); err != nil {
		if errors.Is(err, io.ErrShortWrite) {
			return Doc{}, limits.overText(object)
		}
		return Doc{}, fault.Unreadable.At("read", object).Because(err)
	}
	return Doc{Text: &out.Buffer}, nil
}

// What decoded JSON takes, in bytes: a value in its place, a string or number, a list or map that holds something.
const (
	valueBytes, containerBytes = 48, 320
)

// checkJSON refuses, before any of it is decoded, what is nested too deeply or would take too much memory. What is no
// JSON is for the decoder to refuse.
func checkJSON(raw []byte, object string, limits Limits) error {
	depth, memory := 0, int64(len(raw))
	for at := 0; at < len(raw); at++ {
		switch raw[at] {
		case '"':
			at += stringEnd(raw[at+1:])
		case '[', '{':
			memory += valueBytes
			if at+1 < len(raw) && raw[at+1] != raw[at]+2 { // ] and } follow two after [ and {
				memory += containerBytes
			}
			if depth++; depth > limits.Nesting {
				return over(object, "nesting", limits.Nesting, "its values are nested more deeply")
			}
		case ']', '}':
			depth--
		case ',':
			memory += valueBytes
		}
		if memory > limits.Memory/2 {
			return over(object, "memory", limits.Memory, "its values take more than half the bytes")
		}
	}
	return nil
}

// stringEnd is the length of a string from behind its opening quote to behind its closing one, or to the end.
func stringEnd(raw []byte) int {
	for at := 0; at < len(raw); at++ {
		switch raw[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(raw)
}

// maxIndent is the depth from which on lines are indented no further: text would grow with the square of the depth.
const maxIndent = 64

// indenter writes as json.MarshalIndent does with an indent of one space, up to a number of bytes.
type indenter struct {
	bytes.Buffer
	left int64
}

func (i *indenter) put(text string) error {
	if i.left -= int64(len(text)); i.left < 0 {
		return io.ErrShortWrite
	}
	i.WriteString(text)
	return nil
}

var indents = strings.Repeat(" ", maxIndent)

func (i *indenter) line(separator string, depth int) error {
	return i.put(separator + "\n" + indents[:min(depth, maxIndent)])
}

func (i *indenter) value(value any, depth int) error {
	switch v := value.(type) {
	case []any:
		if len(v) == 0 {
			return i.put("[]")
		}
		return i.list("[", "]", len(v), depth, func(n int) error { return i.value(v[n], depth+1) })
	case map[string]any:
		if len(v) == 0 {
			return i.put("{}")
		}
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		return i.list("{", "}", len(keys), depth, func(n int) error {
			if err := i.scalar(keys[n]); err != nil {
				return err
			}
			if err := i.put(": "); err != nil {
				return err
			}
			return i.value(v[keys[n]], depth+1)
		})
	}
	return i.scalar(value)
}

func (i *indenter) list(start, end string, count, depth int, each func(int) error) error {
	separator := start
	for n := range count {
		if err := i.line(separator, depth+1); err != nil {
			return err
		}
		if err := each(n); err != nil {
			return err
		}
		separator = ","
	}
	if err := i.line("", depth); err != nil {
		return err
	}
	return i.put(end)
}

func (i *indenter) scalar(value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return i.put(string(raw))
}

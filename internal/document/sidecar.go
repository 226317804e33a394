package document

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unweaver/unweaver/internal/core"
)

// SidecarSuffix ends the name of a file that holds metadata of the document whose name stands before it.
const SidecarSuffix = ".meta.json"

// MaxSidecar is how many bytes such a file may have.
const MaxSidecar = 64 << 10

// ParseSidecar reads a file of metadata: one JSON object of texts, numbers, booleans, and lists of them.
func ParseSidecar(raw []byte) (map[string]string, error) {
	if len(raw) > MaxSidecar {
		return nil, fmt.Errorf("it has more than %d bytes", MaxSidecar)
	}
	raw = bytes.TrimPrefix(raw, []byte("\ufeff")) // as Windows writes it
	var values map[string]jsontext.Value
	if err := json.Unmarshal(raw, &values); err != nil {
		var form *jsontext.SyntacticError
		if errors.As(err, &form) {
			return nil, fmt.Errorf("it is no JSON in UTF-8 at byte %d: %w", form.ByteOffset, form.Err)
		}
		return nil, errors.New("it is not one JSON object")
	}
	out := map[string]string{}
	for name, value := range values {
		text := field{name: name, value: value}.readMeta()
		switch {
		case value.Kind() == '{' || value.Kind() == '[' && text == "" && string(value) != "[]":
			return nil, fmt.Errorf("field %.80q is nested: want a text, a number, true, false or a list of them", name)
		case text != "" && name != "":
			out[name] = text
		}
	}
	return out, CheckMeta(out)
}

// mostUnclear bytes of names of fields are listed; where there are more, any field may be one.
const mostUnclear = 64 << 10

// unclearFields returns the fields of a record that do not name one value as a list of words: blank ones, those with
// values in values, lists of which a word has a comma, those that stand twice, and those that are not in its metadata,
// as those within values.
func unclearFields(fields []field, meta map[string]string, limits Limits) (out []string) {
	seen, size := map[string]bool{}, 0
	add := func(f field) {
		folded := strings.ToLower(strings.TrimSpace(f.name))
		if seen[folded] || f.isUnclear() || meta[f.name] == "" {
			out, size = append(out, f.name), size+len(f.name)
		}
		seen[folded] = true
	}
	for _, f := range fields {
		inner, err := []field(nil), error(nil)
		if f.name == "metadata" && f.value.Kind() == '{' {
			inner, err = fieldsOf(f.value, "", limits)
		}
		for _, in := range inner {
			add(in)
		}
		if add(f); err != nil {
			return []string{AnyField}
		}
	}
	for name := range namesWithin(fields) {
		if meta[name] == "" {
			out, size = append(out, name), size+len(name)
		}
	}
	if size > mostUnclear {
		return []string{AnyField}
	}
	return out
}

// namesWithin returns the names of fields of objects within the values of a record.
func namesWithin(fields []field) map[string]bool {
	out := map[string]bool{}
	for _, f := range fields {
		decoder := jsontext.NewDecoder(bytes.NewReader(f.value), Lenient)
		for {
			token, err := decoder.ReadToken()
			if err != nil { // the end: the record was checked
				break
			}
			if kind, length := decoder.StackIndex(decoder.StackDepth()); kind == '{' && length%2 == 1 {
				out[token.String()] = true
			}
		}
	}
	return out
}

// isUnclear reports whether a value is blank, or a list of which a word has a comma.
func (f field) isUnclear() bool {
	if strings.TrimSpace(f.readMeta()) == "" {
		return true
	}
	if f.value.Kind() != '[' {
		return false
	}
	var words []any
	return json.Unmarshal(f.value, &words, Lenient) != nil || slices.ContainsFunc(words, hasComma)
}

func hasComma(word any) bool {
	text, isText := word.(string)
	return isText && strings.Contains(text, ",")
}

// IsUnclear reports whether a file of metadata, or the record of a row, names a field, in whatever case, that has not
// one value which metadata can say.
func IsUnclear(raw []byte, name string, meta map[string]string) bool {
	fields, err := fieldsOf(bytes.TrimPrefix(raw, []byte("\ufeff")), "", Limits{}.WithDefaults())
	return err != nil || NamesField(unclearFields(fields, meta, Limits{}.WithDefaults()), name)
}

// NamesField reports whether a list of fields has one, as core.IsNamed has it, or any.
func NamesField(fields []string, name string) bool {
	return slices.ContainsFunc(fields, func(one string) bool {
		return one == AnyField || core.IsNamed(one, name)
	})
}

// CheckMeta refuses metadata beside a document that are too many or too long.
func CheckMeta(meta map[string]string) error {
	if len(meta) > maxFrontKeys {
		return fmt.Errorf("it has more than %d fields", maxFrontKeys)
	}
	for name, text := range meta {
		if len(text) > maxFrontValue {
			return fmt.Errorf("field %.80q has more than %d bytes", name, maxFrontValue)
		}
	}
	return nil
}

// AddProperty adds a property of a file to its metadata; keywords become a list with commas between.
func AddProperty(meta map[string]string, name, value string) map[string]string {
	value = strings.Join(strings.Fields(strings.ToValidUTF8(value, "")), " ")
	if name == "keywords" {
		words := strings.FieldsFunc(value, func(c rune) bool { return c == ',' || c == ';' })
		for i := range words {
			words[i] = strings.TrimSpace(words[i])
		}
		value = strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), ", ")
	}
	if value == "" || len(value) > maxFrontValue {
		return meta
	}
	if meta == nil {
		meta = map[string]string{}
	}
	meta[name] = value
	return meta
}

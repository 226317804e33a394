package document

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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

// HasField reports whether a file of metadata, or the record of a row, names a field, whatever its value is.
func HasField(raw []byte, name string) bool {
	var values map[string]jsontext.Value
	if json.Unmarshal(bytes.TrimPrefix(raw, []byte("\ufeff")), &values) != nil {
		return false
	}
	if _, has := values[name]; has {
		return true
	}
	var inner map[string]jsontext.Value
	if json.Unmarshal(values["metadata"], &inner) != nil {
		return false
	}
	_, has := inner[name]
	return has
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

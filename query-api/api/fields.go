package api

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/answer"
)

// resultFields are what a request may name of a result: its fields, and those of its parts as chunks.text.
var resultFields = func() (out []string) {
	for _, field := range fieldsOf(reflect.TypeFor[answer.Response]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		out = append(out, name)
		part := field.Type
		if kind := part.Kind(); kind == reflect.Slice || kind == reflect.Pointer {
			part = part.Elem()
		}
		if part.Kind() == reflect.Struct {
			for _, inner := range fieldsOf(part) {
				key, _, _ := strings.Cut(inner.Tag.Get("json"), ",")
				out = append(out, name+"."+key)
			}
		}
	}
	return out
}()

// checkFields refuses names that no result has.
func checkFields(fields []string) error {
	for _, name := range fields {
		if !slices.Contains(resultFields, name) {
			return newFault("read query", "fields", name+" is not a result field", "known: "+strings.Join(resultFields, ", "))
		}
	}
	return nil
}

// selectFields gives a result with the named fields alone; all of it where none is named.
func selectFields(response answer.Response, fields []string) any {
	if len(fields) == 0 {
		return response
	}
	raw, _ := json.Marshal(response) // it has no value that cannot be written
	var all map[string]any
	_ = json.Unmarshal(raw, &all)
	out := map[string]any{}
	parts := map[string][]string{}
	for _, field := range fields {
		name, inner, nested := strings.Cut(field, ".")
		if value, ok := all[name]; ok && !nested {
			out[name] = value
		} else if ok {
			parts[name] = append(parts[name], inner)
		}
	}
	for name, inner := range parts {
		if out[name] == nil {
			out[name] = pickFields(all[name], inner)
		}
	}
	return out
}

// pickFields keeps the named fields of an object, or of each object of a list.
func pickFields(value any, names []string) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = pickFields(value[i], names)
		}
	case map[string]any:
		out := map[string]any{}
		for _, name := range names {
			if inner, ok := value[name]; ok {
				out[name] = inner
			}
		}
		return out
	}
	return value
}

package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
)

// schema is a JSON Schema, or a part of one.
type schema map[string]any

// durationForm matches what Go reads as a duration: a number without a unit is none.
const durationForm = `^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`

// indexForm matches names of indexes.
const indexForm = "^[a-z0-9][a-z0-9-]{0,62}$"

// enumOf returns the schema of a text that is one of known words.
func enumOf(known []string) schema {
	words := make([]any, len(known))
	for i, word := range known {
		words[i] = word
	}
	return schema{"enum": words}
}

// Schema returns the JSON Schema of the configuration file, by which editors complete and check keys:
// docs/reference/config.schema.json. It accepts every file that Load accepts, except for numbers and booleans in
// quotes, and t and f for booleans; Load also checks what a schema cannot say.
func Schema() string {
	keys := describer{byPath: describeKeys(), defaults: defaultValues()}
	out := keys.describeType(reflect.TypeFor[Config](), "")
	out["$schema"] = "http://json-schema.org/draft-07/schema#"
	out["title"] = "Configuration of UnWeaver"
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	_ = encoder.Encode(out) // it holds texts, numbers and lists
	return text.String()
}

// describer makes a schema of the types and of what keys.go says of their keys.
type describer struct {
	byPath   map[string]key
	defaults map[string]reflect.Value
}

// describeType returns the schema of a type. A key without a value has its default, so null is allowed everywhere.
func (d describer) describeType(typ reflect.Type, path string) schema {
	switch typ.Kind() {
	case reflect.Map:
		return schema{
			"type": []string{"object", "null"}, "propertyNames": schema{"pattern": indexForm},
			"additionalProperties": d.describeType(typ.Elem(), path+".*"),
		}
	case reflect.Struct:
		properties := schema{}
		for i := range typ.NumField() {
			name := keyOf(typ.Field(i))
			below := joinPath(path, name)
			switch {
			case name == "":
			case below == "indexes.*.models":
				properties[name] = schema{"$ref": "#/properties/models"}
			case path == "models" && slices.Contains(Roles, name):
				properties[name] = schema{"$ref": "#/properties/models/properties/chat"}
			default:
				properties[name] = d.describeType(typ.Field(i).Type, below)
			}
		}
		return schema{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
	}
	return d.describeKey(typ, path)
}

// describeKey returns the schema of one key.
func (d describer) describeKey(typ reflect.Type, path string) schema {
	k, out := d.byPath[path], describeValue(typ)
	for name, part := range k.rule.schema {
		out[name] = part
	}
	if known, ok := out["enum"].([]any); ok {
		delete(out, "type")
		out["enum"] = append(slices.Clone(known), nil)
	}
	if k.meaning != "" {
		out["description"] = k.formatComment()
	}
	if standard, ok := d.defaults[path]; ok {
		out["default"] = standard.Interface()
		if _, ok := out["default"].(core.Duration); ok {
			out["default"] = toLiteral(standard)
		}
		if standard.Kind() == reflect.Slice && standard.IsNil() {
			out["default"] = []string{}
		}
	}
	return out
}

// describeValue returns the schema of a value that is no mapping of keys. A list may be one text with commas, so that
// one of plain values may be one value.
func describeValue(typ reflect.Type) schema {
	if typ == reflect.TypeFor[core.Duration]() {
		return schema{"type": []string{"string", "integer", "null"}, "pattern": durationForm, "minimum": 0, "maximum": 0}
	}
	switch typ.Kind() {
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Struct {
			item := describer{}.describeType(typ.Elem(), "")
			return schema{"type": []string{"array", "string", "null"}, "items": item}
		}
		plain := []string{"string", "number", "boolean", "null"}
		return schema{"type": append([]string{"array"}, plain...), "items": schema{"type": plain}}
	case reflect.Bool:
		return schema{"enum": []any{true, false, 0, 1}}
	case reflect.Int, reflect.Int64:
		return schema{"type": []string{"integer", "null"}}
	case reflect.Float64:
		return schema{"type": []string{"number", "null"}}
	}
	return schema{"type": []string{"string", "number", "boolean", "null"}}
}

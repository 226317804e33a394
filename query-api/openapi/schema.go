package openapi

import (
	"cmp"
	_ "embed"
	"encoding"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/query-api/chat"
)

// schemas makes JSON schemas of Go types: named structs become components, fields go by their json tags. Further tags:
// doc (description), enum (comma-separated), bounds (lo,hi of a number), length (lo,hi of a text), pattern, types
// (of a value that may have several), items (pattern of the items), required, default (JSON), ref (a component by
// name).
type schemas struct {
	components map[string]any
	names      map[reflect.Type]string // of types whose component is not called as they are
	types      map[string]reflect.Type // of components
	strict     bool                    // a body is described that refuses further fields
}

// dateTime is the form of times: not every reader of schemas looks at formats.
const dateTime = `^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]` +
	`(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`

// date is the form of a day, which may stand for a time where a query asks for one.
const date = `^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$`

var textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()

func newRef(name string) map[string]any {
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

// conditionSchema describes what a field of metadata must be.
var conditionSchema = func() map[string]any {
	text := map[string]any{"type": "string", "minLength": 1}
	list := map[string]any{"type": "array", "items": text}
	values := map[string]any{"anyOf": []any{text, list}}
	bound := map[string]any{"anyOf": []any{map[string]any{"type": "number"}, text}, "description": "a number or a date"}
	return map[string]any{"anyOf": []any{text, list, map[string]any{
		"type": "object", "additionalProperties": false, "minProperties": 1,
		"description": "Operators, all of which must hold.",
		"properties": map[string]any{
			"in": values, "not": values, "exists": map[string]any{"type": "boolean"},
			"gte": bound, "gt": bound, "lte": bound, "lt": bound,
		},
	}}}
}()

// schemaOf gives the schema of a type.
func (s *schemas) schemaOf(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time", "pattern": dateTime}
	case t == reflect.TypeFor[answer.Moment]():
		return map[string]any{"type": "string", "pattern": dateTime + "|" + date}
	case t == reflect.TypeFor[answer.Condition]():
		return conditionSchema
	case t.Implements(textMarshaler):
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return allowNull(s.schemaOf(t.Elem()))
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.schemaOf(t.Elem())}
	case reflect.Array:
		return map[string]any{"type": "array", "items": s.schemaOf(t.Elem()), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return map[string]any{"type": "object"}
		}
		return map[string]any{"type": "object", "additionalProperties": s.schemaOf(t.Elem())}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Struct:
		return s.describeStruct(t)
	case reflect.Interface:
		return map[string]any{}
	}
	return map[string]any{"type": "integer"}
}

//go:embed meanings.txt
var meaningLines string

// meanings says what schemas are, and what fields mean that carry no tag doc: by Schema, Schema.field, else by field.
var meanings = func() map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(meaningLines) {
		if name, text, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && line[0] != '#' {
			out[name] = text
		}
	}
	return out
}()

// describeMeanings adds the descriptions of schemas and fields that have none. A reference has that of its schema.
func (s *schemas) describeMeanings() {
	for name, component := range s.components {
		schema := component.(map[string]any)
		if text := meanings[name]; text != "" && schema["description"] == nil {
			schema["description"] = text
		}
		properties, _ := schema["properties"].(map[string]any)
		for key, one := range properties {
			property := one.(map[string]any)
			text := cmp.Or(meanings[name+"."+key], meanings[key])
			if text != "" && property["description"] == nil && property["$ref"] == nil {
				property["description"] = text
			}
		}
	}
}

// allowNull lets a schema be null as well.
func allowNull(schema map[string]any) map[string]any {
	if _, ok := schema["type"].([]string); ok {
		return schema
	}
	if kind, ok := schema["type"].(string); ok && schema["$ref"] == nil {
		schema["type"] = []string{kind, "null"}
		return schema
	}
	out := map[string]any{"oneOf": []any{map[string]any{"type": "null"}, schema}}
	if doc := schema["description"]; doc != nil {
		delete(schema, "description")
		out["description"] = doc
	}
	return out
}

// describeStruct describes a struct once and refers to it.
func (s *schemas) describeStruct(t reflect.Type) map[string]any {
	name := s.names[t]
	if name == "" {
		name = t.Name()
		if t.PkgPath() == reflect.TypeFor[chat.Request]().PkgPath() { // chat uses some of the names for other types
			name = "Chat" + name
		}
	}
	if s.components[name] != nil {
		if known := s.types[name]; known != t { // met by the first test
			panic("api: two types are called " + name + ": " + known.String() + ", " + t.String())
		}
		return newRef(name)
	}
	s.types[name] = t
	object := map[string]any{"type": "object"}
	s.components[name] = object // before its fields, which may refer to it
	properties := map[string]any{}
	required := []string{}
	for _, field := range fieldsOf(t) {
		key, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		properties[key] = s.describeField(field)
		needed := options == "" // neither omitempty nor omitzero
		if s.strict {           // of a request
			needed = field.Tag.Get("required") != ""
		}
		if needed {
			required = append(required, key)
		} else if s.strict { // null is as good as nothing
			properties[key] = allowNull(s.describeField(field))
		}
	}
	object["properties"] = properties
	if s.strict {
		object["additionalProperties"] = false
	}
	if !s.strict || len(required) > 0 {
		object["required"] = required
	}
	return newRef(name)
}

// fieldsOf returns the fields of a struct as encoding/json has them: those of embedded structs count as fields of it.
func fieldsOf(t reflect.Type) []reflect.StructField {
	var out []reflect.StructField
	for i := range t.NumField() {
		field := t.Field(i)
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && key == "" && field.Type.Kind() == reflect.Struct:
			out = append(out, fieldsOf(field.Type)...)
		case field.IsExported() && key != "" && key != "-":
			out = append(out, field)
		}
	}
	return out
}

// describeField describes a field with its tags.
func (s *schemas) describeField(field reflect.StructField) map[string]any {
	schema := s.schemaOf(field.Type)
	if name := field.Tag.Get("ref"); name != "" {
		return newRef(name)
	}
	if doc := field.Tag.Get("doc"); doc != "" {
		schema["description"] = doc
	}
	if words := field.Tag.Get("enum"); words != "" {
		values := []any{}
		for _, word := range strings.Split(words, ",") {
			values = append(values, word)
		}
		if field.Type.Kind() == reflect.Pointer {
			values = append(values, nil)
		}
		schema["enum"] = values
	}
	if kinds := field.Tag.Get("types"); kinds != "" {
		schema["type"] = strings.Split(kinds, ",")
		if strings.Contains(kinds, "array") {
			schema["items"] = map[string]any{"type": "object"} // readers of schemas require it of every array
		}
	}
	if pattern := field.Tag.Get("pattern"); pattern != "" {
		schema["pattern"] = pattern
	}
	if pattern := field.Tag.Get("items"); pattern != "" {
		schema["items"].(map[string]any)["pattern"] = pattern
	}
	for tag, keys := range map[string][2]string{
		"bounds": {"minimum", "maximum"}, "length": {"minLength", "maxLength"},
	} {
		lo, hi, ok := strings.Cut(field.Tag.Get(tag), ",")
		if ok {
			schema[keys[0]], schema[keys[1]] = parseNumeral(lo), parseNumeral(hi)
		}
	}
	switch def := field.Tag.Get("default"); def {
	case "":
	case "true", "false":
		schema["default"] = def == "true"
	default:
		schema["default"] = parseNumeral(def)
	}
	return schema
}

// parseNumeral reads a number of a tag. Tags are constants, so a bad one is met by the first test.
func parseNumeral(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic("api: tag: " + err.Error())
	}
	return n
}

// ResultFields are what a request may name of a result: its fields, and those of its parts as chunks.text.
var ResultFields = func() (out []string) {
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

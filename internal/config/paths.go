package config

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
)

// keyOf returns a field's key: its yaml tag, else its JSON name (types of package core), else empty.
func keyOf(field reflect.StructField) string {
	key, _, _ := strings.Cut(cmp.Or(field.Tag.Get("yaml"), field.Tag.Get("json")), ",")
	return key
}

// findField finds the field of a key in a struct.
func findField(structure reflect.Value, key string) (reflect.Value, bool) {
	for i := range structure.NumField() {
		if key != "" && keyOf(structure.Type().Field(i)) == key {
			return structure.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func keysOf(structure reflect.Type) []string {
	var out []string
	for i := range structure.NumField() {
		if key := keyOf(structure.Field(i)); key != "" {
			out = append(out, key)
		}
	}
	return out
}

func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// walkValues visits every value below a struct in the order of its fields; indexes come in the order of their names.
func walkValues(value reflect.Value, path string, visit func(path string, value reflect.Value)) {
	switch value.Kind() {
	case reflect.Struct:
		for i := range value.NumField() {
			if key := keyOf(value.Type().Field(i)); key != "" {
				walkValues(value.Field(i), joinPath(path, key), visit)
			}
		}
	case reflect.Map:
		names := value.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, name := range names {
			walkValues(value.MapIndex(name), joinPath(path, name.String()), visit)
		}
	default:
		visit(path, value)
	}
}

// toGeneral gives the path under which keys.go describes a path: the name of an index becomes *, an index's models are
// described once, with the general ones, and the chat models of roles with models.chat.
func toGeneral(path string) string {
	parts := strings.Split(path, ".")
	if len(parts) < 3 || parts[0] != "indexes" {
		path, _ = generalRole(path)
		return path
	}
	if parts[2] == "models" {
		path, _ = generalRole(strings.Join(parts[2:], "."))
		return path
	}
	parts[1] = "*"
	return strings.Join(parts, ".")
}

// isOverride reports whether a path is that of an index's own models, or of a role, where a value that is not given
// means the general one.
func isOverride(path string) bool {
	if _, role := generalRole(path); role {
		return true
	}
	parts := strings.Split(path, ".")
	return len(parts) > 3 && parts[0] == "indexes" && parts[2] == "models"
}

// setScalar sets a value from its text.
func setScalar(value reflect.Value, text string) error {
	if value.Kind() == reflect.Pointer {
		fresh := reflect.New(value.Type().Elem())
		if err := setScalar(fresh.Elem(), text); err != nil {
			return err
		}
		value.Set(fresh)
		return nil
	}
	if parser, ok := value.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return parser.UnmarshalText([]byte(text))
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is not true or false", text)
		}
		value.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		value.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		value.SetFloat(f)
	default:
		return fmt.Errorf("cannot be set")
	}
	return nil
}

// toLiteral writes a value as the file would have it.
func toLiteral(value reflect.Value) string {
	if value.Kind() == reflect.Slice {
		return formatList(value)
	}
	switch v := value.Interface().(type) {
	case core.Duration:
		text, _ := v.MarshalText() // cannot fail
		short := strings.TrimSuffix(string(text), "0s")
		if strings.HasSuffix(short, "h0m") {
			short = strings.TrimSuffix(short, "0m")
		}
		if short == "" || !strings.HasSuffix(short, "h") && !strings.HasSuffix(short, "m") {
			return string(text)
		}
		return short
	case string:
		if v == "" {
			return `""`
		}
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(value.Interface())
}

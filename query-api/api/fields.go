package api

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/query-api/openapi"
)

// checkFields refuses names that no result has.
func checkFields(fields []string) error {
	for _, name := range fields {
		if !slices.Contains(openapi.ResultFields, name) {
			return newFault("read query", "fields", name+" is not a result field",
				"known: "+strings.Join(openapi.ResultFields, ", "))
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

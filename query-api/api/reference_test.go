package api_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/query-api/api"
)

const referencePath = "../../docs/reference/api.md"

const referenceHead = `# API

<!-- Made from query-api/api by: go test ./query-api/api -run TestTheDescriptionIsTheOneInTheRepository -update. -->

For application developers: every route, parameter, field and status of query-api, as ` + "`/openapi.json`" + ` describes
them to programs. How to ask, filter and page: [guide](../guides/api.md). What a code means: [errors.md](errors.md).
`

// referenceSchema is a schema as the reference shows it.
type referenceSchema struct {
	Ref         string `json:"$ref"`
	Type        any
	Description string
	Enum        []any
	Items       *referenceSchema
	AnyOf       []referenceSchema
	OneOf       []referenceSchema
	Properties  map[string]referenceSchema
	Values      any `json:"additionalProperties"`
	Required    []string
}

// name returns the name of the type, with links to schemas.
func (s referenceSchema) name() string {
	parts := []string{}
	for _, one := range append(s.OneOf, s.AnyOf...) {
		parts = append(parts, one.name())
	}
	kinds, listed := s.Type.([]any)
	if !listed && s.Type != nil {
		kinds = []any{s.Type}
	}
	for _, kind := range kinds {
		values, mapped := s.Values.(map[string]any)
		switch {
		case kind == "array" && s.Items != nil:
			parts = append(parts, "list of "+s.Items.name())
		case kind == "object" && mapped:
			var inner referenceSchema
			raw, _ := json.Marshal(values) // it was read from JSON
			_ = json.Unmarshal(raw, &inner)
			parts = append(parts, "object of "+inner.name())
		default:
			parts = append(parts, fmt.Sprint(kind))
		}
	}
	if name := strings.TrimPrefix(s.Ref, "#/components/schemas/"); name != "" {
		parts = append(parts, "["+name+"](#"+strings.ToLower(name)+")")
	}
	slices.SortStableFunc(parts, func(a, b string) int { return cmp.Compare(isNull(a), isNull(b)) })
	return cmp.Or(strings.Join(slices.Compact(parts), " or "), "any")
}

func isNull(kind string) int { return strings.Count(kind, "null") }

// meaning returns the meaning of a field: what is said of it, else of its type, and the values that it may have.
func (s referenceSchema) meaning(all map[string]referenceSchema) string {
	text := cmp.Or(s.Description, all[strings.TrimPrefix(s.Ref, "#/components/schemas/")].Description)
	var values []string
	for _, value := range s.Enum {
		if value != nil {
			values = append(values, fmt.Sprintf("`%v`", value))
		}
	}
	if len(values) > 0 && len(values) < 20 {
		text += ". One of " + strings.Join(values, ", ")
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", " "), "|", `\|`)
}

var word = regexp.MustCompile(`[a-z_]+`)

// newReference renders docs/reference/api.md from the description.
func newReference(t *testing.T) string {
	t.Helper()
	var d struct {
		Tags  []struct{ Name, Description string }
		Paths map[string]map[string]struct {
			Tags                 []string
			Summary, Description string
			Parameters           []struct {
				Name, In, Description string
				Example               any
				Schema                referenceSchema
			}
			RequestBody *struct {
				Content map[string]struct {
					Schema   referenceSchema
					Examples map[string]struct{ Value any }
				}
			}
			Responses map[string]struct {
				Description string
				Content     map[string]struct{ Schema referenceSchema }
			}
		}
		Components struct {
			Schemas   map[string]referenceSchema
			Responses map[string]struct{ Description string }
		}
	}
	require.NoError(t, json.Unmarshal(api.OpenAPI(retrieve.RegisterMethods()), &d))
	var out strings.Builder
	out.WriteString(referenceHead)
	codes := map[string]string{"405": d.Components.Responses["405"].Description}
	for _, tag := range d.Tags {
		fmt.Fprintf(&out, "\n## Routes: %s\n\n%s\n", tag.Name, tag.Description)
		for _, path := range sorted(d.Paths) {
			for _, method := range sorted(d.Paths[path]) {
				one := d.Paths[path][method]
				if one.Tags[0] != tag.Name {
					continue
				}
				fmt.Fprintf(&out, "\n### `%s %s`\n\n%s. %s\n", strings.ToUpper(method), path, one.Summary, one.Description)
				address, rows := path, ""
				for _, parameter := range one.Parameters {
					if parameter.In == "path" {
						value := url.PathEscape(fmt.Sprint(parameter.Example))
						address = strings.ReplaceAll(address, "{"+parameter.Name+"}", value)
					}
					rows += fmt.Sprintf("| `%s` | %s | %s | %s |\n", parameter.Name, parameter.In, parameter.Schema.name(),
						strings.ReplaceAll(parameter.Description, "|", `\|`))
				}
				call := "curl -s http://127.0.0.1:8080" + address
				if one.RequestBody != nil {
					body := one.RequestBody.Content["application/json"]
					sent, err := json.Marshal(body.Examples[sorted(body.Examples)[0]].Value)
					require.NoError(t, err)
					call += " -H 'Content-Type: application/json' \\\n  -d '" + string(sent) + "'"
					rows += fmt.Sprintf("| | body | %s | |\n", body.Schema.name())
				}
				fmt.Fprintf(&out, "\n```sh no-run\n%s\n```\n", call)
				if rows != "" {
					out.WriteString("\n| parameter | in | type | meaning |\n| --- | --- | --- | --- |\n" + rows)
				}
				var answers, errors []string
				for _, status := range sorted(one.Responses) {
					answer := one.Responses[status]
					if status >= "400" {
						errors = append(errors, status)
						codes[status] = longer(codes[status], answer.Description)
						continue
					}
					answers = append(answers, status)
					for _, kind := range sorted(answer.Content) {
						answers = append(answers, answer.Content[kind].Schema.name()+" as "+kind)
					}
				}
				fmt.Fprintf(&out, "\nAnswers: %s. Errors: %s.\n", strings.Join(answers, ", "), strings.Join(errors, ", "))
			}
		}
	}
	out.WriteString("\n## Statuses of errors\n\n| status | codes |\n| --- | --- |\n")
	for _, status := range sorted(codes) {
		linked := word.ReplaceAllStringFunc(codes[status], func(code string) string {
			if fault.IsKnown(fault.Code(code)) {
				return "[" + code + "](errors.md#" + code + ")"
			}
			return code
		})
		fmt.Fprintf(&out, "| %s | %s |\n", status, linked)
	}
	out.WriteString("\n## Schemas\n\nA response field that is marked with ? may be absent. A request requires the fields " +
		"that are not.\n")
	for _, name := range sorted(d.Components.Schemas) {
		schema := d.Components.Schemas[name]
		fmt.Fprintf(&out, "\n### %s\n\n%s\n", name, strings.ReplaceAll(schema.Description, "\n", " "))
		if kinds := append(schema.OneOf, schema.AnyOf...); len(kinds) > 0 {
			fmt.Fprintf(&out, "\nOne of: %s.\n", schema.name())
		}
		if len(schema.Properties) > 0 {
			out.WriteString("\n| field | type | meaning |\n| --- | --- | --- |\n")
		}
		for _, field := range sorted(schema.Properties) {
			mark := "?"
			if slices.Contains(schema.Required, field) {
				mark = ""
			}
			property := schema.Properties[field]
			fmt.Fprintf(&out, "| `%s`%s | %s | %s |\n", field, mark, property.name(), property.meaning(d.Components.Schemas))
		}
	}
	return out.String()
}

// longer returns the longer one of two texts.
func longer(a, b string) string {
	if len(b) > len(a) {
		return b
	}
	return a
}

func sorted[T any](of map[string]T) (out []string) {
	for name := range of {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// compareReference fails where docs/reference/api.md is not what the description says.
func compareReference(t *testing.T) {
	t.Helper()
	got := newReference(t)
	if *update {
		require.NoError(t, os.WriteFile(referencePath, []byte(got), 0o644))
	}
	want, err := os.ReadFile(referencePath)
	require.NoError(t, err)
	assert.True(t, string(want) == got, "docs/reference/api.md is not what the description says: "+
		"run go test ./query-api/api -run TestTheDescriptionIsTheOneInTheRepository -update")
}

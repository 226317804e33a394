package api_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/query-api/api"
)

const referencePath = "../../docs/guides/api.md"

// referenceHead is what docs/guides/api.md says that the description has no place for.
const referenceHead = "# HTTP reference\n\n<!-- Written by: go test ./query-api/api -run " +
	"TestTheDescriptionIsTheOneInTheRepository -update -->\n\n" + `Routes, parameters and errors, for ` +
	"developers. Generate clients\nfrom `/openapi.json`.\n" + `
    curl -s http://127.0.0.1:8080/v1/indexes
    curl -s http://127.0.0.1:8080/v1/indexes/docs/query -H 'Content-Type: application/json' \
      -d '{"query": "Who signed the lease?", "top_k": 5, "answer": true}'
    curl -s "$SERVER/v1/indexes/docs/documents?prefix=guides/&limit=20" -H "Authorization: Bearer $KEY"

Routes require a key with scope ` + "`query`" + ` unless they name another. None changes documents. Fields for clients of
OpenAI and agents: [agents.md](agents.md). Send the key as ` + "`Authorization: Bearer KEY`" + ` or ` + "`X-API-Key: KEY`" + `. A body is
at most 64 KiB, of chat 1 MiB, of MCP 256 KiB.

## Filters

    {"query": "rent", "filter": {
      "document_prefix": "contracts/2026/",
      "metadata": {"author": ["Ada", "Eve"], "language": "en"},
      "modified": {"from": "2026-01-01", "to": "2026-07-01T12:00:00Z"}}}

Only documents that match every field influence the result. A list allows any of its values; case counts.
A document's list, stored as ` + "`lease, Bergen`" + `, matches by each element.
` + "`from`" + ` is included, ` + "`to`" + ` is not; a date is its first moment, UTC. If no document matches: ` +
	"`reason: \"no_document\"`" + `.

| file | metadata |
|---|---|
| Markdown | fields of the front matter |
| HTML | author, keywords, description, date |
| ` + "`.eml`" + ` | from, to, cc, date, attachments; an attachment: attached_to |
| notebooks | language, kernel, author |
| EPUB | author, language, date |
| JSON, JSONL, CSV | all fields except title and text |
| guessed encoding | encoding |
| PDF, Word, Excel, PowerPoint | none |

## Lists and generations

Lists, except models, are ` + "`{\"items\": […], \"next_cursor\": \"…\"}`" + ` and take two parameters:

* ` + "`?limit`" + `: 1 to 1,000, default 50
* ` + "`?cursor`" + `: the last ` + "`next_cursor`" + `, with the same order and filters (else 422); empty means the end. After
  410 begin again: its generation or entry is gone

Reads of themes, documents, passages and entities take ` + "`?generation`" + `; the default is the current one.
`

// common are the parameters that the head of docs/guides/api.md describes.
var common = []string{"limit", "cursor", "generation"}

// elsewhere are the fields that other pages describe.
var elsewhere = map[string]string{"method": "default: the index's `retrieval.method`; see [retrieval.md](retrieval.md)"}

// schemaRef names a schema of the description.
type schemaRef struct {
	Ref string `json:"$ref"`
}

// referenceField is a field of a body.
type referenceField struct {
	schemaRef
	Description string
	OneOf       []schemaRef
	Items       schemaRef
}

// newReference renders docs/guides/api.md from the description.
func newReference(t *testing.T) string {
	t.Helper()
	var d struct {
		Tags  []struct{ Name string }
		Paths map[string]map[string]struct {
			Tags                 []string
			Summary, Description string
			Parameters           []struct{ Name, In, Description string }
			RequestBody          *struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			}
			Responses map[string]struct{ Description string }
		}
		Components struct {
			Schemas   map[string]struct{ Properties map[string]referenceField }
			Responses map[string]struct{ Description string }
		}
	}
	require.NoError(t, json.Unmarshal(api.OpenAPI(retrieve.Methods()), &d))
	var out strings.Builder
	out.WriteString(referenceHead)
	codes := map[string]string{"405": d.Components.Responses["405"].Description}
	for _, tag := range d.Tags {
		fmt.Fprintf(&out, "\n## %s\n", strings.ToUpper(tag.Name[:1])+tag.Name[1:])
		for _, path := range sorted(d.Paths) {
			for _, method := range sorted(d.Paths[path]) {
				one := d.Paths[path][method]
				for status, answer := range one.Responses {
					if status >= "400" && len(answer.Description) > len(codes[status]) {
						codes[status] = answer.Description
					}
				}
				if one.Tags[0] != tag.Name {
					continue
				}
				fmt.Fprintf(&out, "\n### `%s %s`\n\n%s. %s\n", strings.ToUpper(method), path, one.Summary,
					strings.TrimSuffix(one.Description, " Scope of the key: query."))
				var lines []string
				for _, parameter := range one.Parameters {
					if parameter.In == "query" && !slices.Contains(common, parameter.Name) {
						lines = append(lines, fmt.Sprintf("* `?%s`: %s\n", parameter.Name, parameter.Description))
					}
				}
				if one.RequestBody != nil {
					body := one.RequestBody.Content["application/json"].Schema.Ref
					var describe func(of, within string)
					describe = func(of, within string) {
						fields := d.Components.Schemas[strings.TrimPrefix(of, "#/components/schemas/")].Properties
						for _, name := range sorted(fields) {
							field := fields[name]
							require.NotEmpty(t, field.Description, "%s %s%s has no description", path, within, name)
							if within == "" && tag.Name != "agents" {
								lines = append(lines, fmt.Sprintf("* `%s`: %s\n", name, cmp.Or(elsewhere[name], field.Description)))
							}
							for _, part := range append(field.OneOf, field.schemaRef, field.Items) {
								describe(part.Ref, within+name+".")
							}
						}
					}
					describe(body, "")
				}
				if len(lines) > 0 {
					out.WriteString("\n" + strings.Join(lines, ""))
				}
			}
		}
	}
	out.WriteString("\n## Errors\n\nA problem is `{type, title, status, code, detail, hint, param, request_id}` (RFC 9457). " +
		"`param` is the field at fault; `type` is a name, not a page.\nBelow `/v1/chat`, `/v1/models`, `/v1/embeddings` and `/v1/responses` it has OpenAI's form.\n\n" +
		"| status | codes |\n|---|---|\n")
	for _, status := range sorted(codes) {
		fmt.Fprintf(&out, "| %s | %s |\n", status, codes[status])
	}
	return out.String()
}

func sorted[T any](of map[string]T) (out []string) {
	for name := range of {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// compareReference fails where docs/guides/api.md is not what the description says.
func compareReference(t *testing.T) {
	t.Helper()
	got := newReference(t)
	if *update {
		require.NoError(t, os.WriteFile(referencePath, []byte(got), 0o644))
	}
	want, err := os.ReadFile(referencePath)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "docs/guides/api.md is not what the description says: run go test ./query-api/api -update")
}

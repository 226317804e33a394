package mcp_test

import (
	"context"
	"encoding/json"
	"net/url"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/query-api/mcp"
)

// replying is a backend whose answers are JSON, as a route gives them; empty: the zero answer.
type replying struct{ indexes, query, chunk, text string }

func decode[T any](raw string) (out T, err error) {
	if raw != "" {
		err = json.Unmarshal([]byte(raw), &out)
	}
	return out, err
}

func (r replying) ListIndexes(context.Context) ([]mcp.Index, error) {
	return decode[[]mcp.Index](r.indexes)
}

func (r replying) Ask(context.Context, string, []byte) (answer.Response, error) {
	return decode[answer.Response](r.query)
}

func (r replying) ReadChunk(context.Context, string, string, string) (mcp.Detail, error) {
	return decode[mcp.Detail](r.chunk)
}

func (r replying) ReadText(context.Context, string, string, url.Values) (mcp.DocumentText, error) {
	return decode[mcp.DocumentText](r.text)
}

const (
	fullPassage = `"id":"c1","document":"a#1","version":"v","stale":true,"title":"A","heading":["H"],"page":1,"page_end":2,` +
		`"metadata":{"author":"Ada"},"start":1,"end":9,"text":"Words and more words."`
	fullQuery = `{"index":"i","generation":"g","method":"hybrid","confidence":0.5,"degraded":["dense","chat_model"],
		"chunks":[{` + fullPassage + `,"rank":1,"score":0.5,"entities":[{"id":"e","name":"E"}]}],
		"notes":[{"kind":"facts","text":"F","sources":[["c1"]]}],"explain":{"method":"hybrid"},
		"answer":{"kind":"best_sentence","reason":"r","confidence":0.4,"lacks":["x"],"text":"T","citations":["c1"],
		"truncated":true}}`
)

// TestEveryToolGivesWhatItsSchemasSay calls each tool with the least and the most that an answer may hold, and checks
// the result with the schema that the tool declares. Its input schema has properties, which some clients require.
func TestEveryToolGivesWhatItsSchemasSay(t *testing.T) {
	nothing := `{"index":"i","generation":"g","method":"hybrid","reason":"no_match","degraded":[],"chunks":[],` +
		`"answer":{"kind":"none","text":"No data was found.","citations":[]}}`
	for name, backend := range map[string]replying{
		"zero":          {},
		"nothing found": {indexes: `[]`, query: nothing},
		"everything": {
			`[{"index":"i","generation":"g","documents":1,"chunks":1,"classes":1}]`, fullQuery,
			`{"index":"i","generation":"g","chunk":{` + fullPassage + `},"mentions":[{"name":"E"}]}`,
			`{"index":"i","generation":"g","document":"a#1","version":"v","title":"A","metadata":{"author":"Ada"},
				"start":0,"end":21,"length":30,"text":"Words and more words."}`,
		},
	} {
		here, there := sdk.NewInMemoryTransports()
		_, err := mcp.New(backend).Connect(t.Context(), here, nil)
		require.NoError(t, err)
		session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), there, nil)
		require.NoError(t, err)
		tools, err := session.ListTools(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, tools.Tools, 6)
		for _, tool := range tools.Tools {
			assert.IsType(t, map[string]any{}, tool.InputSchema.(map[string]any)["properties"], tool.Name)
			compiler := jsonschema.NewCompiler()
			require.NoError(t, compiler.AddResource("mem:out", tool.OutputSchema))
			schema, err := compiler.Compile("mem:out")
			require.NoError(t, err, tool.Name)
			for _, most := range []int{6000, 1} { // 1: passages are left out, texts are cut
				arguments := map[string]any{"index": "i", "max_tokens": most}
				switch tool.Name {
				case "list_indexes":
					arguments = map[string]any{}
				case "get_chunk":
					arguments["chunk"] = "c1"
				case "get_document":
					arguments["document"] = "a#1"
				default:
					arguments["query"] = "x"
				}
				result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool.Name, Arguments: arguments})
				if assert.NoError(t, err, "%s, %s", tool.Name, name) && assert.False(t, result.IsError, "%s: %+v", tool.Name, result) {
					assert.NoError(t, schema.Validate(result.StructuredContent), "%s, %s", tool.Name, name)
				}
			}
		}
	}
}

package config_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/unweaver/unweaver/internal/config"
)

const schemaPath = "../../docs/reference/config.schema.json"

// compileSchema returns the check of the schema that the types make.
func compileSchema(t *testing.T) *jsonschema.Schema {
	compiler := jsonschema.NewCompiler()
	raw := must(jsonschema.UnmarshalJSON(strings.NewReader(config.Schema())))(t)
	require.NoError(t, compiler.AddResource("config.json", raw))
	return must(compiler.Compile("config.json"))(t)
}

func TestTheReferenceHasTheSchemaOfTheTypes(t *testing.T) {
	want := config.Schema()
	if *update {
		require.NoError(t, os.WriteFile(schemaPath, []byte(want), 0o644))
	}
	got, err := os.ReadFile(schemaPath)
	assert.True(t, err == nil && string(got) == want,
		"%s is not what the types say (%v): make references", schemaPath, err)
}

// readYAML returns a text of YAML as the schema takes it.
func readYAML(t *testing.T, text string) (out any) {
	require.NoError(t, yaml.Unmarshal([]byte(text), &out), "%s", text)
	return out
}

func TestTheSchemaAcceptsWhatLoadAccepts(t *testing.T) {
	schema := compileSchema(t)
	for _, text := range []string{
		config.RenderSample(), // also what the demo and dev have: the defaults
		string(must(os.ReadFile("../../infra/unweaver.cluster.yaml"))(t)), "", "indexes: { docs: }",
		"indexes: { docs: { enrich: 'facts,gem', models: { answer: { provider: openai, model: 4 } } } }",
		"indexes: { docs: { documents: { s3_tags: 1 }, include: 2024 } }",
		"indexes: { docs: { include: true, exclude: [2024, true] } }",
	} {
		mustLoad(t, text, nil, nil)
		assert.NoError(t, schema.Validate(readYAML(t, text)), "%s", text)
	}
	for _, r := range rows(t) {
		value := readYAML(t, r.example)
		if _, date := value.(time.Time); date { // a text in YAML 1.2, which editors read
			value = r.example
		}
		for _, key := range slices.Backward(strings.Split(r.path, ".")) {
			value = map[string]any{key: value}
		}
		assert.NoError(t, schema.Validate(value), "the example of %s", r.path)
	}
}

func TestTheSchemaRefusesWhatLoadRefuses(t *testing.T) {
	schema := compileSchema(t)
	for _, text := range []string{
		"indexs: { docs: { corpus: /docs } }",                     // a typo
		"indexes: { docs: { grace: 24 } }",                        // no unit
		"indexes: { docs: { grace: 24 hours } }",                  // no unit of Go
		"worker: { cache_bytes: 8GB }",                            // bytes have none
		"worker: { pollers: 1000 }",                               // out of range
		"indexes: { docs: { models: { answer: { modle: m } } } }", // a typo behind a reference
		"indexes: { docs: { enrich: [fact] } }",
		"indexes: { Docs: { keep: 3 } }",
		"models: { chat: { provider: opanai } }",
		"models: { endpoints: [{ url: 'http://llm' }] }",
	} {
		assert.Error(t, schema.Validate(readYAML(t, text)), "%s", text)
		_, err := load(t, text, nil, nil)
		assert.Error(t, err, "%s", text)
	}
}

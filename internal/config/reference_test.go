package config_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
)

var update = flag.Bool("update", false, "write docs/reference/configuration.md again")

const referencePath = "../../docs/reference/configuration.md"

func TestTheReferenceIsMadeFromTheTypes(t *testing.T) {
	want := config.Reference()
	if *update {
		require.NoError(t, os.WriteFile(referencePath, []byte(want), 0o644))
	}
	got, err := os.ReadFile(referencePath)
	assert.True(t, err == nil && string(got) == want,
		"%s is not what the types say (%v): go test ./internal/config -update", referencePath, err)
}

// row of the reference's tables.
type row struct{ path, standard, example, meaning, rebuilds string }

// rows reads the tables of the reference, with an index named docs.
func rows(t *testing.T) []row {
	t.Helper()
	var out []row
	section := ""
	code, text := "`([^`]*)`", "([^|]*)"
	form := regexp.MustCompile(
		`^\| ` + strings.Join([]string{code, text, code, text, code, text, text}, ` \| `) + ` \|$`,
	)
	for _, line := range strings.Split(config.Reference(), "\n") {
		if title, ok := strings.CutPrefix(line, "## `"); ok {
			section = strings.Replace(strings.TrimSuffix(title, "`"), "NAME", "docs", 1)
			continue
		}
		if m := form.FindStringSubmatch(line); m != nil {
			out = append(out, row{section + "." + m[1], m[3], strings.Trim(m[5], `"`), m[6], m[7]})
		} else if strings.HasPrefix(line, "| `") {
			t.Errorf("a row of another form: %s", line)
		}
	}
	return out
}

// leaves returns the leaves of the types: every path that can be set.
func leaves(typ reflect.Type, path string) []string {
	switch {
	case typ.Kind() == reflect.Map:
		return leaves(typ.Elem(), path+".docs")
	case typ.Kind() != reflect.Struct:
		return []string{path}
	}
	var out []string
	for i := range typ.NumField() {
		tag := typ.Field(i).Tag
		key := tag.Get("yaml") + tag.Get("json")
		key, _, _ = strings.Cut(key, ",")
		if key == "" || path == "indexes.docs" && key == "models" || path == "models" && slices.Contains(config.Roles, key) {
			continue
		}
		out = append(out, leaves(typ.Field(i).Type, strings.TrimPrefix(path+"."+key, "."))...)
	}
	return out
}

func TestEveryKeyIsDescribedOnce(t *testing.T) {
	described := map[string]int{}
	for _, r := range rows(t) {
		described[r.path]++
	}
	for _, path := range leaves(reflect.TypeFor[config.Config](), "") {
		assert.Equal(t, 1, described[path], "%s stands", path)
		delete(described, path)
	}
	for path := range described {
		t.Errorf("%s stands in the reference and is no key", path)
	}
}

var onDocling = []string{
	"indexes.docs.documents.parser.base_url=http://d", "indexes.docs.documents.parser.provider=docling",
}

// onOIDC is what every key of sign-on needs.
var onOIDC = []string{
	"query_api.oidc.issuer=https://login", "query_api.oidc.audience=https://search", "query_api.oidc.client_id=search",
	`query_api.oidc.groups=[{group: g, indexes: ["*"], scopes: [admin]}]`,
}

// needs is what an example needs beside it.
var needs = map[string][]string{
	"models.chat.provider":      {"models.chat.model=m"},
	"models.embedding.provider": {"models.embedding.model=e5"},
	"models.rerank.provider":    {"models.rerank.base_url=http://r"},

	"indexes.docs.documents.parser.provider": onDocling[:1], "indexes.docs.documents.parser.kinds": onDocling,
	"indexes.docs.documents.parser.version": onDocling,
	"indexes.docs.documents.labels.field":   {"indexes.docs.retrieval.language=en"},
	"indexes.docs.documents.labels.rules":   {"indexes.docs.retrieval.language=en"},
	"indexes.docs.documents.s3_tags":        {"indexes.docs.corpus=s3://bucket"},
	"indexes.docs.freshness.events":         {"indexes.docs.corpus=s3://bucket"},
	"indexes.docs.documents.vision.pages":   {"models.vision.provider=openai", "models.vision.model=m"},

	"engine.tls_cert":             {"engine.tls_cert=c.pem", "engine.tls_key=k.pem"},
	"engine.tls_key":              {"engine.tls_cert=c.pem", "engine.tls_key=k.pem"},
	"engine.deployment.name":      {"engine.deployment.name=green", "engine.deployment.build_id=v1"},
	"engine.deployment.build_id":  {"engine.deployment.name=green", "engine.deployment.build_id=v1"},
	"engine.deployment.versioned": {"engine.deployment.name=green", "engine.deployment.build_id=v1"},
	"query_api.oidc.issuer":       onOIDC, "query_api.oidc.audience": onOIDC, "query_api.oidc.url": onOIDC,
	"query_api.oidc.groups": onOIDC, "query_api.oidc.client_id": onOIDC, "query_api.oidc.client_secret_file": onOIDC,
	"query_api.oidc.session_key_file": onOIDC,

	"query_api.tls.cert":            {"query_api.tls.cert=/c", "query_api.tls.key=/k"},
	"query_api.tls.key":             {"query_api.tls.cert=/c", "query_api.tls.key=/k"},
	"query_api.tls.acme.domains":    {"query_api.tls.acme.cache=/c"},
	"indexes.docs.chunking.overlap": {"indexes.docs.chunking.strategy=fixed"},
	"models.embedding.dimension":    {"models.embedding.provider=openai", "models.embedding.model=e"},
}

func digest(t *testing.T, set ...string) core.Digest {
	t.Helper()
	cfg := must(config.Load(config.Source{Set: set}))(t)
	spec := must(cfg.Spec("docs", ""))(t)
	return spec.ConfigDigest()
}

// besideExamples has the test run beside the file that the reference names.
func besideExamples(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("examples.json", []byte(`[{"text":"Words","entities":[]}]`), 0o600))
}

func TestAnExampleIsValidAndRebuildsWhatTheReferenceSays(t *testing.T) {
	besideExamples(t)
	for _, r := range rows(t) {
		setting := r.path + "=" + r.example
		assert.True(t, r.example != r.standard, "%s: the example is the default", r.path)
		before := digest(t, needs[r.path]...)
		after := digest(t, append(slices.Clone(needs[r.path]), setting)...)
		assert.True(t, (before == after) == (r.rebuilds == "nothing"),
			"%s: the reference says that a change rebuilds %s", r.path, r.rebuilds)
	}
}

func TestTheDigestOfTheDefaultsHasNotMoved(t *testing.T) {
	spec := must(config.Default().Spec("docs", "/corpus"))(t)
	assert.Equal(t, core.LanguageAuto, spec.Retrieval.Language)
	spec.Retrieval.Language = "en" // as a build finds it
	assert.Equal(t, "433aa416138a126fc693dddfaadbabe3cf406d78a18cfd3d927f1842d3a856de", spec.ConfigDigest().String())
}

func TestAFreshFileHoldsTheDefaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "unweaver.yaml")
	require.NoError(t, os.WriteFile(path, []byte(config.RenderSample()), 0o600))
	cfg := must(config.Load(config.Source{Path: path}))(t)
	got, _ := cfg.Spec("docs", "/corpus")
	want, _ := config.Default().Spec("docs", "/corpus")
	assert.True(t, reflect.DeepEqual(got, want), "index docs:\n%+v\n%+v", got, want)
	standard := config.Default()
	assert.True(t, cfg.Engine == standard.Engine && reflect.DeepEqual(cfg.QueryAPI, standard.QueryAPI) &&
		cfg.Worker == standard.Worker && reflect.DeepEqual(cfg.Stores, standard.Stores) &&
		reflect.DeepEqual(cfg.Models, standard.Models) && len(cfg.Indexes) == 1, "%+v", cfg)
	given := map[string]bool{}
	for _, s := range cfg.Settings() {
		given[s.Key] = s.Origin == config.FromFile
	}
	for _, r := range rows(t) {
		assert.True(t, given[r.path], "%s is not in the file", r.path)
	}
	for n, line := range strings.Split(strings.TrimSpace(config.RenderSample()), "\n") {
		assert.True(t, strings.Contains(line, "#") || strings.HasSuffix(line, ":") || line == "",
			"line %d has no comment: %s", n+1, line)
	}
}

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

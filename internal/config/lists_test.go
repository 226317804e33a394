package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
)

const listed = `
stores:
  corpus_roots: [/data/a, "/data/b"]
models:
  chat: {provider: openai, model: m, base_url: "http://chat:1/v1/", api_key_env: CHAT}
  endpoints:
    - {base_url: "http://more:2/v1", api_key_env: MORE}
    - {api_key_env: OPENAI}
indexes:
  own:
    models:
      embedding: {provider: openai, model: e, base_url: "http://own:3/v1", api_key_env: OWN}
  builtin:
    models: {chat: {provider: recorded, file: replay.jsonl}}
`

func written(t *testing.T, text string) config.Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "unweaver.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return config.Source{Path: path}
}

func TestEndpointsAreThoseThatTheConfigurationNames(t *testing.T) {
	cfg := must(config.Load(written(t, listed)))(t)
	want := []config.Endpoint{
		{BaseURL: "http://chat:1/v1", APIKeyEnv: "CHAT"}, {BaseURL: "http://more:2/v1", APIKeyEnv: "MORE"},
		{BaseURL: "http://own:3/v1", APIKeyEnv: "OWN"}, {BaseURL: "https://api.openai.com/v1", APIKeyEnv: "OPENAI"},
	}
	got := cfg.ListEndpoints()
	assert.True(t, slices.Equal(got, want), "%+v", got)
	recording, _ := filepath.Abs("replay.jsonl")
	assert.Equal(t, []string{recording}, cfg.ListRecordings())
	assert.Equal(t, []string{"/data/a", "/data/b"}, cfg.Stores.CorpusRoots)
	if got := config.Default().ListEndpoints(); len(got) != 0 {
		t.Errorf("built-in models name %v", got)
	}
}

func TestAListHasAShortForm(t *testing.T) {
	cfg := must(config.Load(config.Source{Set: []string{
		"models.endpoints=http://a/v1=A, https://b/v1?x=1=B", "stores.corpus_roots=/x,/y",
	}}))(t)
	want := []config.Endpoint{{BaseURL: "http://a/v1", APIKeyEnv: "A"}, {BaseURL: "https://b/v1?x=1", APIKeyEnv: "B"}}
	assert.True(t, slices.Equal(cfg.Models.Endpoints, want) && slices.Equal(cfg.Stores.CorpusRoots, []string{"/x", "/y"}),
		"%+v, %v", cfg.Models.Endpoints, cfg.Stores.CorpusRoots)
}

func TestMistakesInListsAreNamed(t *testing.T) {
	for text, says := range map[string]string{
		"stores: {corpus_roots: [docs]}":                                                       "not an absolute path",
		"stores: {corpus_roots: {a: b}}":                                                       "must be a list",
		"models: {endpoints: [{base_url: \"ftp://x\", api_key_env: A}]}":                       "not an http(s) URL",
		"models: {endpoints: [{api_key_env: \"\"}]}":                                           "environment variable",
		"models: {endpoints: [{url: \"http://x/v1\"}]}":                                        "unknown key",
		"models: {endpoints: \"http://x/v1\"}":                                                 "URL=VARIABLE",
		"engine: {tls_cert: a.pem}":                                                            "engine.tls_key",
		"models: {endpoints: [{base_url: \"http://x/v1\", api_key_env: \"sk-secret value\"}]}": "not the key itself",
	} {
		_, err := config.Load(written(t, text))
		assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), says) &&
			!strings.Contains(err.Error(), "sk-"), "%s: %v", text, err)
	}
}

// A server without keys is named with an empty variable; OpenAI's own requires one.
func TestAServerMayWantNoKey(t *testing.T) {
	cfg := must(load(t, `
models:
  chat: {provider: openai, model: m, base_url: "http://chat:1/v1", api_key_env: ""}
  endpoints: [{base_url: "http://more:2/v1", api_key_env: ""}]
`, []string{}, nil))(t)
	want := []config.Endpoint{{BaseURL: "http://chat:1/v1"}, {BaseURL: "http://more:2/v1"}}
	got := cfg.ListEndpoints()
	assert.True(t, slices.Equal(got, want), "got %v, want %v", got, want)
	for _, setting := range []string{"chat", "embedding"} {
		_, err := load(t, "models: {"+setting+": {provider: openai, model: m, api_key_env: \"\"}}\n", []string{}, nil)
		assert.True(t, err != nil && strings.Contains(err.Error(), "models."+setting+".api_key_env: OpenAI requires a key"),
			"%s: %v", setting, err)
	}
}

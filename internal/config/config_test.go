package config_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

func load(t *testing.T, yaml string, env, set []string) (*config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "unweaver.yaml")
	require.NoError(t, os.WriteFile(path, []byte(yaml), 0o600))
	return config.Load(config.Source{Path: path, Env: env, Set: set})
}

func mustLoad(t *testing.T, yaml string, env, set []string) *config.Config {
	t.Helper()
	cfg := must(load(t, yaml, env, set))(t)
	return cfg
}

func TestTheContractsExampleIsValid(t *testing.T) {
	cfg := mustLoad(t, `engine:    { address: 127.0.0.1:7233, namespace: default, task_queue: unweaver }
query_api: { address: 127.0.0.1:8080 }
worker:    { slots: 64, pollers: 4, cache_bytes: 34359738368, cache_dir: "", cpu: 0 }
stores:
  artifacts: s3://bucket/prefix
  classes:   redis://host:6379/0
  vectors:   milvus://host:19530/db
  milvus:    { load: import, bucket: "" }
  s3:        { endpoint: "", region: us-east-1, path_style: false }
models:
  chat:
    { provider: openai, base_url: "", api_key_env: OPENAI_API_KEY, model: "m", mode: online,
      price: {prompt: 0, completion: 0} }
  embedding:
    { provider: openai, base_url: "", api_key_env: OPENAI_API_KEY, model: "e", dimension: 0,
      max_input_tokens: 8192, classes: model, price: {prompt: 0} }
  limits:    { concurrency: 64, requests_per_minute: 0, tokens_per_minute: 0 }
indexes:
  docs:
    corpus: s3://bucket/docs/
    chunking:   { strategy: text, boundaries: stable, max_tokens: 1500, overlap: 0 }
    shortening: { threshold: 4000, sample: 256 }
    retrieval:  { method: unweaver, rule: weighted, top_chunks: 5, language: en, min_similarity: 0 }
    parity: false
    keep: 3
    grace: 24h
    budget:   { calls: 0, tokens: 0, money: 0 }
    failures: { share: 0.01, count: 0 }
    gate:     { max_removed: 0.2, probes: "", max_recall_drop: 0.05 }
    schedule: { cron: "", timezone: UTC, overlap: skip, catchup: 24h, jitter: 5m, pause_on_failure: false }
`, nil, nil)
	spec, err := cfg.Spec("docs", "")
	assert.True(t, err == nil && spec.Corpus == "s3://bucket/docs/" && spec.Chat.Model == "m" && spec.Keep == 3, "%+v %v",
		spec, err)
}

func TestEveryMistakeIsReportedAtOnceWithItsPlace(t *testing.T) {
	_, err := load(
		t,
		`modells: {}
models:
  chat: { provider: gpt, base_url: nowhere }
indexes:
  Bad_Name: {}
  docs:
    keep: many
    chunking: { strategy: magic, max_tokens: 5 }
    grace: soon
`,
		[]string{"UNWEAVER_MODELS_CHAT_COLOUR=red"},
		[]string{"indexes.docs.keeep=3", "nonsense"},
	)
	require.True(t, fault.Is(err, fault.BadConfig), "%v", err)
	for _, want := range []string{
		"unweaver.yaml:1:1: unknown key modells", "unweaver.yaml:3:21: models.chat.provider",
		"unweaver.yaml:3:36: models.chat.base_url", "unweaver.yaml:5:3: indexes.Bad_Name",
		"unweaver.yaml:7:11: indexes.docs.keep", "unweaver.yaml:8:27: indexes.docs.chunking.strategy",
		"unweaver.yaml:8:46: indexes.docs.chunking.max_tokens", "unweaver.yaml:9:12: indexes.docs.grace",
		"variable UNWEAVER_MODELS_CHAT_COLOUR", "indexes.docs.keeep", "--set nonsense", ": 11 mistakes",
	} {
		assert.True(t, strings.Contains(err.Error(), want), "%q is missing in\n%v", want, err)
	}
}

func TestASettingWinsOverAVariableAndThatOverTheFile(t *testing.T) {
	cfg := mustLoad(
		t,
		"models: { limits: { concurrency: 1 }, chat: { model: file } }\nindexes: { my-docs: { keep: 2 } }\n",
		[]string{
			"UNWEAVER_MODELS_LIMITS_CONCURRENCY=2", "UNWEAVER_MODELS_CHAT_MODEL=variable",
			"UNWEAVER_MODELS_CHAT_BASE_URL=http://v/v1", "UNWEAVER_INDEXES_MY_DOCS_KEEP=7", "UNWEAVER_WORKER_CACHE_DIR=/y",
			"UNWEAVER_ENGINE_DEPLOYMENT_NAME=blue", "UNWEAVER_ENGINE_DEPLOYMENT_BUILD_ID=v1", "UNWEAVER_DATA_DIR=/x",
		},
		[]string{"models.chat.model=set", "indexes.new.keep=9", "indexes.new.grace=90m"},
	)
	assert.True(t, cfg.Models.Limits.Concurrency == 2 && cfg.Models.Chat.Model == "set" &&
		cfg.Models.Chat.BaseURL == "http://v/v1" && cfg.Indexes["my-docs"].Keep == 7 && cfg.Indexes["new"].Keep == 9 &&
		time.Duration(cfg.Indexes["new"].Grace) == 90*time.Minute && cfg.Worker.CacheDir == "/y" &&
		cfg.Engine.Deployment == (config.Deployment{Name: "blue", BuildID: "v1"}), "%+v", cfg)
}

// Specs of releases without the setting, and their digests, stay what they were.
func TestATimeOutOfModelsIsInASpecWhereItIsNotTheDefault(t *testing.T) {
	spec, err := mustLoad(t, "models: {chat: {timeout: 5m}, embedding: {timeout: 90s}}\n", nil, nil).Spec("docs", "/c")
	raw, _ := json.Marshal(spec)
	if err != nil || spec.Chat.Timeout != 0 || time.Duration(spec.Embedding.Timeout) != 90*time.Second ||
		strings.Count(string(raw), `"timeout"`) != 1 {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestParityCutsLikeTheReferenceUnlessTheFileSaysHow(t *testing.T) {
	for file, want := range map[string]core.Chunking{
		"indexes: {docs: {parity: true}}": {Strategy: "fixed", Boundaries: "stable", MaxTokens: 1500, Overlap: 128},
		"indexes: {docs: {parity: true, chunking: {strategy: document, max_tokens: 900}}}": {
			Strategy: "document", Boundaries: "stable", MaxTokens: 900,
		},
		"indexes: {docs: {parity: true, chunking: {strategy: fixed, overlap: 7}}}": {
			Strategy: "fixed", Boundaries: "stable", MaxTokens: 1500, Overlap: 7,
		},
	} {
		spec, err := mustLoad(t, file, nil, nil).Spec("docs", "")
		assert.NoError(t, err)
		assert.Equal(t, want, spec.Chunking, file)
	}
}

func TestAnIndexThatIsNotNamedHasTheDefaults(t *testing.T) {
	named := must(mustLoad(t, "indexes: {docs: }\n", nil, nil).Spec("docs", "/corpus"))(t)
	unnamed, err := config.Default().Spec("docs", "/corpus")
	assert.True(t, err == nil && reflect.DeepEqual(named, unnamed), "%+v\n%+v\n%v", named, unnamed, err)
	want := core.Failures{Share: 0.01, DocumentsShare: 0.01, Floor: 5}
	assert.True(t, unnamed.Failures == want && unnamed.Chat.Provider == "builtin" && unnamed.Corpus == "/corpus",
		"%+v", unnamed)
}

func TestAnIndexsOwnModelsWinKeyByKeyEvenWhereTheyAreZero(t *testing.T) {
	cfg := mustLoad(t, `models:
  chat: { provider: openai, model: general, base_url: "http://general/v1", price: { prompt: 3, completion: 4 } }
  limits: { concurrency: 8, requests_per_minute: 100 }
indexes:
  plain: {}
  own:
    models:
      chat: { model: own, base_url: "", price: { completion: 0 } }
      limits: { requests_per_minute: 5 }
`, nil, []string{"indexes.own.models.embedding.max_input_tokens=0"})
	plain, _ := cfg.Spec("plain", "")
	own, _ := cfg.Spec("own", "")
	cfg.Models.Chat.Timeout, cfg.Models.Embedding.Timeout = 0, 0 // of a spec: the default
	cfg.Models.Embedding.Classes = "model"                       // what auto is without a model inside
	cfg.Models.Chat.Batch = core.BatchMode{}                     // of a spec that is not in mode batch
	assert.True(t, plain.Chat == cfg.Models.Chat && plain.Limits == cfg.Models.Limits &&
		plain.Embedding == cfg.Models.Embedding, "plain: %+v", plain)
	wantPrice := core.Price{Prompt: 3}
	assert.True(t, own.Chat.Provider == "openai" && own.Chat.Model == "own" && own.Chat.BaseURL == "" &&
		own.Chat.Price == wantPrice, "chat: %+v", own.Chat)
	assert.True(t, own.Limits == (core.Limits{Concurrency: 8, RequestsPerMinute: 5}) && own.Embedding.MaxInputTokens == 0,
		"limits: %+v, embedding: %+v", own.Limits, own.Embedding)
	assert.Equal(t, "general", cfg.Models.Chat.Model, "an index's models leak into the general ones")
}

// must returns a value that came without an error.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

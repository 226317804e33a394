package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
)

func load(t *testing.T, yaml string, env, set []string) (*config.Config, error) {
	t.Helper()
	p := filepath.Join(t.TempDir(), "unweaver.yaml")
	if err := os.WriteFile(p, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(config.Source{Path: p, Env: env, Set: set})
}

func TestTheContractsExampleIsValid(t *testing.T) {
	c, err := load(t, `engine:    { address: 127.0.0.1:7233, namespace: default, task_queue: unweaver }
query_api: { address: 127.0.0.1:8080 }
stores:
  artifacts: s3://bucket/prefix
  classes:   redis://host:6379/0
  vectors:   milvus://host:19530/db
  milvus:    { load: import, bucket: "" }
  s3:        { endpoint: "", region: us-east-1, path_style: false }
models:
  chat:      { provider: openai, base_url: "", api_key_env: OPENAI_API_KEY, model: "m", mode: online, price: {prompt: 0, completion: 0} }
  embedding: { provider: openai, base_url: "", api_key_env: OPENAI_API_KEY, model: "e", dimension: 0, max_input_tokens: 8192, classes: model, price: {prompt: 0} }
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
	if err != nil {
		t.Fatal(err)
	}
	if s, err := c.Spec("docs", ""); err != nil || s.Corpus != "s3://bucket/docs/" || s.Chat.Model != "m" ||
		s.Keep != 3 {
		t.Errorf("%+v %v", s, err)
	}
}

func TestEveryMistakeIsReportedAtOnceWithItsPlace(t *testing.T) {
	_, err := load(
		t,
		"modells: {}\nmodels:\n  chat: { provider: gpt, base_url: nowhere }\nindexes:\n  Bad_Name: {}\n  docs:\n    keep: many\n    chunking: { strategy: magic, max_tokens: 5 }\n    grace: soon\n",
		[]string{"UNWEAVER_MODELS_CHAT_COLOUR=red"},
		[]string{"indexes.docs.keeep=3", "nonsense"},
	)
	if !fault.Is(err, fault.BadConfig) {
		t.Fatal(err)
	}
	for _, want := range []string{
		"unweaver.yaml:1:1: unknown key modells", "unweaver.yaml:3:21: models.chat.provider", "unweaver.yaml:3:36: models.chat.base_url", "unweaver.yaml:5:3: indexes.Bad_Name", "unweaver.yaml:7:11: indexes.docs.keep",
		"unweaver.yaml:8:27: indexes.docs.chunking.strategy", "unweaver.yaml:8:46: indexes.docs.chunking.max_tokens", "unweaver.yaml:9:12: indexes.docs.grace", "variable UNWEAVER_MODELS_CHAT_COLOUR", "indexes.docs.keeep", "--set nonsense",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
}

func TestASettingWinsOverAVariableAndThatOverTheFile(t *testing.T) {
	c, err := load(
		t,
		"models: { limits: { concurrency: 1 }, chat: { model: file } }\nindexes: { my-docs: { keep: 2 } }\n",
		[]string{
			"UNWEAVER_MODELS_LIMITS_CONCURRENCY=2",
			"UNWEAVER_MODELS_CHAT_MODEL=variable",
			"UNWEAVER_MODELS_CHAT_BASE_URL=http://v/v1",
			"UNWEAVER_INDEXES_MY_DOCS_KEEP=7",
			"UNWEAVER_DATA_DIR=/x",
		},
		[]string{"models.chat.model=set", "indexes.new.keep=9"},
	)
	if err != nil {
		t.Fatal(err)
	}
	if c.Models.Limits.Concurrency != 2 || c.Models.Chat.Model != "set" || c.Models.Chat.BaseURL != "http://v/v1" ||
		c.Indexes["my-docs"].Keep != 7 ||
		c.Indexes["new"].Keep != 9 {
		t.Errorf("%+v", c)
	}
}

func TestTheDigestCoversWhatIsBuiltAndNothingElse(t *testing.T) {
	digest := func(set ...string) string {
		c, err := config.Load(config.Source{Set: set})
		if err != nil {
			t.Fatal(err)
		}
		spec, err := c.Spec("docs", "/corpus")
		if err != nil {
			t.Fatal(err)
		}
		return spec.ConfigDigest().String()
	}
	base := digest()
	for _, s := range []string{"indexes.docs.keep=9", "models.limits.concurrency=3", "models.chat.price.prompt=7", "indexes.docs.retrieval.top_chunks=9", "indexes.docs.gate.max_removed=1", "models.chat.base_url=http://other/v1"} {
		if digest(s) != base {
			t.Errorf("%s rebuilds", s)
		}
	}
	for _, s := range []string{"indexes.docs.chunking.max_tokens=900", "indexes.docs.shortening.threshold=500", "indexes.docs.parity=true", "models.chat.model=other", "models.embedding.dimension=7", "indexes.docs.retrieval.language=de", "models.embedding.classes=lexical"} {
		if digest(s) == base {
			t.Errorf("%s does not rebuild", s)
		}
	}
}

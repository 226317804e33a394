package config_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
)

// refused loads a file and settings, and gives the mistakes.
func refused(t *testing.T, yaml string, set ...string) string {
	t.Helper()
	_, err := load(t, yaml, nil, set)
	if err == nil {
		return ""
	}
	require.True(t, fault.Is(err, fault.BadConfig), "code %s of %v", fault.CodeOf(err), err)
	return err.Error()
}

func TestValuesThatCannotBeMeantAreRefused(t *testing.T) {
	for _, tc := range []struct{ set, want string }{
		{"engine.address=temporal", `"temporal" is not of the form host:port`},
		{"engine.address=:7233", "host:port"},
		{"engine.address=temporal:70000", "host:port"},
		{"engine.namespace=", "must not be empty"},
		{"engine.task_queue= ", "must not be empty"},
		{"engine.tls=perhaps", `"perhaps" is not true or false`},
		{"engine.api_key_env=sk-12345", "name of an environment variable"},
		{"engine.deployment.name=a.b", "want letters, digits, - and _"},
		{"engine.deployment.build_id=a b", "want letters, digits and - _ . +"},
		{"engine.deployment.versioned=true", "requires engine.deployment.name and engine.deployment.build_id"},
		{"engine.deployment.name=blue", "name and build_id require each other"},
		{"query_api.auth=maybe", "use auto, required, none"},
		{"query_api.hosts=https://a.example", "is not a host name"},
		{"query_api.cors.origins=https://a.example/path", "is not an origin"},
		{"query_api.cors.origins=app.example", "is not an origin"},
		{"query_api.tls.key=/k", "cert and key require each other"},
		{"query_api.tls.acme.domains=a.example", "acme.domains needs a folder"},
		{"query_api.limits.burst=0", "1 to 1000000"},
		{"query_api.address=8080", "host:port"},
		{"query_api.address=https://", "not an http(s) URL with a host"},
		{"indexes.docs.priority.level=6", "want 1 to 5"},
		{"indexes.docs.priority.weight=0", "want 0.001 to 1000"},
		{"worker.role=both", "use all, io, cpu"},
		{"worker.workflow_cache=-1", "want 0 to 100000"},
		{"worker.slots=0", "want 1 to 10000, got 0"},
		{"worker.pollers=101", "want 1 to 100, got 101"},
		{"worker.pollers=0", "want 1 to 100"},
		{"worker.cache_bytes=1000", "want 67108864 to"},
		{"worker.cpu=-1", "want 0 to 1024, got -1"},
		{"stores.artifacts=s3://", "has no host"},
		{"stores.artifacts=gs://bucket", "gs:// is not known"},
		{"stores.classes=redis:///0", "has no host"},
		{"stores.classes=redis://:secret@/0", `"redis://:xxxxx@/0" has no host`},
		{"stores.classes=redis+cluster://a:6379,:6380", "has no host"},
		{"stores.classes=redis://redis:port/0", "no port from 1 to 65535"},
		{"stores.vectors=http://milvus:19530", "http:// is not known; use milvus://"},
		{"stores.vectors=milvus://:19530", "has no host"},
		{"stores.milvus.load=copy", "use insert, import"},
		{"stores.milvus.index=flat", "use hnsw, ivf"},
		{"stores.s3.endpoint=s3:8333", "not an http(s) URL with a host"},
		{"stores.s3.endpoint=http://:8333", "not an http(s) URL with a host"},
		{"models.chat.provider=magic", "use builtin, openai, recorded"},
		{"models.chat.provider=openai", "models.chat.model: provider openai needs a model"},
		{"models.chat.provider=recorded", "models.chat.file: provider recorded requires a file"},
		{"models.chat.base_url=ftp://models", "not an http(s) URL with a host"},
		{"models.chat.base_url=https:///v1", "not an http(s) URL with a host"},
		{"models.chat.api_key_env=not a name", "name of an environment variable"},
		{"models.chat.timeout=0s", "want 1s to 10m0s"},
		{"models.embedding.timeout=11m", "want 1s to 10m0s"},
		{"models.chat.price.prompt=-1", "want 0 to 1000000, got -1"},
		{"models.chat.price.completion=1e9", "want 0 to 1000000"},
		{"models.chat.price.prompt=NaN", "want 0 to 1000000, got NaN"},
		{"models.chat.price.prompt=cheap", `"cheap" is not a number`},
		{"models.embedding.provider=magic", "use builtin, openai"},
		{"models.embedding.provider=openai", "models.embedding.model: provider openai needs a model"},
		{"models.embedding.base_url=models", "not an http(s) URL with a host"},
		{"models.embedding.dimension=-1", "want 0 to 32768"},
		{"models.embedding.dimension=99999", "want 0 to 32768"},
		{"models.embedding.dimension=512", "models.embedding.dimension: want 0 or 1024, the length of the built-in lexical"},
		{"models.embedding.max_input_tokens=-1", "want 0 to"},
		{"models.embedding.classes=both", "use auto, model, lexical"},
		{"models.embedding.price.prompt=-0.1", "want 0 to 1000000"},
		{"models.limits.concurrency=-1", "want 0 to 100000"},
		{"models.limits.concurrency=100001", "want 0 to 100000"},
		{"models.limits.requests_per_minute=-5", "want 0 to"},
		{"models.limits.tokens_per_minute=-5", "want 0 to"},
		{"indexes.Docs.keep=2", "letters a-z, digits and hyphens"},
		{"indexes.docs.corpus=gs://bucket/docs", "gs:// is not known"},
		{"indexes.docs.corpus=s3:///docs", "has no host"},
		{"indexes.docs.documents.encoding=*.txt=what", `"*.txt=what" names no known charset`},
		{"indexes.docs.documents.encoding=*.txt", "write PATTERN=CHARSET"},
		{"indexes.docs.documents.types=*.x=what", `"*.x=what" names no type; write PATTERN=TYPE with one of text`},
		{"indexes.docs.documents.types=a[=csv", "is not a valid pattern"},
		{"indexes.docs.documents.encoding=a[=koi8-r", "is not a valid pattern"},
		{"indexes.docs.chunking.strategy=magic", "use text, fixed, document"},
		{"indexes.docs.chunking.boundaries=loose", "use stable, packed"},
		{"indexes.docs.chunking.max_tokens=49", "want 50 to 8000, got 49"},
		{"indexes.docs.chunking.max_tokens=8001", "want 50 to 8000, got 8001"},
		{"indexes.docs.chunking.max_tokens=many", `"many" is not a whole number`},
		{"indexes.docs.chunking.overlap=-1", "want 0 to 7999, got -1"},
		{"indexes.docs.chunking.overlap=1500", "want less than max_tokens (1500), got 1500"},
		{"indexes.docs.chunking.overlap=10", "only strategy fixed has an overlap"},
		{"indexes.docs.shortening.threshold=199", "want 200 to"},
		{"indexes.docs.shortening.sample=0", "want 1 to"},
		{"indexes.docs.retrieval.method=guess", "use hybrid, unweaver"},
		{"indexes.docs.retrieval.rule=guess", "use weighted, av"},
		{"indexes.docs.retrieval.top_chunks=0", "want 1 to 100"},
		{"indexes.docs.retrieval.top_chunks=101", "want 1 to 100"},
		{"indexes.docs.retrieval.min_similarity=1.01", "want -1 to 1"},
		{"indexes.docs.retrieval.min_similarity=-99", "want -1 to 1"},
		{"indexes.docs.retrieval.min_similarity=Inf", "want -1 to 1"},
		{"indexes.docs.parity=maybe", "is not true or false"},
		{"indexes.docs.extraction.language=klingon", `"klingon" is no language: use auto or a code such as de`},
		{"indexes.docs.extraction.language=DE", `"DE" is no language`},
		{"indexes.docs.answer.style=long", `"long" is not known; use short, full`},
		{"indexes.docs.keep=0", "want 1 to 10000, got 0"},
		{"indexes.docs.grace=1 day", `"1 day" is not a duration such as 24h`},
		{"indexes.docs.grace=0s", "want a duration longer than 0s"},
		{"indexes.docs.grace=-24h", "want a duration longer than 0s"},
		{"indexes.docs.budget.calls=-5", "want 0 to 1000000000000, got -5"},
		{"indexes.docs.budget.tokens=-5", "want 0 to"},
		{"indexes.docs.budget.money=-0.5", "want 0 to"},
		{"indexes.docs.budget.money=Inf", "want 0 to"},
		{"indexes.docs.failures.share=1.5", "want 0 to 1, got 1.5"},
		{"indexes.docs.failures.count=-1", "want 0 to"},
		{"indexes.docs.failures.documents_share=-0.1", "want 0 to 1"},
		{"indexes.docs.failures.floor=-1", "want 0 to"},
		{"indexes.docs.gate.max_removed=2", "want 0 to 1, got 2"},
		{"indexes.docs.gate.max_recall_drop=2", "want 0 to 1, got 2"},
		{"indexes.docs.gate.probes=missing.jsonl", "the file missing.jsonl does not exist"},
		{"indexes.docs.gate.probes=s3://bucket/", "names no object"},
		{"indexes.docs.gate.max_size_change=-1", "got -1"},
		{"indexes.docs.gate.probes=.", ". is a directory"},
		{"indexes.docs.schedule.timezone=Mars/Olympus", `"Mars/Olympus" is not a time zone`},
		{"indexes.docs.schedule.overlap=pile", "use skip, buffer_one"},
		{"indexes.docs.schedule.catchup=soon", `"soon" is not a duration`},
		{"indexes.docs.schedule.jitter=-5m", "want a duration longer than 0s"},
		{"indexes.docs.models.chat.provider=magic", "use builtin, openai, recorded"},
		{"indexes.docs.models.chat.provider=openai", "indexes.docs.models.chat.model: provider openai needs a model"},
		{"indexes.docs.models.limits.concurrency=-1", "want 0 to 100000"},
		{"indexes.docs.models.embedding.price.prompt=-1", "want 0 to 1000000"},
		{"indexes.docs.models.chat.provider=", `"" is not known`},
	} {
		t.Run(tc.set, func(t *testing.T) {
			got := refused(t, "", tc.set)
			path, _, _ := strings.Cut(tc.set, "=")
			assert.True(t, strings.Contains(got, tc.want) && strings.Contains(got, path[:strings.LastIndexByte(path, '.')]),
				"want %q at %s, got:\n%s", tc.want, path, got)
		})
	}
}

func TestLimitsOfValuesAreStillValid(t *testing.T) {
	for _, set := range [][]string{
		{"engine.address=dns:///temporal:7233"}, {"engine.address=[::1]:7233"},
		{"engine.deployment.name=blue", "engine.deployment.build_id=v1.2+3", "engine.deployment.versioned=true"},
		{"query_api.address=:0"}, {"query_api.address=https://unweaver.example"}, {"worker.slots=1"},
		{"stores.artifacts=/var/lib/unweaver"}, {"stores.artifacts=s3://bucket"},
		{"stores.classes=rediss://user:p%40ss@redis:6380/1"}, {"stores.classes=redis+cluster://a:6379,b:6379"},
		{"stores.classes=redis://[::1]:6379/0"}, {"stores.vectors=milvus+tls://user:pass@milvus/default"},
		{"indexes.docs.retrieval.min_similarity=-1"}, {"indexes.docs.retrieval.top_chunks=100"},
		{"indexes.docs.retrieval.language=th"}, {"indexes.docs.retrieval.language=und"}, {"indexes.docs.failures.share=1"},
		{"indexes.docs.failures.floor=0"}, {"indexes.docs.gate.max_removed=0"},
		{"indexes.docs.chunking.strategy=fixed", "indexes.docs.chunking.overlap=128"}, {"models.limits.concurrency=0"},
		{"models.chat.model=m", "indexes.docs.models.chat.provider=openai"},
	} {
		assert.Empty(t, refused(t, "", set...), "%v", set)
	}
}

func TestMistakesOfACronLineAreNamed(t *testing.T) {
	for _, tc := range []struct{ cron, want string }{
		{"every full moon", "has 3 fields, want minute"},
		{"0 3 * *", "has 4 fields, want minute"},
		{"60 3 * * *", `minute "60": want 0 to 59`},
		{"0 24 * * *", `hour "24": want 0 to 23`},
		{"0 3 0 * *", `day of month "0": want 1 to 31`},
		{"0 3 * 13 *", `month "13": want 1 to 12`},
		{"0 3 * * 8", `day of week "8": want 0 to 7`},
		{"0 3 * * fun", `day of week "fun": want 0 to 7`},
		{"0 3 * * unm", `day of week "unm": want 0 to 7`},
		{"*/0 3 * * *", `minute "*/0": a step is 1 to 59`},
		{"0 5-3 * * *", `hour "5-3": the range ends before it begins`},
		{"0 1,, * * *", `hour "": want 0 to 23`},
		{"@fortnightly", "is not known; use @yearly"},
	} {
		assert.Contains(t, refused(t, "", "indexes.docs.schedule.cron="+tc.cron), tc.want, "%q", tc.cron)
	}
	for _, cron := range []string{"0 3 * * *", "*/15 0-6,22 1,15 jan-mar MON-fri", "@daily", "5/10 * * * 7"} {
		assert.Empty(t, refused(t, "", "indexes.docs.schedule.cron="+cron), "%q is right", cron)
	}
}

func TestMistakesOfFormAreNamedWithTheirPlace(t *testing.T) {
	for _, tc := range []struct{ name, yaml, want string }{
		{"duplicate key", "engine: {tls: true}\nengine: {tls: false}\n", ":2:1: engine is set twice, first in line 1"},
		{
			"duplicate key below", "models:\n  limits:\n    concurrency: 1\n    concurrency: 2\n",
			":4:5: models.limits.concurrency is set twice, first in line 3",
		},
		{
			"duplicate index", "indexes:\n  docs: {keep: 1}\n  docs: {keep: 2}\n",
			":3:3: indexes.docs is set twice, first in line 2",
		},
		{"unknown key", "modles: {}\n", ":1:1: unknown key modles (known keys: engine, query_api, worker"},
		{"value for a mapping", "engine: fast\n", ":1:9: engine must be a mapping of keys"},
		{"list for a value", "engine: {address: [a, b]}\n", ":1:19: engine.address must be one value"},
		{"a list", "- engine\n", ":1:1: the file must be a mapping of keys"},
		{"two documents", "engine: {}\n---\nengine: {}\n", "a second YAML document starts here"},
		{"no YAML", "engine: {\n", "the file is not valid YAML"},
		{
			"a value of an alias", "models: {chat: {price: &p {prompt: -1}}, embedding: {price: *p}}\n",
			":1:36: models.embedding.price.prompt",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Contains(t, refused(t, tc.yaml), tc.want, "want")
		})
	}
}

func TestMistakesComeInTheOrderOfTheFileThenVariablesThenSettings(t *testing.T) {
	var yaml strings.Builder
	yaml.WriteString("indexes:\n")
	for i := range 11 { // names that stand against the order of their lines
		fmt.Fprintf(&yaml, "  %c: {keep: 0}\n", 'z'-i)
	}
	_, err := load(t, yaml.String(), []string{"UNWEAVER_ENGINE_TLS=no idea"}, []string{"nonsense"})
	require.Error(t, err, "accepted")
	lines := strings.Split(err.Error(), "\n")
	require.True(t, len(lines) == 14 && strings.HasSuffix(lines[0], "13 mistakes"), "%s", err)
	for i := range 11 {
		want := fmt.Sprintf(":%d:13: indexes.%c.keep: want 1", i+2, 'z'-i)
		assert.True(t, strings.Contains(lines[i+1], want), "line %d: want %q, got %s", i+1, want, lines[i+1])
	}
	assert.True(t, strings.Contains(lines[12], "variable UNWEAVER_ENGINE_TLS") &&
		strings.Contains(lines[13], "--set nonsense"), "%s", err)
}

func TestAKeyThatWasPastedInPlaceOfItsVariableIsNotRepeated(t *testing.T) {
	got := refused(t, "models: {chat: {api_key_env: sk-proj-verysecret}}\n")
	assert.True(t, got != "" && !strings.Contains(got, "verysecret"), "%s", got)
}

func TestFilesThatCannotBeRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	if _, err := config.Load(config.Source{Path: missing}); !fault.Is(err, fault.BadConfig) {
		t.Errorf("a missing file that was named: %v", err)
	}
	_, err := config.Load(config.Source{Path: missing, Missing: true})
	assert.NoError(t, err, "a missing file that no option names")
	assert.Empty(t, refused(t, "# nothing but a comment\n"))
}

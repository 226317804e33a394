package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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
	for want, sets := range map[string][]string{
		`"temporal" is not of the form host:port`: {"engine.address=temporal"},
		"host:port":                        {"engine.address=", "engine.address=:7233", "engine.address=temporal:70000", "query_api.address=8080"},
		"must not be empty":                {"engine.namespace=", "engine.task_queue= "},
		`"perhaps" is not true or false`:   {"engine.tls=perhaps"},
		"name of an environment variable":  {"engine.api_key_env=sk-12345", "models.chat.api_key_env=not a name"},
		"want letters, digits, - and _":    {"engine.deployment.name=a.b"},
		"want letters, digits and - _ . +": {"engine.deployment.build_id=a b"},
		"requires engine.deployment.name and engine.deployment.build_id": {"engine.deployment.versioned=true"},
		"name and build_id require each other":                           {"engine.deployment.name=blue"},
		"use auto, required, none":                                       {"query_api.auth=maybe"},
		"is not a host name":                                             {"query_api.hosts=https://a.example"},
		"is not an origin":                                               {"query_api.cors.origins=https://a.example/path", "query_api.cors.origins=app.example"},
		"cert and key require each other":                                {"query_api.tls.key=/k"},
		"acme.domains needs a folder":                                    {"query_api.tls.acme.domains=a.example"},
		"1 to 1000000":                                                   {"query_api.limits.burst=0"},
		"not an http(s) URL with a host": {
			"query_api.address=https://", "stores.s3.endpoint=s3:8333", "stores.s3.endpoint=http://:8333",
			"models.chat.base_url=ftp://models", "models.chat.base_url=https:///v1", "models.embedding.base_url=models",
		},
		"want 1 to 5":        {"indexes.docs.priority.level=6"},
		"want 0.001 to 1000": {"indexes.docs.priority.weight=0"},
		"use all, io, cpu":   {"worker.role=both"},
		"want 0 to 100000": {
			"worker.workflow_cache=-1", "models.limits.concurrency=-1", "models.limits.concurrency=100001",
			"indexes.docs.models.limits.concurrency=-1",
		},
		"want 1 to 10000, got 0": {"worker.slots=0", "indexes.docs.keep=0"},
		"want 1 to 100, got 101": {"worker.pollers=101"},
		"want 1 to 100": {
			"worker.pollers=0", "indexes.docs.retrieval.top_chunks=0", "indexes.docs.retrieval.top_chunks=101",
		},
		"want 67108864 to":       {"worker.cache_bytes=1000"},
		"want 0 to 1024, got -1": {"worker.cpu=-1"},
		"has no host": {
			"stores.artifacts=s3://", "stores.classes=redis:///0", "stores.classes=redis+cluster://a:6379,:6380",
			"stores.vectors=milvus://:19530", "indexes.docs.corpus=s3:///docs",
		},
		"gs:// is not known":                                  {"stores.artifacts=gs://bucket", "indexes.docs.corpus=gs://bucket/docs"},
		`"redis://:xxxxx@/0" has no host`:                     {"stores.classes=redis://:secret@/0"},
		"no port from 1 to 65535":                             {"stores.classes=redis://redis:port/0"},
		"http:// is not known; use milvus://":                 {"stores.vectors=http://milvus:19530"},
		"use insert, import":                                  {"stores.milvus.load=copy"},
		"use hnsw, ivf":                                       {"stores.milvus.index=flat"},
		"use builtin, openai, recorded":                       {"models.chat.provider=magic", "indexes.docs.models.chat.provider=magic"},
		"models.chat.model: provider openai needs a model":    {"models.chat.provider=openai"},
		"models.chat.file: provider recorded requires a file": {"models.chat.provider=recorded"},
		"want 1s to 10m0s":                                    {"models.chat.timeout=0s", "models.embedding.timeout=11m"},
		"want 0 to 1000000, got -1":                           {"models.chat.price.prompt=-1"},
		"want 0 to 1000000": {
			"models.chat.price.completion=1e9", "models.embedding.price.prompt=-0.1",
			"indexes.docs.models.embedding.price.prompt=-1",
		},
		"want 0 to 1000000, got NaN":                            {"models.chat.price.prompt=NaN"},
		`"cheap" is not a number`:                               {"models.chat.price.prompt=cheap"},
		"use builtin, openai":                                   {"models.embedding.provider=magic"},
		"models.embedding.model: provider openai needs a model": {"models.embedding.provider=openai"},
		"want 0 to 32768":                                       {"models.embedding.dimension=-1", "models.embedding.dimension=99999"},
		"models.embedding.dimension: want 0 or 1024, the length of the built-in lexical": {
			"models.embedding.dimension=512",
		},
		"want 0 to": {
			"models.embedding.max_input_tokens=-1", "models.limits.requests_per_minute=-5",
			"models.limits.tokens_per_minute=-5", "indexes.docs.budget.tokens=-5", "indexes.docs.budget.money=-0.5",
			"indexes.docs.budget.money=Inf", "indexes.docs.failures.count=-1", "indexes.docs.failures.floor=-1",
		},
		"use auto, model, lexical":                                      {"models.embedding.classes=both"},
		"letters a-z, digits and hyphens":                               {"indexes.Docs.keep=2"},
		`"*.txt=what" names no known charset`:                           {"indexes.docs.documents.encoding=*.txt=what"},
		"write PATTERN=CHARSET":                                         {"indexes.docs.documents.encoding=*.txt"},
		`"*.x=what" names no type; write PATTERN=TYPE with one of text`: {"indexes.docs.documents.types=*.x=what"},
		"is no field that metadata always have": {
			"indexes.docs.documents.labels.field=Title", "indexes.docs.documents.labels.field=*",
			"indexes.docs.documents.labels.field= labels",
		},
		"is not a valid pattern":                     {"indexes.docs.documents.types=a[=csv", "indexes.docs.documents.encoding=a[=koi8-r"},
		"use text, fixed, document":                  {"indexes.docs.chunking.strategy=magic"},
		"use stable, packed":                         {"indexes.docs.chunking.boundaries=loose"},
		"want 50 to 8000, got 49":                    {"indexes.docs.chunking.max_tokens=49"},
		"want 50 to 8000, got 8001":                  {"indexes.docs.chunking.max_tokens=8001"},
		`"many" is not a whole number`:               {"indexes.docs.chunking.max_tokens=many"},
		"want 0 to 7999, got -1":                     {"indexes.docs.chunking.overlap=-1"},
		"want less than max_tokens (1500), got 1500": {"indexes.docs.chunking.overlap=1500"},
		"only strategy fixed has an overlap":         {"indexes.docs.chunking.overlap=10"},
		"want 200 to":                                {"indexes.docs.shortening.threshold=199"},
		"want 1 to":                                  {"indexes.docs.shortening.sample=0"},
		"use hybrid, unweaver":                       {"indexes.docs.retrieval.method=guess"},
		"use weighted, av":                           {"indexes.docs.retrieval.rule=guess"},
		"want -1 to 1": {
			"indexes.docs.retrieval.min_similarity=1.01", "indexes.docs.retrieval.min_similarity=-99",
			"indexes.docs.retrieval.min_similarity=Inf", "indexes.docs.retrieval.min_similarity=NaN",
		},
		"is not true or false": {"indexes.docs.parity=maybe"},
		`"klingon" is no language: use auto or a code such as de`: {"indexes.docs.extraction.language=klingon"},
		"indexes.docs.extraction.types: type 1":                   {`indexes.docs.extraction.types=["A\nB"]`},
		"are one type":                                            {"indexes.docs.extraction.types=Drug, drug"},
		"it has a control character":                              {"indexes.docs.extraction.guidance=\a"},
		`"DE" is no language`:                                     {"indexes.docs.extraction.language=DE"},
		`"long" is not known; use short, full`:                    {"indexes.docs.answer.style=long"},
		`"1 day" is not a duration such as 24h`:                   {"indexes.docs.grace=1 day"},
		"want a duration longer than 0s": {
			"indexes.docs.grace=0s", "indexes.docs.grace=-24h", "indexes.docs.schedule.jitter=-5m",
		},
		"want 0 to 1000000000000, got -5":       {"indexes.docs.budget.calls=-5"},
		"want 0 to 1, got 1.5":                  {"indexes.docs.failures.share=1.5"},
		"want 0 to 1":                           {"indexes.docs.failures.documents_share=-0.1"},
		"want 0 to 1, got 2":                    {"indexes.docs.gate.max_removed=2", "indexes.docs.gate.max_recall_drop=2"},
		"the file missing.jsonl does not exist": {"indexes.docs.gate.probes=missing.jsonl"},
		"names no object":                       {"indexes.docs.gate.probes=s3://bucket/"},
		"got -1":                                {"indexes.docs.gate.max_size_change=-1"},
		". is a directory":                      {"indexes.docs.gate.probes=."},
		"a queue requires":                      {"indexes.docs.freshness.events=sqs://host/1/name"},
		"want webhook or sqs://HOST":            {"indexes.docs.freshness.events=https://host/1/name"},
		"events: webhook requires a file":       {"indexes.docs.freshness.events=webhook"},
		`"Mars/Olympus" is not a time zone`:     {"indexes.docs.schedule.timezone=Mars/Olympus"},
		"use skip, buffer_one":                  {"indexes.docs.schedule.overlap=pile"},
		`"soon" is not a duration`:              {"indexes.docs.schedule.catchup=soon"},
		"indexes.docs.models.chat.model: provider openai needs a model": {"indexes.docs.models.chat.provider=openai"},
		"pages go to no other model":                                    {"indexes.docs.documents.vision.pages=all"},
		`"" is not known`:                                               {"indexes.docs.models.chat.provider="},
		"is not a supported language; use auto, en, de, ":               {"indexes.docs.retrieval.language=xx"},
		"not a built-in model":                                          {"models.embedding.model=e6"},
	} {
		for _, set := range sets {
			got := refused(t, "", set)
			path, _, _ := strings.Cut(set, "=")
			assert.True(t, strings.Contains(got, want) && strings.Contains(got, path[:strings.LastIndexByte(path, '.')]),
				"%s: want %q at %s, got:\n%s", set, want, path, got)
		}
	}
}

func TestQuotasThatCannotBeMeantAreRefusedWithTheirPlace(t *testing.T) {
	for list, want := range map[string]string{
		"[{keys: a, requests: -1}]":        ":1:42: query_api.quotas.0.requests: want a number from 0 to",
		"[{keys: a, money: NaN}]":          "query_api.quotas.0.money: want a number from 0 to 1000000000000, got NaN",
		"[{keys: a, answers: 1.5}]":        "query_api.quotas.0.answers: want a number",
		"[{keys: a, tokens: 1e16}]":        "query_api.quotas.0.tokens: want a number",
		"[{keys: a, concurrent: 0}]":       "query_api.quotas.0.concurrent: want a number from 1",
		"[{keys: a, money: much}]":         `"much" is not a number`,
		"[{keys: a, monny: 1}]":            "unknown key query_api.quotas.0.monny (known keys: keys, groups, requests",
		"[{money: 1}]":                     "query_api.quotas.0.keys: want the name or id of an API key",
		`[{keys: "[a", money: 1}]`:         "or a pattern with * ? [ ], got \"[a\"",
		"[{keys: a}]":                      "query_api.quotas.0: it bounds nothing",
		"[{keys: a, groups: b, money: 1}]": "query_api.quotas.0: it has keys and groups",
		"[{groups: b*, money: 1}]":         `query_api.quotas.0.groups: no group of query_api.oidc.groups matches "b*"`,
		"[{groups: '*', money: 1}, {groups: a, money: 1}], oidc: {groups: [{group: a}]}": "1.groups: entry 0 matches its groups",
		"[{keys: a, money: 1}, {keys: a, money: 2}]":                                     `query_api.quotas.1.keys: "a" stands in entry 0 too`,
		"[" + strings.Repeat("{keys: a}, ", 10000) + "]":                                 "1 mistake\n",
		"[{keys: a, requests: 0, money: }]":                                              "",
	} {
		got := refused(t, "query_api: {quotas: "+list+"}")
		assert.True(t, strings.Contains(got, want) && (got == "") == (want == ""), "%.80s: want %q, got %.900s", list, want, got)
	}
	assert.Contains(t, refused(t, "", "query_api.quotas=[{keys: a, money: NaN}]"), "got NaN")
	assert.Contains(t, refused(t, "query_api:\n  quotas: '[{keys: a, monny: 1}]'"), ":2:11: unknown key query_api.quotas.0.monny")
	assert.Contains(t, refused(t, "", "query_api.quotas=[{keys: a"), `"[{keys: a" is not a list: yaml: `)
	assert.Contains(t, refused(t, "query_api: {hosts: ['']}"), `"" is not a host name`)
	for address, want := range map[string]string{
		"0.0.0.0:8080": "it has the port of query_api.address", "dns:///a:1": "not of the form host:port", ":0": "from 1 to 65535",
	} {
		assert.Contains(t, refused(t, "", "query_api.internal_address="+address), want)
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
	for yaml, want := range map[string]string{
		"engine: {tls: true}\nengine: {tls: false}\n":                  ":2:1: engine is set twice, first in line 1",
		"models:\n  limits:\n    concurrency: 1\n    concurrency: 2\n": ":4:5: models.limits.concurrency is set twice, first in line 3",
		"indexes:\n  docs: {keep: 1}\n  docs: {keep: 2}\n":             ":3:3: indexes.docs is set twice, first in line 2",
		"modles: {}\n":                  ":1:1: unknown key modles (known keys: engine, query_api, worker",
		"engine: fast\n":                ":1:9: engine must be a mapping of keys",
		"engine: {address: [a, b]}\n":   ":1:19: engine.address must be one value",
		"- engine\n":                    ":1:1: the file must be a mapping of keys",
		"engine: {}\n---\nengine: {}\n": "a second YAML document starts here",
		"engine: {\n":                   "the file is not valid YAML",
		"models: {chat: {price: &p {prompt: -1}}, embedding: {price: *p}}\n": ":1:36: models.embedding.price.prompt",
		"stores: {corpus_roots: [docs]}":                                     "not an absolute path",
		"stores: {corpus_roots: {a: b}}":                                     "must be a list",
		"models: {endpoints: [{base_url: \"ftp://x\", api_key_env: A}]}":     "not an http(s) URL",
		"models: {endpoints: [{api_key_env: \"\"}]}":                         "environment variable",
		"models: {endpoints: [{url: \"http://x/v1\"}]}":                      "unknown key",
		"models: {endpoints: \"http://x/v1\"}":                               "URL=VARIABLE",
		"engine: {tls_cert: a.pem}":                                          "engine.tls_key",
	} {
		assert.Contains(t, refused(t, yaml), want, "%s", yaml)
	}
}

func TestSignOnThatWouldLetInTooManyIsRefused(t *testing.T) {
	group := "    - {group: g, indexes: [docs], scopes: [query]}\n"
	start := "query_api:\n  oidc:\n    issuer: https://login\n    audience: https://search\n    groups:\n"
	assert.Empty(t, refused(t, start+group))
	assert.Equal(t, "https://search", config.QueryOIDC{Audience: "x", URL: "HTTPS://Search:443/"}.PublicURL())
	for yaml, want := range map[string]string{
		strings.Replace(start, "https://login", "http://login", 1) + group:         ":3:13: query_api.oidc.issuer: \"http://login\"",
		strings.Replace(start, "https://search", "search", 1) + group:              "query_api.oidc.url: set it",
		strings.Replace(start, "    audience: https://search\n", "", 1) + group:    "query_api.oidc.audience: set it",
		start + group + "    url: https://search/below\n":                          "must have no path",
		start + group + "    algorithms: [none]\n":                                 `"none" is not known`,
		start + group + "    algorithms: [HS256]\n":                                `"HS256" is not known`,
		start + group + "    algorithms: []\n":                                     "name at least one",
		start + group + "    groups_claim: ''\n":                                   "must not be empty",
		start + group + "    client_secret_file: x\n":                              "requires client_id",
		start + group + "    client_id: x\n    client_scopes: [groups]\n":          "openid must be one",
		start + group + "  auth: none\n":                                           "none lets everybody in",
		start + strings.Replace(group, "g,", "'',", 1):                             ":6:15: query_api.oidc.groups.0.group",
		start + group + strings.Replace(group, "docs", "Docs", 1):                  `:7:27: query_api.oidc.groups.1.indexes: "Docs"`,
		start + strings.Replace(group, "[docs]", "['']", 1):                        "it is empty",
		start + strings.Replace(group, "[docs]", "[]", 1):                          "name at least one index",
		start + strings.Replace(group, "[query]", "[root]", 1):                     `"root" is not known`,
		start + strings.Replace(group, "[query]", "[]", 1):                         "name at least one of",
		strings.Replace(start, "groups:", "groups: []", 1):                         "map at least one group",
		"query_api: {oidc: {groups: [{group: g, indexes: [d], scopes: [query]}]}}": "requires query_api.oidc.issuer",
	} {
		assert.Contains(t, refused(t, yaml), want, "%s", yaml)
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

func TestFilesThatCannotBeRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	_, err := config.Load(config.Source{Path: missing})
	assert.True(t, fault.Is(err, fault.BadConfig), "a missing file that was named: %v", err)
	_, err = config.Load(config.Source{Path: missing, Missing: true})
	assert.NoError(t, err, "a missing file that no option names")
	assert.Empty(t, refused(t, "# nothing but a comment\n"))

	planted := filepath.Join(t.TempDir(), "unweaver.yaml")
	require.NoError(t, os.WriteFile(planted, nil, 0o600))
	require.NoError(t, os.Chmod(planted, 0o666))
	_, err = config.Load(config.Source{Path: planted, Missing: true})
	assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), "every user may write to it"), "%v", err)
	_, err = config.Load(config.Source{Path: planted})
	assert.NoError(t, err, "a file that was named")
}

func TestSecretsOfHintsAreReadWhereNoTwoAreEqual(t *testing.T) {
	folder := t.TempDir()
	for name, secret := range map[string]string{"a": "0123456789abcdef\n", "b": "0123456789abcdef", "c": "short",
		"d": "fedcba9876543210"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(secret), 0o600))
	}
	for file, says := range map[string]string{"b": "the secret of index one", "c": "less than 16 bytes", "e": "no such file",
		"d": ""} {
		read, err := mustLoad(t, fmt.Sprintf("indexes: {one: {freshness: {events: webhook, secret_file: %[1]s/a}}, "+
			"two: {freshness: {events: webhook, secret_file: %[1]s/%[2]s}}}\n", folder, file), nil, nil).ReadHintSecrets()
		if says == "" {
			assert.Equal(t, map[string]string{"one": "0123456789abcdef", "two": "fedcba9876543210"}, read)
			continue
		}
		assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), says) &&
			strings.Contains(err.Error(), "indexes.two.freshness.secret_file"), "%s: %v", file, err)
	}
}

func TestASecretThatIsRefusedIsNotRepeated(t *testing.T) {
	for file, says := range map[string]string{
		"models: {chat: {api_key_env: sk-proj-SECRET}}\n":                                      "models.chat.api_key_env",
		"models: {endpoints: [{base_url: \"http://x/v1\", api_key_env: \"sk-SECRET value\"}]}": "not the key itself",
		"stores: {classes: \"redis://:SECRET/SECRET@redis:6379/0\"}\n":                         "stores.classes", // a slash that begins no path
		"models: {chat: {base_url: \"http://u:SECRETpw@h/v1\"}}\n":                             "api_key_env",
		"models: {embedding: {base_url: \"https://h/v1?key=SECRET\"}}\n":                       "api_key_env",
	} {
		got := refused(t, file)
		assert.True(t, strings.Contains(got, says) && !strings.Contains(got, "SECRET"), "%s%s", file, got)
	}
}

// nested writes one value as YAML, below the keys of its path.
func nested(path, value string) string {
	var yaml strings.Builder
	keys := strings.Split(path, ".")
	for i, key := range keys {
		yaml.WriteString(strings.Repeat("  ", i) + key + ":")
		if i < len(keys)-1 {
			yaml.WriteString("\n")
		}
	}
	return fmt.Sprintf("%s %s\n", yaml.String(), value)
}

func variableOf(path string) string {
	return "UNWEAVER_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(path))
}

func TestEveryKeyCanBeGivenByFileVariableAndSetting(t *testing.T) {
	besideExamples(t)
	for _, r := range rows(t) {
		base := needs[r.path]
		fromFile := mustLoad(t, nested(r.path, r.example), nil, others(base, r.path))
		fromVariable := mustLoad(t, "indexes: {docs: {}}\n", []string{variableOf(r.path) + "=" + r.example},
			others(base, r.path))
		fromSet := mustLoad(t, "", nil, append(others(base, r.path), r.path+"="+r.example))
		for origin, cfg := range map[string]*config.Config{
			config.FromFile: fromFile, config.FromVariable: fromVariable, config.FromSet: fromSet,
		} {
			got := settings(t, cfg)[r.path]
			assert.True(t, got.Text == r.example && got.Origin == origin && got.At != "",
				"%s from %s: %+v, want %s", r.path, origin, got, r.example)
		}
	}
}

// others returns the settings that an example needs besides, without those of its own path.
func others(set []string, path string) []string {
	var out []string
	for _, setting := range set {
		if !strings.HasPrefix(setting, path+"=") {
			out = append(out, setting)
		}
	}
	return out
}

func TestDurationsAreWrittenAsPeopleWriteThem(t *testing.T) {
	for given, want := range map[string]string{
		"24h": "24h", "90m": "1h30m", "1h0m0s": "1h", "10m": "10m", "30s": "30s", "1h0m30s": "1h0m30s",
		"100ms": "100ms", "100h10m": "100h10m", "1m30s": "1m30s",
	} {
		cfg := mustLoad(t, "", nil, []string{"indexes.docs.grace=" + given})
		assert.Equal(t, want, settings(t, cfg)["indexes.docs.grace"].Text, "%s is written", given)
	}
}

func TestSettingsThatAreNoValueAreRefused(t *testing.T) {
	for set, want := range map[string]string{
		"engine=fast":                  "engine is not one value",
		"indexes=many":                 "indexes is not one value",
		"indexes.docs=small":           "indexes.docs is not one value",
		"engine.address.port=1":        "engine.address has no keys below it",
		"engine.adress=x":              "unknown key engine.adress (known keys: address, namespace",
		"indexes.docs.models.chet.x=1": "unknown key indexes.docs.models.chet",
		"=x":                           "unknown key ",
	} {
		assert.Contains(t, refused(t, "", set), want, "%s", set)
	}
}

// FuzzLoad holds that no file can make the reader panic, that what it refuses is a configuration's fault, and that what
// it accepts is resolved.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(config.RenderSample()))
	f.Add([]byte("indexes: {docs: {models: {chat: {price: {prompt: -1}}}}}\n"))
	f.Add([]byte("a: &a {b: *a}\n"))
	f.Add([]byte("engine: !!binary aGk=\n---\n"))
	f.Add([]byte("indexes: [docs]\nworker: null\n? {a: b}\n: c\n"))
	f.Add([]byte("indexes: {docs: {schedule: {cron: '1-,*/ @ * *'}}}\nstores: {classes: 'redis://@:@/'}"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(dir, "unweaver.yaml")
		require.NoError(t, os.WriteFile(path, raw, 0o600))
		cfg, err := config.Load(config.Source{Path: path})
		if err != nil {
			assert.True(t, fault.Is(err, fault.BadConfig), "code %s of %v", fault.CodeOf(err), err)
			return
		}
		for name := range cfg.Indexes {
			spec, err := cfg.Spec(name, "")
			assert.True(t, err == nil && spec.Keep >= 1 && spec.Grace > 0 && !bytes.ContainsAny([]byte(spec.Index), "./"),
				"%+v %v", spec, err)
		}
	})
}

func TestWhatIsNoFileIsRefusedAtOnce(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	for _, path := range []string{pipe, t.TempDir(), "/dev/null"} {
		done := make(chan error, 1)
		go func() {
			_, err := config.Load(config.Source{Path: path})
			done <- err
		}()
		select {
		case err := <-done:
			assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), path), "%s: %v", path, err)
		case <-time.After(time.Minute):
			t.Fatalf("%s is waited for", path)
		}
	}
}

func parsed(t *testing.T, env []string, args ...string) (*config.Process, string, error) {
	t.Helper()
	var out bytes.Buffer
	process, err := config.ParseProcess("unweaver-worker", "Host workflows.", "ask it", args, env, &out)
	return process, out.String(), err
}

func TestAServerProcessFindsItsConfigurationAsTheCommandLineDoes(t *testing.T) {
	t.Chdir(t.TempDir())
	load := func(env []string, args ...string) *config.Config {
		t.Helper()
		process, _, err := parsed(t, env, args...)
		require.NoError(t, err)
		return must(config.Load(process.Source))(t)
	}
	assert.Equal(t, 64, load(nil).Worker.Slots, "without a file")
	other := filepath.Join(t.TempDir(), "other.yaml")
	for path, slots := range map[string]string{"unweaver.yaml": "7", other: "8"} {
		require.NoError(t, os.WriteFile(path, []byte("worker: {slots: "+slots+"}\n"), 0o600))
	}
	for name, got := range map[string]struct{ slots, want int }{
		"unweaver.yaml of the folder":        {load(nil).Worker.Slots, 7},
		"UNWEAVER_CONFIG":                    {load([]string{"UNWEAVER_CONFIG=" + other}).Worker.Slots, 8},
		"--config":                           {load(nil, "--config", other).Worker.Slots, 8},
		"-config, as before":                 {load(nil, "-config="+other).Worker.Slots, 8},
		"--set over all":                     {load(nil, "--config", other, "--set", "worker.slots=9").Worker.Slots, 9},
		"a variable of a setting over files": {load([]string{"UNWEAVER_WORKER_SLOTS=5"}).Worker.Slots, 5},
	} {
		assert.Equal(t, got.want, got.slots, "%s", name)
	}
}

func TestFlagsOfAServerProcess(t *testing.T) {
	process, help, err := parsed(t, nil, "--help")
	assert.True(t, err == nil && process.IsDone() && strings.Contains(help, "--set") &&
		strings.Contains(help, "Host workflows."), "%v\n%s", err, help)
	if process, out, err := parsed(t, nil, "--version"); err != nil || !process.IsDone() ||
		!strings.HasPrefix(out, "unweaver-worker ") {
		t.Errorf("%v %s", err, out)
	}
	process, _, err = parsed(t, nil, "-probe")
	assert.True(t, err == nil && process.Probe && !process.IsDone(), "%+v, %v", process, err)
	for _, args := range [][]string{{"--colour"}, {"docs"}, {"--config"}} {
		process, _, err := parsed(t, nil, append([]string{"--json"}, args...)...)
		var out bytes.Buffer
		if code := process.Exit(err, &out); code != 2 || !strings.Contains(out.String(), `"code":"usage"`) ||
			!strings.Contains(out.String(), "unweaver-worker --help") {
			t.Errorf("%v: exit %d, %s", args, code, out.String())
		}
	}
	var out bytes.Buffer
	code := process.Exit(errors.New("odd"), &out)
	assert.True(t, code == 1 && out.String() == "unweaver-worker: odd\n", "exit %d, %s", code, out.String())
}

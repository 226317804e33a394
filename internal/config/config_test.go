package config_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func load(t *testing.T, yaml string, env, set []string) (*config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "unweaver.yaml")
	require.NoError(t, os.WriteFile(path, []byte(yaml), 0o600))
	return config.Load(config.Source{Path: path, Env: env, Set: set})
}

func mustLoad(t *testing.T, yaml string, env, set []string) *config.Config {
	t.Helper()
	return must(load(t, yaml, env, set))(t)
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
	assert.True(t, err == nil && spec.Chat.Timeout == 0 && time.Duration(spec.Embedding.Timeout) == 90*time.Second &&
		strings.Count(string(raw), `"timeout"`) == 1, "%s, %v", raw, err)
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
func must[T any](value T, err error) func(testing.TB) T { return musttest.Get(value, err) }

func TestVariablesThatKubernetesInjectsAreIgnored(t *testing.T) {
	cfg := must(config.Load(config.Source{Env: []string{
		"UNWEAVER_SERVICE_HOST=10.96.0.1", "UNWEAVER_PORT=tcp://10.96.0.1:8080", "UNWEAVER_QUERY_API_SERVICE_HOST=10.96.0.7",
		"UNWEAVER_QUERY_API_SERVICE_PORT=8080", "UNWEAVER_QUERY_API_SERVICE_PORT_HTTP=8080",
		"UNWEAVER_QUERY_API_PORT=tcp://10.96.0.7:8080", "UNWEAVER_QUERY_API_PORT_8080_TCP=tcp://10.96.0.7:8080",
		"UNWEAVER_QUERY_API_PORT_8080_TCP_ADDR=10.96.0.7", "UNWEAVER_QUERY_API_PORT_8080_TCP_PORT=8080",
		"UNWEAVER_QUERY_API_PORT_8080_TCP_PROTO=tcp", "UNWEAVER_DNS_PORT_53_UDP_ADDR=10.96.0.10",
		"UNWEAVER_QUERY_API_ADDRESS=0.0.0.0:8080", "HOME=/root",
		// What programs read themselves is no key.
		"UNWEAVER_DATA_DIR=/x", "UNWEAVER_CONFIG=/y", "UNWEAVER_CACHE_DIR=/c", "UNWEAVER_TEST_REDIS=redis://127.0.0.1",
	}}))(t)
	assert.Equal(t, "0.0.0.0:8080", cfg.QueryAPI.Address, "a key among them is not read")
}

func TestUnknownVariablesStayMistakes(t *testing.T) {
	for name, want := range map[string]string{
		"MODELS_CHAT_COLOUR": "no such key", "STORES": "no such key", "QUERY_API_PORTS": "no such key",
		"QUERY_API_PORT_8080": "no such key", "QUERY_API_SERVICE": "no such key",
		"QUERY_API_PORT_8080_TCP_NAME": "no such key", "INDEXES_OTHER_KEEP": "use --set indexes.NAME",
		"WORKER_SLOTS": `"many" is not a whole number`,
	} {
		_, err := load(t, "indexes: {docs: {}}\n", []string{"UNWEAVER_" + name + "=many"}, nil)
		assert.ErrorContains(t, err, "variable UNWEAVER_"+name+": ")
		assert.ErrorContains(t, err, want)
	}
}

func TestAFileIsReadWhereItIsAndAnObjectIsNot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "probes.jsonl")
	line := `{"question":"Who?","documents":["a.md"]}`
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	spec := core.Spec{Index: "docs", Gate: core.Gate{Probes: file}}
	files, err := config.ReadFiles(&spec)
	assert.True(t, err == nil && string(files.Probes) == line && files.Aliases == nil, "%+v, %v", files, err)
	for _, elsewhere := range []string{"", "s3://bucket/probes.jsonl", spec.Gate.Probes} {
		spec := core.Spec{Gate: core.Gate{Probes: elsewhere}, Aliases: elsewhere}
		files, err := config.ReadFiles(&spec)
		assert.True(t, err == nil && files.Probes == nil && files.Aliases == nil && spec.Gate.Probes == elsewhere,
			"%q: %+v, %v", elsewhere, files, err)
	}
	require.NoError(t, os.WriteFile(file, []byte(line+"\n{}"), 0o600))
	for _, bad := range []string{file, file + ".none"} {
		for _, spec := range []core.Spec{{Gate: core.Gate{Probes: bad}}, {Aliases: bad}} {
			_, err := config.ReadFiles(&spec)
			assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), bad), "%s: %v", bad, err)
		}
	}
}

// A specification holds what examples say, and not where they lie or how they are laid out; order of types is nothing.
func TestOwnExtractionIsResolvedByContent(t *testing.T) {
	t.Chdir(t.TempDir())
	example := `[{"text": "A pill <b>", "entities": [{"name": "Pill", "type": "drug", "description": ""}]}]`
	resolve := func(types, name, content string) core.Spec {
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
		cfg := must(config.Load(config.Source{Set: []string{
			"indexes.docs.extraction.types=" + types, "indexes.docs.extraction.examples=" + name,
			"indexes.docs.extraction.guidance= Doses matter. \n",
		}}))(t)
		return must(cfg.Spec("docs", ""))(t)
	}
	spec := resolve("Drug,City", "a.json", example)
	assert.Equal(t, core.Extraction{
		Share: 1, Types: []string{"City", "Drug"}, Guidance: "Doses matter.",
		Examples: `[{"text":"A pill <b>","entities":[{"name":"Pill","type":"Drug","description":""}]}]`,
	}, *spec.Extraction)
	again := resolve("City, Drug", "b.json", strings.ReplaceAll(example, ", ", ",\n  "))
	assert.Equal(t, spec.ConfigDigest(), again.ConfigDigest())
	other := resolve("City, Drug", "a.json", strings.ReplaceAll(example, "pill", "tablet"))
	assert.NotEqual(t, spec.ConfigDigest(), other.ConfigDigest())
	require.NoError(t, os.WriteFile("huge.json", make([]byte, 9<<10), 0o600))
	for name, why := range map[string]string{"none.json": "no such file", "huge.json": "more than 8192 bytes"} {
		cfg := must(config.Load(config.Source{Set: []string{"indexes.docs.extraction.examples=" + name}}))(t) // as a worker
		_, err := cfg.Spec("docs", "")
		assert.ErrorContains(t, err, why)
	}
}

func TestAModelInsideHasItsOwnLongestInput(t *testing.T) {
	for setting, want := range map[string]int{
		"models.embedding.max_input_tokens=8192": 400, "models.embedding.max_input_tokens=0": 400,
		"models.embedding.max_input_tokens=300": 300,
	} {
		cfg := must(config.Load(config.Source{Set: []string{"models.embedding.model=e5", setting}}))(t)
		spec, err := cfg.Spec("docs", "")
		assert.True(t, err == nil && spec.Embedding.MaxInputTokens == want && spec.Embedding.IsInside(),
			"%s: %d tokens, want %d, %v", setting, spec.Embedding.MaxInputTokens, want, err)
	}
	spec := must(must(config.Load(config.Source{}))(t).Spec("docs", ""))(t).Embedding
	assert.True(t, !spec.IsInside() && spec.MaxInputTokens == 8192, "the default is lexical vectors: %+v", spec)
}

func TestClassesAreLexicalBesideAModelInsideUnlessItIsSaid(t *testing.T) {
	for want, set := range map[string][]string{
		"lexical": {"models.embedding.model=e5"},
		"model":   {"models.embedding.model=e5", "models.embedding.classes=model"},
		"model ":  {"models.embedding.provider=openai", "models.embedding.model=server"},
	} {
		cfg := must(config.Load(config.Source{Set: set}))(t)
		spec := must(cfg.Spec("docs", ""))(t)
		assert.Equal(t, strings.TrimSpace(want), spec.Embedding.Classes, "%v", set)
	}
}

// What a branch is made with is refused where the file would be: an unknown key, another type, a value out of bounds.
func TestSettingsOfABranchAreCheckedByThemselves(t *testing.T) {
	for _, good := range []map[string]string{
		nil, {"shortening.threshold": "400"}, {"models.chat.model": "large", "retrieval.language": "de"},
	} {
		assert.NoError(t, config.CheckOverlay(good), "%v", good)
	}
	for key, bad := range map[string][2]string{
		"shortening.threshold": {"60", "200"}, "shortening.limit": {"1", "shortening.limit"},
		"keep": {"many", "keep"}, "retrieval.language": {"klingon", "language"},
	} {
		err := config.CheckOverlay(map[string]string{key: bad[0]})
		assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), bad[1]), "%s=%s: %v", key, bad[0], err)
	}
}

// A name that no index may have is a mistake like others, also where it comes with the settings of a branch.
func TestABranchOfAnImpossibleNameIsAMistake(t *testing.T) {
	for _, name := range []string{"../x", "a.b", ".", "*", "a.models.b"} {
		_, err := config.Load(config.Source{Missing: true, Overlays: []core.Overlay{{Index: name, Base: "docs"}}})
		assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), "a name has letters"),
			"%q: %v", name, err)
	}
}

func TestSlotsAndCacheFollowTheModelsAndTheMachineUnlessTheyAreGiven(t *testing.T) {
	for _, c := range []struct {
		set   string
		cores int
		want  int
	}{
		{"", 2, 64},
		{"models.limits.concurrency=512", 2, 64},   // two cores feed no more
		{"models.limits.concurrency=512", 16, 104}, // one and a half times 512, in requests of 8 an activity
		{"models.limits.concurrency=100000", 16, 512},
		{"indexes.docs.models.limits.concurrency=512", 16, 104},
		{"worker.slots=1 models.limits.concurrency=512", 16, 1},
		{"worker.slots=1000", 2, 1000},
	} {
		cfg := must(load(t, "", nil, strings.Fields(c.set)))(t)
		assert.Equal(t, c.want, cfg.CountSlots(c.cores), "%q on %d cores", c.set, c.cores)
	}
	cfg := config.Default()
	assert.Equal(t, []int{1024, 10_000}, []int{cfg.WorkflowCache(2), cfg.WorkflowCache(64)}, "workflows that are kept")
	assert.Equal(t, 7, mustLoad(t, "", nil, []string{"worker.workflow_cache=7"}).WorkflowCache(64), "as it is given")
}

func TestLimitsOfDocumentsAreWhatParsersTake(t *testing.T) {
	assert.Equal(t, document.DefaultLimits(), config.Default().DocumentLimits(), "nothing configured")
	cfg := config.Default()
	cfg.Limits.Document = config.DocumentLimits{
		Bytes: 1, Ratio: 2, Text: 3, Title: 4, Row: 5, Spans: 6, Nesting: 7, Pages: 8, Seconds: 9, Memory: 10,
	}
	want := document.Limits{
		Bytes: 1, Ratio: 2, Text: 3, Title: 4, Row: 5, Spans: 6, Nesting: 7, Pages: 8, Time: 9 * time.Second, Memory: 10,
	}
	assert.Equal(t, want, cfg.DocumentLimits())
}

func TestWhatDocumentsHideIsReadWhereTheIndexSaysSo(t *testing.T) {
	cfg := config.Default()
	cfg.Indexes["docs"] = config.Index{Documents: core.Documents{Hidden: "omit"}}
	usual, err := cfg.Spec("docs", t.TempDir())
	assert.True(t, err == nil && usual.Documents == nil, "nothing configured: %+v, %v", usual.Documents, err)
	index := cfg.Indexes["docs"]
	index.Documents.Hidden = "include"
	cfg.Indexes["docs"] = index
	with, err := cfg.Spec("docs", usual.Corpus)
	assert.True(t, err == nil && with.Documents != nil && with.Documents.Hidden == "include" &&
		with.ConfigDigest() != usual.ConfigDigest(), "include: %+v, %v", with.Documents, err)
	cfg.Indexes["docs"] = config.Index{Documents: core.Documents{Attachments: true}}
	with, err = cfg.Spec("docs", usual.Corpus)
	assert.True(t, err == nil && with.Documents != nil && with.Documents.Attachments &&
		with.ConfigDigest() != usual.ConfigDigest(), "attachments: %+v, %v", with.Documents, err)
	cfg.Indexes["docs"] = config.Index{Documents: core.Documents{S3Tags: true}}
	with, err = cfg.Spec("docs", "s3://bucket/docs")
	assert.True(t, err == nil && with.ReadAs().S3Tags, "tags of a bucket: %+v, %v", with.Documents, err)
	with, err = cfg.Spec("docs", usual.Corpus)
	assert.True(t, err == nil && with.Documents == nil, "files have no tags: %+v, %v", with.Documents, err)
}

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

func TestEndpointsAreThoseThatTheConfigurationNames(t *testing.T) {
	cfg := mustLoad(t, listed, nil, nil)
	want := []config.Endpoint{
		{BaseURL: "http://chat:1/v1", APIKeyEnv: "CHAT"}, {BaseURL: "http://more:2/v1", APIKeyEnv: "MORE"},
		{BaseURL: "http://own:3/v1", APIKeyEnv: "OWN"}, {BaseURL: "https://api.openai.com/v1", APIKeyEnv: "OPENAI"},
	}
	assert.Equal(t, want, cfg.ListEndpoints())
	recording, _ := filepath.Abs("replay.jsonl")
	assert.Equal(t, []string{recording}, cfg.ListModelPaths())
	assert.Equal(t, []string{"/data/a", "/data/b"}, cfg.Stores.CorpusRoots)
	assert.Empty(t, config.Default().ListEndpoints(), "built-in models name")
}

func TestAListHasAShortForm(t *testing.T) {
	cfg := must(config.Load(config.Source{Set: []string{
		"models.endpoints=http://a/v1=A, https://b/v1?x=1=B", "stores.corpus_roots=/x,/y",
	}}))(t)
	want := []config.Endpoint{{BaseURL: "http://a/v1", APIKeyEnv: "A"}, {BaseURL: "https://b/v1?x=1", APIKeyEnv: "B"}}
	assert.True(t, slices.Equal(cfg.Models.Endpoints, want) && slices.Equal(cfg.Stores.CorpusRoots, []string{"/x", "/y"}),
		"%+v, %v", cfg.Models.Endpoints, cfg.Stores.CorpusRoots)
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

func settings(t *testing.T, cfg *config.Config) map[string]config.Setting {
	t.Helper()
	out := map[string]config.Setting{}
	for _, s := range cfg.Settings() {
		_, twice := out[s.Key]
		assert.False(t, twice, "%s is listed twice", s.Key)
		out[s.Key] = s
	}
	return out
}

func TestEverySettingSaysWhereItCameFrom(t *testing.T) {
	cfg := mustLoad(t,
		"worker: { slots: 9 }\nmodels:\n  limits:\n    concurrency: 3\nindexes: { docs: { grace: 48h, keep: } }\n",
		[]string{"UNWEAVER_MODELS_LIMITS_CONCURRENCY=4", "UNWEAVER_ENGINE_TLS=true"},
		[]string{"engine.tls=false", "indexes.docs.models.chat.model=own"})
	got := settings(t, cfg)
	for _, want := range []config.Setting{
		{Key: "worker.slots", Value: 9, Origin: config.FromFile, At: "unweaver.yaml:1:18", Text: "9"},
		{
			Key: "models.limits.concurrency", Value: 4, Origin: config.FromVariable,
			At: "variable UNWEAVER_MODELS_LIMITS_CONCURRENCY", Text: "4",
		},
		{Key: "engine.tls", Value: false, Origin: config.FromSet, At: "--set engine.tls", Text: "false"},
		{Key: "worker.pollers", Value: 4, Origin: config.FromDefault, Text: "4"},
		{Key: "indexes.docs.keep", Value: 3, Origin: config.FromDefault, Text: "3"},
		{
			Key: "indexes.docs.models.chat.model", Value: "own", Origin: config.FromSet,
			At: "--set indexes.docs.models.chat.model", Text: "own",
		},
	} {
		have := got[want.Key]
		if i := strings.LastIndexByte(have.At, '/'); have.Origin == config.FromFile {
			have.At = have.At[i+1:]
		}
		assert.True(t, have == want, "want %+v\ngot  %+v", want, have)
	}
	grace := got["indexes.docs.grace"]
	assert.True(t, grace.Text == "48h" && grace.Origin == config.FromFile, "%+v", grace)
	_, listed := got["indexes.docs.models.chat.provider"]
	assert.True(t, !listed, "a model setting that the index does not give is listed as its own")
	raw, err := json.Marshal(got["indexes.docs.grace"])
	assert.True(t, err == nil && strings.Contains(string(raw), `"48h0m0s"`), "%s %v", raw, err)
}

func TestPasswordsOfStoresAreNotShown(t *testing.T) {
	cfg := mustLoad(t, "", nil,
		[]string{"stores.classes=redis://:verysecret@redis:6379/0", "stores.vectors=milvus://root:verysecret@milvus:19530"})
	got := settings(t, cfg)
	assert.True(t, got["stores.classes"].Text == "redis://:xxxxx@redis:6379/0" &&
		got["stores.vectors"].Value == "milvus://root:xxxxx@milvus:19530", "%+v %+v", got["stores.classes"],
		got["stores.vectors"])
	assert.Equal(t, "redis://:verysecret@redis:6379/0", cfg.Stores.Classes, "showing a setting changes it")
}

const oneChat = `
models:
  chat: {provider: openai, base_url: "http://a/v1", api_key_env: KEY_A, model: m, max_tokens: 9, price: {prompt: 1, completion: 2}}
indexes: {docs: {corpus: /c}, other: {corpus: /c, models: {answer: {model: other}, chat: {model: c}}}}
`

// What a role does not set is as models.chat has it; no key goes to another server, and no price to another model.
func TestARoleFallsBackToTheGeneralModel(t *testing.T) {
	general := core.ChatModel{
		Provider: "openai", BaseURL: "http://a/v1", APIKeyEnv: "KEY_A", Model: "m", MaxTokens: 9, Mode: "online",
		Price: core.Price{Prompt: 1, Completion: 2}, Timeout: core.DefaultModelTimeout,
		Batch: config.Default().Models.Chat.Batch,
	}
	changed := func(change func(*core.ChatModel)) core.ChatModel {
		out := general
		change(&out)
		return out
	}
	elsewhere := config.Default().Models.Chat
	elsewhere.Provider, elsewhere.BaseURL, elsewhere.Model, elsewhere.APIKeyEnv = "openai", "http://b/v1", "n", ""
	for name, c := range map[string]struct {
		set   []string
		index string
		want  core.ChatModel
	}{
		"nothing":       {nil, "docs", general},
		"another model": {[]string{"models.answer.model=n"}, "docs", changed(func(m *core.ChatModel) { m.Model, m.Price = "n", core.Price{} })},
		"its price": {
			[]string{"models.answer.model=n", "models.answer.price.prompt=7"}, "docs",
			changed(func(m *core.ChatModel) { m.Model, m.Price = "n", core.Price{Prompt: 7} }),
		},
		"zero counts":    {[]string{"models.answer.max_tokens=0"}, "docs", changed(func(m *core.ChatModel) { m.MaxTokens = 0 })},
		"another server": {[]string{"models.answer.base_url=http://b/v1", "models.answer.model=n"}, "docs", elsewhere},
		"another server with its key, and another of the index": {
			[]string{
				"models.answer.base_url=http://x/v1", "models.answer.api_key_env=KEY_X", "models.answer.model=x",
				"indexes.docs.models.answer.base_url=http://b/v1", "indexes.docs.models.answer.model=n",
			}, "docs", elsewhere,
		},
		"a price, and another model of the index": {
			[]string{"models.answer.model=x", "models.answer.price.prompt=7", "indexes.docs.models.answer.model=n"}, "docs",
			changed(func(m *core.ChatModel) { m.Model, m.Price = "n", core.Price{} }),
		},
		"a key alone, and another server of the index": {
			[]string{"models.answer.api_key_env=KEY_X", "indexes.docs.models.chat.base_url=http://b/v1"}, "docs",
			changed(func(m *core.ChatModel) { m.BaseURL, m.APIKeyEnv = "http://b/v1", "" }),
		},
		"of the index": {nil, "other", changed(func(m *core.ChatModel) { m.Model, m.Price = "other", core.Price{} })},
		"of an index that names no role": {[]string{"indexes.docs.models.chat.model=i"}, "docs", changed(func(m *core.ChatModel) {
			m.Model = "i"
		})},
	} {
		cfg, err := load(t, oneChat, nil, c.set)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, cfg.ModelOf(c.index, core.RoleAnswer), name)
		assert.Equal(t, config.Default().Models.Chat, cfg.ModelOf(c.index, core.RoleVision), "no other model sees pages")
	}
}

// A file without roles gives the specification that it gave before there were roles, and so does one whose roles are
// the general model. Answers are in no digest.
func TestRolesThatAreTheGeneralModelChangeNoSpecification(t *testing.T) {
	spec := func(set ...string) core.Spec {
		cfg, err := load(t, oneChat, nil, set)
		require.NoError(t, err)
		out, err := cfg.Spec("docs", "")
		require.NoError(t, err)
		return out
	}
	plain := spec()
	raw := musttest.Get(json.Marshal(plain))(t)
	assert.NotRegexp(t, `"(roles|answer|extraction)"`, string(raw), "bytes are those of a file without roles and languages")
	assert.Equal(t, "a7bbbda88620277d81106e060d708cbe24e428f5ad7b4ae7ce6ba16c15c9b304", plain.ConfigDigest().String())
	assert.Equal(t, plain, spec("models.extraction.model=m", "models.extraction.price.prompt=1",
		"models.extraction.price.completion=2", "models.answer.timeout=5m"))
	for set, same := range map[string]bool{
		"models.answer.model=n": true, "models.triples.model=n": true, "models.judge.model=n": true,
		"models.extraction.model=n": false, "models.shortening.model=n": false, "models.chat.model=n": false,
		"models.extraction.price.prompt=9": true,
	} {
		assert.Equal(t, same, spec(set).ConfigDigest() == plain.ConfigDigest(), set)
	}
	swapped := spec("models.chat.model=n", "models.extraction.model=m", "models.shortening.model=m")
	assert.Equal(t, plain.ConfigDigest(), swapped.ConfigDigest(), "who extracts and shortens is as it was")
}

func TestAProcessMayAskTheServersOfRolesAndNoOthers(t *testing.T) {
	cfg := musttest.Get(load(t, oneChat, nil, []string{
		"models.answer.base_url=http://b/v1", "models.answer.model=n", "models.answer.api_key_env=KEY_B",
		"indexes.docs.models.shortening.base_url=http://c/v1", "indexes.docs.models.shortening.model=o",
	}))(t)
	assert.Equal(t, []config.Endpoint{
		{BaseURL: "http://a/v1", APIKeyEnv: "KEY_A"}, {BaseURL: "http://b/v1", APIKeyEnv: "KEY_B"},
		{BaseURL: "http://c/v1"},
	}, cfg.ListEndpoints())
}

func TestRolesThatCannotWorkAreRefused(t *testing.T) {
	for set, want := range map[string]string{
		"models.answer.base_url=http://b/v1":                           "models.answer.model: provider openai needs a model",
		"models.extraction.model=n indexes.docs.budget.money=1":        "models.extraction.price: a limit of money counts its calls",
		"models.answer.price.prompt=-1":                                "models.answer.price.prompt: want 0 to 1000000",
		"models.answer.mode=batch":                                     "models.answer.mode: only extraction is sent in batches",
		"models.shortening.provider=recorded":                          "models.shortening.provider: a recording has only extractions",
		"models.embedding.model=minilm models.embedding.dimension=512": "want 0 or 384",
		"models.writer.model=m":                                        "unknown key models.writer",
		"indexes.docs.models.answer.provider=openai":                   "indexes.docs.models.answer.model: provider openai needs a model",
	} {
		assert.Contains(t, refused(t, oneChat, strings.Fields(set)...), want, set)
	}
	assert.Contains(t, refused(t, "", "models.answer.model=m"), "set provider or base_url of the role")
}

package app_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/fleet"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
	memory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/redistest"
)

const keyVariable = "WIRING_TEST_KEY"

// spec returns the spec of an index whose models are served by a test server.
func spec(t *testing.T, options modeltest.Options) core.Spec {
	server := modeltest.Start(t, options)
	t.Setenv(keyVariable, "secret")
	return core.Spec{
		Index:     "i",
		Chat:      core.ChatModel{Provider: "openai", BaseURL: server.URL, APIKeyEnv: keyVariable, Model: "m"},
		Embedding: core.EmbedModel{Provider: "openai", BaseURL: server.URL, APIKeyEnv: keyVariable, Model: "e"},
		Limits:    core.Limits{Concurrency: 3},
	}
}

// factory makes models of a process whose configuration names what the specs name.
func factory(specs ...core.Spec) *app.Models {
	own := config.Default()
	for _, spec := range specs {
		own.Models.Endpoints = append(own.Models.Endpoints,
			config.Endpoint{BaseURL: spec.Chat.BaseURL, APIKeyEnv: spec.Chat.APIKeyEnv},
			config.Endpoint{BaseURL: spec.Embedding.BaseURL, APIKeyEnv: spec.Embedding.APIKeyEnv})
		if spec.Chat.Provider == "recorded" {
			own.Models.Chat = spec.Chat
		}
	}
	return app.NewModels(nil, own)
}

type meter struct {
	mu         sync.Mutex
	open, most int
	tasks      map[string]int
	answered   int
	prompt     int64
}

func (m *meter) Begin(_ context.Context, task string, _ int64) (func(model.Usage, bool), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tasks == nil {
		m.tasks = map[string]int{}
	}
	m.tasks[task]++
	m.open++
	m.most = max(m.most, m.open)
	return func(usage model.Usage, answered bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.open--
		m.prompt += usage.Prompt
		if answered {
			m.answered++
		}
	}, nil
}

// Two workers have the configured concurrency together, not each.
func TestProcessesShareTheConcurrencyOfAnEndpoint(t *testing.T) {
	meter, store := &meter{}, memory.New()
	slow := spec(t, modeltest.Options{Latency: 5 * time.Millisecond})
	var wg sync.WaitGroup
	for range 2 {
		member := fleet.Join(store, fleet.Worker{Queue: "q"}, slog.New(slog.DiscardHandler))
		models := factory(slow)
		models.ShareWith(member)
		set := musttest.Get(models.NewBuildSet(slow, meter))(t)
		defer func() { assert.NoError(t, member.Leave(t.Context())) }()
		for range 12 {
			wg.Go(func() {
				assert.NoError(t, musttest.Err(set.Chat.Complete(t.Context(), model.Call{Task: model.Answer, User: "hello there"})))
			})
		}
	}
	wg.Wait()
	if meter.most > 3 || meter.answered != 24 { // a machine that stalls may have fewer at once
		t.Errorf("%d at once, answered %d; want at most 3, 24", meter.most, meter.answered)
	}
}

func TestABuildsModelsAreMeteredBelowTheirLimits(t *testing.T) {
	meter := &meter{}
	slow := spec(t, modeltest.Options{Latency: 5 * time.Millisecond})
	set := musttest.Get(factory(slow).NewBuildSet(slow, meter))(t)
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			assert.NoError(t, musttest.Err(set.Chat.Complete(t.Context(), model.Call{Task: model.Answer, User: "hello there"})))
		})
	}
	wg.Wait()
	// Were the limits below the meter, all twelve would be begun at once and nine would wait after admission.
	assert.True(t, meter.most <= 3 && meter.tasks[model.Answer] == 12 && meter.answered == 12,
		"%d at once, begun %v, answered %d; want at most 3, 12, 12", meter.most, meter.tasks, meter.answered)
	for name, embedder := range map[string]model.Embedder{"chunks": set.Chunks, "classes": set.Classes} {
		before := meter.tasks[model.EmbedTask]
		musttest.Get2(embedder.Embed(t.Context(), []string{"some words to embed"}))(t)
		assert.Equal(t, before+1, meter.tasks[model.EmbedTask], "the embedder of %s is not metered", name)
	}
}

func TestWhatCostsNothingIsNotMetered(t *testing.T) {
	recording := filepath.Join(t.TempDir(), "recording.jsonl")
	require.NoError(t, os.WriteFile(recording, []byte(`{"chunk_id":"1","entities":["A"]}`+"\n"), 0o600))
	paid := spec(t, modeltest.Options{})
	builtin, recorded, lexical := paid, paid, paid
	builtin.Chat.Provider, builtin.Embedding = "builtin", core.EmbedModel{Provider: "builtin"}
	recorded.Chat, recorded.Embedding = core.ChatModel{Provider: "recorded", File: recording}, builtin.Embedding
	lexical.Embedding.Classes = "lexical"
	meter := &meter{}
	models := factory(paid, recorded)
	for name, c := range map[string]struct {
		spec  core.Spec
		tasks int
	}{"built-in": {builtin, 0}, "recorded": {recorded, 0}, "lexical class vectors": {lexical, 1}} {
		t.Run(name, func(t *testing.T) {
			clear(meter.tasks)
			set := musttest.Get(models.NewBuildSet(c.spec, meter))(t)
			call := model.Call{Task: model.Extract, Input: "Niels Bohr", User: "Niels Bohr", Ref: "f#1"}
			musttest.Get(set.Chat.Complete(t.Context(), call))(t)
			musttest.Get2(set.Classes.Embed(t.Context(), []string{"Niels Bohr"}))(t)
			assert.Len(t, meter.tasks, c.tasks, "metered %v", meter.tasks)
		})
	}
}

func TestModelsThatCannotBeOpenedSayWhichSetting(t *testing.T) {
	good := spec(t, modeltest.Options{})
	noChatKey, noEmbedKey, noFile := good, good, good
	noChatKey.Chat.APIKeyEnv = "WIRING_TEST_UNSET"
	noEmbedKey.Embedding.APIKeyEnv = "WIRING_TEST_UNSET"
	noFile.Chat = core.ChatModel{Provider: "recorded", File: "/nowhere.jsonl"}
	for name, c := range map[string]struct {
		spec   core.Spec
		code   fault.Code
		object string
	}{
		"no key of the chat model": {noChatKey, fault.ModelAuth, "models.chat"},
		"no key of the embedder":   {noEmbedKey, fault.ModelAuth, "models.embedding"},
		"no recording":             {noFile, fault.BadConfig, "/nowhere.jsonl"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := factory(c.spec).NewBuildSet(c.spec, nil)
			e := fault.As(err)
			assert.True(t, e != nil && e.Code == c.code && e.Object == c.object && e.Hint != "", "got %v", err)
		})
	}
}

// A server of one's own is asked without a key where none is configured, and the key of OpenAI is not set.
func TestAServerOfOnesOwnNeedsNoKeyThatNobodyNamed(t *testing.T) {
	spec := spec(t, modeltest.Options{})
	t.Setenv(core.DefaultKeyVariable, "")
	spec.Chat.APIKeyEnv, spec.Embedding.APIKeyEnv = core.DefaultKeyVariable, core.DefaultKeyVariable
	made := musttest.Get(factory(spec).NewBuildSet(spec, nil))(t)
	assert.NoError(t, musttest.Err(made.Chat.Complete(t.Context(), model.Call{Task: model.Answer, User: "hello"})))
	spec.Chat.APIKeyEnv = keyVariable
	t.Setenv(keyVariable, "")
	musttest.Refuse(factory(spec).Chat(spec, ""))(t, fault.ModelAuth)
	spec.Chat.BaseURL, spec.Chat.APIKeyEnv = "", core.DefaultKeyVariable
	musttest.Refuse(factory(spec).Chat(spec, ""))(t, fault.ModelAuth)
}

// What an index is configured with comes from any builder of it: it chooses where documents and keys go among what
// the process's own configuration names.
func TestEndpointsThatTheProcessDoesNotNameAreRefused(t *testing.T) {
	good := spec(t, modeltest.Options{})
	t.Setenv("WIRING_OTHER_SECRET", "secret of something else")
	elsewhere, key, embedding, file := good, good, good, good
	elsewhere.Chat.BaseURL = "http://attacker.example/v1"
	key.Chat.APIKeyEnv = "WIRING_OTHER_SECRET"
	embedding.Embedding.BaseURL = "http://attacker.example/v1"
	file.Chat = core.ChatModel{Provider: "recorded", File: "/etc/passwd"}
	models := factory(good)
	for name, c := range map[string]struct {
		spec core.Spec
		says string
	}{
		"another server":                {elsewhere, "models.endpoints"},
		"the key of something else":     {key, "WIRING_OTHER_SECRET"},
		"another server for embeddings": {embedding, "models.endpoints"},
		"another file":                  {file, "models.chat.file"},
	} {
		_, built := models.NewBuildSet(c.spec, nil)
		_, chat := models.Chat(c.spec, "")
		if c.spec.Chat == good.Chat {
			_, chat = models.Embedder(c.spec, "openai", 8)
		}
		for what, err := range map[string]error{"build": built, "query": chat, "check": models.Check(c.spec)} {
			assert.True(t, fault.Is(err, fault.EndpointRefused) && strings.Contains(err.Error(), c.says),
				"%s, %s: %v", name, what, err)
		}
	}
	musttest.Refuse(models.Describe(file))(t, fault.EndpointRefused)
	assert.NoError(t, models.Check(good))
	slash := good
	slash.Chat.BaseURL += "/"
	assert.NoError(t, models.Check(slash), "a slash at the end")
	builtin := core.Spec{Chat: core.ChatModel{Provider: "builtin"}, Embedding: core.EmbedModel{Provider: "builtin"}}
	none := app.NewModels(nil, nil)
	assert.NoError(t, none.Check(builtin), "built-in models")
	musttest.Code(t, none.Check(good), fault.EndpointRefused, "a process without configuration")
	none.AllowEndpoints(config.Endpoint{BaseURL: good.Chat.BaseURL, APIKeyEnv: keyVariable})
	assert.NoError(t, none.Check(good), "allowed since")
}

func TestARerankerIsMadeOfEndpointsThatTheProcessNames(t *testing.T) {
	good := spec(t, modeltest.Options{})
	assert.Nil(t, musttest.Get(factory(good).Ranker(good))(t), "without one")
	good.Rerank = core.RerankModel{Provider: "http", BaseURL: "http://reranker.example/v1"}
	own := config.Default()
	own.Models.Rerank = good.Rerank
	models := app.NewModels(nil, own)
	ranker, err := models.Ranker(good)
	assert.True(t, err == nil && ranker.Info().Endpoint == good.Rerank.BaseURL, "%v %v", ranker, err)
	elsewhere, key := good, good
	elsewhere.Rerank.BaseURL = "http://attacker.example/v1"
	key.Rerank.APIKeyEnv = "WIRING_OTHER_SECRET"
	for name, spec := range map[string]core.Spec{"another server": elsewhere, "another key": key} {
		_, made := models.Ranker(spec)
		spec.Chat, spec.Embedding = core.ChatModel{Provider: "builtin"}, core.EmbedModel{Provider: "builtin"}
		for what, err := range map[string]error{"query": made, "check": models.Check(spec)} {
			assert.True(t, fault.Is(err, fault.EndpointRefused) && strings.Contains(err.Error(), "models.rerank"),
				"%s, %s: %v", name, what, err)
		}
	}
}

// What was paid for lies in ledgers under these keys: they stay for every way of asking a model server.
// The address of a server is in them by its domain alone.
// Promises: 71.
func TestKeysOfWhatWasPaidForStay(t *testing.T) {
	local := spec(t, modeltest.Options{})
	local.Chat.BaseURL, local.Embedding.BaseURL = "https://models.example/v1", "https://models.example/v1"
	local.Chat.APIKeyEnv, local.Embedding.APIKeyEnv = "", ""
	local.Chat.Model, local.Embedding.Model = "a-chat-model", "an-embedding-model"
	models := factory(local)
	chat := musttest.Get(models.Chat(local, ""))(t)
	embedder := musttest.Get(models.Embedder(local, "openai", 3))(t)
	info := embedder.Info()
	fingerprint := core.Fingerprint{
		Provider: info.Provider, Model: info.Model, Dimension: 3, Template: embed.ChunkTemplate, Windows: embed.WindowRule,
	}
	for name, c := range map[string]struct{ got, want string }{
		"a text's extraction": {
			extract.Key(chat.Info(), core.Spec{}, "some text").String(),
			"542490e3fd65fd0500cd28069d1825bdc6452454024adf5ca8df7b8f7c8d9051",
		},
		"a text's vector": {
			ledger.ScopeKey(info.Domain, embed.Digest("some text", fingerprint.Digest())).String(),
			"78e36748d938ceac2717cf7da7c6071adbe55f49f4c5f6746608c655c886468d",
		},
	} {
		assert.Equal(t, c.want, c.got, "%s has the key", name)
	}
}

// A server that is configured without a variable gets no key: not that of OpenAI, which may lie in the environment.
func TestAServerWithoutAKeyIsSentNone(t *testing.T) {
	var mu sync.Mutex
	sent := map[string][]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		sent[request.URL.Path] = append(sent[request.URL.Path], request.Header.Values("Authorization")...)
		sent[request.URL.Path+" asked"] = []string{"yes"}
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	t.Setenv("OPENAI_API_KEY", "sk-of-somebody-else")
	t.Setenv("OPENAI_ADMIN_KEY", "sk-admin-of-somebody-else")
	local := spec(t, modeltest.Options{})
	local.Chat.BaseURL, local.Embedding.BaseURL = server.URL, server.URL
	local.Chat.APIKeyEnv, local.Embedding.APIKeyEnv = "", ""
	models := factory(local)
	chat := musttest.Get(models.Chat(local, ""))(t)
	_, _ = chat.Complete(t.Context(), model.Call{Task: model.Answer, User: "hello"})
	embedder := musttest.Get(models.Embedder(local, "openai", 3))(t)
	_, _, _ = embedder.Embed(t.Context(), []string{"hello"})
	mu.Lock()
	defer mu.Unlock()
	for _, path := range []string{"/chat/completions", "/embeddings"} {
		assert.True(t, len(sent[path+" asked"]) == 1 && len(sent[path]) == 0, "%s, %q, %v", path, sent[path], sent)
	}
}

func TestAKeyThatIsMissingIsNamedByItsSetting(t *testing.T) {
	server := spec(t, modeltest.Options{})
	server.Chat.APIKeyEnv = "NO_SUCH_KEY_HERE"
	openAI := server
	openAI.Chat.BaseURL, openAI.Chat.APIKeyEnv = "", ""
	models := factory(server, openAI)
	for says, asked := range map[string]string{
		"variable NO_SUCH_KEY_HERE, which models.chat.api_key_env names, is empty": server.Chat.BaseURL,
		"models.chat.api_key_env names no variable":                                "",
	} {
		configured := server
		if asked == "" {
			configured = openAI
		}
		_, err := models.Chat(configured, "")
		assert.True(t, fault.Is(err, fault.ModelAuth) && strings.Contains(err.Error(), says) &&
			strings.Contains(err.Error(), `models.chat.api_key_env to ""`), "want %s, got %v", says, err)
	}
}

// A file is refused as a corpus: it must not stay among those that may be read after a restart.
func TestAFileIsNotKeptAmongTheCorpora(t *testing.T) {
	data, file := t.TempDir(), filepath.Join(t.TempDir(), "one.txt")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o600))
	stores := &app.Stores{}
	kept := filepath.Join(data, "roots.json")
	require.NoError(t, stores.LoadGrants(kept))
	require.NoError(t, stores.GrantCorpora(file, true))
	raw, err := os.ReadFile(kept)
	assert.True(t, err != nil, "it holds %s", raw)
	require.NoError(t, stores.GrantCorpora(filepath.Dir(file), true))
	assert.NoError(t, musttest.Err(os.ReadFile(kept)), "a folder is kept")
}

// The model of a role has its own server, key and limits; the others go on with the general ones.
func TestARoleHasItsOwnServerAndLimits(t *testing.T) {
	general := spec(t, modeltest.Options{})
	server := modeltest.Start(t, modeltest.Options{Latency: 5 * time.Millisecond, Key: "of-answers"})
	t.Setenv("WIRING_TEST_ANSWERS", "of-answers")
	general.Roles = map[string]core.ChatModel{core.RoleAnswer: {
		Provider: "openai", BaseURL: server.URL, APIKeyEnv: "WIRING_TEST_ANSWERS", Model: "n",
		Limits: core.Limits{Concurrency: 1},
	}}
	models := factory(general)
	musttest.Code(t, models.Check(general), fault.EndpointRefused, "a server that the process does not name")
	models.AllowEndpoints(config.Endpoint{BaseURL: server.URL, APIKeyEnv: "WIRING_TEST_ANSWERS"})
	require.NoError(t, models.Check(general))
	assert.Equal(t, "m", musttest.Get(models.NewBuildSet(general, nil))(t).Extractor().Info().Model)
	answers := musttest.Get(models.Chat(general, core.RoleAnswer))(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			assert.NoError(t, musttest.Err(answers.Complete(t.Context(), model.Call{Task: model.Answer, User: "hello there"})))
		})
	}
	wg.Wait()
	stats := server.Stats()
	assert.True(t, stats.Chat == 8 && stats.MaxFlight == 1, "%d calls, %d at once", stats.Chat, stats.MaxFlight)
	t.Setenv("WIRING_TEST_ANSWERS", "")
	_, err := models.Chat(general, core.RoleAnswer)
	assert.True(t, fault.As(err) != nil && fault.As(err).Object == "models.answer", "a key that is empty: %v", err)
}

func open(t *testing.T, stores config.Stores) *app.Stores {
	opened := musttest.Get(app.Open(t.Context(), stores))(t)
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}

func TestADataDirectoryHoldsEveryStoreAndIsOpenedAgain(t *testing.T) {
	dir := t.TempDir()
	var id string
	for i := range 2 {
		stores := open(t, app.FillPaths(config.Stores{}, dir))
		if i == 0 {
			id = stores.StoreID
			require.NoError(t, stores.Records.PutRecords(t.Context(), []records.Record{{Key: "k", Value: []byte("v")}}))
			musttest.Get2(stores.Coordination.ExchangeAccount(t.Context(), "i/g", "w", []byte("7")))(t)
			require.NoError(t, stores.Vectors.Create(t.Context(), "c", 4))
		}
		values, err := stores.Records.GetRecords(t.Context(), []string{"k"})
		assert.True(t, err == nil && string(values[0]) == "v", "records: %q, %v", values, err)
		accounts, err := stores.Coordination.ReadAccounts(t.Context(), "i/g")
		assert.True(t, err == nil && string(accounts["w"]) == "7", "accounts: %q, %v", accounts, err)
		assert.Zero(t, musttest.Get(stores.Vectors.Count(t.Context(), "c"))(t), "vectors")
		assert.True(t, stores.StoreID != "" && stores.StoreID == id && stores.Staging == nil,
			"the artifact store was %q and is %q", id, stores.StoreID)
		require.NoError(t, stores.Close())
	}
	for _, name := range []string{"artifacts", "classes.bolt", "classes.bolt.runs", "vectors"} { // where they always lay
		assert.NoError(t, musttest.Err(os.Stat(filepath.Join(dir, name))))
	}
}

func TestADataDirectoryInUseIsRefusedAndNotHarmed(t *testing.T) {
	dir := t.TempDir()
	first := open(t, app.FillPaths(config.Stores{}, dir))
	musttest.Refuse(app.Open(t.Context(), app.FillPaths(config.Stores{}, dir)))(t, fault.DataDirInUse, "classes.bolt")
	assert.NoError(t, first.Coordination.SetState(t.Context(), "i/g", []byte("x")))
}

// Records are named by content alone: those of another artifact store would be taken for one's own.
func TestRecordsOfAnotherArtifactStoreAreRefused(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	require.NoError(t, open(t, app.FillPaths(config.Stores{}, first)).Close())
	mixed := app.FillPaths(config.Stores{Classes: filepath.Join(first, "classes.bolt")}, second)
	musttest.Refuse(app.Open(t.Context(), mixed))(t, fault.StoreOwned, "another artifact store")
	open(t, app.FillPaths(config.Stores{}, first)) // what was refused was closed again
}

// A store.json that was lost or damaged with its copy has a way back without a backup: the file of records knows the
// id.
func TestALostStoreIDIsToldByTheRecordsAndWrittenBack(t *testing.T) {
	dir := t.TempDir()
	embedded := app.FillPaths(config.Stores{}, dir)
	first := open(t, embedded)
	id := first.StoreID
	require.NoError(t, first.Close())
	file := filepath.Join(dir, "artifacts", "store.json")
	both := []string{file, file + ".copy"}
	for _, one := range both {
		require.NoError(t, os.WriteFile(one, nil, 0o600))
	}
	_, err := app.Open(t.Context(), embedded)
	musttest.Fail(t, err, fault.SegmentDamage, file+" back from a backup; or remove both and start again")
	for _, one := range both {
		require.NoError(t, os.Remove(one))
	}
	back := `{"id":"` + id + `"}`
	for range 2 { // the first start makes another id
		_, err = app.Open(t.Context(), embedded)
		musttest.Fail(t, err, fault.StoreOwned, "store.json of this artifact store was lost, write "+back)
	}
	for _, one := range both {
		require.NoError(t, os.WriteFile(one, []byte(back), 0o600))
	}
	assert.Equal(t, id, open(t, embedded).StoreID, "the id was")
}

func TestAURLWithoutAnAdapterNamesTheSetting(t *testing.T) {
	for setting, stores := range map[string]config.Stores{
		"stores.artifacts": {Artifacts: "gopher://x"},
		"stores.classes":   {Classes: "memcached://x"},
		"stores.vectors":   {Vectors: "qdrant://x"},
	} {
		musttest.Refuse(app.Open(t.Context(), app.FillPaths(stores, t.TempDir())))(t, fault.BadConfig, setting)
	}
}

func TestVectorsThatCannotBeOpenedAreAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	stores := app.FillPaths(config.Stores{Vectors: file}, t.TempDir())
	musttest.Refuse(app.Open(t.Context(), stores))(t, fault.StoreDown, file)
}

func TestBothPortsOverRedisShareOneConnection(t *testing.T) {
	stores := open(t, app.FillPaths(config.Stores{Classes: redistest.Server(t)}, t.TempDir()))
	require.NoError(t, stores.Coordination.SetState(t.Context(), "i/g", []byte("x")))
	key := stores.StoreID[:8] + ":state:i/g" // the prefix that records took is coordination's too
	n, err := redistest.Raw(t, redistest.Server(t)).Exists(t.Context(), key).Result()
	assert.True(t, err == nil && n == 1, "%d keys %s, %v", n, key, err)
	assert.NoError(t, stores.Close())
}

func TestACorpusIsAFolderOrABucket(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("text"), 0o600))
	stores := open(t, app.FillPaths(config.Stores{CorpusRoots: []string{dir}}, t.TempDir()))
	corpus := musttest.Get(stores.OpenCorpus(t.Context(), dir))(t)
	raw, _, err := blob.Read(t.Context(), corpus, "a.txt")
	assert.True(t, err == nil && string(raw) == "text", "got %q, %v", raw, err)
	for uri, want := range map[string]struct {
		code fault.Code
		says string
	}{
		"":                            {fault.CorpusMissing, "indexes.<name>.corpus"},
		filepath.Join(dir, "missing"): {fault.CorpusMissing, "missing"},
		"ftp://host/folder":           {fault.BadConfig, "ftp://"},
		"s3://":                       {fault.BadConfig, "s3://bucket/prefix"},
	} {
		musttest.Refuse(stores.OpenCorpus(t.Context(), uri))(t, want.code, want.says)
	}
}

func TestProgramsThatShareStoresRefusePaths(t *testing.T) {
	all := config.Stores{Artifacts: "s3://b", Classes: "redis://h", Vectors: "milvus://h"}
	assert.NoError(t, all.NoPaths("the worker"))
	for setting, change := range map[string]func(*config.Stores){
		"stores.artifacts is a path": func(s *config.Stores) { s.Artifacts = "/data" },
		"stores.classes is not set":  func(s *config.Stores) { s.Classes = "" },
		"stores.vectors is a path":   func(s *config.Stores) { s.Vectors = "vectors" },
	} {
		stores := all
		change(&stores)
		musttest.Fail(t, stores.NoPaths("the worker"), fault.BadConfig, setting)
	}
}

func TestACorpusOutsideOfEveryRootIsRefused(t *testing.T) {
	root, outside, data := t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "docs"), 0o700))
	link := filepath.Join(root, "link")
	if err := os.Symlink(outside, link); err != nil {
		t.Skip("no links here:", err)
	}
	stores := open(t, app.FillPaths(config.Stores{CorpusRoots: []string{root}}, data))
	assert.NoError(t, musttest.Err(stores.OpenCorpus(t.Context(), filepath.Join(root, "docs"))))
	for _, path := range []string{outside, link, root + "/../" + filepath.Base(outside), "/etc", root + "x"} {
		musttest.Refuse(stores.OpenCorpus(t.Context(), path))(t, fault.CorpusRefused, "stores.corpus_roots")
	}
	if err := stores.GrantCorpora(outside, true); err != nil { // without a data directory nothing is granted
		t.Fatal(err)
	}
	musttest.Refuse(stores.OpenCorpus(t.Context(), outside))(t, fault.CorpusRefused, outside)
}

func TestWhatTheOwnerGrantsIsReadAlsoAfterARestart(t *testing.T) {
	kept, once, data := t.TempDir(), t.TempDir(), t.TempDir()
	file := filepath.Join(data, "roots.json")
	for round := range 2 {
		stores := open(t, app.FillPaths(config.Stores{}, t.TempDir()))
		require.NoError(t, stores.LoadGrants(file))
		if round == 0 {
			require.NoError(t, stores.GrantCorpora(kept, true))
			require.NoError(t, stores.GrantCorpora(once, false))
		}
		assert.NoError(t, musttest.Err(stores.OpenCorpus(t.Context(), kept)), "start %d", round)
		_, err := stores.OpenCorpus(t.Context(), once)
		assert.True(t, (err == nil) == (round == 0), "start %d, granted for a moment: %v", round, err)
	}
	info, err := os.Stat(file)
	assert.True(t, err == nil && info.Mode().Perm() == 0o600, "%v, %v", info, err)
}

func TestABucketOfWhatIsBuiltIsNoCorpus(t *testing.T) {
	stores := open(t, app.FillPaths(config.Stores{}, t.TempDir()))
	stores.Place(config.Stores{Artifacts: "s3://own/artifacts", Milvus: config.Milvus{Bucket: "milvus"}})
	for _, uri := range []string{"s3://own", "s3://own/artifacts", "s3://own/artifacts/docs/segments", "s3://milvus/files"} {
		musttest.Refuse(stores.OpenCorpus(t.Context(), uri))(t, fault.CorpusRefused, "prefix or a bucket of its own")
	}
}

func TestWhatThisProcessKeepsIsNoPartOfACorpus(t *testing.T) {
	project := t.TempDir()
	data := filepath.Join(project, "unweaver-data")
	require.NoError(t, os.WriteFile(filepath.Join(project, "a.txt"), []byte("a"), 0o600))
	stores := open(t, app.FillPaths(config.Stores{CorpusRoots: []string{project}}, data))
	require.NoError(t, os.WriteFile(filepath.Join(data, "dev.json"), []byte("{}"), 0o600))
	listed := func() (keys []string) {
		corpus := musttest.Get(stores.OpenCorpus(t.Context(), project))(t)
		for info, err := range corpus.List(t.Context(), "", "") {
			if err == nil {
				keys = append(keys, info.Key)
			}
		}
		return keys
	}
	assert.Equal(t, []string{"a.txt", "unweaver-data/dev.json"}, listed(), "stores alone")
	stores.BarPaths(data)
	assert.Equal(t, []string{"a.txt"}, listed(), "with the data directory")
	for _, path := range []string{data, filepath.Join(data, "artifacts"), filepath.Join(data, "vectors")} {
		musttest.Refuse(stores.OpenCorpus(t.Context(), path))(t, fault.CorpusRefused, "the data folder of this program")
	}
}

package app_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/fleet"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

const keyVariable = "WIRING_TEST_KEY"

// spec returns the spec of an index whose models are served by a test server.
func spec(t *testing.T, options modeltest.Options) core.Spec {
	t.Helper()
	server := modeltest.New(options)
	require.NoError(t, server.Listen("127.0.0.1:0"))
	t.Cleanup(server.Close)
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

// meter counts what was begun and not ended.
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
		set := must(models.NewBuildSet(slow, meter))(t)
		defer func() {
			assert.NoError(t, member.Leave(t.Context()))
		}()
		for range 12 {
			wg.Go(func() {
				_, err := set.Chat.Complete(t.Context(), model.Call{Task: model.Answer, User: "hello there"})
				assert.NoError(t, err)
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
	set := must(factory(slow).NewBuildSet(slow, meter))(t)
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			_, err := set.Chat.Complete(t.Context(), model.Call{Task: model.Answer, User: "hello there"})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	// Were the limits below the meter, all twelve would be begun at once and nine would wait after admission.
	assert.True(t, meter.most <= 3 && meter.tasks[model.Answer] == 12 && meter.answered == 12,
		"%d at once, begun %v, answered %d; want at most 3, 12, 12", meter.most, meter.tasks, meter.answered)
	for name, embedder := range map[string]model.Embedder{"chunks": set.Chunks, "classes": set.Classes} {
		before := meter.tasks[model.EmbedTask]
		_, _, err := embedder.Embed(t.Context(), []string{"some words to embed"})
		require.NoError(t, err)
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
			set := must(models.NewBuildSet(c.spec, meter))(t)
			call := model.Call{Task: model.Extract, Input: "Niels Bohr", User: "Niels Bohr", Ref: "f#1"}
			_, err := set.Chat.Complete(t.Context(), call)
			require.NoError(t, err)
			_, _, err = set.Classes.Embed(t.Context(), []string{"Niels Bohr"})
			require.NoError(t, err)
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
	made := must(factory(spec).NewBuildSet(spec, nil))(t)
	_, err := made.Chat.Complete(t.Context(), model.Call{Task: model.Answer, User: "hello"})
	assert.NoError(t, err)
	spec.Chat.APIKeyEnv = keyVariable
	t.Setenv(keyVariable, "")
	if _, err := factory(spec).Chat(spec); !fault.Is(err, fault.ModelAuth) {
		t.Errorf("a variable that was named and is empty: %v", err)
	}
	spec.Chat.BaseURL, spec.Chat.APIKeyEnv = "", core.DefaultKeyVariable
	if _, err := factory(spec).Chat(spec); !fault.Is(err, fault.ModelAuth) {
		t.Errorf("OpenAI's own: %v", err)
	}
}

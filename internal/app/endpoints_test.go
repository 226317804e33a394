package app_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

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
		_, chat := models.Chat(c.spec)
		if c.spec.Chat == good.Chat {
			_, chat = models.Embedder(c.spec, "openai", 8)
		}
		for what, err := range map[string]error{"build": built, "query": chat, "check": models.Check(c.spec)} {
			assert.True(t, fault.Is(err, fault.EndpointRefused) && strings.Contains(err.Error(), c.says),
				"%s, %s: %v", name, what, err)
		}
	}
	_, err := models.Describe(file)
	assert.True(t, fault.Is(err, fault.EndpointRefused), "an estimate reads any file: %v", err)
	assert.NoError(t, models.Check(good))
	slash := good
	slash.Chat.BaseURL += "/"
	assert.NoError(t, models.Check(slash), "a slash at the end")
	builtin := core.Spec{Chat: core.ChatModel{Provider: "builtin"}, Embedding: core.EmbedModel{Provider: "builtin"}}
	none := app.NewModels(nil, nil)
	assert.NoError(t, none.Check(builtin), "built-in models")
	if err := none.Check(good); !fault.Is(err, fault.EndpointRefused) {
		t.Errorf("a process without configuration: %v", err)
	}
	none.AllowEndpoints(config.Endpoint{BaseURL: good.Chat.BaseURL, APIKeyEnv: keyVariable})
	assert.NoError(t, none.Check(good), "allowed since")
}

func TestARerankerIsMadeOfEndpointsThatTheProcessNames(t *testing.T) {
	good := spec(t, modeltest.Options{})
	none, err := factory(good).Ranker(good)
	assert.True(t, err == nil && none == nil, "without one: %v %v", none, err)
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

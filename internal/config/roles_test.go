package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
)

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
		"of the index": {nil, "other", changed(func(m *core.ChatModel) {
			m.Model, m.Price = "other", core.Price{}
		})},
		"of an index that names no role": {[]string{"indexes.docs.models.chat.model=i"}, "docs", changed(func(m *core.ChatModel) {
			m.Model = "i"
		})},
	} {
		cfg, err := load(t, oneChat, nil, c.set)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, cfg.ModelOf(c.index, core.RoleAnswer), name)
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
	raw, err := json.Marshal(plain)
	require.NoError(t, err)
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
	cfg, err := load(t, oneChat, nil, []string{
		"models.answer.base_url=http://b/v1", "models.answer.model=n", "models.answer.api_key_env=KEY_B",
		"indexes.docs.models.shortening.base_url=http://c/v1", "indexes.docs.models.shortening.model=o",
	})
	require.NoError(t, err)
	assert.Equal(t, []config.Endpoint{
		{BaseURL: "http://a/v1", APIKeyEnv: "KEY_A"}, {BaseURL: "http://b/v1", APIKeyEnv: "KEY_B"},
		{BaseURL: "http://c/v1"},
	}, cfg.ListEndpoints())
}

func TestRolesThatCannotWorkAreRefused(t *testing.T) {
	for set, want := range map[string]string{
		"models.answer.base_url=http://b/v1":                    "models.answer.model: provider openai needs a model",
		"models.extraction.model=n indexes.docs.budget.money=1": "models.extraction.price: a limit of money counts its calls",
		"models.answer.price.prompt=-1":                         "models.answer.price.prompt: want 0 to 1000000",
		"models.answer.mode=batch":                              "models.answer.mode: only extraction is sent in batches",
		"models.shortening.provider=recorded":                   "models.shortening.provider: a recording has only extractions",
		"models.writer.model=m":                                 "unknown key models.writer",
		"indexes.docs.models.answer.provider=openai":            "indexes.docs.models.answer.model: provider openai needs a model",
	} {
		assert.Contains(t, refused(t, oneChat, strings.Fields(set)...), want, set)
	}
	assert.Contains(t, refused(t, "", "models.answer.model=m"), "set provider or base_url of the role")
}

package app_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// What was paid for lies in ledgers under these keys: they stay for every way of asking a model server.
// The address of a server is in them by its domain alone.
// Promises: 71.
func TestKeysOfWhatWasPaidForStay(t *testing.T) {
	local := spec(t, modeltest.Options{})
	local.Chat.BaseURL, local.Embedding.BaseURL = "https://models.example/v1", "https://models.example/v1"
	local.Chat.APIKeyEnv, local.Embedding.APIKeyEnv = "", ""
	local.Chat.Model, local.Embedding.Model = "a-chat-model", "an-embedding-model"
	models := factory(local)
	chat := must(models.Chat(local))(t)
	embedder := must(models.Embedder(local, "openai", 3))(t)
	info := embedder.Info()
	fingerprint := core.Fingerprint{
		Provider: info.Provider, Model: info.Model, Dimension: 3, Template: embed.ChunkTemplate, Windows: embed.WindowRule,
	}
	for name, c := range map[string]struct{ got, want string }{
		"a text's extraction": {
			extract.Key(chat.Info(), false, "some text").String(),
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

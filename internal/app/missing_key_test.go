package app_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

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
	chat := must(models.Chat(local))(t)
	_, _ = chat.Complete(t.Context(), model.Call{Task: model.Answer, User: "hello"})
	embedder := must(models.Embedder(local, "openai", 3))(t)
	_, _, _ = embedder.Embed(t.Context(), []string{"hello"})
	mu.Lock()
	defer mu.Unlock()
	for _, path := range []string{"/chat/completions", "/embeddings"} {
		assert.True(t, len(sent[path+" asked"]) == 1 && len(sent[path]) == 0,
			"%s was asked with %q (%v)", path, sent[path], sent)
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
		_, err := models.Chat(configured)
		if !fault.Is(err, fault.ModelAuth) || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), `models.chat.api_key_env to ""`) {
			t.Errorf("want %s, got %v", says, err)
		}
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
	_, err = os.ReadFile(kept)
	assert.NoError(t, err, "a folder is kept")
}

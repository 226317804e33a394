package core_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
)

func TestATrustDomainIsTheEndpointUnlessItIsNamed(t *testing.T) {
	for _, c := range []struct{ provider, named, url, want string }{
		{"openai", "", "", "https://api.openai.com/v1"},
		{"openai", "", "HTTPS://User:Secret@Models.Example:443/v1/?key=1#x", "https://models.example/v1"},
		{"openai", "", "http://models.example:8080/v1", "http://models.example:8080/v1"},
		{"openai", "", "http://[::1]:8080/v1/", "http://[::1]:8080/v1"},
		{"openai", "", "http://[::1]/v1", "http://[::1]/v1"},
		{"openai", "gateway", "http://one.example/v1", "gateway"},
		{"openai", "https://old.example/v1/", "http://new.example/v1", "https://old.example/v1"},
		{"openai", core.NoTrustDomain, "http://one.example/v1", ""},
		{"builtin", "gateway", "http://one.example/v1", ""},
		{"recorded", "", "", ""},
	} {
		chat := core.ChatModel{Provider: c.provider, TrustDomain: c.named, BaseURL: c.url}
		embedding := core.EmbedModel{Provider: c.provider, TrustDomain: c.named, BaseURL: c.url}
		assert.True(t, chat.Domain() == c.want && embedding.Domain() == c.want, "%+v: %q and %q", c, chat.Domain(),
			embedding.Domain())
	}
}

// What is not set leaves no trace in a stored configuration, so that its digest stays what it was.
func TestNewFieldsOfModelsAreNotWrittenWhereTheyAreEmpty(t *testing.T) {
	spec := core.Spec{Chat: core.ChatModel{Provider: "openai"}, Embedding: core.EmbedModel{Provider: "openai"}}
	set := spec
	set.Chat.TrustDomain, set.Embedding.TrustDomain, set.Chat.MaxTokens = "a", "b", 7
	assert.Equal(t, set.ConfigDigest(), spec.ConfigDigest(), "the digest of the configuration changed")
	raw, err := json.Marshal(spec)
	if err != nil || strings.Contains(string(raw), "trust") || strings.Contains(string(raw), `"chat":{"max_tokens`) {
		t.Errorf("%s %v", raw, err)
	}
}

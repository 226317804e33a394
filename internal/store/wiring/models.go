package wiring

import (
	"os"
	"sync"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/limits"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/model/recorded"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// Models makes models of configurations, with one gate an endpoint over the whole process.
type Models struct {
	shared   coordination.Claims
	mu       sync.Mutex
	gates    map[string]*limits.Gate
	recorded map[string]*recorded.Chat
}

// NewModels makes a factory over the shared limits.
func NewModels(shared coordination.Claims) *Models {
	return &Models{shared: shared, gates: map[string]*limits.Gate{}, recorded: map[string]*recorded.Chat{}}
}

func (m *Models) limits(endpoint string, l corpus.Limits) limits.Limits {
	m.mu.Lock()
	defer m.mu.Unlock()
	gate := m.gates[endpoint]
	if gate == nil {
		gate = limits.NewGate(l.Concurrency)
		m.gates[endpoint] = gate
	}
	gate.Resize(l.Concurrency)
	return limits.Limits{
		Gate:            gate,
		Shared:          m.shared,
		PerMinute:       l.RequestsPerMinute,
		TokensPerMinute: l.TokensPerMinute,
	}
}

// defaultURL of provider openai.
const defaultURL = "https://api.openai.com/v1"

func key(env, setting string) (string, error) {
	k := os.Getenv(env)
	if k == "" {
		return "", fault.ModelAuth.At("open model", setting).
			Because("variable " + env + " is empty").
			Advise("set it for the worker and query-api, then resume")
	}
	return k, nil
}

// Chat makes the chat model of a spec.
func (m *Models) Chat(spec corpus.Spec) (model.Chat, error) {
	switch spec.Chat.Provider {
	case "builtin":
		return builtin.Chat{}, nil
	case "recorded":
		m.mu.Lock()
		defer m.mu.Unlock()
		if c := m.recorded[spec.Chat.File]; c != nil {
			return c, nil
		}
		chat, err := recorded.Open(spec.Chat.File)
		if err == nil {
			m.recorded[spec.Chat.File] = chat
		}
		return chat, err
	}
	k, err := key(spec.Chat.APIKeyEnv, "models.chat")
	if err != nil {
		return nil, err
	}
	url := spec.Chat.BaseURL
	if url == "" {
		url = defaultURL
	}
	return limits.Chat{
		Chat:   openai.New(openai.Config{BaseURL: url, APIKey: k, Model: spec.Chat.Model}),
		Limits: m.limits("chat "+url, spec.Limits),
	}, nil
}

// Embedder makes the embedder of a fingerprint's provider and model, with the spec's endpoint.
func (m *Models) Embedder(spec corpus.Spec, provider string, dimension int) (model.Embedder, error) {
	if provider == "builtin" {
		return builtin.Embedder{}, nil
	}
	k, err := key(spec.Embedding.APIKeyEnv, "models.embedding")
	if err != nil {
		return nil, err
	}
	url := spec.Embedding.BaseURL
	if url == "" {
		url = defaultURL
	}
	e := openai.NewEmbedder(openai.Config{BaseURL: url, APIKey: k, Model: spec.Embedding.Model, Dimension: dimension})
	return limits.Embedder{Embedder: e, Limits: m.limits("embed "+url, spec.Limits)}, nil
}

// Build makes what activities of a build need.
func (m *Models) Build(spec corpus.Spec) (model.Set, error) {
	var out model.Set
	var err error
	if out.Chat, err = m.Chat(spec); err != nil {
		return out, err
	}
	if out.Chunks, err = m.Embedder(spec, spec.Embedding.Provider, spec.Embedding.Dimension); err != nil {
		return out, err
	}
	out.Classes = out.Chunks
	if spec.Embedding.Classes == "lexical" {
		out.Classes = builtin.Embedder{}
	}
	return out, nil
}

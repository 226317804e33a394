package app

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/docling"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/fleet"
	"github.com/unweaver/unweaver/internal/model/limits"
	"github.com/unweaver/unweaver/internal/model/neural"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/model/recorded"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/telemetry/observe"
)

// Models makes models of configurations, with one gate an endpoint over the whole process, which may share its
// concurrency with other processes.
type Models struct {
	shared   coordination.Claims
	allowed  *allowed
	mu       sync.Mutex
	gates    map[string]*limits.Gate
	live     map[string]*live // by index
	fleet    *fleet.Member    // nil: each gate has the whole concurrency
	recorded map[string]*recorded.Chat
	observer observe.Observer // gets every request to a server; nil: none
	weights  string           // folder of models inside
	remote   bool             // models inside run in other processes
}

// UseRemote says that models inside run in other processes, of workers and query-api: their weights need not be here.
func (m *Models) UseRemote() *Models {
	m.remote = true
	return m
}

// SetObserver has an observer of every request to a model server. Call it before models are made.
func (m *Models) SetObserver(observer observe.Observer) { m.observer = observer }

// NewModels makes a factory over the shared limits. Beside built-in models it makes those that the process's own
// configuration names (config.Config.Endpoints, Recordings); nil: none.
func NewModels(shared coordination.Claims, own *config.Config) *Models {
	weights := neural.Directory()
	if own != nil && own.Models.Dir != "" {
		weights = own.Models.Dir
	}
	return &Models{
		shared: shared, allowed: newAllowed(own), weights: weights,
		gates: map[string]*limits.Gate{}, live: map[string]*live{}, recorded: map[string]*recorded.Chat{},
	}
}

// IsRemote reports whether models inside run in other processes.
func (m *Models) IsRemote() bool { return m.remote }

// Weights returns the folder of models inside.
func (m *Models) Weights() string { return m.weights }

// limitsOf returns the limits of an endpoint: one gate over the whole process, bounded by the strictest of the indexes
// that use it and by its share.
func (m *Models) limitsOf(endpoint string, spec core.Spec) limits.Limits {
	m.mu.Lock()
	defer m.mu.Unlock()
	gate := m.gates[endpoint]
	made := gate == nil
	if made {
		gate = limits.NewGate()
		m.gates[endpoint] = gate
	}
	now, rates := m.configureLimits(spec)
	gate.SetLimit(spec.Index, now.Concurrency)
	if made && m.fleet != nil {
		m.fleet.ShareGate(endpoint, gate)
	}
	return limits.Limits{
		Gate:   gate,
		Shared: m.shared,
		Rates:  rates,
	}
}

// ShareWith has the process share the concurrency of each endpoint with all that are in the fleet; also those
// that are in use already. Without it, as in query-api, the process has the configured concurrency to itself.
func (m *Models) ShareWith(fleet *fleet.Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fleet = fleet
	for endpoint, gate := range m.gates {
		fleet.ShareGate(endpoint, gate)
	}
}

// readKey returns the key of an endpoint. One that is configured without a variable, or with the default one, which is
// empty, is asked without a key; OpenAI's own always requires one.
func readKey(env, baseURL, setting string) (string, error) {
	if env == "" && baseURL != "" {
		return "", nil
	}
	secret := os.Getenv(env)
	if secret == "" && env == core.DefaultKeyVariable && baseURL != "" {
		return "", nil
	}
	if secret == "" {
		because := "variable " + env + ", which " + setting + ".api_key_env names, is empty"
		if env == "" {
			because = setting + ".api_key_env names no variable"
		}
		return "", fault.ModelAuth.At("open model", setting).
			Because(because).
			Advise("set it for the worker and query-api, and resume a run that paused; for a server that wants no key set " +
				setting + ".api_key_env to \"\" beside its base_url")
	}
	redact.Register(secret)
	return secret, nil
}

// endpointOf returns the address of a model of provider openai.
func endpointOf(baseURL string) string {
	if baseURL == "" {
		return core.DefaultEndpoint
	}
	return baseURL
}

// Chat makes the chat model of a role, for queries and probes: nothing meters it.
func (m *Models) Chat(spec core.Spec, role string) (model.Chat, error) {
	return m.openChat(spec, role, nil)
}

// buildRoles are the roles whose models a build asks.
var buildRoles = []string{core.RoleExtraction, core.RoleShortening, core.RoleTriples, core.RoleVision}

// openRoles opens models.chat and the models of those roles of a build that have their own.
func openRoles(spec core.Spec, set *model.Set, open func(role string) (model.Chat, error)) (err error) {
	for _, role := range buildRoles {
		if _, own := spec.Roles[role]; !own {
			continue
		}
		if set.Roles == nil {
			set.Roles = map[string]model.Chat{}
		}
		if set.Roles[role], err = open(role); err != nil {
			return err
		}
	}
	set.Chat, err = open("")
	return err
}

// nameSetting returns where the configuration names the model of a role.
func nameSetting(spec core.Spec, role string) string {
	if _, own := spec.Roles[role]; own {
		return "models." + role
	}
	return "models.chat"
}

// Provider returns the provider of a spec's embedder, as fingerprints name it.
func Provider(spec core.Spec) string {
	if spec.Embedding.IsInside() {
		return model.Neural
	}
	return spec.Embedding.Provider
}

// Embedder makes the embedder of a fingerprint's provider and model, with the spec's endpoint, for queries and probes:
// nothing meters it.
func (m *Models) Embedder(spec core.Spec, provider string, dimension int) (model.Embedder, error) {
	return m.openEmbedder(spec, provider, dimension, nil)
}

// Ranker makes the reranker of a spec; nil where there is none.
func (m *Models) Ranker(spec core.Spec) (rerank.Ranker, error) {
	settings := spec.Rerank
	if !settings.IsOn() {
		return nil, nil //nolint:nilnil // none is an answer
	}
	if err := m.allowed.checkEndpoint("models.rerank", settings.BaseURL, settings.APIKeyEnv); err != nil {
		return nil, err
	}
	secret, err := readKey(settings.APIKeyEnv, settings.BaseURL, "models.rerank")
	if err != nil {
		return nil, err
	}
	client := openai.NewReranker(openai.Config{
		BaseURL: settings.BaseURL, APIKey: secret, Model: settings.Model, Timeout: time.Duration(settings.Timeout),
	})
	return limits.Ranker{
		Ranker: observe.Ranker(client, m.observer), Limits: m.limitsOf("rerank "+settings.BaseURL, spec),
	}, nil
}

// Converter makes the client of the server that parses documents of a spec.
func (m *Models) Converter(spec core.Spec) (document.Converter, error) {
	const setting = "documents.parser"
	settings := spec.ReadAs().Parser
	if err := m.allowed.checkEndpoint(setting, settings.BaseURL, settings.APIKeyEnv); err != nil {
		return nil, err
	}
	secret, err := readKey(settings.APIKeyEnv, settings.BaseURL, setting)
	if err != nil {
		return nil, err
	}
	return &docling.Client{BaseURL: settings.BaseURL, APIKey: secret, Timeout: time.Duration(settings.Timeout)}, nil
}

// NewBuildSet makes what activities of a build need. The meter admits and counts every request that is paid for; it
// sits between the limits and the adapter, so that nothing waits between admission and sending. Nil meters nothing.
func (m *Models) NewBuildSet(spec core.Spec, meter model.Meter) (model.Set, error) {
	var set model.Set
	err := openRoles(spec, &set, func(role string) (model.Chat, error) { return m.openChat(spec, role, meter) })
	if err != nil {
		return set, err
	}
	if set.Chunks, err = m.openEmbedder(spec, Provider(spec), spec.Embedding.Dimension, meter); err != nil {
		return set, err
	}
	set.Classes = set.Chunks
	if spec.Embedding.Classes == "lexical" {
		set.Classes = builtin.Embedder{Language: spec.Retrieval.Language}
	}
	return set, nil
}

// openChat opens the chat model of a role; of "", models.chat.
func (m *Models) openChat(spec core.Spec, role string, meter model.Meter) (model.Chat, error) {
	chat, setting := spec.ChatOf(role), nameSetting(spec, role)
	switch chat.Provider {
	case "builtin":
		return builtin.Chat{Language: spec.Retrieval.Language}, nil
	case "recorded":
		return m.openRecording(spec, chat.File)
	}
	url := endpointOf(chat.BaseURL)
	if meter == (uncallable{}) {
		client := openai.New(openai.Config{BaseURL: url, Model: chat.Model, Domain: chat.Domain()})
		return model.MeterChat(client, meter), nil
	}
	if err := m.allowed.checkEndpoint(setting, chat.BaseURL, chat.APIKeyEnv); err != nil {
		return nil, err
	}
	secret, err := readKey(chat.APIKeyEnv, chat.BaseURL, setting)
	if err != nil {
		return nil, err
	}
	batches, err := m.allowed.batchServer(chat.Batch)
	if err != nil {
		return nil, err
	}
	client := openai.New(openai.Config{
		Batches: batches, BaseURL: url, APIKey: secret, Model: chat.Model, MaxTokens: chat.MaxTokens,
		Domain:  chat.Domain(),
		Timeout: time.Duration(chat.Timeout),
	})
	metered := model.MeterChat(observe.Chat(client, m.observer), meter)
	bounds := m.limitsOf("chat "+url, spec)
	if chat.Limits != (core.Limits{}) {
		own := spec
		own.Limits = spec.LimitsOf(role)
		name := fmt.Sprintf("%s%s %d/%d/%d", ofModel, chat.Model,
			own.Limits.Concurrency, own.Limits.RequestsPerMinute, own.Limits.TokensPerMinute)
		own.Index += name
		bounds = m.limitsOf("chat "+url+name, own)
		bounds.Scope = name
	}
	return limits.Chat{Chat: metered, Limits: bounds}, nil
}

// ofModel stands between an index, or an endpoint, and a model with limits of its own, which its roles share.
const ofModel = " as "

// openRecording opens a recording once a process and language.
func (m *Models) openRecording(spec core.Spec, path string) (model.Chat, error) {
	if err := m.allowed.checkPath("models.chat.file", path); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := spec.Retrieval.Language + " " + path
	if chat := m.recorded[key]; chat != nil {
		return chat, nil
	}
	chat, err := recorded.Open(path, builtin.Chat{Language: spec.Retrieval.Language})
	if err != nil {
		return nil, err
	}
	m.recorded[key] = chat
	return chat, nil
}

func (m *Models) openEmbedder(
	spec core.Spec,
	provider string,
	dimension int,
	meter model.Meter,
) (model.Embedder, error) {
	switch provider {
	case "builtin":
		return builtin.Embedder{Language: spec.Retrieval.Language}, nil
	case model.Neural:
		open := neural.Open
		if meter == (uncallable{}) {
			open = neural.Describe
		}
		embedder, err := open(spec.Embedding.Model, m.weights)
		if err != nil {
			return nil, err
		}
		return model.MeterEmbedder(embedder, meter), nil
	}
	settings := openai.Config{
		BaseURL: endpointOf(spec.Embedding.BaseURL), Model: spec.Embedding.Model, Dimension: dimension,
		Domain: spec.Embedding.Domain(), Timeout: time.Duration(spec.Embedding.Timeout),
	}
	if meter == (uncallable{}) {
		return model.MeterEmbedder(openai.NewEmbedder(settings), meter), nil
	}
	if err := m.allowed.checkEndpoint("models.embedding", spec.Embedding.BaseURL, spec.Embedding.APIKeyEnv); err != nil {
		return nil, err
	}
	secret, err := readKey(spec.Embedding.APIKeyEnv, spec.Embedding.BaseURL, "models.embedding")
	if err != nil {
		return nil, err
	}
	settings.APIKey = secret
	metered := model.MeterEmbedder(observe.Embedder(openai.NewEmbedder(settings), m.observer), meter)
	return limits.Embedder{Embedder: metered, Limits: m.limitsOf("embed "+settings.BaseURL, spec)}, nil
}

// Describe makes models that tell what they are and cannot be called: no key is needed.
func (m *Models) Describe(spec core.Spec) (model.Set, error) {
	return m.NewBuildSet(spec, uncallable{})
}

// uncallable is the meter of models that are only described.
type uncallable struct{}

// Begin implements model.Meter.
func (uncallable) Begin(_ context.Context, task string, _ int64) (func(model.Usage, bool), error) {
	return nil, fault.Internal.At("call a model to", task).Because("an estimate calls no model")
}

package app

import (
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/batch"
	"github.com/unweaver/unweaver/internal/model/neural"
)

// allowed are the model servers, with the variables of their keys, and the recordings that this process's own
// configuration names. A configuration of an index comes from any user who may build it: it chooses among these.
type allowed struct {
	mu        sync.Mutex
	endpoints []config.Endpoint
	paths     []string // of recordings, and of folders for batches
}

func newAllowed(own *config.Config) *allowed {
	if own == nil {
		return &allowed{}
	}
	return &allowed{endpoints: own.ListEndpoints(), paths: own.ListModelPaths()}
}

// AllowEndpoints adds endpoints to those that the configuration of this process names.
func (m *Models) AllowEndpoints(endpoints ...config.Endpoint) {
	m.allowed.mu.Lock()
	defer m.allowed.mu.Unlock()
	for _, endpoint := range endpoints {
		m.allowed.endpoints = append(m.allowed.endpoints, endpoint.Normalise())
	}
}

// AllowRecording adds a recording to those that the configuration of this process names: one that the owner of the
// data directory asks for.
func (m *Models) AllowRecording(path string) {
	path, err := filepath.Abs(path)
	if err != nil {
		return // it stays refused
	}
	m.allowed.mu.Lock()
	defer m.allowed.mu.Unlock()
	if !slices.Contains(m.allowed.paths, path) {
		m.allowed.paths = append(m.allowed.paths, path)
	}
}

func (a *allowed) checkEndpoint(setting, url, variable string) error {
	asked := config.Endpoint{BaseURL: url, APIKeyEnv: variable}.Normalise()
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Contains(a.endpoints, asked) {
		return nil
	}
	because, named := "the running worker or query-api does not have this endpoint, or the key of "+variable, variable
	if variable == "" {
		because, named = "the running worker or query-api does not have this endpoint", `""`
	}
	return fault.EndpointRefused.At("use "+setting+" at", asked.BaseURL).
		Because(because).
		Advise("restart unweaver dev (or worker and query-api) with this configuration; or add to theirs: " +
			"models.endpoints: [{base_url: " + asked.BaseURL + ", api_key_env: " + named + "}]")
}

// checkPath refuses a path of this machine that the configuration of this process does not give a chat model.
func (a *allowed) checkPath(setting, path string) error {
	asked, err := filepath.Abs(path)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && slices.Contains(a.paths, asked) {
		return nil
	}
	return fault.EndpointRefused.At("use "+setting, fault.QuoteName(path)).
		Because("the configuration of this process does not name it").
		Advise("set " + setting + ", and provider or mode beside it, in the configuration of worker, query-api or " +
			"unweaver dev")
}

// batchServer gives who answers batches; nil: the Batch API of the chat model's server.
func (a *allowed) batchServer(settings core.BatchMode) (batch.Server, error) {
	if !settings.IsOn() || settings.Folder == "" {
		return nil, nil
	}
	dir, _ := filepath.Abs(settings.Folder) // where this fails, checkPath refuses it
	return batch.Folder{Dir: dir}, a.checkPath("models.chat.batch.folder", settings.Folder)
}

// checkChat refuses a chat model that this process may not use.
func (m *Models) checkChat(chat core.ChatModel, setting string) error {
	switch chat.Provider {
	case "builtin":
		return nil
	case "recorded":
		return m.allowed.checkPath("models.chat.file", chat.File)
	}
	if err := m.allowed.checkEndpoint(setting, chat.BaseURL, chat.APIKeyEnv); err != nil {
		return err
	}
	_, err := m.allowed.batchServer(chat.Batch)
	return err
}

// Check refuses the models of an index that this process may not use, before anything is built with them.
func (m *Models) Check(spec core.Spec) error {
	for _, role := range append(slices.Sorted(maps.Keys(spec.Roles)), "") {
		if err := m.checkChat(spec.ChatOf(role), nameSetting(spec, role)); err != nil {
			return err
		}
	}
	if spec.Rerank.IsOn() {
		if err := m.allowed.checkEndpoint("models.rerank", spec.Rerank.BaseURL, spec.Rerank.APIKeyEnv); err != nil {
			return err
		}
	}
	if parser := spec.ReadAs().Parser; parser.IsOn() {
		if err := m.allowed.checkEndpoint("documents.parser", parser.BaseURL, parser.APIKeyEnv); err != nil {
			return err
		}
	}
	switch {
	case spec.Embedding.IsInside() && m.remote:
		_, err := neural.Describe(spec.Embedding.Model, m.weights)
		return err
	case spec.Embedding.IsInside():
		return neural.Verify(spec.Embedding.Model, m.weights)
	case spec.Embedding.Provider == "builtin":
		return nil
	}
	return m.allowed.checkEndpoint("models.embedding", spec.Embedding.BaseURL, spec.Embedding.APIKeyEnv)
}

// Package model is the port to models: structured chat, embeddings and token counts (DESIGN §3 and §8). Adapters: any
// OpenAI-compatible endpoint (openai), built-in models that need no key and no network (builtin), and a file of
// recorded extractions (recorded). Retries are not here: Temporal and the stages own them.
package model

import (
	"context"
	"encoding/json"
)

// Tasks of a chat call.
const (
	Extract = "extract"
	Shorten = "shorten"
	Answer  = "answer"
)

// Call is one structured chat request. Chat models see System, User and Schema; models that are rules or recordings see
// Input, Name, Question and Ref.
type Call struct {
	Task     string
	System   string
	User     string
	Schema   json.RawMessage // JSON schema of the wanted object; nil for free text
	Input    string          // the text that the task is about
	Name     string          // shorten: the class's name
	Question string          // answer
	Ref      string          // document key, for recordings
	Limit    int             // shorten: wanted length in runes
}

// Usage is what a server says it charged.
type Usage struct {
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
}

// Reply is the model's text. Truncated tells that it stopped at its length limit.
type Reply struct {
	Text      string
	Usage     Usage
	Truncated bool
}

// Info names a model.
type Info struct {
	Provider   string // builtin | openai | recorded
	Model      string
	Endpoint   string // shared limits are counted by it
	Parameters string // what else shapes a reply; part of ledger keys
	Paid       bool   // replies cost money: they go through the ledger
}

// Chat is the port of structured chat. Complete may be called concurrently and repeated; a repetition of a paid call is
// paid again. Errors: fault.ModelUnavailable, ModelRateLimited (transient, with RetryAfter where the server gave one),
// ModelAuth, ModelQuota, ModelUnknown, BadConfig (fatal), NotRecorded (fatal), ModelRejected (content).
type Chat interface {
	Complete(ctx context.Context, c Call) (Reply, error)
	Info() Info
}

// Embedder is the port of embeddings. Vectors come back in the order of texts, of one dimension, finite and not zero,
// scaled to unit length. An empty text is the caller's mistake. Errors as for Chat, and DimensionChanged, BadVector.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, Usage, error)
	Info() Info
	// Dimension is 0 until it is known from configuration or a first answer.
	Dimension() int
}

// Weighable is an embedder that weighs words by a table of the corpus: the built-in one.
type Weighable interface {
	WithIDF(weight func(stem string) float64) Embedder
}

// Label is how a model is shown to people.
func (i Info) Label() string {
	if i.Provider == "builtin" {
		return "built-in models"
	}
	return i.Provider + ":" + i.Model
}

// Set is the models of one configuration, with the limits of their endpoints.
type Set struct {
	Chat    Chat
	Classes Embedder
	Chunks  Embedder
}

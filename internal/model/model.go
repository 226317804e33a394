// Package model is the port to models: structured chat, embeddings and token counts (docs/reference/formats.md, Model
// servers). Adapters: any OpenAI-compatible endpoint (openai), built-in models that need no key and no network
// (builtin), and a file of recorded extractions (recorded). Decorators wrap them: limits (outside) and a Meter
// (inside). Retries are not here: Temporal and the stages own them.
package model

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
)

// Tasks of a chat call.
const (
	Extract = "extract"
	Shorten = "shorten"
	Answer  = "answer"
	Triples = "triples"
	Pairs   = "pairs"
	// Condense makes one question of a conversation.
	Condense = "condense"
	// Transcribe writes down what a picture of a page says.
	Transcribe = "transcribe"
)

// TextFollows stands in front of the text of a prompt that is a message of the user as a whole.
const TextFollows = "\n\nText:\n"

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
	Most     int             // longest reply in tokens; 0, or more than the model may give: as the model has it
	Pictures [][]byte        // transcribe: JPEG
	Roomy    bool            // the reply may be twice as long as usual: the one before was cut
}

// PictureTokens is about how many tokens a server counts for a picture; from model to model it is 250 to 40,000.
const PictureTokens = 1500

// CountPictures returns about how many tokens the pictures of the call have.
func (c Call) CountPictures() int { return PictureTokens * len(c.Pictures) }

// ProbeText is a text that every model can extract from and shorten. A stage whose model gave answers of no use sends
// it, as often as it is in doubt, to tell an item that the model cannot serve from a model that serves nothing.
const ProbeText = "Marie Curie was born in Warsaw in 1867 and discovered polonium and radium in Paris."

// Usage is what a server says it charged; Doubted says that it said what cannot be, and that our own count stands
// here.
type Usage struct {
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
	Doubted    bool  `json:"-"`
}

// Reply is what the model said: its text without its thoughts (TakeAnswer), which may be empty. Truncated says that it
// stopped at its length limit, Thinking that it did so, or ended, within a thought; Finish is the server's word for why
// it ended.
type Reply struct {
	Text      string
	Usage     Usage
	Truncated bool
	Roomier   bool // with Truncated: the same call may be asked with twice the room (Call.Roomy)
	Thinking  bool
	Finish    string
	Model     string // that answered, as the server says; empty: it does not
}

const nothing = "the model gave no answer"

// IsNothing reports whether words are those of Reply.Nothing.
func IsNothing(words string) bool { return strings.HasPrefix(words, nothing) }

// ExplainEmpty says why a reply is empty, in words for people.
func (r Reply) ExplainEmpty() string {
	why := nothing + " (finish_reason " + cmp.Or(r.Finish, "not given")
	if r.Thinking {
		why += ", within its thoughts"
	}
	return why + ")"
}

// Neural is the provider of embedders that run inside this process (package neural). Configurations name them beside
// provider builtin.
const Neural = "neural"

// Info names a model.
type Info struct {
	Provider   string // builtin | neural | openai | recorded
	Model      string
	Endpoint   string // shared limits are counted by it
	Domain     string // whose answers these are: results are shared within it alone; empty: not distinguished
	Parameters string // what else shapes a reply; part of ledger keys
	Paid       bool   // replies cost money, or much time: they go through the ledger
}

// Chat is the port of structured chat. Complete may be called concurrently and repeated; a repetition of a paid call is
// paid again. Errors: fault.ModelUnavailable, ModelRateLimited (transient, with RetryAfter where the server gave one),
// ModelAuth, ModelQuota, ModelUnknown, BadConfig (fatal), NotRecorded (fatal), ModelRefused (fatal: no request is
// served, as far as the answer says), ModelRejected (content). Where a server answered and its answer is an error all
// the same, the error is an AnsweredError and Reply.Usage says what it charged.
type Chat interface {
	Complete(ctx context.Context, call Call) (Reply, error)
	Info() Info
}

// Embedder is the port of embeddings. Vectors come back in the order of texts, of one dimension, finite and not zero,
// scaled to unit length. An empty text is the caller's mistake. Errors as for Chat, and DimensionChanged, BadVector,
// BadEmbeddings.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, Usage, error)
	Info() Info
	// Dimension is 0 until it is known from configuration or a first answer.
	Dimension() int
}

// Weighable is an embedder that weighs words by a table of the corpus: the built-in one. Find it with As.
type Weighable interface {
	WithIDF(weight func(stem string) float64) Embedder
}

// Batcher is a chat model whose calls can be answered in batches: files of requests. Find it with As.
type Batcher interface {
	// Form is what a call that was answered taught of how the server expects requests; Begin has another process begin
	// with it.
	Form() string
	Begin(form string)
	// Request gives the body of a call as it is posted online.
	Request(call Call) (json.RawMessage, error)
	// Read reads the body of an answer as Complete would have. The error is Complete's.
	Read(call Call, body []byte) (Reply, error)
}

// As finds the first model in the chain of decorators below value that is a T: a capability such as Weighable, or a
// decorator itself. A decorator takes part by a method Unwrap that gives the Chat or Embedder it wraps. What a
// capability returns lacks the decorators above it.
func As[T any](value any) (T, bool) {
	for value != nil {
		if found, ok := value.(T); ok {
			return found, true
		}
		switch wrapper := value.(type) {
		case interface{ Unwrap() Chat }:
			value = wrapper.Unwrap()
		case interface{ Unwrap() Embedder }:
			value = wrapper.Unwrap()
		case interface{ Unwrap() any }:
			value = wrapper.Unwrap()
		default:
			value = nil
		}
	}
	var none T
	return none, false
}

// Label returns how a model is shown to people.
func (i Info) Label() string {
	switch i.Provider {
	case "builtin":
		return "built-in models"
	case Neural:
		name, _, _ := strings.Cut(i.Model, " ")
		return "built-in " + name
	}
	return i.Provider + ":" + i.Model
}

// Set is the models of one configuration, with the limits of their endpoints.
type Set struct {
	Chat    Chat
	Roles   map[string]Chat // of roles that have a chat model of their own
	Classes Embedder
	Chunks  Embedder
}

// ChatOf returns the chat model of a role (core.RoleExtraction and others).
func (s Set) ChatOf(role string) Chat {
	if own := s.Roles[role]; own != nil {
		return own
	}
	return s.Chat
}

// PaysChat reports whether a chat model is paid for.
func (s Set) PaysChat() bool {
	for _, chat := range s.Roles {
		if chat.Info().Paid {
			return true
		}
	}
	return s.Chat.Info().Paid
}

// Extractor returns the chat model that extracts.
func (s Set) Extractor() Chat { return s.ChatOf(core.RoleExtraction) }

// RoleOf returns the role that does a task; empty: models.chat does it.
func RoleOf(task string) string {
	switch task {
	case Extract:
		return core.RoleExtraction
	case Shorten:
		return core.RoleShortening
	case Triples:
		return core.RoleTriples
	case Answer, Condense:
		return core.RoleAnswer
	case Transcribe:
		return core.RoleVision
	}
	return ""
}

// Timed is an embedder that measures how fast it is here. Find it with As.
type Timed interface {
	// Speed returns tokens a second, of four bytes each.
	Speed(ctx context.Context) (float64, error)
}

// WithSign has sign called while embedders of a set that run inside this process get on (see Alive).
func (s Set) WithSign(sign func()) Set {
	s.Classes, s.Chunks = watchedEmbedder{s.Classes, sign}, watchedEmbedder{s.Chunks, sign}
	return s
}

type watchedEmbedder struct {
	Embedder
	sign func()
}

// Embed implements Embedder.
func (w watchedEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, Usage, error) {
	return w.Embedder.Embed(WithSign(ctx, w.sign), texts)
}

// Unwrap gives the embedder below, for As.
func (w watchedEmbedder) Unwrap() Embedder { return w.Embedder }

// Asker is an embedder that embeds questions otherwise than passages. Find it with As.
type Asker interface {
	Questions() Embedder
}

// ForQuestions gives the embedder of questions, which for most is that of passages.
func ForQuestions(embedder Embedder) Embedder {
	if asker, ok := As[Asker](embedder); ok {
		return asker.Questions()
	}
	return embedder
}

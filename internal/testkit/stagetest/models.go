package stagetest

import (
	"context"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Chat is a chat model that answers as a function says, and counts.
type Chat struct {
	Free   bool
	Answer func(call model.Call) (model.Reply, error)
	mu     sync.Mutex
	calls  []model.Call
}

// Says returns answers of a model that always says the same.
func Says(text string) func(model.Call) (model.Reply, error) {
	return func(model.Call) (model.Reply, error) {
		return model.Reply{Text: text, Usage: model.Usage{Prompt: 10, Completion: 5}}, nil
	}
}

// Fails returns answers of a model that always fails.
func Fails(err error) func(model.Call) (model.Reply, error) {
	return func(model.Call) (model.Reply, error) { return model.Reply{}, err }
}

// Info implements model.Chat.
func (c *Chat) Info() model.Info {
	return model.Info{Provider: "test", Model: "chat", Parameters: "p", Paid: !c.Free}
}

// Complete implements model.Chat.
func (c *Chat) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if err := ctx.Err(); err != nil {
		return model.Reply{}, err
	}
	c.mu.Lock()
	c.calls = append(c.calls, call)
	c.mu.Unlock()
	return c.Answer(call)
}

// Calls returns the calls so far.
func (c *Chat) Calls() []model.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]model.Call(nil), c.calls...)
}

// Embedder gives each text a vector of its own, the same each time.
type Embedder struct {
	Free     bool
	Dim      int
	Before   func(texts []string) error // called before a request is answered; may be nil
	mu       sync.Mutex
	requests [][]string
}

// Info implements model.Embedder.
func (e *Embedder) Info() model.Info {
	return model.Info{Provider: "test", Model: "embedder", Paid: !e.Free}
}

// Dimension implements model.Embedder.
func (e *Embedder) Dimension() int { return e.Dim }

// Embed implements model.Embedder.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	if err := ctx.Err(); err != nil {
		return nil, model.Usage{}, err
	}
	if e.Before != nil {
		if err := e.Before(texts); err != nil {
			return nil, model.Usage{}, err
		}
	}
	e.mu.Lock()
	e.requests = append(e.requests, texts)
	e.mu.Unlock()
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = Vector(text, e.Dim)
	}
	return out, model.Usage{Prompt: int64(len(texts))}, nil
}

// Requests returns the requests that were answered.
func (e *Embedder) Requests() [][]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([][]string(nil), e.requests...)
}

// Vector returns the unit vector of a text.
func Vector(text string, dim int) []float32 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	random := rand.New(rand.NewPCG(h.Sum64(), 1))
	out := make([]float32, dim)
	for i := range out {
		out[i] = float32(random.NormFloat64())
	}
	vectors.Normalise(out)
	return out
}

// Tampered is a store of artifacts that does something else on a write.
type Tampered struct {
	blob.Store
	OnPut func(key string) error // called before a write, which fails with its error; may be nil
	// AfterPut is called when a write is done; its error is the answer. May be nil.
	AfterPut func(key string) error
}

// Put implements blob.Store.
func (s *Tampered) Put(
	ctx context.Context, key string, body io.Reader, size int64, condition blob.Cond,
) (blob.Info, error) {
	if s.OnPut != nil {
		if err := s.OnPut(key); err != nil {
			return blob.Info{}, err
		}
	}
	info, err := s.Store.Put(ctx, key, body, size, condition)
	if err == nil && s.AfterPut != nil {
		err = s.AfterPut(key)
	}
	return info, err
}

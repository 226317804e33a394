package openai

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Embedder implements model.Embedder. Vectors are put in order by index, since some servers answer in another order
// without an error.
type Embedder struct {
	client *Client
	dim    atomic.Int64
}

var _ model.Embedder = (*Embedder)(nil)

// NewEmbedder makes one.
func NewEmbedder(cfg Config) *Embedder {
	e := &Embedder{client: New(cfg)}
	e.dim.Store(int64(cfg.Dimension))
	return e
}

// Info implements model.Embedder.
func (e *Embedder) Info() model.Info {
	cfg := e.client.cfg
	return model.Info{Provider: "openai", Model: cfg.Model, Endpoint: cfg.BaseURL, Domain: cfg.Domain, Paid: true}
}

// Dimension implements model.Embedder.
func (e *Embedder) Dimension() int { return int(e.dim.Load()) }

// embeddings is what is read of an answer of POST /embeddings.
type embeddings struct {
	Data []struct {
		Index     *int            `json:"index"`
		Embedding json.RawMessage `json:"embedding"`
	} `json:"data"`
	Usage charged `json:"usage"`
}

// Embed implements model.Embedder. It asks for base64 and takes either form.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	longest := embeddingBody(len(texts), e.Dimension())
	sent := request{client: e.client, op: "call embedding model", path: "embeddings", longest: longest}
	params := map[string]any{"model": e.client.cfg.Model, "input": texts, "encoding_format": "base64"}
	var answer embeddings
	err := sent.send(ctx, params, &answer)
	var usage model.Usage
	if sent.answered {
		usage.Prompt, usage.Doubted = plausible(answer.Usage.Prompt, hiddenMost, texts...)
	}
	if err != nil {
		return nil, usage, err
	}
	ordered, err := e.order(&sent, answer, len(texts))
	if err != nil {
		return nil, usage, sent.mark(err)
	}
	return ordered, usage, nil
}

// order gives one checked vector of unit length for each of n texts.
func (e *Embedder) order(sent *request, answer embeddings, n int) ([][]float32, error) {
	bad := func(why string, args ...any) error {
		return fault.BadEmbeddings.At(sent.op, sent.object()).
			Because(fmt.Sprintf(why, args...)).
			Advise("the server breaks the contract of POST /embeddings: use another one")
	}
	if len(answer.Data) != n {
		return nil, bad("%d vectors came back for %d texts", len(answer.Data), n)
	}
	out := make([][]float32, n)
	for i, item := range answer.Data {
		at := i
		if item.Index != nil {
			at = *item.Index
		}
		if at < 0 || at >= n || out[at] != nil {
			return nil, bad("index %d is out of range or comes twice", at)
		}
		vector, err := decode(item.Embedding)
		if err != nil {
			return nil, bad("vector %d: %v", at, err)
		}
		e.dim.CompareAndSwap(0, int64(len(vector)))
		if err := vectors.Check(vector, e.Dimension(), "embedding of "+e.client.cfg.Model); err != nil {
			return nil, err
		}
		vectors.Normalise(vector)
		out[at] = vector
	}
	return out, nil
}

// decode reads a vector: base64 of little-endian float32, or an array of numbers.
func decode(raw json.RawMessage) ([]float32, error) {
	if len(raw) == 0 || raw[0] != '"' {
		var vector []float32
		err := json.Unmarshal(raw, &vector)
		return vector, err
	}
	var encoded string
	if err := json.Unmarshal(raw, &encoded); err != nil {
		return nil, err
	}
	packed, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	if len(packed)%4 != 0 {
		return nil, errors.New("base64 of a length that is no multiple of 4")
	}
	vector := make([]float32, len(packed)/4)
	for i := range vector {
		vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(packed[4*i:]))
	}
	return vector, nil
}

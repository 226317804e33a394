package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai/embeddings"
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

// embeddingParams is the body of POST /embeddings.
type embeddingParams struct {
	Format string   `json:"encoding_format,omitempty"`
	Input  []string `json:"input"`
	Model  string   `json:"model"`
}

// Embed implements model.Embedder. It asks for base64 and takes either form. Where a server refuses to be asked, it is
// asked once more for what it gives, which is asked to model.Again; what was found out is kept for the process.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	plain := e.client.currentForm().plainNumbers
	out, usage, sent, err := e.embedOnce(ctx, texts, plain)
	if err == nil || plain || !sent.refusesBase64() {
		return out, usage, err
	}
	if held := model.CheckAgain(ctx); held != nil { // paused meanwhile: nothing more is sent
		return nil, usage, held
	}
	if out, usage, _, err = e.embedOnce(ctx, texts, true); err == nil {
		e.client.learnForm(form{plainNumbers: true})
	}
	return out, usage, err
}

// embedOnce sends one request.
func (e *Embedder) embedOnce(
	ctx context.Context, texts []string, plain bool,
) (out [][]float32, usage model.Usage, sent *request, err error) {
	longest := embeddingBody(len(texts), e.Dimension())
	sent = &request{client: e.client, op: "call embedding model", path: "embeddings", longest: longest}
	params := embeddingParams{Model: e.client.cfg.Model, Input: texts, Format: "base64"}
	if plain {
		params.Format = ""
	}
	var answer embeddings.Answer
	var problem embeddings.Problem
	var report charged
	err = sent.sendRequest(ctx, params, func(body []byte) error {
		var err error
		answer, err = embeddings.Decode(body, len(texts))
		if errors.As(err, &problem) { // it is an answer, of which the rest is read
			err = nil
		}
		if err == nil && answer.Usage != nil {
			err = json.Unmarshal(answer.Usage, &report)
		}
		return err
	})
	if sent.answered {
		usage.Prompt, usage.Doubted = chooseCount(report.Prompt, hiddenMost, texts...)
	}
	if err != nil {
		return nil, usage, sent, err
	}
	if problem != "" {
		return nil, usage, sent, sent.markError(fault.BadEmbeddings.At(sent.op, sent.objectName()).
			Because(string(problem)).
			Advise("use another server: this one violates the API POST /embeddings"))
	}
	if err := e.checkVectors(answer.Vectors); err != nil {
		return nil, usage, sent, sent.markError(err)
	}
	return answer.Vectors, usage, sent, nil
}

// checkVectors checks vectors, and scales them to unit length.
func (e *Embedder) checkVectors(embedded [][]float32) error {
	for _, vector := range embedded {
		e.dim.CompareAndSwap(0, int64(len(vector)))
		if err := vectors.Check(vector, e.Dimension(), "embedding of "+e.client.cfg.Model); err != nil {
			return err
		}
		vectors.Normalise(vector)
	}
	return nil
}

// formatWords are how servers name the form of a vector.
var formatWords = []string{"encoding_format", "encoding format", "base64"}

// refusesBase64 reports whether the server refused the wish for base64, and not the texts.
func (r *request) refusesBase64() bool {
	if r.refused == nil {
		return false
	}
	switch r.refused.status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusNotImplemented:
		said := r.refused.kind + " " + strings.ToLower(r.refused.text)
		return slices.ContainsFunc(formatWords, func(word string) bool { return strings.Contains(said, word) })
	}
	return false
}

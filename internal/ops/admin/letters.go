package admin

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/corpus"
	ops "github.com/unweaver/unweaver/internal/ops/port"
)

type letter struct {
	Index string `json:"index"`
	Chunk string `json:"chunk"`
}

// letters serves what control does about chunks that failed.
func letters(mux *http.ServeMux, control ops.Control) {
	handle(mux, "dead-letters", func(ctx context.Context, index named) ([]corpus.Letter, error) {
		return control.DeadLetters(ctx, index.Name)
	})
	handle(mux, "dead-letter", func(ctx context.Context, asked letter) (corpus.Letter, error) {
		return control.DeadLetter(ctx, asked.Index, asked.Chunk)
	})
	handle(mux, "discard-letters", func(ctx context.Context, request ops.LettersRequest) (struct{}, error) {
		return struct{}{}, control.Discard(ctx, request)
	})
	handle(mux, "retry-failed", control.RetryFailed)
}

// DeadLetters implements ops.Control.
func (c *Client) DeadLetters(ctx context.Context, index string) ([]corpus.Letter, error) {
	return call[[]corpus.Letter](ctx, c, "dead-letters", named{index})
}

// DeadLetter implements ops.Control.
func (c *Client) DeadLetter(ctx context.Context, index, chunk string) (corpus.Letter, error) {
	return call[corpus.Letter](ctx, c, "dead-letter", letter{index, chunk})
}

// Discard implements ops.Control.
func (c *Client) Discard(ctx context.Context, request ops.LettersRequest) error {
	_, err := call[struct{}](ctx, c, "discard-letters", request)
	return err
}

// RetryFailed implements ops.Control.
func (c *Client) RetryFailed(ctx context.Context, request ops.LettersRequest) (ops.Run, error) {
	return call[ops.Run](ctx, c, "retry-failed", request)
}

package httpapi

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
)

type letter struct {
	Index string `json:"index"`
	Chunk string `json:"chunk"`
}

// letters serves what control does about chunks that failed.
func letters(mux *http.ServeMux, controller control.Control) {
	handle(mux, "dead-letters", func(ctx context.Context, index named) ([]core.Letter, error) {
		return controller.DeadLetters(ctx, index.Name)
	})
	handle(mux, "dead-letter", func(ctx context.Context, asked letter) (core.Letter, error) {
		return controller.DeadLetter(ctx, asked.Index, asked.Chunk)
	})
	handle(mux, "discard-letters", func(ctx context.Context, request control.LettersRequest) (struct{}, error) {
		return struct{}{}, controller.Discard(ctx, request)
	})
	handle(mux, "retry-failed", controller.RetryFailed)
}

// DeadLetters implements control.Control.
func (c *Client) DeadLetters(ctx context.Context, index string) ([]core.Letter, error) {
	return call[[]core.Letter](ctx, c, "dead-letters", named{index})
}

// DeadLetter implements control.Control.
func (c *Client) DeadLetter(ctx context.Context, index, chunk string) (core.Letter, error) {
	return call[core.Letter](ctx, c, "dead-letter", letter{index, chunk})
}

// Discard implements control.Control.
func (c *Client) Discard(ctx context.Context, request control.LettersRequest) error {
	_, err := call[struct{}](ctx, c, "discard-letters", request)
	return err
}

// RetryFailed implements control.Control.
func (c *Client) RetryFailed(ctx context.Context, request control.LettersRequest) (control.Run, error) {
	return call[control.Run](ctx, c, "retry-failed", request)
}

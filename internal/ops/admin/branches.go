package admin

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/corpus"
	ops "github.com/unweaver/unweaver/internal/ops/port"
)

// branches serves what is about branches of indexes.
func branches(mux *http.ServeMux, control ops.Control) {
	handle(mux, "branch", control.Branch)
	handle(mux, "branches", func(ctx context.Context, index named) ([]corpus.Branch, error) {
		return control.Branches(ctx, index.Name)
	})
	handle(mux, "overlay", func(ctx context.Context, index named) (ops.Overlaid, error) {
		return control.Overlay(ctx, index.Name)
	})
}

// Branch implements ops.Control.
func (c *Client) Branch(ctx context.Context, r ops.BranchRequest) (corpus.Branch, error) {
	return call[corpus.Branch](ctx, c, "branch", r)
}

// Branches implements ops.Control.
func (c *Client) Branches(ctx context.Context, index string) ([]corpus.Branch, error) {
	return call[[]corpus.Branch](ctx, c, "branches", named{index})
}

// Overlay implements ops.Control.
func (c *Client) Overlay(ctx context.Context, index string) (ops.Overlaid, error) {
	return call[ops.Overlaid](ctx, c, "overlay", named{index})
}

package httpapi

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
)

// branches serves what is about branches of indexes.
func branches(mux *http.ServeMux, controller control.Control) {
	handle(mux, "branch", controller.Branch)
	handle(mux, "branches", func(ctx context.Context, index named) ([]core.Branch, error) {
		return controller.Branches(ctx, index.Name)
	})
	handle(mux, "overlay", func(ctx context.Context, index named) (control.Overlaid, error) {
		return controller.Overlay(ctx, index.Name)
	})
}

// Branch implements control.Control.
func (c *Client) Branch(ctx context.Context, r control.BranchRequest) (core.Branch, error) {
	return call[core.Branch](ctx, c, "branch", r)
}

// Branches implements control.Control.
func (c *Client) Branches(ctx context.Context, index string) ([]core.Branch, error) {
	return call[[]core.Branch](ctx, c, "branches", named{index})
}

// Overlay implements control.Control.
func (c *Client) Overlay(ctx context.Context, index string) (control.Overlaid, error) {
	return call[control.Overlaid](ctx, c, "overlay", named{index})
}

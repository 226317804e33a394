package admin

import (
	"context"
	"net/http"

	ops "github.com/unweaver/unweaver/internal/ops/port"
)

// purges serves what control does about documents that have to leave an index.
func purges(mux *http.ServeMux, control ops.Control) {
	handle(mux, "purge", control.Purge)
	handle(mux, "purges", control.Purges)
}

// Purge implements ops.Control.
func (c *Client) Purge(ctx context.Context, request ops.PurgeRequest) (ops.PurgeAnswer, error) {
	return call[ops.PurgeAnswer](ctx, c, "purge", request)
}

// Purges implements ops.Control.
func (c *Client) Purges(ctx context.Context, request ops.PurgesRequest) (ops.PurgesAnswer, error) {
	return call[ops.PurgesAnswer](ctx, c, "purges", request)
}

package httpapi

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/control"
)

// purges serves what control does about documents that have to leave an index.
func purges(mux *http.ServeMux, controller control.Control) {
	handle(mux, "purge", controller.Purge)
	handle(mux, "purges", controller.Purges)
}

// Purge implements control.Control.
func (c *Client) Purge(ctx context.Context, request control.PurgeRequest) (control.PurgeAnswer, error) {
	return call[control.PurgeAnswer](ctx, c, "purge", request)
}

// Purges implements control.Control.
func (c *Client) Purges(ctx context.Context, request control.PurgesRequest) (control.PurgesAnswer, error) {
	return call[control.PurgesAnswer](ctx, c, "purges", request)
}

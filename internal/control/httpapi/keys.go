package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/unweaver/unweaver/internal/access"
)

// keysPrefix of the routes that make and end keys.
const keysPrefix = "keys/"

type keyed struct {
	ID      string        `json:"id"`
	Overlap time.Duration `json:"overlap,omitempty"` // in nanoseconds
}

// handleKeys serves a Keeper.
func handleKeys(mux *http.ServeMux, keeper access.Keeper) {
	handleMethod(mux, keysPrefix+"create", keeper.CreateKey)
	handleMethod(mux, keysPrefix+"list", func(ctx context.Context, _ struct{}) ([]access.Key, error) {
		return keeper.ListKeys(ctx)
	})
	handleMethod(mux, keysPrefix+"rotate", func(ctx context.Context, key keyed) (access.Made, error) {
		return keeper.RotateKey(ctx, key.ID, key.Overlap)
	})
	handleMethod(mux, keysPrefix+"revoke", func(ctx context.Context, key keyed) (access.Key, error) {
		return keeper.RevokeKey(ctx, key.ID)
	})
}

var _ access.Keeper = (*Client)(nil)

// CreateKey implements access.Keeper.
func (c *Client) CreateKey(ctx context.Context, request access.Request) (access.Made, error) {
	return callMethod[access.Made](ctx, c, keysPrefix+"create", request)
}

// ListKeys implements access.Keeper.
func (c *Client) ListKeys(ctx context.Context) ([]access.Key, error) {
	return callMethod[[]access.Key](ctx, c, keysPrefix+"list", struct{}{})
}

// RotateKey implements access.Keeper.
func (c *Client) RotateKey(ctx context.Context, id string, overlap time.Duration) (access.Made, error) {
	return callMethod[access.Made](ctx, c, keysPrefix+"rotate", keyed{id, overlap})
}

// RevokeKey implements access.Keeper.
func (c *Client) RevokeKey(ctx context.Context, id string) (access.Key, error) {
	return callMethod[access.Key](ctx, c, keysPrefix+"revoke", keyed{ID: id})
}

package httpapi

import (
	"context"
	"net/http"
	"reflect"
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
	for tag, method := range map[string]any{
		"create": keeper.CreateKey, "list": keeper.ListKeys, "rotate id overlap": keeper.RotateKey,
		"revoke id": keeper.RevokeKey,
	} {
		does := reflect.ValueOf(method)
		routeOf(keysPrefix+tag, does.Type()).serve(mux, does)
	}
}

var _ access.Keeper = (*Client)(nil)

// CreateKey implements access.Keeper.
func (c *Client) CreateKey(ctx context.Context, request access.Request) (out access.Made, err error) {
	err = c.ask(ctx, keysPrefix+"create", request, &out)
	return out, err
}

// ListKeys implements access.Keeper.
func (c *Client) ListKeys(ctx context.Context) (out []access.Key, err error) {
	err = c.ask(ctx, keysPrefix+"list", struct{}{}, &out)
	return out, err
}

// RotateKey implements access.Keeper.
func (c *Client) RotateKey(ctx context.Context, id string, overlap time.Duration) (out access.Made, err error) {
	err = c.ask(ctx, keysPrefix+"rotate", keyed{id, overlap}, &out)
	return out, err
}

// RevokeKey implements access.Keeper.
func (c *Client) RevokeKey(ctx context.Context, id string) (out access.Key, err error) {
	err = c.ask(ctx, keysPrefix+"revoke", keyed{ID: id}, &out)
	return out, err
}

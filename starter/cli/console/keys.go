package console

import (
	"context"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/fault"
)

// WithKeys finds who keeps the keys: the artifact store where it is a server, else the embedded stack.
func (a *App) WithKeys(ctx context.Context, f func(keys access.Keeper) error) error {
	cfg, err := a.LoadConfig()
	if err != nil {
		return err
	}
	if a.onServers(cfg) {
		keys, err := serverKeys(ctx, cfg)
		if err != nil {
			return err
		}
		return f(keys)
	}
	connect := a.Connect
	if connect == nil {
		connect = a.connectEmbedded
	}
	return withConnection(ctx, cfg, connect, func(connection Connection) error {
		if connection.Keys == nil {
			return fault.Internal.At("keep keys", "").Because("this connection does not manage keys")
		}
		return f(connection.Keys)
	})
}

package console

import (
	"context"
	"errors"
	"log/slog"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/stream/scratch"
)

// onServers reports whether a command works on Temporal and stores that are servers.
func (a *App) onServers(cfg *config.Config) bool {
	return a.Connect == nil && cfg.Stores.NoPaths("unweaver") == nil
}

// serverKeys opens the artifact store, which keeps the keys, and nothing else.
func serverKeys(ctx context.Context, cfg *config.Config) (access.Keeper, error) {
	store, err := app.OpenArtifacts(ctx, cfg.Stores)
	if err != nil {
		return nil, err
	}
	return access.Book{Store: store}.Keeper(), nil
}

// connectServers opens Temporal and the stores: this process is the control service then.
func connectServers(ctx context.Context, cfg *config.Config) (Connection, error) {
	if folder, err := localfile.MakeFolder("", "cli"); err == nil {
		_ = scratch.Use(folder) // else the system's folder: files there have no name, folders are this user's alone
	}
	stores, err := app.Open(ctx, cfg.Stores)
	if err != nil {
		return Connection{}, err
	}
	connected, disconnect, err := service.Connect(ctx, cfg, stores, slog.New(slog.DiscardHandler))
	if err != nil {
		return Connection{}, errors.Join(err, stores.Close())
	}
	return Connection{
		Control: control.Of(connected),
		HTTP:    findQueryURL(cfg),
		Close: func() error {
			disconnect()
			return stores.Close()
		},
	}, nil
}

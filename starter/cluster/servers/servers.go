// Package servers opens Temporal and the stores for the command line, where these are servers.
package servers

import (
	"context"
	"errors"
	"log/slog"

	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/stream/scratch"
	"github.com/unweaver/unweaver/starter/cli"
	"github.com/unweaver/unweaver/workflows"
	"github.com/unweaver/unweaver/workflows/visibility"
)

// Clients opens servers by the configuration.
func Clients() *cli.Servers { return &cli.Servers{Connect: connect, Keys: keys} }

// keys are kept in the artifact store: nothing else is opened.
func keys(ctx context.Context, cfg *config.Config) (access.Keeper, error) {
	store, err := app.Artifacts(ctx, cfg.Stores)
	if err != nil {
		return nil, err
	}
	return access.Book{Store: store}, nil
}

// connect opens Temporal and the stores themselves.
func connect(ctx context.Context, cfg *config.Config) (cli.Connection, error) {
	if folder, err := localfile.Folder("", "cli"); err == nil {
		_ = scratch.Use(folder) // else the system's folder: files there have no name, folders are this user's alone
	}
	stores, err := app.Open(ctx, cfg.Stores)
	if err != nil {
		return cli.Connection{}, err
	}
	client, err := engine.Dial(ctx, cfg.Engine, slog.New(slog.DiscardHandler))
	if err != nil {
		return cli.Connection{}, errors.Join(err, stores.Close())
	}
	return cli.Connection{
		Control: &service.Service{
			Client:    client,
			Engine:    cfg.Engine,
			Stores:    stores,
			Models:    app.NewModels(stores.Coordination, cfg).Remote(),
			Limits:    cfg.DocumentLimits(),
			Heartbeat: workflows.DefaultHeartbeat,

			SearchAttributes: searchable(ctx, client, cfg.Engine.Namespace),
		},
		HTTP: cli.Queries(cfg),
		Close: func() error {
			client.Close()
			return stores.Close()
		},
	}, nil
}

// searchable tells whether the namespace knows the search attributes of runs; where nobody can tell, runs do without.
func searchable(ctx context.Context, client client.Client, namespace string) bool {
	known, err := visibility.Registered(ctx, client.OperatorService(), namespace)
	return err == nil && known
}

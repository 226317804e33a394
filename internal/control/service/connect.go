package service

import (
	"context"
	"log/slog"
	"sync"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/workflows"
	"github.com/unweaver/unweaver/workflows/visibility"
)

// Connect returns a service on the engine of a configuration and on stores that are servers. Where the namespace does
// not show that it knows the search attributes of runs, runs do without. disconnect leaves the stores open.
func Connect(
	ctx context.Context, cfg *config.Config, stores *app.Stores, log *slog.Logger,
) (connected *Service, disconnect func(), err error) {
	if err := engine.CheckKey(ctx, stores.Artifacts, cfg.Engine); err != nil {
		return nil, nil, err
	}
	client, err := engine.Dial(ctx, cfg.Engine, log)
	if err != nil {
		return nil, nil, err
	}
	known, err := visibility.IsRegistered(ctx, client.OperatorService(), cfg.Engine.Namespace)
	return &Service{
		Client:    client,
		Engine:    cfg.Engine,
		Stores:    stores,
		Models:    app.NewModels(stores.Coordination, cfg).UseRemote(),
		Limits:    cfg.DocumentLimits(),
		Heartbeat: workflows.DefaultHeartbeat,

		SearchAttributes: err == nil && known,
	}, client.Close, nil
}

// Line is a connection to the engine that is made when it is first needed, and kept: what serves queries too must not
// depend on the engine.
type Line struct {
	Config *config.Config
	Stores *app.Stores
	Log    *slog.Logger

	mu        sync.Mutex
	connected *Service
}

// Connect returns the service, connecting it where it is not yet.
func (l *Line) Connect(ctx context.Context) (control.Control, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.connected == nil {
		connected, _, err := Connect(ctx, l.Config, l.Stores, l.Log) // until the process ends
		if err != nil {
			return nil, err
		}
		l.connected = connected
	}
	return l.connected, nil
}

package service

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"go.temporal.io/api/serviceerror"
	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc/codes"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/workflows"
	"github.com/unweaver/unweaver/workflows/visibility"
)

// Connect returns a service on the engine of a configuration and on stores that are servers. Where the namespace does
// not know the search attributes of runs, or does not let this program ask, runs do without. disconnect leaves the
// stores open.
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
	switch serviceerror.ToStatus(err).Code() {
	case codes.OK, codes.PermissionDenied, codes.Unimplemented:
	default: // it is asked once: an error that passes must not last
		client.Close()
		return nil, nil, engine.ToFault(err, cfg.Engine)
	}
	return &Service{
		Client:    client,
		Engine:    cfg.Engine,
		Stores:    stores,
		Models:    app.NewModels(stores.Coordination, cfg).UseRemote(),
		Limits:    cfg.DocumentLimits(),
		Heartbeat: workflows.DefaultHeartbeat,

		SearchAttributes: known,
	}, client.Close, nil
}

// Line is a connection to the engine that is made when it is first needed, and kept: what serves queries too must not
// depend on the engine.
type Line struct {
	Dial func(context.Context) (control.Control, error)

	connected atomic.Pointer[control.Calls]
	dialling  singleflight.Group
}

// dialPatience is how long an attempt to connect may take, which all share who ask meanwhile.
const dialPatience = 5 * time.Second

// Connect returns the service, connecting it where it is not yet.
func (l *Line) Connect(ctx context.Context) (control.Control, error) {
	if connected := l.connected.Load(); connected != nil {
		return connected, nil
	}
	shared := l.dialling.DoChan("", func() (any, error) {
		if l.connected.Load() != nil { // since we looked
			return true, nil
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialPatience)
		defer cancel()
		connected, err := l.Dial(bounded)
		if err == nil {
			l.connected.Store(connected)
		}
		return err == nil, err
	})
	select {
	case result := <-shared:
		return l.connected.Load(), result.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

package service

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
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

	mu   sync.Mutex
	dial *dial // the last; nil: none yet
}

// dial is one attempt to connect, which all share who ask meanwhile.
type dial struct {
	done      chan struct{}
	connected control.Control
	err       error
	ended     time.Time
}

// How long an attempt may take, and how long its failure is the answer.
const (
	dialPatience = 5 * time.Second
	failureAge   = time.Second
)

// Connect returns the service, connecting it where it is not yet.
func (l *Line) Connect(ctx context.Context) (control.Control, error) {
	shared := l.findDial()
	select {
	case <-shared.done:
		return shared.connected, shared.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// findDial returns the attempt that goes on or counts, else a new one.
func (l *Line) findDial() *dial {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dial != nil {
		select {
		case <-l.dial.done:
			if l.dial.err == nil || time.Since(l.dial.ended) < failureAge {
				return l.dial
			}
		default:
			return l.dial
		}
	}
	begun := &dial{done: make(chan struct{})}
	l.dial = begun
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), dialPatience)
		defer cancel()
		begun.connected, begun.err = l.Dial(ctx)
		begun.ended = time.Now()
		close(begun.done)
	}()
	return begun
}

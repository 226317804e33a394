package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ops"
	"github.com/unweaver/unweaver/internal/ops/admin"
	"github.com/unweaver/unweaver/internal/ops/engine"
	"github.com/unweaver/unweaver/internal/store/localfile"
	"github.com/unweaver/unweaver/internal/store/wiring"
	"github.com/unweaver/unweaver/internal/stream/scratch"
	"github.com/unweaver/unweaver/workflows"
	"github.com/unweaver/unweaver/workflows/visibility"
)

// Dev is dev.json: where the embedded stack of a data directory answers.
type Dev struct {
	HTTP     string `json:"http"`
	Temporal string `json:"temporal"`
	PID      int    `json:"pid"`
	Token    string `json:"token"`

	Settings *DevSettings `json:"settings,omitempty"` // nil: a release before it wrote the file
}

func isURL(s string) bool { return strings.Contains(s, "://") }

// ReadDev reads dev.json where its process lives.
func ReadDev(dataDir string) (Dev, bool) {
	var dev Dev
	raw, err := os.ReadFile(filepath.Join(dataDir, "dev.json"))
	if err != nil || json.Unmarshal(raw, &dev) != nil || dev.PID == 0 {
		return dev, false
	}
	process, err := os.FindProcess(dev.PID)
	if err != nil || process.Signal(syscall.Signal(0)) != nil {
		return dev, false
	}
	return dev, true
}

// Connection is an open control, with where queries are served.
type Connection struct {
	Control ops.Control
	HTTP    string // http://host:port
	Keys    access.Keeper
	Key     string       // that queries are asked with where the person gives none
	Close   func() error // nil: nothing to close
}

// Connector opens control for one command.
type Connector func(ctx context.Context, cfg *config.Config) (Connection, error)

// withControl connects, and runs f. An error of f that says nothing of its kind is a fault of this program.
func (a *App) withControl(
	ctx context.Context,
	f func(ctx context.Context, control ops.Control, queries string) error,
) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	connect := a.Connect
	switch {
	case connect != nil:
	case wiring.NoPaths(cfg.Stores, "unweaver") == nil:
		connect = cluster
	default:
		connect = a.embedded
	}
	return connected(ctx, cfg, connect, func(connection Connection) error {
		ctx := withKey(ctx, cmp.Or(a.variable(a.keyEnv), connection.Key))
		err := f(ctx, connection.Control, connection.HTTP)
		if err != nil && fault.As(err) == nil {
			err = fault.Internal.At("", "").Because(err)
		}
		return err
	})
}

// connected opens a connection, and closes it after f.
func connected(ctx context.Context, cfg *config.Config, connect Connector, f func(Connection) error) (err error) {
	connection, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	if connection.Close != nil {
		defer func() { err = errors.Join(err, connection.Close()) }()
	}
	return f(connection)
}

// withQueries finds where queries are served, and runs f. Where the configuration gives a URL, that is the place, and
// nothing else is asked or started.
func (a *App) withQueries(ctx context.Context, f func(ctx context.Context, queries string) error) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if a.Connect != nil || !isURL(cfg.QueryAPI.Address) {
		return a.withControl(ctx, func(ctx context.Context, _ ops.Control, queries string) error { return f(ctx, queries) })
	}
	return f(withKey(ctx, a.variable(a.keyEnv)), strings.TrimRight(cfg.QueryAPI.Address, "/"))
}

// embedded finds the embedded stack of the data directory, or starts one that ends with the command.
func (a *App) embedded(ctx context.Context, _ *config.Config) (Connection, error) {
	dev, running, err := a.runningDev(ctx)
	if err != nil {
		return Connection{}, err
	}
	var stop func()
	if !running {
		if stop, err = a.startDev(ctx); err != nil {
			return Connection{}, err
		}
		if dev, running = ReadDev(a.dataDir); !running {
			stop()
			return Connection{}, fault.EngineDown.At("start the embedded stack in", a.dataDir).
				Because("it wrote no dev.json").
				Advise("run: unweaver dev")
		}
	}
	client := &admin.Client{Base: dev.HTTP, Token: dev.Token}
	connection := Connection{Control: client, HTTP: dev.HTTP, Keys: client, Key: dev.Token}
	if stop != nil {
		connection.Close = func() error { stop(); return nil }
	}
	return connection, nil
}

// runningDev is the embedded stack that dev.json names, where it lives and proves that it wrote the file: a process id
// and a port are soon another program's, which must not be sent the token.
func (a *App) runningDev(ctx context.Context) (dev Dev, running bool, err error) {
	dev, running = ReadDev(a.dataDir)
	if !running {
		return dev, false, nil
	}
	proven, err := admin.Knows(ctx, dev.HTTP, dev.Token)
	switch {
	case ctx.Err() != nil:
		return dev, false, ctx.Err()
	case err != nil:
		return dev, false, fault.EngineDown.At("ask the embedded stack at", dev.HTTP).Because(err).
			Advise(fmt.Sprintf("see what process %d does; stop it and start it again with: unweaver dev", dev.PID))
	case !proven:
		fmt.Fprintf(a.Err, "what answers at %s is not the embedded stack that wrote %s: it is told nothing\n",
			dev.HTTP, filepath.Join(a.dataDir, "dev.json"))
	}
	return dev, proven, nil
}

// cluster opens Temporal and the stores themselves.
func cluster(ctx context.Context, cfg *config.Config) (Connection, error) {
	if folder, err := localfile.Folder("", "cli"); err == nil {
		_ = scratch.Use(folder) // else the system's folder: files there have no name, folders are this user's alone
	}
	stores, err := wiring.Open(ctx, cfg.Stores)
	if err != nil {
		return Connection{}, err
	}
	client, err := engine.Dial(ctx, cfg.Engine, slog.New(slog.DiscardHandler))
	if err != nil {
		return Connection{}, errors.Join(err, stores.Close())
	}
	queries := cfg.QueryAPI.Address
	switch {
	case isURL(queries):
	case cfg.QueryAPI.TLS.On():
		queries = "https://" + queries
	default:
		queries = "http://" + queries
	}
	return Connection{
		Control: &ops.Service{
			Client:    client,
			Engine:    cfg.Engine,
			Stores:    stores,
			Models:    wiring.NewModels(stores.Coordination, cfg),
			Limits:    cfg.DocumentLimits(),
			Heartbeat: workflows.DefaultHeartbeat,

			SearchAttributes: searchable(ctx, client, cfg.Engine.Namespace),
		},
		HTTP: queries,
		Close: func() error {
			client.Close()
			return stores.Close()
		},
	}, nil
}

// devBinary is the embedded stack's program: UNWEAVER_DEV_BIN, else beside this one, else on the path.
func (a *App) devBinary() (string, error) {
	if path := a.variable("UNWEAVER_DEV_BIN"); path != "" {
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(self), "unweaver-dev")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("unweaver-dev")
	if err != nil {
		return "", fault.EngineDown.At("find", "unweaver-dev").
			Because("it lies neither beside this program nor on the path").
			Advise("build it with: make build")
	}
	return path, nil
}

// passOn are the flags that the embedded stack must see.
func (a *App) passOn() []string {
	args := []string{"--data-dir", a.dataDir}
	if a.configPath != "" {
		args = append(args, "--config", a.configPath)
	}
	for _, setting := range a.set {
		args = append(args, "--set", setting)
	}
	return args
}

// searchable tells whether the namespace knows the search attributes of runs; where nobody can tell, runs do without.
func searchable(ctx context.Context, client client.Client, namespace string) bool {
	known, err := visibility.Registered(ctx, client.OperatorService(), namespace)
	return err == nil && known
}

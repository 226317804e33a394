package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// IsURL reports whether a setting is a URL.
func IsURL(s string) bool { return strings.Contains(s, "://") }

// Connection is an open control, with where queries are served.
type Connection struct {
	Control control.Control
	HTTP    string // http://host:port
	Keys    access.Keeper
	Key     string       // that queries are asked with where the person gives none
	Close   func() error // nil: nothing to close
}

// Connector opens control for one command.
type Connector func(ctx context.Context, cfg *config.Config) (Connection, error)

// WithControl connects, and runs f. An error of f that says nothing of its kind is a fault of this program.
func (a *App) WithControl(
	ctx context.Context,
	f func(ctx context.Context, controller control.Control, queries string) error,
) error {
	cfg, err := a.LoadConfig()
	if err != nil {
		return err
	}
	connect := a.Connect
	switch {
	case connect != nil:
	case a.onServers(cfg):
		connect = connectServers
	default:
		connect = a.connectEmbedded
	}
	return withConnection(ctx, cfg, connect, func(connection Connection) error {
		ctx := control.WithOperator(withKey(ctx, cmp.Or(a.LookupEnv(a.keyEnv), connection.Key)), a.currentOperator())
		err := a.explainEnd(f(ctx, connection.Control, connection.HTTP))
		if err != nil && fault.As(err) == nil {
			err = fault.Internal.At("", "").Because(err)
		}
		return err
	})
}

// explainEnd replaces the error of a call to another process's embedded stack that has ended since.
func (a *App) explainEnd(err error) error {
	if a.joined == "" || !fault.Is(err, fault.EngineDown) {
		return err
	}
	if dev, running := stack.ReadDev(a.DataDir); running && dev.HTTP == a.joined {
		return err
	}
	return fault.EngineDown.At("reach the embedded stack at", a.joined).
		Because("the unweaver dev, or other command, that ran the stack ended").
		Advise("run this command again: it continues where it stopped")
}

// withConnection opens a connection, and closes it after f.
func withConnection(ctx context.Context, cfg *config.Config, connect Connector, f func(Connection) error) (err error) {
	connection, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	if connection.Close != nil {
		defer func() { err = errors.Join(err, connection.Close()) }()
	}
	return f(connection)
}

// NewControlRun returns a command that asks a control, with its arguments.
func (a *App) NewControlRun(
	do func(ctx context.Context, controller control.Control, args []string) error,
) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		return a.WithControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
			return do(ctx, controller, args)
		})
	}
}

// NewReport returns a command that asks a control for one thing, and prints it.
func NewReport[T any](
	a *App, ask func(ctx context.Context, controller control.Control, args []string) (T, error), show func(io.Writer, T),
) func(*cobra.Command, []string) error {
	return a.NewControlRun(func(ctx context.Context, controller control.Control, args []string) error {
		found, err := ask(ctx, controller, args)
		if err != nil {
			return err
		}
		return a.PrintOut(found, func(w io.Writer) { show(w, found) })
	})
}

// WithQueries finds where queries are served, and runs f. Where the configuration gives a URL, or the stores are
// servers, the configuration names the place, and nothing else is asked or started.
func (a *App) WithQueries(ctx context.Context, f func(ctx context.Context, queries string) error) error {
	cfg, err := a.LoadConfig()
	if err != nil {
		return err
	}
	if a.Connect != nil || !IsURL(cfg.QueryAPI.Address) && cfg.Stores.NoPaths("unweaver") != nil {
		return a.WithControl(ctx, func(ctx context.Context, _ control.Control, queries string) error {
			return f(ctx, queries)
		})
	}
	return f(withKey(ctx, a.LookupEnv(a.keyEnv)), findQueryURL(cfg))
}

// findQueryURL returns the URL of the query-api of a configuration, without a slash at its end.
func findQueryURL(cfg *config.Config) string {
	address := cfg.QueryAPI.Address
	switch {
	case IsURL(address):
		return strings.TrimRight(address, "/")
	case cfg.QueryAPI.TLS.IsOn():
		return "https://" + address
	default:
		return "http://" + address
	}
}

// connectEmbedded finds the embedded stack of the data directory, or starts one that ends with the command.
func (a *App) connectEmbedded(ctx context.Context, _ *config.Config) (Connection, error) {
	if err := a.CheckDataDir(slices.Contains(beginners, a.command)); err != nil {
		return Connection{}, err
	}
	dev, running, err := a.runningDev(ctx)
	if err != nil {
		return Connection{}, err
	}
	stop := func() {}
	if !running {
		if stop, err = a.startDev(ctx); err != nil {
			return Connection{}, err
		}
		if dev, running = stack.ReadDev(a.DataDir); !running {
			stop()
			return Connection{}, fault.EngineDown.At("start the embedded stack in", a.DataDir).
				Because("the file dev.json was not written").
				Advise("run: unweaver dev")
		}
	}
	if !a.Started {
		a.joined = dev.HTTP
	}
	client := httpapi.NewClient(dev.HTTP, dev.Token)
	end := func() error { stop(); return nil }
	return Connection{Control: client.Control, HTTP: dev.HTTP, Keys: client.Keys, Key: dev.Token, Close: end}, nil
}

// beginners are the commands that, besides dev, may make a data directory. The others read or change what an earlier
// command has made.
var beginners = []string{"doctor", "estimate", "eval", "index", "keys create", "pull", "reproduce", "restore",
	"schedule apply"}

// CheckDataDir refuses a data directory that is no folder and, unless it may be made, one that is not there.
func (a *App) CheckDataDir(mayMake bool) error {
	info, err := os.Stat(a.DataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && mayMake:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fault.Usage.At("", "").Because("there is no data directory at " + a.DataDir).
			Advise("name one with --data-dir, or create one: unweaver dev, or unweaver index CORPUS --index NAME")
	case err != nil:
		return fault.Usage.At("use data directory", a.DataDir).Because(err).Advise("choose another --data-dir")
	case !info.IsDir():
		return fault.Usage.At("use data directory", a.DataDir).Because("it is a file").
			Advise("give --data-dir a folder that exists or can be created")
	}
	if uid, known := durable.Owner(info); known && uid != os.Geteuid() && a.DataDir == defaultData {
		return fault.Usage.At("use data directory", a.DataDir).
			Because(fmt.Sprintf("no one named it, and it belongs to another user (%d)", uid)).
			Advise("run the command as that user, or name the directory with --data-dir if you trust it")
	}
	return nil
}

// defaultData is the data directory where none is named.
const defaultData = "unweaver-data"

// runningDev returns the embedded stack that dev.json names, where it lives and proves that it wrote the file: a
// process id and a port are soon another program's, which must not be sent the token.
func (a *App) runningDev(ctx context.Context) (dev stack.Dev, running bool, err error) {
	dev, running = stack.ReadDev(a.DataDir)
	if !running {
		return dev, false, nil
	}
	proven, err := httpapi.HasToken(ctx, dev.HTTP, dev.Token)
	switch {
	case ctx.Err() != nil:
		return dev, false, ctx.Err()
	case err != nil:
		return dev, false, fault.EngineDown.At("ask the embedded stack at", dev.HTTP).Because(err).
			Advise(fmt.Sprintf("check process %d; stop it, then start the stack again: unweaver dev", dev.PID))
	case !proven:
		a.SayLine(fmt.Sprintf("the process at %s is not the embedded stack that wrote %s; no command is sent to it",
			dev.HTTP, filepath.Join(a.DataDir, "dev.json")))
	}
	return dev, proven, nil
}

// passOn returns the flags that the embedded stack must see.
func (a *App) passOn() []string {
	args := []string{"--data-dir", a.DataDir}
	if a.ConfigPath != "" {
		args = append(args, "--config", a.ConfigPath)
	}
	for _, setting := range a.Set {
		args = append(args, "--set", setting)
	}
	return args
}

// Command unweaver-worker hosts workflows and activities until SIGTERM, then drains. It serves installations whose
// stores are servers; path stores belong to the embedded stack.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/document/box"
	"github.com/unweaver/unweaver/internal/ops/engine"
	"github.com/unweaver/unweaver/internal/redact"
	"github.com/unweaver/unweaver/internal/store/localfile"
	"github.com/unweaver/unweaver/internal/store/wiring"
	"github.com/unweaver/unweaver/internal/stream/scratch"
	"github.com/unweaver/unweaver/internal/version"
	"github.com/unweaver/unweaver/worker/host"
)

func main() {
	box.Child()
	syscall.Umask(0o077) // what this program writes is its owner's alone
	process, err := config.ParseProcess("unweaver-worker", "Host workflows and activities until SIGTERM, then drain.",
		"ask whether a worker polls the task queue, and exit (for health checks)", os.Args[1:], os.Environ(), os.Stdout)
	if err != nil {
		os.Exit(process.Exit(err, os.Stderr))
	}
	if process.Done() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	action := run
	if process.Probe {
		action = ask
	}
	if err := action(ctx, process.Source); err != nil {
		os.Exit(process.Exit(err, os.Stderr))
	}
}

// cacheDir is UNWEAVER_CACHE_DIR, or empty for the default. Workers on one machine need one each.
func cacheDir(configured string) string {
	if configured != "" {
		return configured
	}
	return os.Getenv("UNWEAVER_CACHE_DIR")
}

func run(ctx context.Context, source config.Source) (err error) {
	cfg, err := config.Load(source)
	if err != nil {
		return err
	}
	if err := wiring.NoPaths(cfg.Stores, "unweaver-worker"); err != nil {
		return err
	}
	cache, err := localfile.Folder(cacheDir(cfg.Worker.CacheDir), "worker")
	if err != nil {
		return err
	}
	if err := scratch.Use(cache); err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{ReplaceAttr: redact.Attr})).
		With("version", version.String())
	stores, err := wiring.Open(ctx, cfg.Stores)
	if err != nil {
		return err
	}
	stores.Bar(cache)
	defer func() { err = errors.Join(err, stores.Close()) }()
	client, err := engine.Dial(ctx, cfg.Engine, log)
	if err != nil {
		return err
	}
	defer client.Close()
	host.Register(ctx, client, cfg.Engine.Namespace, log)
	running, err := host.Start(
		host.Config{
			Client:    client,
			Address:   cfg.Engine.Address,
			Namespace: cfg.Engine.Namespace,
			TaskQueue: cfg.Engine.TaskQueue,
			Stores:    stores,
			Models:    wiring.NewModels(stores.Coordination, cfg),
			Limits:    cfg.DocumentLimits(),
			Sticky:    5 * time.Second,
			Drain:     45 * time.Second,
			CacheDir:  cache,
			Log:       log,

			Slots: cfg.Worker.Slots, CPUSlots: cfg.Worker.CPU, ActivityPollers: cfg.Worker.Pollers,
			CacheBytes: cfg.Worker.CacheBytes, Versioned: cfg.Engine.Deployment.Versioned,
			DeploymentName: cfg.Engine.Deployment.Name, BuildID: cfg.Engine.Deployment.BuildID,
		},
	)
	if err != nil {
		return err
	}
	<-ctx.Done()
	running.Stop()
	return nil
}

// ask is the health check of images, which have no shell.
func ask(ctx context.Context, source config.Source) error {
	cfg, err := config.Load(source)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := engine.Dial(ctx, cfg.Engine, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := host.Polled(ctx, client, cfg.Engine.TaskQueue); err != nil {
		return engine.Fault(err, cfg.Engine)
	}
	return nil
}

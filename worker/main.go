// Command unweaver-worker hosts workflows and activities until SIGTERM, then drains. It serves installations whose
// stores are servers; path stores belong to the embedded stack.
package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/stream/scratch"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/internal/telemetry/health"
	"github.com/unweaver/unweaver/internal/telemetry/tracing"
	"github.com/unweaver/unweaver/internal/telemetry/webhook"
	"github.com/unweaver/unweaver/worker/host"
)

func main() {
	sandbox.RunChild()
	config.RunServer(program, "Host workflows and activities until SIGTERM, then drain.",
		"ask whether this worker is ready (worker.address), or one polls, and exit", runWorker, checkHealth)
}

// program is what metrics, logs and traces call this one.
const program = "unweaver-worker"

// serveHealth begins to answer /livez, /readyz and /metrics. The default address may be another worker's: this one then
// does without, as its work matters more.
func serveHealth(cfg *config.Config, process *telemetry.Process, log *slog.Logger) (*health.Server, error) {
	server, err := health.Serve("worker.address", cfg.Worker.Address, process, log)
	if err != nil && !cfg.IsGiven("worker.address") {
		log.Warn("no metrics are served: another process uses the default worker.address; set another one",
			"address", cfg.Worker.Address)
		return nil, nil //nolint:nilnil // as above
	}
	return server, err
}

// dialEngine connects to the engine with the installation's codec key; with another one runs would end.
func dialEngine(ctx context.Context, place config.Engine, stores *app.Stores, log *slog.Logger) (client.Client, error) {
	if err := engine.KeepKey(ctx, stores.Artifacts, place); err != nil {
		return nil, err
	}
	return engine.Dial(ctx, place, log)
}

func runWorker(ctx context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	if err := cfg.Stores.NoPaths("unweaver-worker"); err != nil {
		return err
	}
	// Workers on one machine need a folder each.
	cache, err := localfile.MakeFolder(cmp.Or(cfg.Worker.CacheDir, os.Getenv("UNWEAVER_CACHE_DIR")), "worker")
	if err != nil {
		return err
	}
	if err := scratch.Use(cache); err != nil {
		return err
	}
	hooks, err := webhook.ReadHooks(cfg)
	if err != nil {
		return err
	}
	untrace, err := tracing.Start(ctx, program, cfg.Telemetry.OTLPEndpoint)
	if err != nil {
		return err
	}
	defer untrace()
	process := telemetry.New(program)
	process.Log = log
	server, err := serveHealth(cfg, process, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	watch := server.WatchStart(log)
	stores, err := app.OpenWatched(ctx, cfg.Stores, watch)
	if err != nil {
		return err
	}
	stores.SetObserver(process)
	stores.BarPaths(cache)
	defer func() { err = errors.Join(err, stores.Close()) }()
	opened := watch("engine")
	client, err := dialEngine(ctx, cfg.Engine, stores, log)
	if opened(); err != nil {
		return err
	}
	defer client.Close()
	host.Register(ctx, client, cfg.Engine.Namespace, log)
	models := app.NewModels(stores.Coordination, cfg)
	models.SetObserver(process)
	running, err := host.Start(
		host.Config{
			Client:    client,
			Engine:    cfg.Engine,
			Stores:    stores,
			Models:    models,
			Limits:    cfg.DocumentLimits(),
			Sticky:    5 * time.Second,
			Drain:     45 * time.Second,
			CacheDir:  cache,
			Log:       log,
			Telemetry: process,
			Notify:    hooks,
			Freshness: cfg,

			Role: host.Role(cfg.Worker.Role), Slots: cfg.CountSlots(runtime.GOMAXPROCS(0)), CPUSlots: cfg.Worker.CPU,
			ActivityPollers: cfg.Worker.Pollers, WorkflowCache: cfg.WorkflowCache(runtime.GOMAXPROCS(0)),
			CacheBytes: cfg.Worker.CacheBytes,
		},
	)
	if err != nil {
		return err
	}
	server.SetReady(host.CheckEngine(client))
	log.Info("worker started", "task_queue", cfg.Engine.TaskQueue, "role", cfg.Worker.Role, "engine", cfg.Engine.Address)
	<-ctx.Done()
	log.Info("worker is stopping; work in flight may continue for a while")
	server.Drain()
	running.Stop()
	return nil
}

// checkHealth runs the health check of images, which have no shell. It asks this worker where worker.address is given,
// else whether any worker polls the task queue.
func checkHealth(ctx context.Context, cfg *config.Config) error {
	if cfg.IsGiven("worker.address") && cfg.Worker.Address != "" {
		return health.Probe(ctx, "worker.address", cfg.Worker.Address)
	}
	client, err := engine.Dial(ctx, cfg.Engine, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := host.RequirePoller(ctx, client, cfg.Engine.TaskQueue, host.Role(cfg.Worker.Role)); err != nil {
		return engine.ToFault(err, cfg.Engine)
	}
	return nil
}

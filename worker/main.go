// Command unweaver-worker hosts workflows and activities until SIGTERM, then drains. It serves installations whose
// stores are servers; path stores belong to the embedded stack.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.temporal.io/api/enums/v1"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ops/engine"
	"github.com/unweaver/unweaver/internal/store/wiring"
	"github.com/unweaver/unweaver/worker/host"
)

func main() {
	path := flag.String("config", os.Getenv("UNWEAVER_CONFIG"), "configuration file")
	probe := flag.Bool("probe", false, "ask whether a worker polls the task queue, and exit (for health checks)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	f := run
	if *probe {
		f = ask
	}
	if err := f(ctx, *path); err != nil {
		fmt.Fprintln(os.Stderr, "unweaver-worker:", err)
		if k := fault.As(err); k != nil && k.Kind == fault.Bad {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// cacheDir is UNWEAVER_CACHE_DIR, or empty for the default. Workers on one machine need one each.
func cacheDir() string { return os.Getenv("UNWEAVER_CACHE_DIR") }

func run(ctx context.Context, path string) (err error) {
	cfg, err := config.Load(config.Source{Path: path, Env: os.Environ()})
	if err != nil {
		return err
	}
	if err := wiring.NoPaths(cfg.Stores, "unweaver-worker"); err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	stores, err := wiring.Open(ctx, cfg.Stores)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stores.Close()) }()
	client, err := engine.Dial(ctx, cfg.Engine, log)
	if err != nil {
		return err
	}
	defer client.Close()
	h, err := host.Start(
		host.Config{
			Client:    client,
			TaskQueue: cfg.Engine.TaskQueue,
			Stores:    stores,
			Models:    wiring.NewModels(stores.Coordination),
			Sticky:    5 * time.Second,
			Drain:     45 * time.Second,
			CacheDir:  cacheDir(),
			Log:       log,
		},
	)
	if err != nil {
		return err
	}
	<-ctx.Done()
	h.Stop()
	return nil
}

// ask is the health check of images, which have no shell.
func ask(ctx context.Context, path string) error {
	cfg, err := config.Load(config.Source{Path: path, Env: os.Environ()})
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
	response, err := client.DescribeTaskQueue(ctx, cfg.Engine.TaskQueue, enums.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return engine.Fault(err, cfg.Engine)
	}
	if len(response.GetPollers()) == 0 {
		return fault.EngineDown.At("probe task queue", cfg.Engine.TaskQueue).Because("no worker polls it")
	}
	return nil
}

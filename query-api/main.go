// Command unweaver-query-api serves queries until SIGTERM. It serves installations whose stores are servers; path
// stores belong to the embedded stack.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/localfile"
	"github.com/unweaver/unweaver/internal/store/wiring"
	"github.com/unweaver/unweaver/query-api/api"
)

func main() {
	path := flag.String("config", os.Getenv("UNWEAVER_CONFIG"), "configuration file")
	probe := flag.Bool("probe", false, "ask the running query-api whether it answers, and exit (for health checks)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	f := run
	if *probe {
		f = ask
	}
	if err := f(ctx, *path); err != nil {
		fmt.Fprintln(os.Stderr, "unweaver-query-api:", err)
		if k := fault.As(err); k != nil && k.Kind == fault.Bad {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, path string) (err error) {
	cfg, err := config.Load(config.Source{Path: path, Env: os.Environ()})
	if err != nil {
		return err
	}
	if err := wiring.NoPaths(cfg.Stores, "unweaver-query-api"); err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	stores, err := wiring.Open(ctx, cfg.Stores)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stores.Close()) }()
	dir := os.Getenv("UNWEAVER_CACHE_DIR") // replicas on one machine need one each
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "unweaver-query-cache")
	}
	cache, err := localfile.New(dir, 64<<30)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.QueryAPI.Address)
	if err != nil {
		return fault.PortTaken.At("listen on", cfg.QueryAPI.Address).Because(err).Advise("set query_api.address")
	}
	server := api.New(
		api.Config{
			Artifacts: stores.Artifacts,
			Records:   stores.Records,
			Readers:   stores.Coordination,
			Vectors:   stores.Vectors,
			Models:    wiring.NewModels(stores.Coordination, cfg),
			Cache:     cache,
			Log:       log,
		},
	)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	sctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(sctx))
}

// ask is the health check of images, which have no shell.
func ask(ctx context.Context, path string) error {
	cfg, err := config.Load(config.Source{Path: path, Env: os.Environ()})
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(cfg.QueryAPI.Address)
	if err != nil {
		return fault.BadConfig.At("parse", "query_api.address").Because(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+"/livez", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fault.StoreDown.At("probe", req.URL.String()).Because(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fault.StoreDown.At("probe", req.URL.String()).Because(res.Status)
	}
	return nil
}

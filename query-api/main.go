// Command unweaver-query-api serves queries until SIGTERM. It serves installations whose stores are servers; path
// stores belong to the embedded stack.
package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/desk"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/scratch"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/internal/telemetry/health"
	"github.com/unweaver/unweaver/internal/telemetry/tracing"
	"github.com/unweaver/unweaver/query-api/api"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/served"
	"github.com/unweaver/unweaver/query-api/signon"
)

func main() {
	config.RunServer(program, "Serve queries until SIGTERM.",
		"check whether query-api is ready (query_api.internal_address), or answers, then exit", runService, checkHealth)
}

// program is what metrics, logs and traces call this one.
const program = "unweaver-query-api"

// internalAddress is the key of the address that answers probes.
const internalAddress = "query_api.internal_address"

func runService(ctx context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	if err := cfg.Stores.NoPaths("unweaver-query-api"); err != nil {
		return err
	}
	folder, err := makeCacheFolder()
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
	probe, err := health.Serve(internalAddress, cfg.QueryAPI.InternalAddress, process, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, probe.Close()) }()
	stores, err := app.OpenWatched(ctx, cfg.Stores, probe.WatchStart(log))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stores.Close()) }()
	stores.SetObserver(process)
	models := app.NewModels(stores.Coordination, cfg)
	models.SetObserver(process)
	cache, err := localfile.New(folder, 64<<30)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.QueryAPI.Address)
	if err != nil {
		return fault.PortTaken.At("listen on", cfg.QueryAPI.Address).Because(err).Advise("set query_api.address")
	}
	encrypted, err := middleware.TLS(cfg.QueryAPI.TLS, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	keys := access.NewRing(stores.Artifacts, log, nil)
	policy, err := middleware.NewPolicy(cfg.QueryAPI, listener.Addr(), keys)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := signon.AddTo(&policy, cfg.QueryAPI.OIDC, log); err != nil {
		return errors.Join(err, listener.Close())
	}
	following, unfollow := context.WithCancel(context.Background())
	defer unfollow()
	go keys.WatchKeys(following)
	policy.Quotas = middleware.NewQuotas(cfg.QueryAPI.Quotas, stores.Coordination, log, process)
	defer policy.Quotas.Close()
	go policy.Quotas.LogUnmatched(following, access.Book{Store: stores.Artifacts})
	middleware.Warn(log, listener.Addr(), encrypted != nil)
	secrets, err := cfg.ReadHintSecrets()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := api.New(api.Config{
		HintSecrets: secrets,
		Desk:        newDesk(cfg, stores, log),
		Policy:      policy,
		Models:      models,
		Config: served.Config{
			Artifacts: stores.Artifacts,
			Records:   stores.Records,
			Readers:   stores.Coordination,
			Runs:      stores.Coordination,
			Vectors:   stores.Vectors,
			Cache:     cache,
			Log:       log,
			Telemetry: process,
			Warm:      cfg.QueryAPI.Indexes.Ahead,
			OpenBytes: cfg.QueryAPI.Indexes.Bytes,
		},
	})
	log.Info("query-api started", "address", listener.Addr().String(), "tls", encrypted != nil, "keys", policy.Required)
	return serveUntil(ctx, server, middleware.WrapListener(listener, encrypted, cfg.QueryAPI.Limits.Connections), probe)
}

// makeCacheFolder returns the folder of local copies and scratch files. Replicas on one machine need one each.
func makeCacheFolder() (string, error) {
	folder, err := localfile.MakeFolder(os.Getenv("UNWEAVER_CACHE_DIR"), "query-api")
	if err != nil {
		return "", err
	}
	return folder, scratch.Use(folder)
}

// serveUntil serves until ctx is done. Then it is not ready any more, and lets running requests finish.
func serveUntil(ctx context.Context, server *api.Server, on net.Listener, probe *health.Server) (err error) {
	probe.SetReady(server.CheckReadiness)
	served := make(chan error, 1)
	go func() { served <- server.Serve(on) }()
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	probe.Drain()
	sctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(sctx))
}

// newDesk returns what builds and steers; nil where the configuration does not ask for it.
func newDesk(cfg *config.Config, stores *app.Stores, log *slog.Logger) *desk.Desk {
	if !cfg.QueryAPI.Control {
		return nil
	}
	line := &service.Line{Dial: func(ctx context.Context) (control.Control, error) {
		connected, _, err := service.Connect(ctx, cfg, stores, log) // until the process ends
		if err != nil {
			return nil, err
		}
		return control.Of(connected), nil
	}}
	return desk.New(cfg, stores, line.Connect)
}

// checkHealth runs the health check of images, which have no shell: whether query-api is ready where it has an internal
// address, else whether it answers.
func checkHealth(ctx context.Context, cfg *config.Config) error {
	if address := cfg.QueryAPI.InternalAddress; address != "" {
		return health.Probe(ctx, internalAddress, address)
	}
	address, err := health.Local(cfg.QueryAPI.Address)
	if err != nil {
		return fault.BadConfig.At("parse", "query_api.address").Because(err)
	}
	scheme, client := "http", &http.Client{}
	if settings := cfg.QueryAPI.TLS; settings.IsOn() {
		scheme = "https"
		client.Transport = &http.Transport{TLSClientConfig: middleware.NewProbeTLS(settings)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/livez", nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return fault.StoreDown.At("probe", req.URL.String()).Because(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fault.StoreDown.At("probe", req.URL.String()).Because(res.Status)
	}
	return nil
}

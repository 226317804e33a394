// Package stack is the embedded stack over one data directory: a worker and query-api in one process, and Temporal's
// development server as its child. Killed and started again it resumes what ran.
package stack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/infra/embedded/devserver"
	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/desk"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/control/engine/codec"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/durable"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/internal/telemetry/webhook"
	"github.com/unweaver/unweaver/query-api/api"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/served"
	"github.com/unweaver/unweaver/query-api/signon"
	"github.com/unweaver/unweaver/worker/host"
	"github.com/unweaver/unweaver/workflows"
)

// Options of a stack.
type Options struct {
	DataDir      string
	Config       *config.Config
	TemporalPort int // 0 = any free
	HTTPPort     int
	Phase        func(string) // a line per phase; may be nil
	Log          *slog.Logger
	Plain        bool // payloads are not encrypted: for tests of what they hold

	Settings *Settings // what Config was made from, for commands that bring none; may be nil
}

// Stack is a running stack.
type Stack struct {
	Dev
	Control *service.Service

	dir    string
	lock   *os.File
	shared *os.File // lock of the artifacts, which need not lie in the data directory
	stores *app.Stores
	engine *devserver.Server
	place  config.Engine // where the engine is, for its clients
	client client.Client
	worker *host.Host
	api    *api.Server
	served chan error

	quotas   *middleware.Quotas
	unfollow func() // ends the refresh of the API keys; nil: it has not begun
}

// Program is what metrics and traces call a stack.
const Program = "unweaver"

// Heartbeat after which the work of a killed process is given out again.
const Heartbeat = 10 * time.Second

// Start starts every part and returns when each answers.
func Start(ctx context.Context, options Options) (stack *Stack, err error) {
	phase := options.Phase
	if phase == nil {
		phase = func(string) {}
	}
	dir, err := filepath.Abs(options.DataDir)
	if err != nil {
		return nil, err
	}
	if err := durable.MkdirPrivate(dir); err != nil {
		return nil, fault.Usage.At("make data directory", dir).Because(err).Advise("choose another --data-dir")
	}
	stack = &Stack{dir: dir, served: make(chan error, 2)}
	defer func() {
		if err != nil {
			err = errors.Join(err, stack.Stop(ctx))
		}
	}()
	if stack.lock, err = lockFolder(dir); err != nil {
		return stack, err
	}
	if err := devserver.CheckLayout(dir); err != nil {
		return stack, err
	}
	_ = os.Remove(filepath.Join(dir, "dev.json")) // of a process that was killed
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", options.HTTPPort))
	if err != nil {
		return stack, fault.PortTaken.At("listen on", fmt.Sprintf("127.0.0.1:%d", options.HTTPPort)).
			Because(err).
			Advise("another program uses the port: choose another with --http-port (0 = any free port)")
	}
	phase("starting stores in " + dir)
	places := app.FillPaths(options.Config.Stores, dir)
	if app.IsPath(places.Artifacts) {
		if stack.shared, err = lockArtifacts(places.Artifacts, dir); err != nil {
			return stack, errors.Join(err, listener.Close())
		}
	}
	if stack.stores, err = app.Open(ctx, places); err != nil {
		return stack, errors.Join(err, listener.Close())
	}
	process := telemetry.New(Program)
	process.Log = options.Log
	stack.stores.SetObserver(process)
	stack.stores.BarPaths(dir) // its token, the engine's database, the cache, and what else lies there
	if err = stack.stores.LoadGrants(filepath.Join(dir, "roots.json")); err != nil {
		return stack, errors.Join(err, listener.Close())
	}
	if err = stack.startEngine(ctx, options, phase); err != nil {
		return stack, errors.Join(err, listener.Close())
	}
	phase("starting worker")
	models := app.NewModels(stack.stores.Coordination, options.Config)
	models.SetObserver(process)
	hooks, err := webhook.ReadHooks(options.Config)
	if err != nil {
		return stack, errors.Join(err, listener.Close())
	}
	if stack.worker, err = host.Start(host.Config{
		Client: stack.client, Engine: stack.place, Stores: stack.stores, Models: models,
		Limits: options.Config.DocumentLimits(), CacheDir: filepath.Join(dir, "cache"),
		Alone: true, Sticky: time.Second, Heartbeat: time.Second, Drain: 20 * time.Second, Log: options.Log,
		Telemetry: process, Notify: hooks,
		Slots: options.Config.CountSlots(runtime.GOMAXPROCS(0)), CPUSlots: options.Config.Worker.CPU,
		ActivityPollers: options.Config.Worker.Pollers, CacheBytes: options.Config.Worker.CacheBytes,
		Freshness: options.Config, BuildHeartbeat: Heartbeat,
	}); err != nil {
		return stack, errors.Join(err, listener.Close())
	}
	stack.Control = stack.newControl(ctx, options, models)
	polling, cancel := context.WithTimeout(ctx, pollPatience)
	stack.Control.AwaitWorkers(polling)
	cancel()
	phase("starting query-api")
	return stack, stack.serveAPI(options, listener, models, process)
}

// pollPatience is how long the start waits for the engine to show the worker; doctor says if it never does.
const pollPatience = 10 * time.Second

// newControl steers runs on the engine and the stores of the stack.
func (s *Stack) newControl(ctx context.Context, options Options, models *app.Models) *service.Service {
	return &service.Service{
		Client:    s.client,
		Engine:    s.place,
		Stores:    s.stores,
		Limits:    options.Config.DocumentLimits(),
		Models:    models,
		Heartbeat: Heartbeat,
		Problems:  s.worker.ListProblems,
		Grant:     s.stores.GrantCorpora,

		SearchAttributes: host.Register(ctx, s.client, s.place.Namespace, options.Log),
	}
}

func (s *Stack) serveAPI(
	options Options, listener net.Listener, models *app.Models, process *telemetry.Process,
) error {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // never fails
	s.Dev = Dev{
		HTTP:     "http://" + listener.Addr().String(),
		Temporal: s.place.Address,
		PID:      os.Getpid(),
		Token:    hex.EncodeToString(raw),
		Settings: options.Settings,
	}
	cache, err := localfile.New(filepath.Join(s.dir, "cache"), 32<<30)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	keys := access.NewRing(s.stores.Artifacts, options.Log, nil)
	policy, err := middleware.NewPolicy(options.Config.QueryAPI, listener.Addr(), keys)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := signon.AddTo(&policy, options.Config.QueryAPI.OIDC, options.Log); err != nil {
		return errors.Join(err, listener.Close())
	}
	policy.Token = s.Token // who can read it owns the data directory
	policy.Quotas = middleware.NewQuotas(options.Config.QueryAPI.Quotas, s.stores.Coordination, options.Log, process)
	var following context.Context
	following, s.unfollow = context.WithCancel(context.Background())
	go keys.WatchKeys(following)
	s.quotas = policy.Quotas
	go policy.Quotas.LogUnmatched(following, access.Book{Store: s.stores.Artifacts})
	secrets, err := options.Config.ReadHintSecrets()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	port := control.Of(s.Control)
	s.api = api.New(
		api.Config{
			HintSecrets: secrets,

			Desk: desk.New(options.Config, s.stores, func(context.Context) (control.Control, error) {
				return port, nil
			}),
			Policy: policy,
			Models: models,
			Config: served.Config{
				Artifacts: s.stores.Artifacts,
				Records:   s.stores.Records,
				Readers:   s.stores.Coordination,
				Runs:      s.stores.Coordination,
				Vectors:   s.stores.Vectors,
				Cache:     cache,
				Log:       options.Log,
				Telemetry: process,
				Warm:      options.Config.QueryAPI.Indexes.Ahead,
				OpenBytes: options.Config.QueryAPI.Indexes.Bytes,
			},
			Extra: map[string]http.Handler{httpapi.Prefix: httpapi.Handler(port, httpapi.Access{
				Token: s.Token, Check: keys.Check, Keys: access.Book{Store: s.stores.Artifacts}.Keeper(),
			})},
		},
	)
	go func() { s.served <- s.api.Serve(listener) }()
	if err := waitReady(s.HTTP + "/livez"); err != nil {
		return err
	}
	b, err := json.Marshal(s.Dev)
	if err != nil {
		return err
	}
	tmp := filepath.Join(s.dir, "dev.json.tmp")
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(s.dir, "dev.json"))
}

// waitReady waits until an address says that it is ready.
func waitReady(url string) error {
	c := &http.Client{Timeout: 5 * time.Second}
	var last error
	for range 300 {
		response, err := c.Get(url)
		if err == nil {
			raw, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("%s: %s", response.Status, raw)
		}
		last = err
		time.Sleep(100 * time.Millisecond)
	}
	return fault.StoreDown.At("start", url).Because(last).Advise("check the log")
}

// lockFolder makes this process the only owner of a data directory.
func lockFolder(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.Usage.At("open", path).Because(err).Advise("choose another --data-dir")
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		who := "another process"
		if d, ok := ReadDev(dir); ok {
			who = fmt.Sprintf("process %d at %s", d.PID, d.HTTP)
		}
		_ = file.Close()
		return nil, fault.DataDirInUse.At("use data directory", dir).
			Because(who + " uses it").
			Advise("stop that process, or choose another --data-dir")
	}
	return file, nil
}

// CodecKey returns the file in a data directory with the key that everything is encrypted with on its way through the
// engine, whose ports any user of the machine can reach.
func CodecKey(dir string) string { return filepath.Join(dir, "codec.key") }

// startEngine finds the engine's program, starts it as a child process and connects to it.
func (s *Stack) startEngine(ctx context.Context, options Options, phase func(string)) error {
	program, err := devserver.Finder{Say: phase}.Find(ctx)
	if err != nil {
		return err
	}
	s.place = config.Engine{Namespace: devserver.Namespace, TaskQueue: workflows.TaskQueue}
	if !options.Plain {
		s.place.CodecKey = CodecKey(s.dir)
		if _, err := codec.Create(s.place.CodecKey, devserver.Database(s.dir)); err != nil {
			return err
		}
	}
	phase("starting Temporal on SQLite")
	s.engine, err = devserver.Start(ctx, devserver.Options{
		Program: program, Dir: s.dir, Port: options.TemporalPort, Log: options.Log,
	})
	if err != nil {
		return err
	}
	go func() {
		if err, failed := <-s.engine.WatchFailure(); failed {
			s.served <- err
		}
	}()
	s.place.Address = s.engine.Address
	s.client, err = engine.Dial(ctx, s.place, options.Log)
	return err
}

// WatchFailure says when a part of the stack ends by itself.
func (s *Stack) WatchFailure() <-chan error { return s.served }

// Stop drains the worker, lets queries finish and closes the stores.
func (s *Stack) Stop(ctx context.Context) error {
	var err error
	if s.lock != nil { // else the folder is another process's
		_ = os.Remove(filepath.Join(s.dir, "dev.json"))
	}
	if s.worker != nil {
		s.worker.Stop()
	}
	if s.unfollow != nil {
		s.unfollow()
	}
	if s.api != nil {
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
		err = errors.Join(err, s.api.Shutdown(sctx))
		cancel()
	}
	s.quotas.Close()
	if s.client != nil {
		s.client.Close()
	}
	if s.engine != nil {
		err = errors.Join(err, s.engine.Stop())
	}
	if s.stores != nil {
		err = errors.Join(err, s.stores.Close())
	}
	for _, held := range []*os.File{s.shared, s.lock} {
		if held != nil {
			err = errors.Join(err, held.Close())
		}
	}
	return err
}

// Package host runs a worker: it registers workflows and activities and drains when it is asked to stop. The worker's
// main and the embedded stack are thin over it.
package host

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/unweaver/unweaver/activities"
	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model/fleet"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/internal/telemetry/webhook"
	"github.com/unweaver/unweaver/workflows"
)

// Config of a worker. A zero size is its default.
type Config struct {
	Client    client.Client
	Engine    config.Engine // that the client is connected to, its task queue, and the deployment of a versioned worker
	Stores    *app.Stores
	Models    *app.Models
	CacheDir  string        // local copies of segments; empty: below the user's folder of caches
	Sticky    time.Duration // how long a workflow task waits for the worker that knows its workflow
	Heartbeat time.Duration // heartbeats go out at least this often; 0 = a quarter of a run's usual timeout
	Alone     bool          // the only worker: its activities need not go by the queue, which spreads them
	Drain     time.Duration // how long activities may go on after Stop
	Log       *slog.Logger
	Telemetry *telemetry.Process // nil: nothing is counted

	Role            Role  // what it takes; everything
	Slots           int   // activities of TaskQueue at once; 64
	CPUSlots        int   // activities at once that fill a core and much memory; the number of cores
	ActivityPollers int   // 4
	WorkflowCache   int   // workflows of this process whose state is kept between tasks; 10,000, or what it set before
	CacheBytes      int64 // of the local copies; 32 GiB

	Notify func(index string) webhook.Hook // the webhook of an index; nil: none has one

	Freshness      *config.Config // which indexes follow hints of changed objects; nil: none
	BuildHeartbeat time.Duration  // of the builds that follow them; 0: the usual one

	Limits document.Limits // of one document; zero: those of document.DefaultLimits
}

// Role is what a worker takes of the work of its installation.
type Role string

// The roles. A run has two task queues: TaskQueue, with its workflow and what waits for models and stores, and
// workflows.ComputingQueue with what fills a core; runs of formats before that have the first alone.
const (
	RoleAll Role = "all"
	RoleIO  Role = "io"
	RoleCPU Role = "cpu"
)

// Sizes of a worker that gives none.
const (
	defaultSlots      = 64
	defaultPollers    = 4
	defaultCacheBytes = 32 << 30
)

// withDefaults puts defaults where the configuration gives nothing. What it gives was checked when it was read.
func (c Config) withDefaults() (_ Config, err error) {
	c.Role, c.Engine.Namespace = cmp.Or(c.Role, RoleAll), cmp.Or(c.Engine.Namespace, client.DefaultNamespace)
	c.Slots, c.CPUSlots = cmp.Or(c.Slots, defaultSlots), cmp.Or(c.CPUSlots, runtime.GOMAXPROCS(0))
	c.ActivityPollers, c.CacheBytes = cmp.Or(c.ActivityPollers, defaultPollers), cmp.Or(c.CacheBytes, defaultCacheBytes)
	// The engine's own rule for heartbeats is four fifths of the timeout: one that is lost would end the attempt.
	c.Heartbeat = cmp.Or(c.Heartbeat, workflows.DefaultHeartbeat/4)
	if c.CacheDir == "" {
		c.CacheDir, err = localfile.MakeFolder("", "worker")
	}
	return c, err
}

// newWorkers returns the engine's workers, one for each queue that the role has.
func (c Config) newWorkers() []worker.Worker {
	var all []worker.Worker
	if c.Role != RoleCPU {
		main := worker.New(c.Client, c.Engine.TaskQueue, c.newOptions(c.Slots))
		workflows.Register(main)
		all = append(all, main)
		c.Telemetry.Set(telemetry.ActivitySlots, float64(c.Slots), "activity")
	}
	if c.Role != RoleIO {
		options := c.newOptions(c.CPUSlots)
		options.DisableWorkflowWorker = true
		all = append(all, worker.New(c.Client, workflows.ComputingQueue(c.Engine.TaskQueue), options))
		c.Telemetry.Set(telemetry.ActivitySlots, float64(c.CPUSlots), "computing")
	}
	return all
}

// describeSelf returns how the worker describes itself to the fleet.
func (c Config) describeSelf() fleet.Worker {
	self := fleet.Worker{Queue: c.Engine.TaskQueue, Slots: c.Slots, CPU: c.CPUSlots, Apart: c.Role != RoleIO}
	if c.Role == RoleCPU {
		self.Slots = 0
	}
	if c.Engine.Deployment.Versioned {
		self.Version = c.Engine.Deployment.Name + "." + c.Engine.Deployment.BuildID
	}
	return self
}

// newOptions returns the options of an engine's worker with so many slots.
func (c Config) newOptions(slots int) worker.Options {
	options := worker.Options{
		MaxConcurrentActivityExecutionSize: slots,
		MaxConcurrentActivityTaskPollers:   min(c.ActivityPollers, slots),
		MaxConcurrentWorkflowTaskPollers:   defaultPollers,
		WorkerStopTimeout:                  c.Drain,
		MaxHeartbeatThrottleInterval:       c.Heartbeat,
		StickyScheduleToStartTimeout:       c.Sticky,
		DisableRegistrationAliasing:        true,
		DisableEagerActivities:             !c.Alone,
	}
	if c.Telemetry != nil {
		options.Interceptors = []interceptor.WorkerInterceptor{&counting{telemetry: c.Telemetry}}
	}
	// A versioned worker takes runs of its version of the deployment only: see docs/decisions/README.md.
	if version := c.Engine.Deployment; version.Versioned {
		options.DeploymentOptions = worker.DeploymentOptions{
			UseVersioning: true,
			Version:       worker.WorkerDeploymentVersion{DeploymentName: version.Name, BuildID: version.BuildID},
		}
	}
	return options
}

// Host is a running worker.
type Host struct {
	workers []worker.Worker
	ports   *run.Ports
	parser  *sandbox.Pool
	drain   time.Duration
	due     *activities.Due // nil: another worker sends what notices are due
	member  *fleet.Member

	beside    sync.WaitGroup // what looks up how indexes stand, and follows hints
	endBeside context.CancelFunc
}

// Start starts a worker. It fails where the configuration makes no sense, the cache's folder cannot be made, or the
// engine does not answer.
func Start(config Config) (*Host, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	cache, err := localfile.New(config.CacheDir, config.CacheBytes)
	if err != nil {
		return nil, err
	}
	parser, err := sandbox.New(config.CPUSlots, config.Limits)
	if err != nil {
		return nil, err
	}
	if config.WorkflowCache > 0 {
		worker.SetStickyWorkflowCacheSize(config.WorkflowCache)
	}
	stores := config.Stores
	paid := ledger.New(stores.Artifacts, stores.Coordination)
	paid.OnDamage = func(location string, err error) {
		config.Log.Warn("ledger object set aside: it cannot be read", "object", location, "code", string(fault.CodeOf(err)))
	}
	ports := &run.Ports{
		Artifacts: stores.Artifacts, Corpora: stores.OpenCorpus, Staging: stores.Staging, Records: stores.Records,
		Coordination: stores.Coordination, Vectors: stores.Vectors, Models: config.Models.NewBuildSet,
		Converter: config.Models.Converter,
		Ledger:    paid, StoreID: stores.StoreID,
		Cache: cache, CPU: make(chan struct{}, config.CPUSlots), Log: config.Log,
		Parser: parser, Limits: parser.Limits(), Limited: config.Models.SetLimits, Quote: answer.QuotePassages,
	}
	if config.Telemetry != nil {
		ports.Paid = config.Telemetry.CountPaid
	}
	var due *activities.Due
	if config.Alone {
		due = &activities.Due{}
	}
	workers, self := config.newWorkers(), config.describeSelf()
	for _, one := range workers {
		one.RegisterActivity(&activities.Activities{
			Ports: ports, Engine: Engine{config.Client, config.Engine}, Log: config.Log,
			Telemetry: config.Telemetry, Notify: config.Notify, Due: due, Self: self,
		})
	}
	member := fleet.Join(stores.Coordination, self, config.Log)
	config.Models.ShareWith(member)
	if err := startWorkers(workers); err != nil {
		left, gone := context.WithTimeout(context.Background(), leavePatience)
		defer gone()
		parser.Close()
		return nil, errors.Join(err, member.Leave(left))
	}
	host := &Host{workers: workers, ports: ports, parser: parser, drain: config.Drain, due: due, member: member}
	ctx, cancel := context.WithCancel(context.Background())
	host.endBeside = cancel
	if config.Telemetry != nil {
		looking := &watcher{
			artifacts: stores.Artifacts, runs: stores.Coordination, client: config.Client, queue: config.Engine.TaskQueue,
			certFile: config.Engine.TLSCert, telemetry: config.Telemetry, log: config.Log,
		}
		host.beside.Go(func() { looking.followIndexes(ctx) })
	}
	if err := startFollowing(ctx, &host.beside, config); err != nil {
		host.Stop()
		return nil, err
	}
	return host, nil
}

// startWorkers starts all workers or none.
func startWorkers(workers []worker.Worker) error {
	for i, one := range workers {
		if err := one.Start(); err != nil {
			stopWorkers(workers[:i])
			return err
		}
	}
	return nil
}

// stopWorkers stops workers side by side: each may wait for its activities as long as it may drain.
func stopWorkers(workers []worker.Worker) {
	var stopped sync.WaitGroup
	for _, one := range workers {
		stopped.Go(one.Stop)
	}
	stopped.Wait()
}

// ListProblems says what keeps a run from going on in this process and may be written down nowhere.
func (h *Host) ListProblems(work string) []core.Problem { return h.ports.ListProblems(work) }

// noticePatience is how long Stop of the only worker waits for the notices of what ended before; what is not
// sent by then is sent when it is started again.
const noticePatience = 5 * time.Second

// leavePatience is how long Stop waits for the store to hear that this worker is gone; else it hears nothing more of
// it, which comes to the same in some seconds.
const leavePatience = 3 * time.Second

// Stop takes no more work, lets activities go on for the drain time, then cancels them. What they paid for is kept:
// where it cannot be stored Stop waits for that once more as long.
func (h *Host) Stop() {
	h.endBeside()
	h.beside.Wait()
	bounded, end := context.WithTimeout(context.Background(), noticePatience)
	h.due.Wait(bounded)
	end()
	stopWorkers(h.workers)
	left, gone := context.WithTimeout(context.Background(), leavePatience)
	if err := h.member.Leave(left); err != nil {
		h.ports.Log.Warn("this worker gets its share of model concurrency in a few seconds",
			"code", string(fault.CodeOf(err)))
	}
	gone()
	defer h.parser.Close() // after what was paid for: a store that hangs may hold up a document
	ctx, cancel := context.WithTimeout(context.Background(), h.drain)
	defer cancel()
	if err := h.ports.Ledger.Drain(ctx); err != nil {
		h.ports.Log.Error("paid results are lost because they cannot be stored", "code", string(fault.CodeOf(err)))
	}
}

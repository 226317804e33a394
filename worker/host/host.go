// Package host runs a worker: it registers workflows and activities and drains when it is told to stop. The worker's
// main and the embedded stack are thin over it.
package host

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/unweaver/unweaver/activities"
	"github.com/unweaver/unweaver/internal/build"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/localfile"
	"github.com/unweaver/unweaver/internal/store/wiring"
	"github.com/unweaver/unweaver/workflows"
)

// Config of a worker.
type Config struct {
	Client    client.Client
	TaskQueue string
	Stores    *wiring.Stores
	Models    *wiring.Models
	CacheDir  string        // local copies of segments; empty: below the temporary folder
	Sticky    time.Duration // how long a workflow task waits for the worker that knows its workflow
	Heartbeat time.Duration // heartbeats go out at least this often; 0 = the engine's own rule
	Alone     bool          // the only worker: its activities need not go by the queue, which spreads them
	Drain     time.Duration // how long activities may go on after Stop
	Log       *slog.Logger
}

// Host is a running worker.
type Host struct{ w worker.Worker }

type engine struct{ c client.Client }

// Closed implements activities.Engine.
func (e engine) Closed(ctx context.Context, holder build.Holder) (bool, error) {
	response, err := e.c.DescribeWorkflowExecution(ctx, holder.Workflow, holder.Run)
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return response.WorkflowExecutionInfo.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

// Start starts a worker.
func Start(config Config) (*Host, error) {
	if config.CacheDir == "" {
		config.CacheDir = filepath.Join(os.TempDir(), "unweaver-worker-cache")
	}
	cache, err := localfile.New(config.CacheDir, 32<<30)
	if err != nil {
		return nil, err
	}
	ports := &build.Ports{
		Artifacts: config.Stores.Artifacts, Corpora: config.Stores.Corpus, Staging: config.Stores.Staging,
		Records: config.Stores.Records, Coordination: config.Stores.Coordination, Vectors: config.Stores.Vectors,
		Models:  config.Models.Build,
		Ledger:  ledger.New(config.Stores.Artifacts, config.Stores.Coordination),
		StoreID: config.Stores.StoreID, Cache: cache, CPU: make(chan struct{}, runtime.GOMAXPROCS(0)), Log: config.Log,
	}
	a := &activities.Activities{Ports: ports, Engine: engine{config.Client}, Log: config.Log}
	w := worker.New(
		config.Client,
		config.TaskQueue,
		worker.Options{
			MaxConcurrentActivityExecutionSize: 64,
			MaxConcurrentActivityTaskPollers:   4,
			MaxConcurrentWorkflowTaskPollers:   4,
			WorkerStopTimeout:                  config.Drain,
			MaxHeartbeatThrottleInterval:       config.Heartbeat,
			StickyScheduleToStartTimeout:       config.Sticky,
			DisableRegistrationAliasing:        true,
			DisableEagerActivities:             !config.Alone,
		},
	)
	workflows.Register(w)
	w.RegisterActivity(a)
	if err := w.Start(); err != nil {
		return nil, err
	}
	return &Host{w}, nil
}

// Stop takes no more work, lets activities go on for the drain time, then cancels them. What they paid for is kept.
func (h *Host) Stop() { h.w.Stop() }

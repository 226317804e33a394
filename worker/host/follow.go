package host

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/pipeline/hints"
	"github.com/unweaver/unweaver/internal/store/blob/s3"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/workflows"
)

// starter starts the builds that follow hints.
type starter struct {
	Engine
	queue     string
	settings  *config.Config
	heartbeat time.Duration
	known     func() bool // whether the engine knows the search attributes
}

var _ hints.Engine = starter{}

// StartBuild implements hints.Engine.
func (s starter) StartBuild(ctx context.Context, index, generation, spec, batch string) error {
	priority := s.settings.Priority(index)
	_, err := s.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: workflows.BuildID(index, generation), TaskQueue: s.queue,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		Priority: temporal.Priority{
			PriorityKey: priority.Level, FairnessKey: index, FairnessWeight: float32(priority.Weight),
		},
	}, workflows.BuildIndexName, workflows.Build{
		Index: index, Generation: generation, Spec: spec, Hints: batch, Heartbeat: s.heartbeat,
		Shape: workflows.DefaultShape(), SearchAttributes: s.known(),
	})
	var again *serviceerror.WorkflowExecutionAlreadyStarted
	if err == nil || errors.As(err, &again) {
		return nil
	}
	return engine.ToFault(err, config.Engine{Address: s.Address, Namespace: s.Namespace})
}

// following is what a worker does beside its tasks for indexes that follow hints.
type following struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// stop ends it; what was begun goes on in the engine, and is closed by the next process.
func (f *following) stop() {
	if f != nil {
		f.cancel()
		f.ended.Wait()
	}
}

// startFollowing begins to follow the hints of every index that is configured so; nil: there is none. Each worker does,
// and one at a time has an index.
func startFollowing(with Config) (*following, error) {
	if with.Freshness == nil || with.Role == RoleCPU {
		return nil, nil //nolint:nilnil // none is an answer
	}
	ctx, cancel := context.WithCancel(context.Background())
	out := &following{cancel: cancel}
	queues, any := map[string][]hints.Corpus{}, false
	runs := starter{
		Engine: Engine{with.Client, with.Address, with.Namespace}, queue: with.TaskQueue, settings: with.Freshness,
		heartbeat: with.BuildHeartbeat,
		known:     sync.OnceValue(func() bool { return Register(ctx, with.Client, with.Namespace, with.Log) }),
	}
	for name, settings := range with.Freshness.Indexes {
		from := settings.Freshness
		if from.Events == "" {
			continue
		}
		index := artifact.Index{Store: with.Stores.Artifacts, Name: name}
		if strings.HasPrefix(from.Events, "sqs://") {
			bucket, prefix, err := s3.Parse(settings.Corpus)
			if err != nil {
				cancel()
				return nil, err
			}
			if prefix != "" {
				prefix += "/"
			}
			queues[from.Events] = append(queues[from.Events], hints.Corpus{Index: index, Bucket: bucket, Prefix: prefix})
		}
		any = true
		collector := &hints.Collector{
			Index: index, Coordination: with.Stores.Coordination, Engine: runs, Owner: rand.Text(),
			Debounce: time.Duration(from.Debounce), Most: from.MostKeys, Log: with.Log,
			Published: func(index string, seconds float64) { with.observe(telemetry.HintSeconds, seconds, index) },
		}
		out.ended.Go(func() { collect(ctx, collector) })
	}
	for uri, corpora := range queues {
		queue, err := with.Stores.OpenQueue(ctx, uri)
		if err != nil {
			out.stop()
			return nil, err
		}
		follower := &hints.Follower{Queue: queue, Corpora: corpora, Log: with.Log, Ignored: func(count int) {
			if with.Telemetry != nil {
				with.Telemetry.Count(telemetry.HintsIgnored, float64(count))
			}
		}}
		out.ended.Go(func() { follower.Follow(ctx) })
	}
	if !any {
		cancel()
		return nil, nil //nolint:nilnil // as above
	}
	return out, nil
}

func (c Config) observe(name string, value float64, labels ...string) {
	if c.Telemetry != nil {
		c.Telemetry.Observe(name, value, labels...)
	}
}

// collect looks at the hints of an index until ctx is done: a few times while they are debounced. After an error it
// waits longer.
func collect(ctx context.Context, collector *hints.Collector) {
	every := min(max(collector.Debounce/4, 500*time.Millisecond), 5*time.Second)
	for {
		pause := every
		if err := advance(ctx, collector); err != nil && ctx.Err() == nil {
			collector.Log.Warn("hints are not followed", "index", collector.Index.Name, "error", err.Error())
			pause = 4 * every
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func advance(ctx context.Context, collector *hints.Collector) (err error) {
	defer parallel.CatchPanic(&err)
	return collector.Advance(ctx)
}

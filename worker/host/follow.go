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

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/pipeline/hints"
	"github.com/unweaver/unweaver/internal/store/blob/s3"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/workflows"
)

// starter starts the builds that follow hints.
type starter struct {
	Engine
	with  Config
	known func() bool // whether the engine knows the search attributes
}

var _ hints.Engine = starter{}

// StartBuild implements hints.Engine.
func (s starter) StartBuild(ctx context.Context, index, generation, spec string) error {
	priority := s.with.Freshness.Priority(index)
	_, err := engine.StartBuild(ctx, s.Client, s.with.TaskQueue, engine.NewPriority(
		index, priority.Level, priority.Weight,
	), enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, workflows.Build{
		Index: index, Generation: generation, Spec: spec, Heartbeat: s.with.BuildHeartbeat,
		Shape: workflows.DefaultShape(), SearchAttributes: s.known(),
	})
	var again *serviceerror.WorkflowExecutionAlreadyStarted
	if err == nil || errors.As(err, &again) {
		return nil
	}
	return engine.ToFault(err, config.Engine{Address: s.Address, Namespace: s.Namespace})
}

// startFollowing begins to follow the hints of every index that is configured so, beside the tasks of a worker. Each
// worker does, and one at a time has an index. stop ends it; what was begun goes on in the engine, and is closed by the
// next process.
func startFollowing(with Config) (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	stop = func() {
		cancel()
		running.Wait()
	}
	if with.Freshness == nil || with.Role == RoleCPU {
		return stop, nil
	}
	queues := map[string][]hints.Corpus{}
	runs := starter{Engine{with.Client, with.Address, with.Namespace}, with, sync.OnceValue(func() bool {
		return Register(ctx, with.Client, with.Namespace, with.Log)
	})}
	for name, settings := range with.Freshness.Indexes {
		from := settings.Freshness.Events
		if from == "" {
			continue
		}
		index := artifact.Index{Store: with.Stores.Artifacts, Name: name}
		if from != config.EventsWebhook {
			bucket, prefix, err := s3.Parse(settings.Corpus)
			if err != nil {
				stop()
				return nil, err
			}
			prefix = strings.TrimPrefix(prefix+"/", "/")
			queues[from] = append(queues[from], hints.Corpus{Index: index, Bucket: bucket, Prefix: prefix})
		}
		collector := &hints.Collector{
			Index: index, Coordination: with.Stores.Coordination, Engine: runs, Owner: rand.Text(),
			Debounce: time.Duration(settings.Freshness.Debounce), Log: with.Log,
			Observe: func(seconds float64) { with.Telemetry.Observe(telemetry.HintSeconds, seconds, name) },
		}
		running.Go(func() { collect(ctx, collector) })
	}
	for uri, corpora := range queues {
		queue, err := with.Stores.OpenQueue(ctx, uri)
		if err != nil {
			stop()
			return nil, err
		}
		follower := &hints.Follower{Queue: queue, Corpora: corpora, Log: with.Log}
		running.Go(func() { follower.Follow(ctx) })
	}
	return stop, nil
}

// collect looks at the hints of an index until ctx is done: a few times while they are debounced. After an error it
// waits longer.
func collect(ctx context.Context, collector *hints.Collector) {
	every := min(max(collector.Debounce/4, 500*time.Millisecond), 5*time.Second)
	for ctx.Err() == nil {
		pause := every
		err := func() (err error) {
			defer parallel.CatchPanic(&err)
			return collector.Advance(ctx)
		}()
		if err != nil && ctx.Err() == nil {
			collector.Log.Warn("hints are not followed", "index", collector.Index.Name, "error", err.Error())
			pause = 4 * every
		}
		_ = retry.Wait(ctx, pause) // the loop sees that it ended
	}
}

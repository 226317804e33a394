package host

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/pipeline/hints"
	"github.com/unweaver/unweaver/internal/store/blob/s3"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/workflows"
)

// startHinted starts a build that follows hints.
func startHinted(ctx context.Context, with Config, build workflows.Build) error {
	priority := with.Freshness.Priority(build.Index)
	_, err := engine.StartBuild(ctx, with.Client, with.Engine.TaskQueue,
		engine.NewPriority(build.Index, priority.Level, priority.Weight),
		enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, build)
	if err == nil || engine.Is[*serviceerror.WorkflowExecutionAlreadyStarted](err) {
		return nil
	}
	return engine.ToFault(err, with.Engine)
}

// startFollowing begins to follow the hints of every index that is configured so, beside the tasks of a worker. Each
// worker does, and one at a time has an index. The end of ctx ends it; what was begun goes on in the engine, and is
// closed by the next process.
func startFollowing(ctx context.Context, running *sync.WaitGroup, with Config) error {
	if with.Freshness == nil || with.Role == RoleCPU {
		return nil
	}
	known := sync.OnceValue(func() bool { return Register(ctx, with.Client, with.Engine.Namespace, with.Log) })
	followers := map[string]*hints.Follower{} // by the address of the queue
	for name, settings := range with.Freshness.Indexes {
		from, debounce := settings.Freshness.Events, time.Duration(settings.Freshness.Debounce)
		if from == "" {
			continue
		}
		index := artifact.Index{Store: with.Stores.Artifacts, Name: name}
		if from != config.EventsWebhook {
			if followers[from] == nil {
				queue, err := with.Stores.OpenQueue(ctx, from)
				if err != nil {
					return err
				}
				followers[from] = &hints.Follower{Queue: queue, Log: with.Log}
			}
			bucket, prefix, err := s3.Parse(settings.Corpus)
			if err != nil {
				return err
			}
			corpus := hints.Corpus{Index: index, URI: "s3://" + bucket + "/" + prefix} // no sign is escaped, as in events
			followers[from].Corpora = append(followers[from].Corpora, corpus)
		}
		collector := &hints.Collector{
			Index: index, Coordination: with.Stores.Coordination, Owner: rand.Text(), Debounce: debounce,
			Now: time.Now, Describe: Engine{with.Client, with.Engine}.DescribeRun,
			Start: func(ctx context.Context, generation, spec string) error {
				return startHinted(ctx, with, workflows.Build{
					Index: name, Generation: generation, Spec: spec, Heartbeat: with.BuildHeartbeat,
					Shape: workflows.DefaultShape(), SearchAttributes: known(),
				})
			},
			Observe: func(seconds float64) { with.Telemetry.Observe(telemetry.HintSeconds, seconds, name) },
		}
		every := min(max(debounce/4, 500*time.Millisecond), 5*time.Second)
		running.Go(func() { repeat(ctx, every, with.Log.With("index", name), collector.Advance) })
	}
	for uri, follower := range followers {
		running.Go(func() { repeat(ctx, 0, with.Log.With("queue", uri), follower.Advance) })
	}
	return nil
}

// repeat calls advance every so often until ctx is done. After errors, which it logs, it waits twice as long each time,
// a minute at most.
func repeat(ctx context.Context, every time.Duration, log *slog.Logger, advance func(context.Context) error) {
	for pause := every; ctx.Err() == nil; _ = retry.Wait(ctx, pause) { // the loop sees that it ended
		err := func() (err error) {
			defer parallel.CatchPanic(&err)
			return advance(ctx)
		}()
		if err == nil || ctx.Err() != nil {
			pause = every
			continue
		}
		log.Warn("hints are not followed", "code", string(fault.CodeOf(err)), "error", err.Error())
		pause = min(max(2*pause, 2*time.Second), time.Minute)
	}
}

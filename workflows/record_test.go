package workflows_test

import (
	"compress/gzip"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/unweaver/unweaver/workflows"
	"github.com/unweaver/unweaver/workflows/visibility"
)

// recorder runs the workflows on a real server, with fakes under the activities' names, and stores what they did.
type recorder struct {
	t      *testing.T
	client client.Client
	dir    string
	stored map[string]int
}

// TestRecordHistories writes testdata/histories anew: see the README there. It is no test of the program.
func TestRecordHistories(t *testing.T) {
	address := os.Getenv("UNWEAVER_RECORD_TEMPORAL")
	if address == "" {
		t.Skip("UNWEAVER_RECORD_TEMPORAL is not set")
	}
	c, err := client.Dial(client.Options{
		HostPort: address, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := visibility.Register(t.Context(), c.OperatorService(), "default"); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) { // the server's own caches
		if ok, err := visibility.Registered(t.Context(), c.OperatorService(), "default"); ok {
			break
		} else if time.Since(begin) > time.Minute {
			t.Fatal(err)
		}
	}
	r := &recorder{t, c, histories, map[string]int{}}
	if dir := os.Getenv("UNWEAVER_RECORD_HISTORIES"); dir != "" {
		r.dir = dir
	}
	r.builds()
	r.pauses()
	r.waits()
	r.ends()
}

func (r *recorder) builds() {
	attributes := workflows.Build{SearchAttributes: true}
	f := newFake(130, 64)
	f.imports = true
	r.record("first-build", f, attributes, nil)
	f = newFake(20)
	f.planned = workflows.Planned{Units: 1, Documents: 3}
	r.record("night", f, attributes, nil)
	f = newFake()
	f.planned = workflows.Planned{Unchanged: true}
	r.record("unchanged", f, attributes, nil)
	r.record("small-shape", newFake(30, 30), workflows.Build{Shape: workflows.Shape{
		Format: 1, ShardChunks: 30, BatchChunks: 7, ShardWindow: 2, Windows: workflows.Windows{Extract: 1, Embed: 3},
	}}, nil)
	shards := make([]int, 200)
	for i := range shards {
		shards[i] = 10
	}
	r.record("large", newFake(shards...), attributes, nil)
	r.record("full", newFake(5000), attributes, nil)
	f = newFake(5000, 5000, 5000, 5000)
	f.capacity = workflows.Capacity{Workers: 1, Slots: 4, CPU: 2, Chat: 64} // it grows by the first look that follows
	f.before = func(call string) {
		if strings.HasPrefix(call, workflows.ExtractChunks) {
			time.Sleep(time.Second)
		}
		if call == workflows.ExtractChunks+" 0/10" {
			f.grows(workflows.Capacity{Workers: 4, Slots: 256, CPU: 8, Chat: 256})
		}
	}
	r.record("fleet", f, attributes, nil)
	f = newFake(130, 64)
	f.capacity = workflows.Capacity{Workers: 1, Slots: 64, CPU: 2, Computing: 2, Chat: 64}
	f.planned = workflows.Planned{Units: 20, Documents: 100}
	r.record("queues", f, attributes, nil)
	f = newFake(130, 64)
	f.fail[workflows.SealChunks] = []error{fatal("outgrown")}
	r.record("outgrown", f, attributes, nil)
	f = newFake()
	f.planned = workflows.Planned{Documents: 0}
	r.record("deletions", f, attributes, nil)
	r.record("audit", newFake(), workflows.Build{Generation: "audit-1", SearchAttributes: true}, nil)
	r.record("nightly", newFake(20), workflows.Build{Generation: "nightly", SearchAttributes: true}, nil)
	f = newFake()
	f.builder = "nightly-skipped/g7"
	r.record("nightly-skipped", f, workflows.Build{Generation: "nightly", SearchAttributes: true}, nil)
	r.record("restore", newFake(), workflows.Build{Generation: "restore-1", SearchAttributes: true}, nil)
}

func (r *recorder) pauses() {
	f := newFake(64*20, 64*20)
	f.before = func(call string) {
		if strings.HasPrefix(call, workflows.ExtractChunks) {
			time.Sleep(50 * time.Millisecond)
		}
	}
	f.pauses = true
	r.record("pause-resume", f, workflows.Build{SearchAttributes: true}, func(id string) {
		r.until(func() bool { return f.count(workflows.ExtractChunks) > 10 })
		r.update(id, workflows.UpdatePause)
		r.until(func() bool { return f.lastEnd().Status == "paused" })
		r.update(id, workflows.UpdateResume, workflows.Resume{})
	})
	f = newFake(64*4, 64)
	f.fail = map[string][]error{"ExtractChunks 0/2": {fatal("model_auth")}, "SealShard 1": {fatal("store_denied")}}
	r.record("model-refused", f, workflows.Build{}, func(id string) {
		r.until(func() bool { return f.lastEnd().Status == "paused" })
		r.update(id, workflows.UpdateResume, workflows.Resume{})
	})
	f = newFake(64 * 4)
	f.fail["EmbedPart 1"] = []error{fatal("budget_spent")}
	r.record("budget", f, workflows.Build{}, func(id string) {
		r.until(func() bool { return f.lastEnd().Status == "paused" })
		r.update(id, workflows.UpdateResume, workflows.Resume{Budget: &workflows.Budget{Calls: 100}})
	})
	f = newFake()
	f.fail["RestorePart 1"] = []error{fatal("store_denied")}
	r.record("restore-pause", f, workflows.Build{Generation: "restore-2"}, func(id string) {
		r.until(func() bool { return f.lastEnd().Status == "paused" })
		r.update(id, workflows.UpdateResume, workflows.Resume{})
	})
}

// waits are those of a run that waits by itself, and a pause that is taken back while units drain.
func (r *recorder) waits() {
	f := newFake(64 * 4)
	f.fails("ExtractChunks 0/1", "store_unavailable", 2)
	f.fails(workflows.CollectGarbage, "store_unavailable", 1)
	r.record("outage", f, workflows.Build{SearchAttributes: true}, func(id string) {
		r.until(func() bool { delays, _ := f.noted(); return len(delays) == 2 })
		r.update(id, workflows.UpdateResume, workflows.Resume{})
	})
	f = newFake(64*20, 64*20)
	f.before = func(call string) {
		if strings.HasPrefix(call, workflows.ExtractChunks) {
			time.Sleep(300 * time.Millisecond)
		}
	}
	f.pauses = true
	r.record("pause-taken-back", f, workflows.Build{}, func(id string) {
		r.until(func() bool { return f.count(workflows.ExtractChunks) > 10 })
		r.update(id, workflows.UpdatePause)
		r.update(id, workflows.UpdateResume, workflows.Resume{})
	})
}

func (r *recorder) ends() {
	f := newFake(130)
	f.fail["ReducePartition 1"] = []error{fatal("segment_damaged")}
	r.record("failure", f, workflows.Build{}, nil)
	f = newFake(130)
	f.fail["PlanBuild"] = []error{fatal("corpus_empty")}
	r.record("failure-plan", f, workflows.Build{}, nil)
	f = newFake(64 * 20)
	f.before = func(call string) {
		if strings.HasPrefix(call, workflows.ExtractChunks) {
			time.Sleep(100 * time.Millisecond)
		}
	}
	r.record("cancel", f, workflows.Build{SearchAttributes: true}, func(id string) {
		r.until(func() bool { return f.count(workflows.ExtractChunks) > 3 })
		r.update(id, workflows.UpdateCancel)
	})
	f = newFake(64)
	f.fail["PublishBuild"] = []error{fatal("store_denied")}
	r.record("cancel-paused", f, workflows.Build{}, func(id string) {
		r.until(func() bool { return f.lastEnd().Status == "paused" })
		r.update(id, workflows.UpdateCancel)
	})
}

// record runs a build or a restore to its end and stores the histories of it, its stages and its first shards.
func (r *recorder) record(kind string, f *fake, build workflows.Build, steer func(id string)) {
	r.t.Helper()
	if only := os.Getenv("UNWEAVER_RECORD_ONLY"); only != "" && !slices.Contains(strings.Split(only, ","), kind) {
		return
	}
	name, queue := workflows.BuildIndexName, "record-"+kind
	if build.Generation == "" {
		build.Generation = "g"
	} else if strings.HasPrefix(build.Generation, workflows.AuditGeneration) {
		name = workflows.AuditName
	} else if build.Generation == "nightly" {
		name = workflows.NightlyName
	} else {
		name = workflows.RestoreName
	}
	start := time.Now()
	defer func() { r.t.Logf("%s: %s", kind, time.Since(start).Round(time.Millisecond)) }()
	build.Index, build.Spec, build.Heartbeat = kind, strings.Repeat("0", 64), time.Minute
	if build.Shape == (workflows.Shape{}) {
		build.Shape = workflows.DefaultShape()
	}
	w := worker.New(r.client, queue, worker.Options{DisableRegistrationAliasing: true})
	workflows.Register(w)
	f.register(w)
	if err := w.Start(); err != nil {
		r.t.Fatal(err)
	}
	defer w.Stop()
	computing := worker.New(r.client, workflows.ComputingQueue(queue), worker.Options{
		DisableRegistrationAliasing: true, DisableWorkflowWorker: true,
	})
	f.register(computing)
	if err := computing.Start(); err != nil {
		r.t.Fatal(err)
	}
	defer computing.Stop()
	id := workflows.WorkflowID(build.Index + "/" + build.Generation)
	options := client.StartWorkflowOptions{ID: id, TaskQueue: queue}
	var input any = build
	switch name {
	case workflows.AuditName:
		input = workflows.Audited{Build: build, Part: 2, Of: 7}
	case workflows.NightlyName:
		input = workflows.Night{Build: build, Skip: true, Level: 2, Weight: 1}
		options.ID = workflows.ScheduleID(kind)
	}
	id = options.ID
	begun, err := r.client.ExecuteWorkflow(r.t.Context(), options, name, input)
	if err != nil {
		r.t.Fatal(err)
	}
	if steer != nil {
		steer(id)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	if err := begun.Get(ctx, nil); errors.Is(err, context.DeadlineExceeded) {
		r.t.Fatalf("%s did not end", kind)
	}
	r.store(kind, &common.WorkflowExecution{WorkflowId: id, RunId: begun.GetRunID()}, name)
}

// store writes a run's history, and those of the child workflows that it started.
func (r *recorder) store(kind string, run *common.WorkflowExecution, name string) {
	r.t.Helper()
	events := r.client.GetWorkflowHistory(
		r.t.Context(), run.GetWorkflowId(), run.GetRunId(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	stored := &history.History{}
	shards := 0
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			r.t.Fatal(err)
		}
		stored.Events = append(stored.Events, event)
		started := event.GetChildWorkflowExecutionStartedEventAttributes()
		if started == nil {
			continue
		}
		if started.GetWorkflowType().GetName() == workflows.ShardName {
			if shards++; shards == 1 && kind != "large" {
				r.store(kind, started.GetWorkflowExecution(), workflows.ShardName)
			}
			continue
		}
		if started.GetWorkflowType().GetName() == workflows.BuildIndexName { // of a night
			r.store(kind, started.GetWorkflowExecution(), workflows.BuildIndexName)
			continue
		}
		stage := strings.TrimPrefix(started.GetWorkflowExecution().GetWorkflowId(), run.GetWorkflowId()+"/")
		r.store(kind, started.GetWorkflowExecution(), workflows.StageName+"-"+strings.ReplaceAll(stage, "/", "-"))
	}
	raw, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(stored)
	if err != nil {
		r.t.Fatal(err)
	}
	name = kind + "." + name
	if r.stored[name]++; r.stored[name] > 1 { // a shard that was gone on with
		name += "-" + strconv.Itoa(r.stored[name])
	}
	file, err := os.Create(filepath.Join(r.dir, name+".json.gz"))
	if err != nil {
		r.t.Fatal(err)
	}
	zipped, _ := gzip.NewWriterLevel(file, gzip.BestCompression)
	_, err = zipped.Write(raw)
	if err := errors.Join(err, zipped.Close(), file.Close()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *recorder) update(id, name string, input ...any) {
	r.t.Helper()
	handle, err := r.client.UpdateWorkflow(r.t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: name, Args: input, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(r.t.Context(), nil)
	}
	if err != nil {
		r.t.Fatal(name, err)
	}
}

func (r *recorder) until(reached func() bool) {
	r.t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(10 * time.Millisecond) {
		if reached() {
			return
		}
	}
	r.t.Fatal("it never came so far")
}

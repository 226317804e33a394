package workflows_test

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/workflows"
)

// recorder runs the workflows on a real server, with fakes under the activities' names, and stores what they did.
type recorder struct {
	*testing.T
	client client.Client
}

// TestRecordHistories writes testdata/histories again (make histories). It tests nothing of the program.
func TestRecordHistories(t *testing.T) {
	if os.Getenv("UNWEAVER_RECORD_HISTORIES") == "" {
		t.Skip("UNWEAVER_RECORD_HISTORIES is not set")
	}
	binary := musttest.Get(exec.LookPath(cmp.Or(os.Getenv("UNWEAVER_TEMPORAL"), "temporal")))(t)
	server := musttest.Get(testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{
		ExistingPath:  binary,
		ClientOptions: &client.Options{Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))},
		SearchAttributes: temporal.NewSearchAttributes(
			workflows.IndexAttribute.ValueSet(""), workflows.GenerationAttribute.ValueSet(""),
			workflows.StageAttribute.ValueSet(""), workflows.StatusAttribute.ValueSet("")),
		ExtraArgs: []string{"--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=400"}, // else 4,096
	}))(t)
	t.Cleanup(func() { _ = server.Stop() })
	r := recorder{t, server.Client()}
	require.NoError(t, errors.Join(os.RemoveAll(histories), os.MkdirAll(histories, 0o755)))
	r.completes()
	r.fleet()
	r.pauses()
	r.ends()
	r.others()
}

// completes records a build of 200 shards that does everything a build may do: no history of it grows with them but
// those of stages, which continue as new.
func (r recorder) completes() {
	shards := make([]int, 200)
	for i := range shards {
		shards[i] = 10
	}
	f := newFake(shards...)
	f.planned = workflows.Planned{Units: 200, Documents: 2000, Repair: 2}
	f.capacity = workflows.Capacity{Workers: 1, Slots: 64, CPU: 2, Computing: 2, Chat: 64}
	f.imports, f.batch, f.pieces, f.enrich, f.notify = true, true, 3, 2, true
	built := r.record("completed", f, workflows.BuildIndexName, workflows.Build{Index: "completed"}, nil)
	r.store("continued", r.child(built, workflows.StageName, "/chunk"))
	notice := r.child(built, workflows.NotifyName, "")
	r.finish(notice)
	r.store("completed", notice)
}

func (r recorder) fleet() {
	f := newFake(5000, 5000, 5000, 5000)
	f.capacity = workflows.Capacity{Workers: 1, Slots: 4, CPU: 2, Chat: 64}
	f.before = func(call string) {
		if strings.HasPrefix(call, workflows.ExtractChunks) {
			time.Sleep(time.Second)
		}
		if call == workflows.ExtractChunks+" 0/10" { // before the first look that follows
			f.grows(workflows.Capacity{Workers: 4, Slots: 256, CPU: 8, Chat: 256})
		}
	}
	build := r.run(f, workflows.BuildIndexName, workflows.Build{Index: "fleet"}, nil)
	stage := r.child(build, workflows.StageName, "/extract")
	r.store("completed", stage)
	r.store("completed", r.child(stage, workflows.ShardName, "/s-00000"))
}

// pauses records a build that begins again, is paused amid extraction and resumed, waits for a store, spends its budget
// and is given another, and cannot collect; and a backfill that is paused and resumed.
func (r recorder) pauses() {
	f := newFake(64*20, 64*20)
	f.before = func(call string) {
		if strings.HasPrefix(call, workflows.ExtractChunks) {
			time.Sleep(50 * time.Millisecond)
		}
	}
	f.pauses = true
	f.fail[workflows.SealChunks] = []error{fatal("outgrown")}
	f.fails("LoadPart 1", "store_unavailable", 1)
	f.fail["VerifyPart 1"] = []error{fatal("budget_spent")}
	f.fail[workflows.CollectGarbage] = []error{fatal("store_denied")}
	built := r.record("paused", f, workflows.BuildIndexName, workflows.Build{Index: "paused"}, func(id string) {
		r.until(func() bool { return f.count(workflows.ExtractChunks) > 10 })
		r.update(id, workflows.UpdatePause)
		r.until(func() bool { return f.lastEnd().Reason == "paused" })
		r.update(id, workflows.UpdateResume, workflows.Resume{})
		r.until(func() bool { delays, _ := f.noted(); return len(delays) == 1 })
		r.update(id, workflows.UpdateResume, workflows.Resume{})
		r.until(func() bool { return f.lastEnd().Reason == "budget_spent" })
		r.update(id, workflows.UpdateResume, workflows.Resume{Budget: &workflows.Budget{Calls: 100}})
	})
	stage := r.child(built, workflows.StageName, "/extract/retry-01")
	r.store("paused", stage)
	r.store("paused", r.child(stage, workflows.ShardName, "/s-00000"))
	b := newFilling()
	b.fail["PayBackfill 1"] = []error{fatal("model_auth")}
	backfill := workflows.Build{Index: "filled", Generation: "backfill-old-1", Backfill: "old"}
	r.record("paused", b, workflows.BackfillName, backfill, func(id string) {
		r.until(func() bool { return b.lastEnd().Status == "paused" })
		r.update(id, workflows.UpdateResume, workflows.Resume{})
	})
}

func (r recorder) ends() {
	f := newFake(64)
	f.outcome = workflows.Outcome{Status: "held", Reason: "recall"}
	r.record("held", f, workflows.BuildIndexName, workflows.Build{Index: "held"}, nil)
	f = newFake(130)
	f.fail["ReducePartition 1"] = []error{fatal("segment_damaged")}
	r.record("failed", f, workflows.BuildIndexName, workflows.Build{Index: "failed"}, nil)
	f = newFake(64 * 20)
	f.before = func(call string) {
		if strings.HasPrefix(call, workflows.ExtractChunks) {
			time.Sleep(100 * time.Millisecond)
		}
	}
	r.record("cancelled", f, workflows.BuildIndexName, workflows.Build{Index: "cancelled"}, func(id string) {
		r.until(func() bool { return f.count(workflows.ExtractChunks) > 3 })
		r.update(id, workflows.UpdateCancel)
	})
}

func (r recorder) others() {
	restore := workflows.Build{Index: "restored", Generation: "restore-1"}
	r.record("completed", newFake(), workflows.RestoreName, restore, nil)
	r.record("completed", newFake(), workflows.AuditName, workflows.Build{Index: "audited", Generation: "audit-1"}, nil)
	r.record("completed", newFake(20), workflows.NightlyName, workflows.Build{Index: "nightly"}, nil)
}

func (r recorder) record(
	end string, f registrar, name string, build workflows.Build, steer func(id string),
) *common.WorkflowExecution {
	run := r.run(f, name, build, steer)
	r.store(end, run)
	return run
}

func (r recorder) run(
	f registrar, name string, build workflows.Build, steer func(id string),
) *common.WorkflowExecution {
	queue := "record-" + build.Index
	build.Generation = cmp.Or(build.Generation, "g")
	build.Spec, build.Heartbeat, build.SearchAttributes = strings.Repeat("0", 64), time.Minute, true
	build.Shape = workflows.DefaultShape()
	for _, taking := range []struct {
		queue   string
		options worker.Options
	}{{queue, worker.Options{}}, {workflows.ComputingQueue(queue), worker.Options{DisableWorkflowWorker: true}}} {
		w := worker.New(r.client, taking.queue, taking.options)
		if !taking.options.DisableWorkflowWorker {
			workflows.Register(w)
		}
		f.register(w)
		require.NoError(r, w.Start())
		r.Cleanup(w.Stop) // a notice outlives its run
	}
	options := client.StartWorkflowOptions{ID: workflows.WorkflowID(build.Index + "/" + build.Generation), TaskQueue: queue}
	var input any = build
	switch name {
	case workflows.AuditName:
		input = workflows.Audited{Build: build, Part: 2, Of: 7}
	case workflows.NightlyName:
		input, options.ID = workflows.Night{Build: build, Level: 2, Weight: 1}, workflows.ScheduleID(build.Index)
	}
	begun := musttest.Get(r.client.ExecuteWorkflow(r.Context(), options, name, input))(r)
	if steer != nil {
		steer(options.ID)
	}
	run := &common.WorkflowExecution{WorkflowId: options.ID, RunId: begun.GetRunID()}
	r.finish(run)
	return run
}

func (r recorder) finish(run *common.WorkflowExecution) {
	r.Helper()
	ctx, done := context.WithTimeout(r.Context(), 3*time.Minute)
	defer done()
	_ = r.client.GetWorkflow(ctx, run.GetWorkflowId(), run.GetRunId()).Get(ctx, nil)
	if ctx.Err() != nil {
		r.Fatalf("%s does not end", run.GetWorkflowId())
	}
}

func (r recorder) history(run *common.WorkflowExecution) *history.History {
	read := &history.History{}
	events := r.client.GetWorkflowHistory(
		r.Context(), run.GetWorkflowId(), run.GetRunId(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		read.Events = append(read.Events, musttest.Get(events.Next())(r))
	}
	return read
}

func (r recorder) child(of *common.WorkflowExecution, name, ending string) *common.WorkflowExecution {
	r.Helper()
	for _, event := range r.history(of).GetEvents() {
		begun := event.GetChildWorkflowExecutionStartedEventAttributes()
		if child := begun.GetWorkflowExecution(); begun.GetWorkflowType().GetName() == name &&
			strings.HasSuffix(child.GetWorkflowId(), ending) {
			return child
		}
	}
	r.Fatalf("%s has no child %s …%s", of.GetWorkflowId(), name, ending)
	return nil
}

// store writes a run's history under the way it ended and its workflow type.
func (r recorder) store(end string, run *common.WorkflowExecution) {
	recorded := r.history(run)
	raw := musttest.Get(temporalproto.CustomJSONMarshalOptions{}.Marshal(recorded))(r)
	file := musttest.Get(os.Create(filepath.Join(histories, end+"."+typeOf(recorded)+".json.gz")))(r)
	zipped, _ := gzip.NewWriterLevel(file, gzip.BestCompression)
	_, err := zipped.Write(raw)
	require.NoError(r, errors.Join(err, zipped.Close(), file.Close()))
}

func (r recorder) update(id, name string, input ...any) {
	handle, err := r.client.UpdateWorkflow(r.Context(), client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: name, Args: input, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(r.Context(), nil)
	}
	require.True(r, err == nil, "%v %v", name, err)
}

func (r recorder) until(reached func() bool) {
	r.Helper()
	musttest.Reach(r, "a moment to record", reached)
}

const histories = "testdata/histories"

func recorded(t *testing.T) map[string]*history.History { return musttest.Get(stored())(t) }

var stored = sync.OnceValues(func() (map[string]*history.History, error) {
	paths, err := filepath.Glob(filepath.Join(histories, "*.json.gz"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no histories in %s: run make histories", histories)
	}
	all := map[string]*history.History{}
	for _, path := range paths {
		recorded, err := read(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".json.gz")] = recorded
	}
	return all, nil
})

func read(path string) (*history.History, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	return client.HistoryFromJSON(unzipped, client.HistoryJSONOptions{})
}

func replay(t *testing.T, recorded *history.History) error {
	replayer := musttest.Get(worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{}))(t)
	workflows.Register(replayer)
	id := recorded.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowId()
	return replayer.ReplayWorkflowHistoryWithOptions(log.NewStructuredLogger(slog.New(slog.DiscardHandler)), recorded,
		worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: id}})
}

// Promises: 27.
func TestRecordedRunsReplay(t *testing.T) {
	for name, recorded := range recorded(t) {
		if err := replay(t, recorded); err != nil {
			t.Errorf("%s: runs that have begun would fail with this code: %v\nput the change behind a version, "+
				"see versions.go", name, err)
		}
	}
}

func reshaped[Input any](t *testing.T, recorded *history.History, change func(*Input)) *history.History {
	changed := proto.Clone(recorded).(*history.History)
	started := changed.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes()
	var input Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(started.GetInput(), &input))
	change(&input)
	started.Input = musttest.Get(converter.GetDefaultDataConverter().ToPayloads(input))(t)
	return changed
}

// Two workers with other built-in values must give the same commands: the input's shape decides, and nothing else.
func TestTheShapeOfTheInputDecidesTheCommands(t *testing.T) {
	for name, c := range map[string]struct {
		history string
		change  func(*workflows.Shape)
		same    bool
	}{
		"stage, as it was":      {"completed.Stage", func(*workflows.Shape) {}, true},
		"shard, as it was":      {"completed.ExtractShard", func(*workflows.Shape) {}, true},
		"shard, larger batches": {"completed.ExtractShard", func(s *workflows.Shape) { s.BatchChunks = 100 }, false},
	} {
		changed := recorded(t)[c.history]
		if typeOf(changed) == workflows.StageName {
			changed = reshaped(t, changed, func(in *workflows.StageInput) { c.change(&in.Shape) })
		} else {
			changed = reshaped(t, changed, func(in *workflows.ShardInput) { c.change(&in.Shape) })
		}
		err := replay(t, changed)
		assert.Equal(t, c.same, err == nil, "%s: replays: %v", name, err)
	}
}

type types struct {
	worker.WorkflowRegistry
	found map[string]bool
}

func (t types) RegisterWorkflowWithOptions(_ any, options workflow.RegisterOptions) {
	t.found[options.Name] = false
}

func typeOf(recorded *history.History) string {
	return recorded.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName()
}

// Every type of workflow, and every way in which one ends, must be among the histories: replaying only the simplest
// would prove little.
func TestRecordedRunsAreOfEveryTypeAndEnd(t *testing.T) {
	known := types{found: map[string]bool{}}
	workflows.Register(known)
	all := recorded(t)
	for _, recorded := range all {
		known.found[typeOf(recorded)] = true
	}
	for name, found := range known.found {
		assert.True(t, found, "no history of a workflow %s: make histories", name)
	}
	for name, ends := range map[string]enums.EventType{
		"completed.BuildIndex":   enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
		"completed.Stage":        enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
		"completed.ExtractShard": enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
		"continued.Stage":        enums.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
		"held.BuildIndex":        enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
		"failed.BuildIndex":      enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
		"cancelled.BuildIndex":   enums.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
		"paused.BuildIndex":      enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
		"paused.Stage":           enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
		"paused.ExtractShard":    enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
	} {
		events := all[name].GetEvents()
		if len(events) == 0 {
			t.Errorf("no history %s: make histories", name)
		} else if last := events[len(events)-1].GetEventType(); last != ends {
			t.Errorf("%s ends by %s, want %s", name, last, ends)
		}
	}
}

// The server ends a run at 51,200 events and asks for continue-as-new at 4,096.
func TestHistoriesStaySmall(t *testing.T) {
	all := recorded(t)
	for name, most := range map[string]int{
		"completed.BuildIndex":   300,  // 200 shards; everything that grows with the corpus is in stages
		"completed.Stage":        300,  // four shards, three looks at the fleet
		"completed.ExtractShard": 1000, // 79 batches
	} {
		events := len(all[name].GetEvents())
		t.Logf("%s: %d events", name, events)
		assert.True(t, events != 0 && events <= most, "%s has %d events, want 1 to %d", name, events, most)
	}
}

package e2e

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"

	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/workflows"
)

// keeper stores histories of runs where workflows/testdata/histories/README.md says.
type keeper struct {
	t      *testing.T
	dir    string
	stored map[string]int
}

// TestRecordHistories stores what real runs do, for the replay test of workflows. It is no test of the program.
func TestRecordHistories(t *testing.T) {
	dir := os.Getenv("UNWEAVER_RECORD_HISTORIES")
	if dir == "" {
		t.Skip("UNWEAVER_RECORD_HISTORIES is not set")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{t, dir, map[string]int{}}
	t.Run("builds", k.builds)
	t.Run("pause and cancel", k.pauses)
	t.Run("failure", k.failure)
	t.Run("backfill", k.backfill)
	t.Run("batches", k.batches)
}

func (k *keeper) builds(t *testing.T) {
	docs := copySample(t)
	sp := spec(t, "recorded", docs, nil)
	k.keep("real-first-build", completed(t, index(t, shared.Control, sp)).Run)
	k.keep("real-unchanged", completed(t, index(t, shared.Control, sp)).Run)
	writeFile(t, filepath.Join(docs, "more.txt"), "Another document\n\nIt came in the night.")
	k.keep("real-night", completed(t, index(t, shared.Control, sp)).Run)
	restored, err := shared.Control.Restore(t.Context(), "recorded")
	if err != nil {
		t.Fatal(err)
	}
	completed(t, wait(t, shared.Control, restored.Run))
	k.keep("real-restore", restored.Run)
}

func (k *keeper) pauses(t *testing.T) {
	server := serve(t, modeltest.Options{Latency: 100 * time.Millisecond})
	sp := spec(t, "recorded-pause", copySample(t), server, "models.limits.concurrency=8")
	for _, kind := range []string{"real-pause-resume", "real-cancel"} {
		begun, err := shared.Control.Index(t.Context(), service.IndexRequest{
			Spec: sp, Generation: fmt.Sprintf("g%d", time.Now().UnixNano()),
		})
		if err != nil {
			t.Fatal(err)
		}
		extracting(t, begun.Run)
		if _, err := shared.Control.Pause(t.Context(), begun.Run); err != nil {
			t.Fatal(err)
		}
		if status := wait(t, shared.Control, begun.Run); status.Status != core.StatusPaused {
			t.Fatalf("%+v", status.Report)
		}
		if kind == "real-cancel" {
			_, err = shared.Control.Cancel(t.Context(), begun.Run)
		} else {
			err = shared.Control.Resume(t.Context(), begun.Run, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		for begin := time.Now(); !core.Terminal(wait(t, shared.Control, begun.Run).Status); {
			if time.Since(begin) > 2*time.Minute {
				t.Fatal("it did not go on")
			}
		}
		k.keep(kind, begun.Run)
		sp = spec(t, "recorded-cancel", copySample(t), server, "models.limits.concurrency=8", "models.chat.model=other")
	}
}

func (k *keeper) failure(t *testing.T) {
	status := index(t, shared.Control, spec(t, "recorded-failure", write(t, map[string]string{}), nil))
	if status.Status != core.StatusFailed {
		t.Fatalf("%+v", status.Report)
	}
	k.keep("real-failure", status.Run)
}

// backfill is one that is paused and resumed amid its payments.
func (k *keeper) backfill(t *testing.T) {
	docs := copySample(t)
	held := &gates{}
	server := serve(t, modeltest.Options{Script: held.script})
	t.Cleanup(held.opened)
	completed(t, index(t, shared.Control, spec(t, "recorded-backfill", docs, server)))
	for n := range 6 {
		writeFile(t, filepath.Join(docs, fmt.Sprintf("archive-%d.txt", n)), fmt.Sprintf("Letter number %d, to Carla Ruiz.", n))
	}
	letter := held.hold("Letter number 3")
	named := service.BackfillNamed{Index: "recorded-backfill", Name: "archive"}
	_, err := shared.Control.Backfill(t.Context(), service.BackfillRequest{
		Index: named.Index, Name: named.Name, Choice: core.BackfillChoice{Prefix: "archive-"},
	})
	must(t, err)
	<-letter.arrived
	must(t, shared.Control.PauseBackfill(t.Context(), named))
	letter.release()
	control := func() *service.Service { return shared.Control }
	backfilled(t, control, named, func(one core.Backfill) bool { return one.Status == core.StatusPaused })
	must(t, shared.Control.ResumeBackfill(t.Context(), named))
	end := backfilled(t, control, named, func(one core.Backfill) bool { return core.Terminal(one.Status) })
	if end.Status != core.StatusCompleted {
		t.Fatalf("%+v", end)
	}
	k.keep("real-backfill", workflows.BackfillRun(named.Index, named.Name))
}

// extracting waits until a run has asked its model something.
func extracting(t *testing.T, run string) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(20 * time.Millisecond) {
		if status, err := shared.Control.Status(t.Context(), run); err == nil && status.Stage == "extract" &&
			status.Calls.Extract > 0 {
			return
		}
	}
	t.Fatal("it never came to extraction")
}

// keep stores the histories of a run that has ended, once the engine has closed it.
func (k *keeper) keep(kind, run string) {
	k.t.Helper()
	id := workflows.WorkflowID(run)
	name := workflows.BuildIndexName
	if strings.HasPrefix(id, "restore/") {
		name = workflows.RestoreName
	}
	if strings.HasPrefix(id, "backfill/") {
		name = workflows.BackfillName
	}
	// Closed or cancelled alike: only that nothing comes after.
	_ = shared.Control.Client.(client.Client).GetWorkflow(k.t.Context(), id, "").Get(k.t.Context(), nil)
	k.store(kind, &common.WorkflowExecution{WorkflowId: id}, name)
}

func (k *keeper) store(kind string, run *common.WorkflowExecution, name string) {
	k.t.Helper()
	events := shared.Control.Client.(client.Client).GetWorkflowHistory(
		k.t.Context(), run.GetWorkflowId(), run.GetRunId(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	stored := &history.History{}
	shards := 0
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			k.t.Fatal(err)
		}
		stored.Events = append(stored.Events, event)
		started := event.GetChildWorkflowExecutionStartedEventAttributes()
		switch {
		case started == nil:
		case started.GetWorkflowType().GetName() == workflows.ShardName:
			if shards++; shards == 1 {
				k.store(kind, started.GetWorkflowExecution(), workflows.ShardName)
			}
		case started.GetWorkflowType().GetName() == workflows.BuildIndexName: // of a backfill
			k.store(kind, started.GetWorkflowExecution(), workflows.BuildIndexName)
		default:
			stage := strings.TrimPrefix(started.GetWorkflowExecution().GetWorkflowId(), run.GetWorkflowId()+"/")
			k.store(kind, started.GetWorkflowExecution(), workflows.StageName+"-"+strings.ReplaceAll(stage, "/", "-"))
		}
	}
	raw, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(stored)
	if err != nil {
		k.t.Fatal(err)
	}
	name = kind + "." + name
	if k.stored[name]++; k.stored[name] > 1 { // a shard that was gone on with
		name += "-" + strconv.Itoa(k.stored[name])
	}
	file, err := os.Create(filepath.Join(k.dir, name+".json.gz"))
	if err != nil {
		k.t.Fatal(err)
	}
	zipped := gzip.NewWriter(file)
	_, err = zipped.Write(raw)
	if err := errors.Join(err, zipped.Close(), file.Close()); err != nil {
		k.t.Fatal(err)
	}
}

// batches are a first build whose extraction is answered in batches, and one with both enrichments.
func (k *keeper) batches(t *testing.T) {
	server := serve(t, modeltest.Options{})
	sp := spec(t, "recorded-batches", copySample(t), server, "models.chat.mode=batch", "models.chat.batch.poll=100ms")
	k.keep("real-batches", completed(t, index(t, shared.Control, sp)).Run)
	sp = spec(t, "recorded-enriched", copySample(t), nil, "indexes.recorded-enriched.enrich=[facts, gem]")
	k.keep("real-enriched", completed(t, index(t, shared.Control, sp)).Run)
}

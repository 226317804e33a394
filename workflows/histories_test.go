package workflows_test

import (
	"compress/gzip"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/unweaver/unweaver/workflows"
)

const histories = "testdata/histories"

// recorded reads every stored history. It is an error to have none.
func recorded(t *testing.T) map[string]*history.History {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(histories, "*.json.gz"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no histories in %s (%v): record them as its README says", histories, err)
	}
	all := map[string]*history.History{}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		unzipped, err := gzip.NewReader(file)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".json.gz")] = read(t, path, unzipped)
		_ = file.Close()
	}
	return all
}

func read(t *testing.T, path string, from io.Reader) *history.History {
	t.Helper()
	recorded, err := client.HistoryFromJSON(from, client.HistoryJSONOptions{})
	if err != nil || len(recorded.GetEvents()) == 0 {
		t.Fatalf("%s: %v", path, err)
	}
	return recorded
}

func replay(t *testing.T, recorded *history.History) error {
	t.Helper()
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	workflows.Register(replayer)
	id := recorded.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowId()
	return replayer.ReplayWorkflowHistoryWithOptions(
		log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		recorded,
		worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: id}},
	)
}

func TestRecordedRunsReplay(t *testing.T) {
	for name, recorded := range recorded(t) {
		if err := replay(t, recorded); err != nil {
			t.Errorf("%s: runs that have begun would fail with this code: %v\nput the change behind a version, "+
				"see versions.go", name, err)
		}
	}
}

// Every kind of run that people have must be among the histories: replaying only the simplest would prove little.
func TestRecordedRunsAreOfEveryKind(t *testing.T) {
	kinds := map[string]bool{}
	for name := range recorded(t) {
		kind, _, _ := strings.Cut(name, ".")
		kinds[kind] = true
	}
	for _, kind := range []string{
		"first-build", "night", "unchanged", "dry-run", "small-shape", "pause-resume", "model-refused", "budget", "failure",
		"cancel", "restore", "large",
	} {
		if !kinds[kind] {
			t.Errorf("no history of %s", kind)
		}
	}
}

// The server ends a run at 51,200 events and asks for continue-as-new at 4,096.
func TestHistoriesStaySmall(t *testing.T) {
	all := recorded(t)
	for name, most := range map[string]int{
		"large.BuildIndex":    300,  // 200 shards; everything that grows with the corpus is in stages
		"large.Stage-extract": 4096, // 200 shards
		"full.ExtractShard":   1000, // 79 batches
	} {
		recorded, ok := all[name]
		if !ok {
			t.Errorf("no history %s", name)
			continue
		}
		events := len(recorded.GetEvents())
		t.Logf("%s: %d events", name, events)
		if events > most {
			t.Errorf("%s has %d events, want at most %d", name, events, most)
		}
	}
}

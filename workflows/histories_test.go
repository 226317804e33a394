package workflows_test

import (
	"compress/gzip"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/unweaver/unweaver/workflows"
)

const histories = "testdata/histories"

// recorded gives every stored history. It is an error to have none.
func recorded(t *testing.T) map[string]*history.History {
	t.Helper()
	return must(stored())(t)
}

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
	t.Helper()
	replayer := must(worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{}))(t)
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

// reshaped returns a history whose run was given another input.
func reshaped[Input any](t *testing.T, recorded *history.History, change func(*Input)) *history.History {
	t.Helper()
	changed := proto.Clone(recorded).(*history.History)
	started := changed.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes()
	var input Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(started.GetInput(), &input))
	change(&input)
	started.Input = must(converter.GetDefaultDataConverter().ToPayloads(input))(t)
	return changed
}

// Two workers with other built-in values must give the same commands: the input's shape decides, and nothing else.
func TestTheShapeOfTheInputDecidesTheCommands(t *testing.T) {
	for name, c := range map[string]struct {
		history string
		change  func(*workflows.Shape)
		same    bool
	}{
		"stage, as it was":           {"completed.Stage", func(*workflows.Shape) {}, true},
		"stage, smaller window":      {"completed.Stage", func(s *workflows.Shape) { s.Windows.Extract = 1 }, false},
		"stage, window of shards":    {"completed.Stage", func(s *workflows.Shape) { s.ShardWindow = 1 }, false},
		"activities, smaller window": {"continued.Stage", func(s *workflows.Shape) { s.Windows.Chunk = 1 }, false},
		"shard, as it was":           {"completed.ExtractShard", func(*workflows.Shape) {}, true},
		"shard, larger batches":      {"completed.ExtractShard", func(s *workflows.Shape) { s.BatchChunks = 100 }, false},
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

// types collects the names of workflows as they are registered.
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

package workflows_test

import (
	"compress/gzip"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

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
	all, err := stored()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var stored = sync.OnceValues(func() (map[string]*history.History, error) {
	paths, err := filepath.Glob(filepath.Join(histories, "*.json.gz"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no histories in %s: record them as its README says", histories)
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

// reshaped is a history whose run was given another shape.
func reshaped[Input any](
	t *testing.T,
	recorded *history.History,
	change func(*Input, workflows.Shape),
	shape workflows.Shape,
) *history.History {
	t.Helper()
	changed := proto.Clone(recorded).(*history.History)
	started := changed.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes()
	var input Input
	if err := converter.GetDefaultDataConverter().FromPayloads(started.GetInput(), &input); err != nil {
		t.Fatal(err)
	}
	change(&input, shape)
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(input)
	if err != nil {
		t.Fatal(err)
	}
	started.Input = payloads
	return changed
}

// Two workers with other built-in values must give the same commands: the input's shape decides, and nothing else.
func TestTheShapeOfTheInputDecidesTheCommands(t *testing.T) {
	all := recorded(t)
	stage := func(in *workflows.StageInput, shape workflows.Shape) { in.Shape = shape }
	shard := func(in *workflows.ShardInput, shape workflows.Shape) { in.Shape = shape }
	none := workflows.Shape{} // an input from before shapes were inputs
	for name, replays := range map[string]struct {
		history *history.History
		same    bool
	}{
		"stage, as built in":      {reshaped(t, all["large.Stage-extract"], stage, none), true},
		"stage, smaller window":   {reshaped(t, all["large.Stage-extract"], stage, windowed(3)), false},
		"shard, as built in":      {reshaped(t, all["full.ExtractShard"], shard, none), true},
		"shard, larger batches":   {reshaped(t, all["full.ExtractShard"], shard, workflows.Shape{BatchChunks: 100}), false},
		"shard, smaller window":   {reshaped(t, all["full.ExtractShard"], shard, workflows.Shape{ShardWindow: 5}), false},
		"small shape, as it was":  {all["small-shape.ExtractShard"], true},
		"small shape, taken away": {reshaped(t, all["small-shape.ExtractShard"], shard, none), false},
	} {
		if err := replay(t, replays.history); (err == nil) != replays.same {
			t.Errorf("%s: replays %v, want %v (%v)", name, err == nil, replays.same, err)
		}
	}
}

func windowed(extract int) workflows.Shape {
	return workflows.Shape{Windows: workflows.Windows{Extract: extract}}
}

// Every kind of run that people have must be among the histories: replaying only the simplest would prove little.
func TestRecordedRunsAreOfEveryKind(t *testing.T) {
	kinds := map[string]bool{}
	for name := range recorded(t) {
		kind, _, _ := strings.Cut(name, ".")
		kinds[kind] = true
	}
	for _, kind := range []string{
		"first-build", "night", "unchanged", "small-shape", "pause-resume", "model-refused", "budget", "failure",
		"cancel", "restore", "large", "outage", "pause-taken-back", "fleet", "queues", "nightly", "nightly-skipped",
		"real-backfill", "real-batches", "real-enriched",
	} {
		if !kinds[kind] {
			t.Errorf("no history of %s", kind)
		}
	}
}

// Runs of formats before FormatQueues have one queue, which is all that their workers poll; those since have two.
func TestRecordedRunsHaveTheQueuesOfTheirFormat(t *testing.T) {
	// Of FormatQueues and later.
	two := regexp.MustCompile(`^(queues|outgrown|deletions|nightly|real-backfill|real-batches|real-enriched)\.`)
	for name, recorded := range recorded(t) {
		apart := 0
		for _, event := range recorded.GetEvents() {
			if queue := event.GetActivityTaskScheduledEventAttributes().GetTaskQueue(); queue.GetName() != "" &&
				strings.HasSuffix(queue.GetName(), "-cpu") {
				apart++
			}
		}
		if strings.HasPrefix(name, "queues.Stage-chunk") != (apart == 20) || apart > 0 && !two.MatchString(name) {
			t.Errorf("%s: %d activities in a queue of their own", name, apart)
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
		"fleet.Stage-extract": 300,  // four shards, three looks at the fleet
		"fleet.ExtractShard":  1000, // 79 batches
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

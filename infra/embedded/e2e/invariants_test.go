package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/unweaver/unweaver/infra/embedded/devserver"
	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/workflows"
)

// History holds references, counts and codes (docs/invariants.md, 10): every payload, failure and id of a build over
// a corpus with marked keys, titles and texts, one document of which is damaged, is searched for the marks.
// Promises: 10.
func TestHistoryHoldsNoCustomerText(t *testing.T) {
	dir := write(
		t,
		map[string]string{
			"Keymark-secret.txt": "Titlemark of the paper\n\nTextmark is a substance. Namemark discovered it.",
			"Keymark-broken.pdf": "%PDF-1.4 Textmark",
		},
	)
	s := serve(t, modeltest.Options{Poison: "Textmark"})
	plain, err := startWith(stack.Options{DataDir: t.TempDir(), Plain: true}) // else nothing could be found for sure
	require.NoError(t, err)
	defer func() { _ = plain.Stop(context.Background()) }()
	st := index(t, plain.Control, spec(t, "hist", dir, s, "indexes.hist.failures.share=1"))
	require.True(t, st.Published, "%+v", st.Report)
	sc := plain.Control.Client
	list := musttest.Get(sc.ListWorkflow(t.Context(),
		&workflowservice.ListWorkflowExecutionsRequest{Namespace: devserver.Namespace, PageSize: 500}))(t)
	events, runs := 0, 0
	for _, info := range list.Executions {
		if !strings.HasPrefix(info.Execution.WorkflowId, "build/hist/") {
			continue
		}
		runs++
		events += search(t, plain, info.Execution)
	}
	assert.True(t, runs >= 3 && events >= 50, "only %d runs with %d events were searched", runs, events)
}

func search(t *testing.T, plain *stack.Stack, ex *common.WorkflowExecution) int {
	it := plain.Control.Client.(client.Client).GetWorkflowHistory(t.Context(), ex.WorkflowId, ex.RunId, false,
		enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	n := 0
	for it.HasNext() {
		ev := musttest.Get(it.Next())(t)
		n++
		raw := musttest.Get(ev.Marshal())(t)
		for _, mark := range []string{"Keymark", "Titlemark", "Textmark", "Namemark"} {
			assert.False(t, strings.Contains(string(raw), mark),
				"%s event %d (%s) holds %q", ex.WorkflowId, ev.EventId, ev.EventType, mark)
		}
	}
	return n
}

// witness counts the generations that answered queries, and wakes who waits for one.
type witness struct {
	mu      sync.Mutex
	seen    map[string]int
	changed chan struct{}
	stopped bool
	failed  []string
}

func (a *witness) note(generation string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[generation]++
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *witness) fail(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = append(a.failed, text)
}

func (a *witness) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
}

func (a *witness) over() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopped
}

func (a *witness) next(t *testing.T, generation string) {
	t.Helper()
	deadline := time.After(time.Minute)
	a.mu.Lock()
	was := a.seen[generation]
	for a.seen[generation] == was && len(a.failed) == 0 {
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("generation %s was published a minute ago and answers nothing", generation)
		}
		a.mu.Lock()
	}
	a.mu.Unlock()
}

// Fifty times what is served changes, by builds, approvals and rollbacks through the stack's admin API, while queries
// go on: none fails, and none mixes two generations (docs/invariants.md, 3).
// Promises: 3, 34.
func TestQueriesDuringFiftyPublishesAndRollbacksSeeOneGeneration(t *testing.T) {
	dir := t.TempDir()
	state := func(n int) {
		for i := range 6 {
			writeFile(t, fmt.Sprintf("%s/d%d.txt", dir, i),
				fmt.Sprintf("Lighthouse %d stands on Cape Merrow. It was painted in colour number %d.", i, n))
		}
	}
	sp := spec(t, "moves", dir, nil, "indexes.moves.keep=9")
	client := &httpapi.Client{Base: shared.HTTP, Token: shared.Token}
	var mu sync.Mutex
	colours := map[string]int{}
	built := func(n int) string {
		state(n)
		generation := completed(t, index(t, shared.Control, sp)).Generation
		mu.Lock()
		defer mu.Unlock()
		colours[generation] = n
		return generation
	}
	kept := []string{built(0)}
	type answer struct{ generation, text string }
	var got []answer
	load := witness{seen: map[string]int{}, changed: make(chan struct{})}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !load.over() {
				status, out := do(t, shared.HTTP, http.MethodPost, "/v1/indexes/moves/query",
					map[string]any{"query": "Lighthouse Cape Merrow colour", "top_chunks": 6})
				if status != http.StatusOK {
					load.fail(fmt.Sprint(status, out))
					return
				}
				generation := out["generation"].(string)
				mu.Lock()
				for _, chunk := range chunksOf(out) {
					got = append(got, answer{generation, chunk["text"].(string)})
				}
				mu.Unlock()
				load.note(generation)
			}
		})
	}
	moves := 0
	for n := 1; n <= 3; n++ {
		kept = append(kept, built(n))
		load.next(t, kept[n])
		moves++
	}
	ctx := control.WithOperator(t.Context(), core.Operator{By: "ada@desk", Reason: "drill"})
	for ; moves < 50; moves++ {
		target := kept[moves%len(kept)]
		move, err := client.MoveGeneration(ctx, control.MoveRequest{Action: core.ActionRollback, Index: "moves", Generation: target})
		require.NoError(t, err)
		if !move.Unchanged {
			load.next(t, target)
		}
	}
	load.stop()
	wg.Wait()
	assert.Empty(t, load.failed)
	for _, a := range got {
		if n, known := colours[a.generation]; !known || !strings.Contains(a.text, fmt.Sprintf("colour number %d.", n)) {
			t.Fatalf("generation %s answered %q", a.generation, a.text)
		}
	}
	assert.Len(t, load.seen, len(kept), "answers came from")
	operations, err := client.ListOperations(t.Context(), "moves", 0)
	require.True(t, err == nil && len(operations) >= 40, "%d operations, %v", len(operations), err)
	for _, op := range operations {
		assert.True(t, op.Outcome != nil && op.Outcome.Result == core.OperationDone && op.By == "ada@desk" &&
			op.Via == "token" && op.Reason == "drill", "%+v", op)
	}
	t.Logf("%d moves, %d answers, none failed", moves, len(got))
	musttest.Refuse(client.MoveGeneration(ctx, control.MoveRequest{
		Action: core.ActionRollback, Index: "moves", Generation: "none",
	}))(t, fault.UnknownGen)
}

func stranger(t *testing.T) client.Client {
	out, err := client.DialContext(t.Context(), client.Options{HostPort: shared.Temporal, Namespace: devserver.Namespace})
	require.NoError(t, err)
	t.Cleanup(out.Close)
	return out
}

// readable returns everything that the engine says of the workflows whose ids have a part, and the first event of each.
func readable(
	t *testing.T, by client.Client, part string,
) (text string, starts []*workflowservice.StartWorkflowExecutionRequest) {
	listed := musttest.Get(by.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{PageSize: 1000}))(t)
	var all strings.Builder
	for _, found := range listed.GetExecutions() {
		id := found.GetExecution().GetWorkflowId()
		if !strings.Contains(id, part) {
			continue
		}
		raw := musttest.Get(proto.Marshal(found))(t)
		all.Write(raw)
		events := by.GetWorkflowHistory(t.Context(), id, found.GetExecution().GetRunId(), false,
			enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event := musttest.Get(events.Next())(t)
			raw = musttest.Get(proto.Marshal(event))(t)
			all.Write(raw)
			if began := event.GetWorkflowExecutionStartedEventAttributes(); began != nil {
				starts = append(starts, &workflowservice.StartWorkflowExecutionRequest{
					WorkflowType: began.GetWorkflowType(), Input: began.GetInput(), Header: began.GetHeader(),
				})
			}
		}
	}
	return all.String(), starts
}

// Who has the port of the embedded engine and not the key learns no name of a document and no text; what they start
// ends at once, and nothing is published (docs/invariants.md).
// Promises: 133.
func TestWhoHasTheEnginesPortAloneLearnsNothingAndPublishesNothing(t *testing.T) {
	docs := filepath.Join(t.TempDir(), "hidden-folder")
	require.NoError(t, os.Mkdir(docs, 0o700))
	writeFile(t, filepath.Join(docs, "hidden-lease.txt"), "Alfred Nobel signed the lease of the lighthouse.")
	own := completed(t, index(t, shared.Control, spec(t, "harbour", docs, nil)))
	other := stranger(t)
	text, starts := readable(t, other, "harbour")
	for _, secret := range []string{"hidden-folder", "hidden-lease", "Nobel"} {
		assert.False(t, strings.Contains(text, secret), "the engine shows %q", secret)
	}
	require.True(t, len(starts) != 0 && strings.Contains(text, own.Generation),
		"the run is not found: %d starts", len(starts))
	plain := musttest.Get(converter.GetDefaultDataConverter().ToPayloads(workflows.Build{Index: "harbour", Generation: "evil"}))(t)
	for _, name := range []string{
		workflows.BuildIndexName, workflows.StageName, workflows.ShardName, workflows.RestoreName, workflows.AuditName,
		workflows.NotifyName, workflows.NightlyName, workflows.BackfillName,
	} {
		starts = append(starts,
			&workflowservice.StartWorkflowExecutionRequest{WorkflowType: &common.WorkflowType{Name: name}, Input: plain},
			&workflowservice.StartWorkflowExecutionRequest{WorkflowType: &common.WorkflowType{Name: name}})
	}
	for i, start := range starts { // those that were recorded are repeated under another id
		id := "build/harbour/evil-" + string(rune('a'+i))
		startForeign(t, other, id, start)
	}
	generations := musttest.Get(shared.Control.ListGenerations(t.Context(), "harbour"))(t)
	assert.True(t, len(generations) == 1 && generations[0].Generation == own.Generation, "generations %+v", generations)
	again := completed(t, index(t, shared.Control, spec(t, "harbour", docs, nil)))
	assert.Equal(t, own.ContentHash, again.ContentHash, "the index changed")
}

// startForeign starts a workflow without the key, and waits for its refusal.
func startForeign(t *testing.T, by client.Client, id string, start *workflowservice.StartWorkflowExecutionRequest) {
	start.Namespace, start.WorkflowId, start.RequestId = devserver.Namespace, id, id
	start.TaskQueue = &taskqueue.TaskQueue{Name: workflows.TaskQueue}
	started := musttest.Get(by.WorkflowService().StartWorkflowExecution(t.Context(), start))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := by.GetWorkflow(ctx, id, started.GetRunId()).Get(ctx, nil)
	require.True(t, ctx.Err() == nil, "%s of another user does not end", start.GetWorkflowType().GetName())
	assert.True(t, err != nil, "%s of another user ran", start.GetWorkflowType().GetName())
	history := by.GetWorkflowHistory(t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event := musttest.Get(history.Next())(t)
		assert.True(t, event.GetEventType() != enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, "%s of another user ran an activity",
			start.GetWorkflowType().GetName())
	}
}

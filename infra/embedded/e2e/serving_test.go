package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
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
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
	"github.com/unweaver/unweaver/workflows"
)

// Of a purged document no byte of the data directory of an embedded stack says anything: artifacts and ledger, records
// and vectors, the engine's history, the copies that workers and query-api mapped. The index answers throughout.
// Promises: 5.
func TestNothingOfADataDirectoryTellsOfAPurgedDocument(t *testing.T) {
	t.Parallel() // it has a stack of its own
	server := serve(t, modeltest.Options{Dimension: 16})
	folder, purged := t.TempDir(), []string{"quastenberg", "zuckmayer", "ferryman"} // words of c.md alone
	own := musttest.Get(start(folder))(t)
	stop := sync.OnceFunc(func() { assert.NoError(t, own.Stop(context.Background())) })
	defer stop()
	documents := write(t, map[string]string{
		"a.md": "# Alma\n\nThe harbour of Port Alma was built by Carla Ruiz. Ships carry salt to Lake Verin.\n",
		"b.md": "# Bern\n\nBern sells tin to Port Alma. Carla Ruiz lived in Bern for a year.\n",
		"c.md": "# Quastenberg\n\nMarlene Quastenberg paid the ferryman in opals. Carla Ruiz wrote about Zuckmayer Lane.\n",
	})
	sp := spec(t, "del", documents, server)
	sp.Embedding = spec(t, "del", documents, nil).Embedding // whose table of words is learned from the corpus
	first := completed(t, index(t, own.Control, sp))
	require.NoError(t, os.WriteFile(filepath.Join(documents, "b.md"), []byte("# Bern\n\nBern sells salt.\n"), 0o644))
	completed(t, index(t, own.Control, sp))
	ask(t, own.HTTP, "del", "Who paid the ferryman?", nil)
	ask(t, own.HTTP, "del", "Who paid the ferryman?", map[string]any{"generation": first.Generation})
	where := stagetest.FilesHolding(t, folder, purged...)
	require.True(t, len(where) >= 8, "the search finds too little of what is there: %q", where)
	request := control.PurgeRequest{Index: "del", Documents: []string{"c.md"}}
	musttest.Refuse(own.Control.PurgeDocuments(t.Context(), request))(t, fault.Usage)
	request.Documents, request.Confirmed = []string{"x.md"}, true
	musttest.Refuse(own.Control.PurgeDocuments(t.Context(), request))(t, fault.NotFound)
	request.Documents, request.DryRun = []string{"c.md"}, true
	looked := musttest.Get(own.Control.PurgeDocuments(t.Context(), request))(t)
	require.True(t, looked.Run == nil && len(looked.Plan.Drops) == 2 && looked.Plan.Documents[0].Known, "%+v", looked)
	calls := server.Stats().Chat
	request.DryRun = false
	asks := func(lines ...string) control.PurgeAnswer { // purges, judged by these probe questions
		gated := sp
		gated.Gate.Probes, gated.Gate.MaxRecallDrop = filepath.Join(t.TempDir(), "probes.jsonl"), 0.1
		require.NoError(t, os.WriteFile(gated.Gate.Probes, []byte(strings.Join(lines, "\n")), 0o600))
		request.Files = musttest.Get(config.ReadFiles(&gated))(t)
		request.Gate = &gated.Gate
		return musttest.Get(own.Control.PurgeDocuments(t.Context(), request))(t)
	}
	stays := `{"question": "Who built the harbour of Port Alma?", "documents": ["a.md"]}`
	held := wait(t, own.Control, asks(stays, `{"question": "Who paid in opals?", "documents": ["c.md"]}`).Run.Run)
	assert.True(t, held.Status == core.StatusHeld && held.Reason == "recall", "a probe expects the document: %+v", held)
	begun := asks(stays) // without its line
	ended := completed(t, wait(t, own.Control, begun.Run.Run))
	assert.True(t, server.Stats().Chat == calls && ended.Documents == 2, "%d calls, %+v", server.Stats().Chat-calls,
		ended.Report)
	stand, err := own.Control.ListPurges(t.Context(), control.PurgesRequest{Index: "del"})
	require.True(t, err == nil && len(stand.Purges) == 1, "%+v, %v", stand, err)
	one := stand.Purges[0]
	assert.True(t, one.State == core.PurgeDone && one.Gone.Generations == 2 && one.Gone.Ledger != 0, "%+v", one)
	out := ask(t, own.HTTP, "del", "Who paid the ferryman? Quastenberg", nil)
	for _, chunk := range chunksOf(out) {
		assert.True(t, chunk["document"] != "c.md", "a query returns %v", chunk)
	}
	if status, _ := do(t, own.HTTP, http.MethodPost, "/v1/indexes/del/query", map[string]any{
		"query": "opals", "generation": first.Generation,
	}); status != http.StatusGone && status != http.StatusNotFound {
		t.Errorf("a generation that was dropped answers %d", status)
	}
	again := musttest.Get(own.Control.PurgeDocuments(t.Context(), request))(t)
	assert.True(t, again.Run == nil && again.Purge != nil && again.Purge.State == core.PurgeDone, "once more: %+v", again)
	trail, err := own.Control.ListOperations(t.Context(), "del", 1)
	assert.True(t, err == nil && len(trail) == 1 && trail[0].Action == core.ActionPurge &&
		strings.HasPrefix(begun.Plan.Documents[0].Digest.String(), trail[0].Name), "%+v, %v", trail, err)
	completed(t, index(t, own.Control, sp)) // the source is still there, and stays out
	stop()
	where = stagetest.FilesHolding(t, folder, purged...)
	assert.True(t, len(where) <= 0, "still stored in %q", where)
}

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
	client := httpapi.NewClient(shared.HTTP, shared.Token)
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
	seen := map[string]int{}
	var asking atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer asking.Store(false)
	asking.Store(true)
	for range 3 {
		wg.Go(func() {
			for asking.Load() {
				status, out := do(t, shared.HTTP, http.MethodPost, "/v1/indexes/moves/query",
					map[string]any{"query": "Lighthouse Cape Merrow colour", "top_chunks": 6})
				if !assert.Equal(t, http.StatusOK, status, "%v", out) {
					return
				}
				generation := out["generation"].(string)
				mu.Lock()
				for _, chunk := range chunksOf(out) {
					got = append(got, answer{generation, chunk["text"].(string)})
				}
				seen[generation]++
				mu.Unlock()
			}
		})
	}
	answers := func(generation string) int {
		mu.Lock()
		defer mu.Unlock()
		return seen[generation]
	}
	next := func(generation string) { // it was published: queries are answered from it
		was := answers(generation)
		musttest.Reach(t, "an answer of "+generation, func() bool { return t.Failed() || answers(generation) > was })
	}
	moves := 0
	for n := 1; n <= 3; n++ {
		kept = append(kept, built(n))
		next(kept[n])
		moves++
	}
	ctx := control.WithOperator(t.Context(), core.Operator{By: "ada@desk", Reason: "drill"})
	for ; moves < 50; moves++ {
		target := kept[moves%len(kept)]
		move, err := client.MoveGeneration(ctx, control.MoveRequest{Action: core.ActionRollback, Index: "moves", Generation: target})
		require.NoError(t, err)
		if !move.Unchanged {
			next(target)
		}
	}
	asking.Store(false)
	wg.Wait()
	for _, a := range got {
		if n, known := colours[a.generation]; !known || !strings.Contains(a.text, fmt.Sprintf("colour number %d.", n)) {
			t.Fatalf("generation %s answered %q", a.generation, a.text)
		}
	}
	assert.Len(t, seen, len(kept), "answers came from")
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
		startForeign(t, other, "build/harbour/evil-"+string(rune('a'+i)), start)
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

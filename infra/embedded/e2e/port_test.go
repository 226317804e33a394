package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
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
	"github.com/unweaver/unweaver/workflows"
)

// stranger returns a client that has the engine's port alone.
func stranger(t *testing.T) client.Client {
	t.Helper()
	out, err := client.DialContext(t.Context(), client.Options{HostPort: shared.Temporal, Namespace: devserver.Namespace})
	require.NoError(t, err)
	t.Cleanup(out.Close)
	return out
}

// readable returns everything that the engine says of the workflows whose ids have a part, and the first event of each.
func readable(
	t *testing.T, by client.Client, part string,
) (text string, starts []*workflowservice.StartWorkflowExecutionRequest) {
	t.Helper()
	listed := must(by.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{PageSize: 1000}))(t)
	var all strings.Builder
	for _, found := range listed.GetExecutions() {
		id := found.GetExecution().GetWorkflowId()
		if !strings.Contains(id, part) {
			continue
		}
		raw := must(proto.Marshal(found))(t)
		all.Write(raw)
		events := by.GetWorkflowHistory(t.Context(), id, found.GetExecution().GetRunId(), false,
			enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event := must(events.Next())(t)
			raw = must(proto.Marshal(event))(t)
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
	plain := must(converter.GetDefaultDataConverter().ToPayloads(workflows.Build{Index: "harbour", Generation: "evil"}))(t)
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
	generations, err := shared.Control.ListGenerations(t.Context(), "harbour")
	assert.True(t, err == nil && len(generations) == 1 && generations[0].Generation == own.Generation,
		"generations %+v, %v", generations, err)
	again := completed(t, index(t, shared.Control, spec(t, "harbour", docs, nil)))
	assert.Equal(t, own.ContentHash, again.ContentHash, "the index changed")
}

// startForeign starts a workflow without the key, and waits for its refusal.
func startForeign(t *testing.T, by client.Client, id string, start *workflowservice.StartWorkflowExecutionRequest) {
	t.Helper()
	start.Namespace, start.WorkflowId, start.RequestId = devserver.Namespace, id, id
	start.TaskQueue = &taskqueue.TaskQueue{Name: workflows.TaskQueue}
	started := must(by.WorkflowService().StartWorkflowExecution(t.Context(), start))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := by.GetWorkflow(ctx, id, started.GetRunId()).Get(ctx, nil)
	require.True(t, ctx.Err() == nil, "%s of another user does not end", start.GetWorkflowType().GetName())
	assert.True(t, err != nil, "%s of another user ran", start.GetWorkflowType().GetName())
	history := by.GetWorkflowHistory(t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event := must(history.Next())(t)
		assert.True(t, event.GetEventType() != enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, "%s of another user ran an activity",
			start.GetWorkflowType().GetName())
	}
}

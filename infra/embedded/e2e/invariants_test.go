package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/infra/embedded/devserver"
	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
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
	list := must(sc.ListWorkflow(t.Context(),
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
		ev := must(it.Next())(t)
		n++
		raw := must(ev.Marshal())(t)
		for _, mark := range []string{"Keymark", "Titlemark", "Textmark", "Namemark"} {
			assert.False(t, strings.Contains(string(raw), mark),
				"%s event %d (%s) holds %q", ex.WorkflowId, ev.EventId, ev.EventType, mark)
		}
	}
	return n
}

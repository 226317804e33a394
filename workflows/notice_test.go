package workflows_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/unweaver/unweaver/workflows"
)

func TestAWebhookIsToldOfEveryPauseAndOfTheEnd(t *testing.T) {
	f := newFake(64)
	f.notify = true
	f.fail["ReducePartition 1"] = []error{fatal("model_quota")}
	var begun []workflows.Notice // what the run began and does not wait for
	completes(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
		env.SetOnChildWorkflowStartedListener(
			func(info *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
				var notice workflows.Notice
				if info.WorkflowType.Name == workflows.NotifyName && args.Get(&notice) == nil {
					begun = append(begun, notice)
				}
			},
		)
		resumeAt(t, env, time.Hour, workflows.Resume{})
	})
	sent := f.notices()
	require.True(t, len(begun) == 2 && len(sent) != 0 && sent[0].ID == begun[0].ID, "begun %+v, sent %+v", begun, sent)
	pause, end := begun[0], begun[1]
	assert.True(t, pause.Status == "paused" && pause.Reason == "model_quota" && end.Status == "completed",
		"noticed %+v, %+v", pause, end)
	assert.True(t, pause.ID != end.ID && pause.RunID != "" && strings.HasPrefix(pause.ID, pause.RunID) &&
		pause.Index == end.Index, "ids %q, %q of %q", pause.ID, end.ID, pause.RunID)
}

// Promises: 108.
func TestAWebhookThatIsDownHoldsUpNoRun(t *testing.T) {
	f := newFake(64)
	f.notify = true
	var down []error
	for range 10_000 {
		down = append(down, errors.New("the receiver does not answer"))
	}
	f.fail[workflows.SendNotice] = down
	completes(t, f, workflows.Build{}, nil)
	if tries := f.count(workflows.SendNotice); tries > 20 { // a day's are some 150
		t.Errorf("the run went on for %d attempts", tries)
	}
}

// Promises: 108.
func TestANoticeIsTriedAgainForADay(t *testing.T) {
	f := newFake(1)
	f.fail[workflows.SendNotice] = []error{errors.New("down"), errors.New("down"), errors.New("down")}
	env := environment(f, nil)
	env.ExecuteWorkflow(workflows.Notify, workflows.Notice{ID: "run-1"})
	if err := env.GetWorkflowError(); err != nil || f.count(workflows.SendNotice) != 4 {
		t.Errorf("%v after %d attempts", err, f.count(workflows.SendNotice))
	}
}

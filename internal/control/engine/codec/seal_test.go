package codec_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/unweaver/unweaver/internal/control/engine/codec"
)

// Promises: 133.
func TestAStartIsGoodForItsWorkflowAndAWhileOnly(t *testing.T) {
	_, _, key := made(t)
	now := time.Date(2026, 11, 27, 18, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		kind, name, sealed, id string
		at                     time.Time
		runs                   bool
		run, after             string // that continues, by the seal and by the engine
	}{
		"of a client": {"start", "Stage", "build/a/g", "build/a/g", now, true, "", ""},
		"of a clock that is behind": {
			"start", "Stage", "build/a/g", "build/a/g", now.Add(-10 * time.Minute), true, "", "",
		},
		"repeated an hour later": {"start", "Stage", "build/a/g", "build/a/g", now.Add(-time.Hour), false, "", ""},
		"of another type":        {"start", "Build", "build/a/g", "build/a/g", now, false, "", ""},
		"of another workflow":    {"start", "Stage", "build/a/g", "build/b/g", now, false, "", ""},
		"of a schedule": {
			"schedule", "Stage", "unweaver/a", "unweaver/a-2026-11-27T18:00:00Z", now, true, "", "",
		},
		"of a schedule, by hand":        {"schedule", "Stage", "unweaver/a", "unweaver/a", now, false, "", ""},
		"of a child, without a parent":  {"child", "Stage", "build/a/g", "build/a/g", now, false, "", ""},
		"of a run that goes on in none": {"continue", "Stage", "", "build/a/g", now, false, "", ""},
		"of a run that goes on":         {"continue", "Stage", "", "build/a/g", now, true, "r1", "r1"},
		"of another run that goes on":   {"continue", "Stage", "", "build/a/g", now, false, "r1", "r2"},
		"that names no run before it":   {"continue", "Stage", "", "build/a/g", now, false, "", "r2"},
		"that went on an hour ago":      {"continue", "Stage", "", "build/a/g", now.Add(-time.Hour), false, "r1", "r1"},
		"of an update":                  {"update", "Stage", "build/a/g", "build/a/g", now, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			checks, header, err := codec.Sealed(key, test.kind, test.name, test.sealed, test.run, test.at)
			require.NoError(t, err)
			var suite testsuite.WorkflowTestSuite
			suite.SetHeader(header)
			env := suite.NewTestWorkflowEnvironment()
			env.SetStartTime(now)
			env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: test.id, TaskQueue: "unweaver"})
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{checks}})
			env.SetContinuedExecutionRunID(test.after)
			ran := false
			env.RegisterWorkflowWithOptions(func(workflow.Context) error { ran = true; return nil },
				workflow.RegisterOptions{Name: "Stage"})
			env.ExecuteWorkflow("Stage")
			if err := env.GetWorkflowError(); ran != test.runs || (err == nil) != test.runs ||
				err != nil && !strings.Contains(err.Error(), "refused: its seal is of") {
				t.Errorf("ran: %v, %v", ran, err)
			}
		})
	}
}

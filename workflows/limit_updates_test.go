package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/unweaver/unweaver/workflows"
)

func TestLimitsOfARunningBuildAreWrittenDownAndBadOnesRefused(t *testing.T) {
	number := func(n int) *int { return &n }
	f := newFake(64 * 4)
	_, err := run(t, f, workflows.Build{Spec: strings.Repeat("a", 64)}, func(env *testsuite.TestWorkflowEnvironment) {
		slowly(f, env, workflows.ExtractChunks, time.Hour)
		after := time.Minute
		give := func(update string, input any, sentence string) {
			after += time.Second
			var a *answer
			env.RegisterDelayedCallback(func() { a = send(env, update, input) }, after)
			env.RegisterDelayedCallback(func() {
				says(t, update, a.rejected, sentence)
				says(t, update, a.failed, "")
			}, after+time.Second)
		}
		give(workflows.UpdateConcurrency, workflows.Limits{}, "want a concurrency")
		give(workflows.UpdateConcurrency, workflows.Limits{Concurrency: number(0)}, "pause the run")
		give(workflows.UpdateConcurrency, workflows.Limits{Concurrency: number(2)}, "")
		give(workflows.UpdateRates, workflows.Limits{}, "want requests or tokens")
		give(workflows.UpdateRates, workflows.Limits{TokensPerMinute: number(-1)}, "want 0")
		give(workflows.UpdateRates, workflows.Limits{RequestsPerMinute: number(60)}, "")
		give(workflows.UpdateBudget, workflows.Budget{}, "no budget is given")
		give(workflows.UpdateBudget, workflows.Budget{Calls: -1}, "must not be negative")
		give(workflows.UpdateBudget, workflows.Budget{Calls: 100}, "")
		give(workflows.UpdateBudget, workflows.Budget{Money: 2}, "")
	})
	require.NoError(t, err)
	if len(f.steered) != 4 || *f.steered[0].NewLimits.Concurrency != 2 ||
		*f.steered[1].NewLimits.RequestsPerMinute != 60 ||
		*f.steered[3].NewBudget != (workflows.Budget{Calls: 100, Money: 2}) {
		t.Errorf("written down: %+v", f.steered)
	}
}

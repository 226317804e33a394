package activities_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/workflows"
)

func TestAPanicReachesHistoryAsACodeAlone(t *testing.T) {
	const secret = "text of a document"
	check := func(t *testing.T, err error) {
		t.Helper()
		var reported *temporal.ApplicationError
		if !errors.As(err, &reported) || reported.Type() != string(fault.Internal) || strings.Contains(err.Error(), secret) {
			t.Errorf("%v", err)
		}
	}
	b := newBench(t)
	b.Ports.Corpora = func(context.Context, string) (blob.Store, error) { panic(secret) }
	b.build.Fence = 3
	b.hold(t, core.Lease{Workflow: workflows.BuildID("docs", "g1"), Run: "r1", Fence: 3})
	_, err := b.ExecuteActivity(workflows.PlanBuild, b.build)
	check(t, err)
	b.Engine = nil // what takes the lease has no engine to ask
	_, err = b.ExecuteActivity(workflows.TakeLease, b.build)
	check(t, err)
	b.Ports.Coordination = nil // what records the error panics too
	_, err = b.ExecuteActivity(workflows.PlanBuild, b.build)
	check(t, err)
}

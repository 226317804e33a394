package service_test

import (
	"testing"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

// What a schedule left that was deleted in the engine alone, or never made there, is deleted by the same command. Where
// nothing is left that is reported as a fault, and nothing is recorded.
func TestWhatIsLeftOfAScheduleIsDeleted(t *testing.T) {
	b := newBench(t)
	ctx := control.WithOperator(t.Context(), core.Operator{By: "ada@desk"})
	b.must(run.KeepSchedule(ctx, b.art, run.Scheduled{Spec: b.spec("docs")}))
	b.must(b.DeleteSchedule(ctx, "docs"))
	_, err := b.art.Store.Stat(ctx, b.art.ScheduleKey())
	wants(t, err, fault.NotFound)
	wants(t, b.DeleteSchedule(ctx, "docs"), fault.NotFound)
	wants(t, b.PauseSchedule(ctx, "docs", ""), fault.NotFound)
	wants(t, b.DeleteSchedule(ctx, "../docs"), fault.InvalidParam)
	operations, err := b.ListOperations(ctx, "docs", 0)
	b.must(err)
	if len(operations) != 1 || operations[0].Action != core.ActionDeleteNights || operations[0].By != "ada@desk" ||
		operations[0].Outcome == nil || operations[0].Outcome.Result != core.OperationDone {
		t.Errorf("%+v", operations)
	}
}

package service_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

func TestEveryCommandRefusesWhatIsNoName(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{
		"../../../../etc", "..", "ledger", "doctor", "", "docs/../../x", "ledger/g1", "a b", "docs/g1/",
	} {
		for command, err := range map[string]error{
			"index": second(b.BuildIndex(t.Context(), control.IndexRequest{Spec: b.spec(name)})),
			"generation": second(b.BuildIndex(t.Context(), control.IndexRequest{
				Spec: b.spec("docs"), Generation: "../" + name,
			})),
			"estimate":    second(b.EstimateBuild(t.Context(), control.IndexRequest{Spec: b.spec(name)})),
			"status":      second(b.ReadStatus(t.Context(), name)),
			"pause":       b.PauseRun(t.Context(), name),
			"resume":      b.ResumeRun(t.Context(), name, &core.Budget{Calls: 1}),
			"cancel":      b.CancelRun(t.Context(), name),
			"lost":        b.MarkLost(t.Context(), name),
			"generations": second(b.ListGenerations(t.Context(), name)),
			"restore":     second(b.RestoreIndex(t.Context(), name)),
			"audit":       second(b.AuditIndex(t.Context(), control.AuditRequest{Index: name})),
		} {
			assert.True(t, fault.Is(err, fault.InvalidParam), "%s %q: %v", command, name, err)
		}
	}
	assert.True(t, len(b.temporal.started)+len(b.temporal.updates)+len(b.temporal.queries) == 0,
		"the engine was asked: %+v", b.temporal)
}

func second[T any](_ T, err error) error { return err }

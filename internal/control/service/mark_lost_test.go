package service_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// hold writes a lease.
func (b *bench) hold(lease core.Lease) {
	b.t.Helper()
	_, err := blob.WriteJSON(b.t.Context(), b.art.Store, b.art.LeaseKey(), lease, blob.Cond{})
	b.must(err)
}

// leased returns who holds the lease.
func (b *bench) leased() core.Lease {
	b.t.Helper()
	lease, _, err := run.ReadLease(b.t.Context(), b.art)
	b.must(err)
	return lease
}

var foreign = core.Lease{
	Engine:   core.Engine{Cluster: "theirs", Address: "temporal.example:7233", Namespace: "prod"},
	Workflow: "build/docs/g1", Run: "r1", Fence: 7, Heartbeat: 6 * time.Second,
}

func TestALostRunGivesUpItsLeaseAndKeepsItsFence(t *testing.T) {
	for name, work := range map[string]string{"by its name": "docs/g1", "by the index": "docs"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.hold(foreign)
				began := time.Now()
				b.must(b.MarkLost(t.Context(), work))
				if lease := b.leased(); lease.Workflow != "" || lease.Fence != 7 {
					t.Errorf("the lease is %+v", lease)
				}
				if took := time.Since(began); took < foreign.Heartbeat {
					t.Errorf("freed after %s: no check saw whether a process renews it", took)
				}
				b.must(b.MarkLost(t.Context(), work)) // its answer may have been lost
			})
		})
	}
}

func TestARunIsNotLostWhileItRunsOrAProcessWorksOnIt(t *testing.T) {
	for name, test := range map[string]struct {
		arrange func(*bench)
		run     string
		code    fault.Code
		says    []string
	}{
		"our engine runs it": {
			func(b *bench) { b.temporal.executions["build/docs/g1"] = running }, "docs/g1", fault.LeaseHeld,
			[]string{"is not lost", "unweaver cancel docs/g1"},
		},
		"our engine is away": {
			func(b *bench) { b.temporal.down = errDown }, "docs/g1", fault.EngineDown, nil,
		},
		"a process renews it": {
			func(b *bench) {
				time.AfterFunc(3*time.Second, func() {
					renewed := foreign
					renewed.Renewed = time.Now()
					b.hold(renewed)
				})
			}, "docs/g1", fault.LeaseHeld, []string{"a process works on run docs/g1", "temporal.example:7233, namespace prod"},
		},
		"another run holds it": {
			func(*bench) {}, "docs/g2", fault.Usage, []string{"docs/g1 holds it", "unweaver cancel docs/g1 --lost"},
		},
		"a restore": {func(*bench) {}, "docs/restore-1", fault.Usage, []string{"restore"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.hold(foreign)
				test.arrange(b)
				wants(t, b.MarkLost(t.Context(), test.run), test.code, test.says...)
				assert.Equal(t, "build/docs/g1", b.leased().Workflow, "the lease")
			})
		})
	}
}

func TestALeaseThatNobodyUnderstandsIsMendedAboveEveryFence(t *testing.T) {
	b := newBench(t)
	b.write(b.art.LeaseKey(), `{"workflow":"build/docs/g1","run":"r1","fence":-3}`)
	b.write(b.art.RunKey("g1", "41", "build.json"), "{}")
	b.write(b.art.RunKey("restore-1", "restore", "parts.json"), "[]")
	wants(t, b.MarkLost(t.Context(), "docs/g1"), fault.SegmentDamage, "its fence is -3", "unweaver cancel docs --lost")
	b.temporal.executions["build/docs/g9"] = running
	wants(t, b.MarkLost(t.Context(), "docs"), fault.LeaseHeld, "docs/g9")
	b.temporal.executions["build/docs/g9"] = completed
	b.must(b.MarkLost(t.Context(), "docs"))
	if lease := b.leased(); lease.Workflow != "" || lease.Fence < 41 {
		t.Errorf("the lease is %+v", lease)
	}
}

// A name may be used again after a run that published nothing: what that one left must not pass for the new one's end.
// Promises: 48.
func TestAStartedRunIsNotMistakenForAnEarlierOneOfItsName(t *testing.T) {
	b := newBench(t)
	first, err := b.BuildIndex(t.Context(), indexRequest(b, "docs", "nightly"))
	b.must(err)
	left := core.RunState{RunID: first.RunID, Workflow: "build/docs/nightly"}
	left.Report = core.Report{Status: core.StatusCompleted, RunID: first.RunID}
	b.setState("docs/nightly", left)
	b.temporal.executions["build/docs/nightly"] = completed
	status, err := b.ReadStatus(t.Context(), first.ExactName())
	require.True(t, err == nil && status.Status == core.StatusCompleted, "%+v, %v", status, err)
	second, err := b.BuildIndex(t.Context(), indexRequest(b, "docs", "nightly"))
	b.must(err)
	require.True(t, second.RunID != "" && second.RunID != first.RunID, "runs %+v and %+v", first, second)
	status, err = b.ReadStatus(t.Context(), second.ExactName())
	assert.True(t, err == nil && status.Status == core.StatusRunning, "it has just begun: %+v, %v", status.Status, err)
	b.temporal.executions["build/docs/nightly"] = terminated
	status, err = b.ReadStatus(t.Context(), second.ExactName())
	assert.True(t, err == nil && status.Status == core.StatusFailed && status.Reason == "terminated",
		"it left nothing: %+v %s, %v", status.Status, status.Reason, err)
	left.RunID, left.Report.RunID, left.Report.Status = second.RunID, second.RunID, core.StatusHeld
	b.setState("docs/nightly", left)
	status, err = b.ReadStatus(t.Context(), second.ExactName())
	assert.True(t, err == nil && status.Status == core.StatusHeld, "it was held: %+v, %v", status.Status, err)
}

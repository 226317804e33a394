package service_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

func encode(t *testing.T, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	require.NoError(t, err)
	return raw
}

// refuse returns a workflow whose validator refuses.
func refuse(message, kind string) func(context.Context, client.UpdateWorkflowOptions) error {
	return func(context.Context, client.UpdateWorkflowOptions) error {
		return temporal.NewNonRetryableApplicationError(message, kind, nil)
	}
}

// oldWorker knows pause and resume of builds, and nothing of restores.
func oldWorker(_ context.Context, update client.UpdateWorkflowOptions) error {
	if update.UpdateName != "cancel" && update.WorkflowID == "build/docs/g1" {
		return nil
	}
	message := "unknown update " + update.UpdateName + ". KnownUpdates=[pause resume]"
	return temporal.NewApplicationError(message, "errorString")
}

func TestCommandsReachTheWorkflowOfTheirRun(t *testing.T) {
	for name, c := range map[string]struct{ run, workflow string }{
		"a build":            {"docs/g1", "build/docs/g1"},
		"by its workflow id": {"build/docs/g1", "build/docs/g1"},
		"a restore":          {"docs/restore-20260102t030405z", "restore/docs"},
		"an index":           {"docs", "build/docs/g1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.temporal.executions["build/docs/g1"] = running
			b.temporal.executions["restore/docs"] = running
			budget := &core.Budget{Calls: 10, Money: 2.5}
			b.must(b.PauseRun(t.Context(), c.run))
			b.must(b.ResumeRun(t.Context(), c.run, nil))
			b.must(b.ResumeRun(t.Context(), c.run, budget))
			b.must(b.CancelRun(t.Context(), c.run))
			names := []string{}
			for _, update := range b.temporal.updates {
				names = append(names, update.UpdateName)
				assert.True(t, update.WorkflowID == c.workflow && update.WaitForStage == client.WorkflowUpdateStageCompleted,
					"%s went to %s, waiting for %v", update.UpdateName, update.WorkflowID, update.WaitForStage)
			}
			if want := []string{"pause", "resume", "resume", "cancel"}; !reflect.DeepEqual(names, want) {
				t.Errorf("updates %q, want %q", names, want)
			}
			assert.Equal(t, `[{}]`, string(encode(t, b.temporal.updates[1].Args)), "resume takes")
			const want = `[{"budget":{"calls":10,"money":2.5}}]`
			assert.Equal(t, want, string(encode(t, b.temporal.updates[2].Args)), "resume with a budget takes")
			assert.Empty(t, b.temporal.cancelled, "cancelled past the workflow: %q", b.temporal.cancelled)
		})
	}
}

func TestWhatAWorkflowRefusesIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		message, kind string
		code          fault.Code
		says          []string
	}{
		"not paused":     {"the run is not paused", "usage", fault.Usage, []string{"resume run docs/g1", "is not paused"}},
		"resumed twice":  {"the run is being resumed already", "usage", fault.Usage, []string{"being resumed already"}},
		"another kind":   {"odd", "errorString", fault.Usage, []string{"odd"}},
		"no kind at all": {"odd", "", fault.Usage, []string{"odd"}},
		"a spent budget": {
			"the run has spent its budget", "budget_spent", fault.BudgetSpent, []string{"--budget-calls", "--budget-money"},
		},
		"a store": {"redis is away", "store_unavailable", fault.StoreDown, []string{"redis is away"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.temporal.executions["build/docs/g1"] = running
			b.temporal.answer = refuse(c.message, c.kind)
			wants(t, b.ResumeRun(t.Context(), "docs/g1", nil), c.code, c.says...)
		})
	}
}

func TestASpentBudgetNeedsANewOne(t *testing.T) {
	b := newBench(t)
	b.temporal.executions["build/docs/g1"] = running
	state := core.RunState{Report: core.Report{
		Status: core.StatusPaused, Reason: "budget_spent", Cost: 1.5,
		Calls: core.Calls{Extract: 20, Embed: 3}, Tokens: core.Tokens{Prompt: 100, Embedding: 11},
	}}
	b.setState("docs/g1", state)
	err := b.ResumeRun(t.Context(), "docs/g1", nil)
	wants(t, err, fault.BudgetSpent, "docs/g1", "23 calls", "111 tokens", "1.5", "--budget-calls", "--budget-money")
	assert.Empty(t, b.temporal.updates, "the workflow was asked all the same")
	wants(t, b.ResumeRun(t.Context(), "docs/g1", &core.Budget{Calls: -1}), fault.Usage, "below zero")
	for _, spent := range []core.Budget{{Calls: 23}, {Tokens: 100}, {Money: 1.5}, {Calls: 1000, Tokens: 111}} {
		err := b.ResumeRun(t.Context(), "docs/g1", &spent)
		wants(t, err, fault.Usage, "docs/g1", "leaves nothing of", "give a larger one")
		assert.True(t, strings.Count(err.Error(), "larger") == 1 && len(b.temporal.updates) == 0,
			"%d updates, %v", len(b.temporal.updates), err)
	}
	b.must(b.ResumeRun(t.Context(), "docs/g1", &core.Budget{Calls: 40}))
	state.Report.Reason = "paused"
	b.setState("docs/g1", state)
	b.must(b.ResumeRun(t.Context(), "docs/g1", nil))
}

func TestCommandsToARunThatIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*bench)
		code    fault.Code
		says    string
	}{
		"it completed": {
			func(b *bench) { b.writeReport("g1", core.StatusCompleted) }, fault.RunEnded, "run docs/g1 has ended: completed",
		},
		"it was held": {
			func(b *bench) { b.setState("docs/g1", state(core.StatusHeld)) }, fault.RunEnded, "has ended: held",
		},
		"it was ended": {
			func(b *bench) { b.setState("docs/g1", state(core.StatusPaused)) }, fault.RunEnded, "outside of its own control",
		},
		"it never was": {func(*bench) {}, fault.RunNotFound, "there is no such run"},
		"its state lost": {
			func(b *bench) { b.must(b.Stores.Coordination.SetState(b.t.Context(), "docs/g1", []byte("{"))) },
			fault.RunNotFound, "no such run",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c.prepare(b)
			for command, do := range map[string]func() error{
				"pause":  func() error { return b.PauseRun(t.Context(), "docs/g1") },
				"resume": func() error { return b.ResumeRun(t.Context(), "docs/g1", nil) },
				"cancel": func() error { return b.CancelRun(t.Context(), "docs/g1") },
			} {
				wants(t, do(), c.code, command+" run docs/g1", c.says, "unweaver status")
			}
		})
	}
}

func state(status string) core.RunState {
	return core.RunState{Report: core.Report{Status: status}}
}

func TestAnOldWorkerIsCancelledThroughTemporal(t *testing.T) {
	for name, run := range map[string]string{"a build": "docs/g1", "a restore": "docs/restore-1"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.temporal.executions["build/docs/g1"] = running
			b.temporal.executions["restore/docs"] = running
			b.temporal.answer = oldWorker
			b.must(b.CancelRun(t.Context(), run))
			want := map[string]string{"a build": "build/docs/g1", "a restore": "restore/docs"}[name]
			assert.True(t, reflect.DeepEqual(b.temporal.cancelled, []string{want}),
				"cancelled %q, want %q", b.temporal.cancelled, want)
		})
	}
	b := newBench(t)
	b.temporal.executions["restore/docs"] = running
	b.temporal.answer = oldWorker
	wants(t, b.PauseRun(t.Context(), "docs/restore-1"), fault.Usage, "does not know this command", "unweaver cancel")
}

func TestACommandThatNoWorkerObeys(t *testing.T) {
	hang := func(ctx context.Context, _ client.UpdateWorkflowOptions) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, c := range map[string]struct {
		pollers   int
		says      string
		cancelled int
	}{
		"none polls":          {0, "none has polled", 1},
		"one polls and hangs": {1, "no worker obeyed within 1m30s", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.temporal.executions["build/docs/g1"] = running
				b.temporal.answer, b.temporal.pollers = hang, c.pollers
				begin := time.Now()
				wants(t, b.PauseRun(t.Context(), "docs/g1"), fault.EngineDown, "pause run docs/g1", c.says)
				assert.Equal(t, 90*time.Second, time.Since(begin), "waited")
				wants(t, b.CancelRun(t.Context(), "docs/g1"), fault.EngineDown, c.says, "Temporal was asked to cancel it")
				assert.Len(t, b.temporal.cancelled, c.cancelled, "cancelled %q", b.temporal.cancelled)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				assert.ErrorIs(t, b.PauseRun(ctx, "docs/g1"), context.DeadlineExceeded, "the caller's own end")
			})
		})
	}
}

func TestATemporalThatIsDownIsNamed(t *testing.T) {
	b := newBench(t)
	b.temporal.down = serviceerror.NewUnavailable("connection refused")
	for name, do := range map[string]func() error{
		"pause":  func() error { return b.PauseRun(t.Context(), "docs/g1") },
		"cancel": func() error { return b.CancelRun(t.Context(), "docs/g1") },
		"status": func() error { _, err := b.ReadStatus(t.Context(), "docs/g1"); return err },
		"index":  func() error { _, err := b.BuildIndex(t.Context(), indexRequest(b, "docs", "g1")); return err },
		"attach": func() error { _, err := b.BuildIndex(t.Context(), indexRequest(b, "docs", "")); return err },
	} {
		t.Run(name, func(t *testing.T) { wants(t, do(), fault.EngineDown, "127.0.0.1:7233", "connection refused") })
	}
	assert.Empty(t, b.temporal.cancelled, "a Temporal that is down was asked twice")
}

func TestPauseAndCancelTellWhatIsInFlight(t *testing.T) {
	b := newBench(t)
	b.temporal.executions["build/docs/g1"] = running
	for says, want := range map[string]string{`{"in_flight":5}`: "5", `{"in_flight":0}`: "0", "": "untold"} {
		b.temporal.says = says
		for name, command := range map[string]func(context.Context, string) (control.Stopped, error){
			"pause": b.Service.PauseRun, "cancel": b.Service.CancelRun,
		} {
			stopped, err := command(t.Context(), "docs/g1")
			got := "untold"
			if stopped.InFlight != nil {
				got = strconv.FormatInt(*stopped.InFlight, 10)
			}
			assert.True(t, err == nil && got == want,
				"%s of a worker that says %q: %s in flight, %v; want %s", name, says, got, err, want)
		}
	}
}

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/storm"
)

// retryStages are those of a round in order; it is killed once it has come to each.
var retryStages = []string{
	"", core.StagePlan, core.StageChunk, core.StageBatch, core.StageExtract, core.StageReduce, core.StageShorten,
	core.StageEmbed, core.StageLoad, core.StageSegment, core.StageVerify, core.StagePublish, core.StageCollect,
}

// A round of retry-failed whose process is killed at any step goes on by itself after the restart: retry-failed joins
// it, builds begin after it, its answers are there, and a call is paid twice only where it was in flight.
// Promises: 1.
func TestKilledInEveryStageARoundOfRetryFailedGoesOnByItself(t *testing.T) {
	for _, mode := range []string{"online", "batch"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel() // it has a stack of its own
			stages := slices.Clone(retryStages)
			if mode == "online" {
				stages = slices.DeleteFunc(stages, func(stage string) bool { return stage == core.StageBatch })
			}
			if !longtest.On() {
				stages = []string{"", stages[3], core.StagePublish} // stage 3: where the model is asked
			}
			killRounds(t, mode, stages)
		})
	}
}

const poison = "Zyxpoison"

func killRounds(t *testing.T, mode string, stages []string) {
	server := serve(t, modeltest.Options{})
	heal := func(options modeltest.Options) {
		server.Set(options)
		server.SetBatchFaults(modeltest.BatchFaults{Reject: options.Poison})
	}
	docs := write(t, map[string]string{"base.md": "# Harbour\n\nThe harbour of Porto was built in 1901 by Carla Ruiz.\n"})
	sp := spec(t, "docs", docs, server, "indexes.docs.chunking.strategy=document", "models.embedding.dimension=256",
		"models.chat.mode="+mode, "models.chat.batch.poll=200ms")
	own := storm.Stack{Child: storm.Child{
		Dir: filepath.Join(t.TempDir(), "data"), Heartbeat: 2 * time.Second,
		Settings: []string{"models.endpoints=" + server.URL + "=E2E_KEY"},
	}}
	check(t, own.Start(t.Context()))
	t.Cleanup(own.Kill)
	for n, stage := range stages {
		heal(modeltest.Options{Poison: poison})
		writeFile(t, fmt.Sprintf("%s/stone-%d.md", docs, n),
			fmt.Sprintf("# Stone %d\n\nThe %s stone of Verin %d was found by Dora Sanz.\n", n, poison, n))
		if night := index(t, own.Control, sp); night.Status != core.StatusErrors || night.DeadLetters != 1 {
			t.Fatalf("night %d is %s with %d dead letters", n, night.Status, night.DeadLetters)
		}
		heal(modeltest.Options{Latency: 200 * time.Millisecond, EmbedLatency: 200 * time.Millisecond})
		round := must(own.Control.RetryFailed(t.Context(), control.LettersRequest{Name: "docs"}))(t)
		reach(t, own.Control, round.Run, stage)
		own.Kill()
		check(t, own.Start(t.Context()))
		meetRound(t, own.Control, sp, round)
		completed(t, wait(t, own.Control, round.Run))
		letters, err := own.Control.DeadLetters(t.Context(), "docs")
		assert.True(t, err == nil && len(letters) == 0, "killed at %q: letters %+v, %v", stage, letters, err)
		night := must(own.Control.BuildIndex(t.Context(), control.IndexRequest{Spec: sp}))(t)
		completed(t, wait(t, own.Control, night.Run))
	}
	if stats := server.Stats(); stats.Duplicates > int64(len(stages)) {
		t.Errorf("%d answers are paid twice, after %d kills with one call in flight", stats.Duplicates, len(stages))
	}
}

// reach returns once a run is at a stage or past it.
func reach(t *testing.T, serving control.Control, run, stage string) {
	t.Helper()
	at := slices.Index(retryStages, stage)
	for begun := time.Now(); at > 0; time.Sleep(5 * time.Millisecond) {
		status := must(serving.ReadStatus(t.Context(), run))(t)
		if slices.Index(retryStages, status.Stage) >= at || core.IsTerminal(status.Status) {
			return
		}
		require.True(t, time.Since(begun) <= 2*time.Minute, "%s does not come to %s: it is at %s", run, stage, status.Stage)
	}
}

// meetRound asks for a round and for a build after a restart: while the killed round goes on the one is joined, and the
// other refused by its name.
func meetRound(t *testing.T, serving control.Control, sp core.Spec, round control.Run) {
	t.Helper()
	again, err := serving.RetryFailed(t.Context(), control.LettersRequest{Name: "docs"})
	assert.True(t, err == nil && (again.Run == "" || again.Run == round.Run && again.Attached),
		"beside %s: %+v, %v", round.Run, again, err)
	status := must(serving.ReadStatus(t.Context(), round.Run))(t)
	if again.Run == "" || core.IsTerminal(status.Status) {
		return
	}
	_, err = serving.BuildIndex(t.Context(), control.IndexRequest{Spec: sp})
	assert.True(t, err == nil || fault.Is(err, fault.LeaseHeld), "a build beside %s: %v", round.Run, err)
}

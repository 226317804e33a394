package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/storm"
	"github.com/unweaver/unweaver/workflows"
)

// The size of a storm: UNWEAVER_STORM is the number of kills, 0 = a short one, UNWEAVER_STORM_OUT a folder for its
// report (make storm). Programs that tests start refuse variables that are no setting, so both are taken away.
var (
	stormKills = taken("UNWEAVER_STORM")
	stormOut   = taken("UNWEAVER_STORM_OUT")
)

func taken(variable string) string {
	value := os.Getenv(variable)
	_ = os.Unsetenv(variable)
	return value
}

// bound of the time in seconds from a restart until work goes on: thirty where the machine has little else to do. What
// it must catch, work that waits for a timeout of the engine or of a lease, takes minutes.
const bound = 120.0

func stormOptions(t *testing.T, seed uint64, deadline time.Time) storm.Options {
	return storm.Options{
		Folder: t.TempDir(), Seed: seed, PerBuild: 4, Deadline: deadline,
		Documents: storm.Documents{Count: 400, Seed: 7}, Flight: flight,
		Latency: 60 * time.Millisecond, Embed: 120 * time.Millisecond, Heartbeat: 2 * time.Second,
		Shape: workflows.Shape{Format: workflows.Format, ShardChunks: 200, BatchChunks: 32},
		Log:   t.Logf,
		Spec: func(index, documents, models string) (core.Spec, error) {
			return stormSpec(t, index, documents, models), nil
		},
	}
}

// stormSpec keeps one generation, so that every night has something to collect.
func stormSpec(t *testing.T, index, documents, models string) core.Spec {
	at := "indexes." + index + "."
	return spec(t, index, documents, nil, "models.chat.provider=openai", "models.chat.model=storm",
		"models.chat.api_key_env=E2E_KEY", "models.chat.base_url="+models, "models.embedding.provider=openai",
		"models.embedding.model=storm", "models.embedding.api_key_env=E2E_KEY", "models.embedding.base_url="+models,
		fmt.Sprintf("models.limits.concurrency=%d", flight), at+"chunking.strategy=document", at+"shortening.threshold=400",
		at+"keep=1", at+"grace=1s")
}

// Kills while work is in flight, in every stage and in the short activities between them: the same index as an
// undisturbed run, nothing paid twice beyond what was in flight, and work that goes on soon
// (docs/invariants.md, 1 and 2).
// Promises: 1, 110.
func TestKilledInEveryStageABuildEndsAsIfUndisturbed(t *testing.T) {
	longtest.Nightly(t)
	const least = 3 // of each kind
	lanes, each, builds, within := 3, least, 12, 4*time.Minute
	if kills, err := strconv.Atoi(stormKills); err == nil {
		each = max(least, (kills+len(storm.Activities)-1)/len(storm.Activities))
		builds, within = kills, time.Duration(kills)*10*time.Second
	}
	calm := stormOptions(t, 0, time.Time{})
	want, typical, err := storm.Calm(t.Context(), calm)
	require.NoError(t, err)
	t.Logf("activities last %v", typical)
	deadline := time.Now().Add(within)
	results := make([]storm.Result, lanes)
	var wg sync.WaitGroup
	for lane := range lanes {
		options := stormOptions(t, uint64(lane+1), deadline)
		options.Quota, options.Builds = map[string]int{}, builds
		for i, activity := range storm.Activities { // the lanes share them
			options.Quota[activity] = (each + (lane+i)%lanes) / lanes
		}
		wg.Go(func() {
			var err error
			results[lane], err = storm.Run(context.WithoutCancel(t.Context()), options, typical)
			assert.NoError(t, err, "lane %d", lane)
		})
	}
	wg.Wait()
	all := storm.Join(results...)
	t.Logf("\n%s", all.Table())
	if stormOut != "" {
		assert.NoError(t, all.Write(stormOut, "storm-embedded"))
	}
	wanted := least
	if time.Now().After(deadline) { // a slow machine: no kind may have been left out all the same
		t.Logf("the time was over before every kind was hit %d times: %v", each, all.Left)
		wanted = 1
	}
	judge(t, all, want, wanted)
}

func judge(t *testing.T, got storm.Result, want storm.Result, each int) {
	t.Helper()
	for i, night := range got.Nights {
		calm := want.Nights[i%len(want.Nights)]
		same(t, night.Status, calm.Status)
		assert.True(t, slices.Equal(night.Answers, calm.Answers), "chunks %v, undisturbed %v", night.Answers, calm.Answers)
	}
	for _, activity := range storm.Activities {
		hits := got.Hits(activity)
		assert.True(t, hits >= each, "%s was hit %d times, want %d", activity, hits, each)
	}
	worst := got.Worst()
	assert.True(t, worst <= bound, "work went on after %.0f s, want %.0f at most", worst, bound)
	chat, texts := got.Bound(flight)
	pairs := int64(len(got.Nights)+1) / 2 // of nights, which pay a text twice without any kill, too
	assert.True(t, got.Twice <= chat+pairs*want.Twice && got.Texts <= texts+pairs*want.Texts,
		"paid twice: %d answers, %d may have been in flight; %d texts, %d may have been in flight", got.Twice, chat,
		got.Texts, texts)
	t.Logf("undisturbed, %d answers and %d texts are paid twice in two nights", want.Twice, want.Texts)
}

// The engine dies alone, again and again, while a build is under way: the stack starts it again, the build ends in the
// hashes of an undisturbed one, and no answer is paid twice.
// Promises: 56.
func TestAnEngineThatIsKilledAmidABuildChangesNothing(t *testing.T) {
	t.Parallel() // it has stacks of its own
	docs := copySample(t)
	build := func(kills int) (control.Status, modeltest.Stats) {
		dir := t.TempDir()
		running := musttest.Get(start(dir))(t)
		defer func() { require.NoError(t, running.Stop(context.Background())) }()
		server := serve(t, modeltest.Options{Latency: 300 * time.Millisecond})
		sp := spec(t, "killed", docs, server, "indexes.killed.chunking.strategy=document", "models.limits.concurrency=2")
		run := musttest.Get(running.Control.BuildIndex(t.Context(), control.IndexRequest{Spec: sp, Generation: "g"}))(t)
		for n := range kills {
			before := server.Stats().Chat
			musttest.Reach(t, "calls", func() bool { return server.Stats().Chat >= before+3 })
			status, err := running.Control.ReadStatus(t.Context(), run.Run)
			require.True(t, err != nil || !core.IsTerminal(status.Status), "it ended before kill %d", n+1)
			require.NoError(t, syscall.Kill(engineOf(t, dir), syscall.SIGKILL))
		}
		return completed(t, wait(t, running.Control, run.Run)), server.Stats()
	}
	calm, calmly := build(0)
	killed, stats := build(3)
	same(t, killed, calm)
	assert.True(t, stats.Duplicates+stats.EmbedTwice == 0 && stats.Chat == calmly.Chat && stats.Embed >= calmly.Embed,
		"undisturbed %+v, with kills %+v", calmly, stats)
}

// engineOf waits until the engine of a data directory runs, and gives its process.
func engineOf(t *testing.T, dir string) int {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(10 * time.Millisecond) {
		raw, err := os.ReadFile(filepath.Join(dir, "engine.pid"))
		number, _, _ := strings.Cut(string(raw), " ")
		if pid, perr := strconv.Atoi(number); err == nil && perr == nil && pid > 0 {
			return pid
		}
	}
	t.Fatal(fmt.Errorf("no engine runs over %s", dir))
	return 0
}

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
	require.NoError(t, own.Start(t.Context()))
	t.Cleanup(own.Kill)
	for n, stage := range stages {
		heal(modeltest.Options{Poison: poison})
		writeFile(t, fmt.Sprintf("%s/stone-%d.md", docs, n),
			fmt.Sprintf("# Stone %d\n\nThe %s stone of Verin %d was found by Dora Sanz.\n", n, poison, n))
		if night := index(t, own.Control, sp); night.Status != core.StatusErrors || night.DeadLetters != 1 {
			t.Fatalf("night %d is %s with %d dead letters", n, night.Status, night.DeadLetters)
		}
		heal(modeltest.Options{Latency: 200 * time.Millisecond, EmbedLatency: 200 * time.Millisecond})
		round := musttest.Get(own.Control.RetryFailed(t.Context(), control.LettersRequest{Name: "docs"}))(t)
		reach(t, own.Control, round.Run, stage)
		own.Kill()
		require.NoError(t, own.Start(t.Context()))
		meetRound(t, own.Control, sp, round)
		completed(t, wait(t, own.Control, round.Run))
		letters, err := own.Control.DeadLetters(t.Context(), "docs")
		assert.True(t, err == nil && len(letters) == 0, "killed at %q: letters %+v, %v", stage, letters, err)
		completed(t, wait(t, own.Control, musttest.Get(own.Control.BuildIndex(t.Context(), control.IndexRequest{Spec: sp}))(t).Run))
	}
	if stats := server.Stats(); stats.Duplicates > int64(len(stages)) {
		t.Errorf("%d answers are paid twice, after %d kills with one call in flight", stats.Duplicates, len(stages))
	}
}

func reach(t *testing.T, serving control.Control, run, stage string) {
	at := slices.Index(retryStages, stage)
	for begun := time.Now(); at > 0; time.Sleep(5 * time.Millisecond) {
		status := musttest.Get(serving.ReadStatus(t.Context(), run))(t)
		if slices.Index(retryStages, status.Stage) >= at || core.IsTerminal(status.Status) {
			return
		}
		require.True(t, time.Since(begun) <= 2*time.Minute, "%s does not come to %s: it is at %s", run, stage, status.Stage)
	}
}

// meetRound asks for a round and for a build after a restart: while the killed round goes on the one is joined, and the
// other refused by its name.
func meetRound(t *testing.T, serving control.Control, sp core.Spec, round control.Run) {
	again, err := serving.RetryFailed(t.Context(), control.LettersRequest{Name: "docs"})
	assert.True(t, err == nil && (again.Run == "" || again.Run == round.Run && again.Attached),
		"beside %s: %+v, %v", round.Run, again, err)
	status := musttest.Get(serving.ReadStatus(t.Context(), round.Run))(t)
	if again.Run == "" || core.IsTerminal(status.Status) {
		return
	}
	_, err = serving.BuildIndex(t.Context(), control.IndexRequest{Spec: sp})
	assert.True(t, err == nil || fault.Is(err, fault.LeaseHeld), "a build beside %s: %v", round.Run, err)
}

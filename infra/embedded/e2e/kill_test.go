package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
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

// stormOptions returns the options of one lane.
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

// judge compares a storm with what it must be.
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

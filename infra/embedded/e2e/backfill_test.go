package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// backfilled waits until a backfill stands as it should, and returns how it stands.
func backfilled(
	t *testing.T, serving func() *service.Service, named control.BackfillNamed, wanted func(core.Backfill) bool,
) core.Backfill {
	t.Helper()
	var last []core.Backfill
	for begin := time.Now(); time.Since(begin) < 3*time.Minute; time.Sleep(50 * time.Millisecond) {
		var err error
		if last, err = serving().ListBackfills(t.Context(), named); err == nil && wanted(last[0]) {
			return last[0]
		}
		if err == nil && core.IsTerminal(last[0].Status) {
			break
		}
	}
	t.Fatalf("it did not come to that: %+v", last)
	return core.Backfill{}
}

// A backfill goes on beside a night and over the end of its process: both are published, the backfill on top of the
// night, and nothing is paid for twice.
// Promises: 45.
func TestABackfillBesideANight(t *testing.T) {
	t.Parallel() // it has a stack or servers of its own
	data, docs := t.TempDir(), t.TempDir()
	place := func(folder string, n int) {
		check(t, os.MkdirAll(filepath.Join(docs, folder), 0o755))
		writeFile(t, filepath.Join(docs, folder, fmt.Sprintf("%s-%02d.md", folder, n)), fmt.Sprintf(
			"# Harbour %s %d\n\nThe harbour of Port %s%d was built in 19%02d by Carla Ruiz.\n", folder, n, folder, n, n))
	}
	for n := range 4 {
		place("base", n)
	}
	server := serve(t, modeltest.Options{Latency: 100 * time.Millisecond})
	var running *stack.Stack
	begin := func() {
		t.Helper()
		running = must(start(data))(t)
	}
	begin()
	defer func() { check(t, running.Stop(t.Context())) }()
	serving := func() *service.Service { return running.Control }
	sp := spec(t, "docs", docs, server, "indexes.docs.chunking.strategy=document", "models.embedding.dimension=256",
		"models.limits.concurrency=8")
	base := completed(t, index(t, serving(), sp))

	// What the backfill chose a night leaves to it.
	const archived = 40
	for n := range archived {
		place("archive", n)
	}
	place("news", 1)
	named := control.BackfillNamed{Index: "docs", Name: "old"}
	request := control.BackfillRequest{
		Index: "docs", Name: "old", Choice: core.BackfillChoice{Prefix: "archive/"},
		Throttle: core.BackfillThrottle{Concurrency: 2},
	}
	started := must(serving().StartBackfill(t.Context(), request))(t)
	assert.True(t, !started.Attached && !started.Again, "%+v", started)
	again, err := serving().StartBackfill(t.Context(), request)
	assert.True(t, err == nil && again.Attached, "a second start of what runs: %+v, %v", again, err)
	other := request
	other.Choice.Prefix = "news/"
	if _, err := serving().StartBackfill(t.Context(), other); err == nil || !strings.Contains(err.Error(), "conditions") {
		t.Errorf("a second start with another choice: %v", err)
	}
	some := func(least int64) func(core.Backfill) bool {
		return func(one core.Backfill) bool { return one.ChunksDone >= least }
	}
	if one := backfilled(t, serving, named, some(4)); one.Documents != archived || one.Base != base.Generation {
		t.Errorf("%+v", one)
	}
	night := completed(t, index(t, serving(), sp))
	assert.True(t, night.Documents == 5 && night.LeftOut.Backfills == archived,
		"a night beside it has %d documents, and left out %+v", night.Documents, night.LeftOut)

	// Paused, nothing is asked; then its process ends in the middle, and another goes on.
	check(t, serving().PauseBackfill(t.Context(), named))
	mark := time.Now()
	backfilled(t, serving, named, func(one core.Backfill) bool { return one.Status == core.StatusPaused })
	time.Sleep(time.Second)
	assert.Zero(t, server.StartedSince(mark))
	check(t, serving().ResumeBackfill(t.Context(), named))
	done := backfilled(t, serving, named, some(0)).ChunksDone
	backfilled(t, serving, named, some(done+4))
	check(t, running.Stop(t.Context()))
	begin()

	end := backfilled(t, serving, named, func(one core.Backfill) bool { return core.IsTerminal(one.Status) })
	assert.True(t, end.Status == core.StatusCompleted && end.Rebased && end.Base == base.Generation &&
		end.Parent == night.Generation && end.Progress == 1 && end.ChunksDone == archived, "%+v", end)
	after := completed(t, index(t, serving(), sp))
	assert.True(t, after.Documents == archived+5 && after.Unchanged,
		"the night after it found %d documents, unchanged %v", after.Documents, after.Unchanged)
	for _, folder := range []string{"base", "news", "archive"} {
		out := ask(t, running.HTTP, "docs", fmt.Sprintf("Who built the harbour of Port %s1?", folder), nil)
		if !slices.ContainsFunc(chunksOf(out), func(chunk map[string]any) bool {
			return strings.HasPrefix(chunk["document"].(string), folder+"/")
		}) {
			t.Errorf("no chunk of %s: %v", folder, chunksOf(out))
		}
	}
	assert.Zero(t, server.Stats().Duplicates)
	assert.Equal(t, int64(archived+5), server.Stats().Tasks["extract"].Calls)
	operations := must(serving().ListOperations(t.Context(), "docs", 0))(t)
	var actions []string
	for _, one := range operations {
		actions = append(actions, one.Action+" "+one.Run)
	}
	slices.Reverse(actions)
	want := []string{"backfill docs/backfill/old", "pause docs/backfill/old", "resume docs/backfill/old"}
	assert.True(t, slices.Equal(actions, want), "%q, want %q", actions, want)
}

// A night that comes while a backfill is published goes first: the build of the backfill ends and follows it, on top of
// what the night published, and nothing is paid for twice.
// Promises: 45.
func TestANightGoesBeforeTheBuildOfABackfill(t *testing.T) {
	docs := t.TempDir()
	place := func(name string, n int) {
		writeFile(t, filepath.Join(docs, fmt.Sprintf("%s-%02d.md", name, n)), fmt.Sprintf(
			"# Harbour %s %d\n\nThe harbour of Port %s%d was built in 19%02d by Carla Ruiz.\n", name, n, name, n, n))
	}
	for n := range 3 {
		place("base", n)
	}
	server := serve(t, modeltest.Options{})
	sp := spec(t, "yields", docs, server, "indexes.yields.chunking.strategy=document", "models.embedding.dimension=256")
	serving := func() *service.Service { return shared.Control }
	completed(t, index(t, serving(), sp))
	for n := range 6 {
		place("archive", n)
	}
	place("news", 1)

	// From the moment on at which everything is paid for, the embeddings of classes wait until the night is over.
	var slow atomic.Bool
	night := make(chan struct{})
	arrived := make(chan struct{}, 100)
	server.Set(modeltest.Options{Script: func(seen modeltest.Seen) modeltest.Injection {
		if slow.Load() && seen.Task == "embed" && strings.Contains(seen.Text, "archive") {
			arrived <- struct{}{}
			<-night
		}
		return modeltest.Injection{}
	}})
	named := control.BackfillNamed{Index: "yields", Name: "old"}
	_, err := serving().StartBackfill(t.Context(),
		control.BackfillRequest{Index: "yields", Name: "old", Choice: core.BackfillChoice{Prefix: "archive"}})
	check(t, err)
	backfilled(t, serving, named, func(one core.Backfill) bool {
		if one.UnitsDone == 1 {
			slow.Store(true)
		}
		return one.Status == core.BackfillPublishing
	})
	<-arrived
	begun := must(serving().BuildIndex(t.Context(), control.IndexRequest{Spec: sp}))(t)
	require.False(t, begun.Attached, "a night joined the build of a backfill: %+v", begun)
	close(night)
	first := completed(t, wait(t, serving(), begun.Run))
	assert.True(t, first.Documents == 4 && first.LeftOut.Backfills == 6,
		"%d documents, left out %+v", first.Documents, first.LeftOut)
	end := core.Backfill{}
	for begin := time.Now(); time.Since(begin) < time.Minute && !core.IsTerminal(end.Status); {
		all := must(serving().ListBackfills(t.Context(), named))(t)
		end = all[0]
		time.Sleep(50 * time.Millisecond)
	}
	assert.True(t, end.Status == core.StatusCompleted && end.Parent == first.Generation && len(end.Builds) >= 2 &&
		end.Builds[0].Why == core.BackfillYielded && end.Rebased, "%+v", end)
	last := completed(t, index(t, serving(), sp))
	assert.True(t, last.Documents == 10 && last.Unchanged, "%d documents, unchanged %v", last.Documents, last.Unchanged)
	assert.Zero(t, server.Stats().Duplicates)
}

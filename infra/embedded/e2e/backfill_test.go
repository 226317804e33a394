package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

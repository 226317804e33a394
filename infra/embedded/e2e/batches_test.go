package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// A first build and a night in mode batch, with a server that has every fault, over the end of their process, a pause
// and a cancel: nothing is paid twice, and an online build of the same asks for nothing.
func TestNightsInBatches(t *testing.T) {
	t.Parallel() // it has a stack or servers of its own
	data := t.TempDir()
	files := map[string]string{}
	for n := range 40 {
		files[fmt.Sprintf("base-%02d.md", n)] = fmt.Sprintf(
			"# Harbour %d\n\nThe harbour of Port %d was built in 19%02d by Carla Ruiz.\n", n, n, n)
	}
	docs := write(t, files)
	server := serve(t, modeltest.Options{})
	server.SetBatchFaults(modeltest.BatchFaults{
		LoseCreate: 2, CutCreate: 2, LateFile: 2, Down: 2, Expire: 3, Busy: 3, Drop: 2, Reject: "Port 17 was", Tokens: 2500,
	})
	var running *stack.Stack
	begin := func() {
		t.Helper()
		running = must(start(data))(t)
	}
	begin()
	defer func() { check(t, running.Stop(t.Context())) }()
	settings := []string{"indexes.docs.chunking.strategy=document", "models.embedding.dimension=256"}
	sp := spec(t, "docs", docs, server, append(settings, "models.chat.mode=batch", "models.chat.batch.poll=100ms",
		"models.chat.batch.requests=8", "models.chat.batch.tokens=4000")...)
	first := completed(t, index(t, running.Control, sp))
	created, pushed := server.Batches()
	assert.True(t, created >= 5 && pushed != 0, "%d batches, %d without room", created, pushed)
	assert.Equal(t, int64(40), first.Calls.Extract)

	// The night's batches do not end. Its process does; it is paused and resumed; and then the server gets on.
	server.SetBatchFaults(modeltest.BatchFaults{Stuck: true})
	more := func(from int) {
		for n := range 20 {
			writeFile(t, fmt.Sprintf("%s/news-%02d.md", docs, from+n), fmt.Sprintf(
				"# Quay %d\n\nThe quay of Verin %d was built in 18%02d by Dora Sanz.\n", from+n, from+n, n))
		}
	}
	more(0)
	atWork := func(least int) {
		t.Helper()
		for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			if now, _ := server.Batches(); now >= least {
				return
			}
			require.True(t, time.Since(begun) <= time.Minute, "no batch is sent")
		}
	}
	night := must(running.Control.BuildIndex(t.Context(), control.IndexRequest{Spec: sp}))(t)
	run := night.Run
	atWork(created + 1)
	st, err := running.Control.ReadStatus(t.Context(), run)
	assert.True(t, err == nil && st.Stage == core.StageBatch, "it is at stage %s: %v", st.Stage, err)
	check(t, running.Stop(t.Context()))
	begin()
	_, err = running.Control.PauseRun(t.Context(), run)
	check(t, err)
	check(t, running.Control.ResumeRun(t.Context(), run, nil))
	server.SetBatchFaults(modeltest.BatchFaults{})
	completed(t, wait(t, running.Control, run))
	if stats := server.Stats(); stats.Duplicates != 0 || stats.Extract != 60 {
		t.Errorf("paid twice %d, %d extractions of 60", stats.Duplicates, stats.Extract)
	}

	// Another index of the same documents, online: all of it is in the ledger.
	before := server.Stats().Chat
	other := spec(t, "other", docs, server, "indexes.other.chunking.strategy=document", "models.embedding.dimension=256")
	same := completed(t, index(t, running.Control, other))
	if now := server.Stats().Chat; now != before {
		t.Errorf("%d calls for what batches answered", now-before)
	}
	assert.Equal(t, same.TextHash, completed(t, wait(t, running.Control, run)).TextHash, "hash")
}

package e2e

import (
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// holdingWords gives the files below a folder in whose bytes one of some words stands, in whatever case.
func holdingWords(t *testing.T, folder string, words ...string) (where []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, word := range words {
			if bytes.Contains(bytes.ToLower(raw), []byte(word)) {
				where = append(where, strings.TrimPrefix(path, folder)+": "+word)
				break
			}
		}
		return err
	})
	require.NoError(t, err)
	return where
}

// purging starts a stack over a folder, with a corpus whose c.md alone holds purgedWords; stop may be called twice.
func purging(t *testing.T) (folder, documents string, own *stack.Stack, stop func()) {
	t.Helper()
	folder = t.TempDir()
	own = must(start(folder))(t)
	stop = sync.OnceFunc(func() { assert.NoError(t, own.Stop(context.Background())) })
	t.Cleanup(stop)
	return folder, write(t, map[string]string{
		"a.md": "# Alma\n\nThe harbour of Port Alma was built by Carla Ruiz. Ships carry salt to Lake Verin.\n",
		"b.md": "# Bern\n\nBern sells tin to Port Alma. Carla Ruiz lived in Bern for a year.\n",
		"c.md": "# Quastenberg\n\nMarlene Quastenberg paid the ferryman in opals. Carla Ruiz wrote about Zuckmayer Lane.\n",
	}), own, stop
}

var purgedWords = []string{"quastenberg", "zuckmayer", "ferryman"}

// Of a purged document no byte of the data directory of an embedded stack says anything: artifacts and ledger, records
// and vectors, the engine's history, the copies that workers and query-api mapped. The index answers throughout.
// Promises: 5.
func TestNothingOfADataDirectoryTellsOfAPurgedDocument(t *testing.T) {
	t.Parallel() // it has a stack of its own
	server := serve(t, modeltest.Options{Dimension: 16})
	folder, documents, own, stop := purging(t)
	sp := spec(t, "del", documents, server)
	sp.Embedding = spec(t, "del", documents, nil).Embedding // whose table of words is learned from the corpus
	first := completed(t, index(t, own.Control, sp))
	require.NoError(t, os.WriteFile(filepath.Join(documents, "b.md"), []byte("# Bern\n\nBern sells salt.\n"), 0o644))
	completed(t, index(t, own.Control, sp))
	ask(t, own.HTTP, "del", "Who paid the ferryman?", nil)
	ask(t, own.HTTP, "del", "Who paid the ferryman?", map[string]any{"generation": first.Generation})
	where := holdingWords(t, folder, purgedWords...)
	require.True(t, len(where) >= 8, "the search finds too little of what is there: %q", where)
	request := control.PurgeRequest{Index: "del", Documents: []string{"c.md"}}
	if _, err := own.Control.PurgeDocuments(t.Context(), request); !fault.Is(err, fault.Usage) {
		t.Errorf("without a confirmation: %v", err)
	}
	request.Documents, request.Confirmed = []string{"x.md"}, true
	if _, err := own.Control.PurgeDocuments(t.Context(), request); !fault.Is(err, fault.NotFound) {
		t.Errorf("of a document that no index has: %v", err)
	}
	request.Documents, request.DryRun = []string{"c.md"}, true
	looked, err := own.Control.PurgeDocuments(t.Context(), request)
	require.True(t, err == nil && looked.Run == nil && len(looked.Plan.Drops) == 2 && looked.Plan.Documents[0].Known,
		"%+v, %v", looked, err)
	calls := server.Stats().Chat
	request.DryRun = false
	asks := func(lines ...string) control.PurgeAnswer { // purges, judged by these probe questions
		t.Helper()
		gated := sp
		gated.Gate.Probes, gated.Gate.MaxRecallDrop = filepath.Join(t.TempDir(), "probes.jsonl"), 0.1
		require.NoError(t, os.WriteFile(gated.Gate.Probes, []byte(strings.Join(lines, "\n")), 0o600))
		request.Files = must(config.ReadFiles(&gated))(t)
		request.Gate = &gated.Gate
		begun := must(own.Control.PurgeDocuments(t.Context(), request))(t)
		return begun
	}
	stays := `{"question": "Who built the harbour of Port Alma?", "documents": ["a.md"]}`
	held := wait(t, own.Control, asks(stays, `{"question": "Who paid in opals?", "documents": ["c.md"]}`).Run.Run)
	assert.True(t, held.Status == core.StatusHeld && held.Reason == "recall", "a probe expects the document: %+v", held)
	begun := asks(stays) // without its line
	ended := completed(t, wait(t, own.Control, begun.Run.Run))
	assert.True(t, server.Stats().Chat == calls && ended.Documents == 2, "%d calls, %+v", server.Stats().Chat-calls,
		ended.Report)
	stand, err := own.Control.ListPurges(t.Context(), control.PurgesRequest{Index: "del"})
	require.True(t, err == nil && len(stand.Purges) == 1, "%+v, %v", stand, err)
	one := stand.Purges[0]
	assert.True(t, one.State == core.PurgeDone && one.Gone.Generations == 2 && one.Gone.Ledger != 0, "%+v", one)
	out := ask(t, own.HTTP, "del", "Who paid the ferryman? Quastenberg", nil)
	for _, chunk := range chunksOf(out) {
		assert.True(t, chunk["document"] != "c.md", "a query returns %v", chunk)
	}
	if status, _ := do(t, own.HTTP, http.MethodPost, "/v1/indexes/del/query", map[string]any{
		"query": "opals", "generation": first.Generation,
	}); status != http.StatusGone && status != http.StatusNotFound {
		t.Errorf("a generation that was dropped answers %d", status)
	}
	again, err := own.Control.PurgeDocuments(t.Context(), request)
	assert.True(t, err == nil && again.Run == nil && again.Purge != nil && again.Purge.State == core.PurgeDone,
		"once more: %+v, %v", again, err)
	trail, err := own.Control.ListOperations(t.Context(), "del", 1)
	assert.True(t, err == nil && len(trail) == 1 && trail[0].Action == core.ActionPurge &&
		strings.HasPrefix(begun.Plan.Documents[0].Digest.String(), trail[0].Name), "%+v, %v", trail, err)
	completed(t, index(t, own.Control, sp)) // the source is still there, and stays out
	stop()
	if where := holdingWords(t, folder, purgedWords...); len(where) > 0 {
		t.Errorf("still stored in %q", where)
	}
}

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/starter/cli"
	"github.com/unweaver/unweaver/starter/eval"
)

// command runs the command line against the stack, and decodes what it prints into out.
func command(t *testing.T, out any, args ...string) {
	var printed, errs bytes.Buffer
	app := &cli.App{Out: &printed, Err: &errs, Env: os.Environ(), Connect: func(
		context.Context, *config.Config,
	) (cli.Connection, error) {
		control := &httpapi.Client{Base: shared.HTTP, Token: shared.Token}
		return cli.Connection{Control: control, HTTP: shared.HTTP}, nil
	}}
	exit := app.Run(t.Context(), append(args, "--json"))
	require.True(t, exit == cli.ExitDone, "%q ends with %d: %s %s", args, exit, printed.String(), errs.String())
	if out == nil {
		return
	}
	err := json.Unmarshal(printed.Bytes(), out)
	require.True(t, err == nil, "%q prints %s: %v", args, printed.String(), err)
}

// A branch with another embedder is built and compared with its base by the commands that docs/guides/nights.md
// names, then served by the base, and taken back: each answer is of the generation that was said to be served.
// Promises: 42.
func TestABranchIsComparedWithItsBaseThenPromotedAndTakenBack(t *testing.T) {
	absolute := musttest.Get(filepath.Abs(sample))(t)
	embedder := serve(t, modeltest.Options{Dimension: 16})
	home := t.TempDir()
	t.Chdir(t.TempDir())
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	require.NoError(t, os.CopyFS("lines", os.DirFS(absolute)))
	const base, line = "eval-lines", "eval-lines-narrow"
	evaluated := func(args ...string) (report eval.Report) {
		command(t, &report, append([]string{"eval", "--dataset", "lines", "--methods", "vector", "--k", "2,5"}, args...)...)
		return report
	}
	serves := func(generation string) {
		status, out := do(t, shared.HTTP, http.MethodPost, "/v1/indexes/"+base+"/query",
			map[string]any{"query": fiveQuestion})
		require.True(t, status == http.StatusOK && out["generation"] == generation,
			"%s answers %d from %v, not from %s", base, status, out["generation"], generation)
	}
	before := evaluated()
	serves(before.Generation)

	var branch core.Branch
	command(t, &branch, "branch", base, "--as", line, "--reason", "narrower",
		"--set", "models.embedding.provider=openai", "--set", "models.embedding.model=narrow",
		"--set", "models.embedding.api_key_env=E2E_KEY", "--set", "models.embedding.base_url="+embedder.URL)
	require.True(t, branch.Generation == before.Generation && branch.Name == line, "%+v", branch)

	// The evaluation builds the branch with its own settings, and leaves what the base serves alone.
	compared := evaluated("--index", line, "--against", "index="+base)
	assert.True(t, compared.Index == line && compared.Generation != before.Generation &&
		compared.Content == before.Content && compared.Vectors != before.Vectors,
		"the branch is not the same corpus with other vectors: %+v, before %+v", compared, before)
	own, there := compared.Rows[0], compared.Rows[1]
	require.True(t, len(compared.Rows) == 2 && own.Failures+there.Failures <= 0 && own.Generation == compared.Generation &&
		there.Generation == before.Generation && there.Base == own.Name && len(there.Paired) == 2,
		"the two lines are not compared: %+v", compared.Rows)
	for i, paired := range there.Paired {
		assert.True(t, there.Recall[i].Mean == before.Rows[0].Recall[i].Mean,
			"recall of the base is %v beside the branch, %v alone", there.Recall[i], before.Rows[0].Recall[i])
		assert.True(t, i != 1 || paired.Mean != 0, "vectors of sixteen numbers find what those of the base find")
		if got, want := paired.Mean, there.Recall[i].Mean-own.Recall[i].Mean; got-want > 1e-9 || want-got > 1e-9 {
			t.Errorf("the difference is %v, of recalls %v and %v", paired, there.Recall[i], own.Recall[i])
		}
	}
	serves(before.Generation)

	var difference core.Difference
	file := filepath.Join(t.TempDir(), "questions.jsonl")
	writeFile(t, file, fmt.Sprintf("{\"question\": %q}\n", question))
	command(t, &difference, "diff", base, line, "--index", base, "--questions", file)
	assert.True(t, difference.From.Generation == before.Generation && difference.From.Index == base &&
		difference.To.Generation == compared.Generation && difference.To.Index == line && difference.Questions != nil &&
		difference.Questions.Asked == 1 && difference.To.Counts.Chunks == 120 &&
		difference.Documents.Changed+difference.Chunks.Added+difference.Chunks.Removed <= 0,
		"another embedder makes another corpus: %+v", difference)

	var move core.Move
	command(t, &move, "promote", line, "--reason", "it is smaller")
	require.True(t, move.From == before.Generation && move.To == compared.Generation &&
		move.Set["models.embedding.model"] == "narrow", "%+v", move)
	serves(compared.Generation)
	paid := embedder.Stats().Embed
	again := evaluated("--index", base) // with the settings that came with the generation: nothing is made again
	assert.True(t, again.Generation == compared.Generation && again.Rows[0].Recall[1].Mean == own.Recall[1].Mean,
		"after the promotion %+v", again)
	asked := embedder.Stats().Embed - paid
	assert.True(t, asked <= int64(again.N), "%d texts were embedded for %d questions, after the promotion", asked, again.N)

	command(t, &move, "rollback", "--index", base, "--reason", "it was not better")
	assert.Equal(t, before.Generation, move.To, "%+v", move)
	serves(before.Generation)
	back := evaluated()
	assert.True(t, back.Generation == before.Generation && back.Vectors == before.Vectors, "after the rollback %+v", back)
}

// A document is not purged while a branch shares what the index has of it, whichever of them is named, and a promotion
// alone does not change that. Once the branch is deleted the purge takes what both had: of the document no byte of the
// data directory says anything, and what the branch brought is still served.
// Promises: 46.
func TestAPurgeWaitsForABranchToBeDeletedAndTakesWhatBothHad(t *testing.T) {
	t.Parallel() // it has a stack or servers of its own
	folder, documents, own, stop := purging(t)
	base := completed(t, index(t, own.Control, spec(t, "base", documents, nil)))
	_, err := own.Control.ChangeBranch(t.Context(),
		control.BranchRequest{Index: "base", Name: "side", Set: map[string]string{"shortening.threshold": "200"}})
	require.NoError(t, err)
	overlay := musttest.Get(own.Control.ReadOverlay(t.Context(), "side"))(t)
	side := spec(t, "side", documents, nil, "indexes.side.shortening.threshold=200")
	side.Overlay = overlay.Set
	built := completed(t, index(t, own.Control, side))
	require.True(t, !built.Unchanged && built.Generation != base.Generation,
		"the branch itself built nothing: %+v", built.Report)
	found := func() (served int) {
		for _, name := range []string{"base", "side"} {
			for _, chunk := range chunksOf(ask(t, own.HTTP, name, "Who paid the ferryman?", nil)) {
				if chunk["document"] == "c.md" {
					served++
				}
			}
		}
		return served
	}
	refused := func(when string) {
		for _, name := range []string{"base", "side"} {
			_, err := own.Control.PurgeDocuments(t.Context(),
				control.PurgeRequest{Index: name, Documents: []string{"c.md"}, Confirmed: true})
			require.True(t, fault.Is(err, fault.Usage) && strings.Contains(err.Error(), "segments"),
				"a purge from %s, %s: %v", name, when, err)
		}
		stand, err := own.Control.ListPurges(t.Context(), control.PurgesRequest{Index: "base"})
		assert.True(t, err == nil && len(stand.Purges) == 0, "a refused purge is on record, %s: %+v, %v", when, stand, err)
		assert.Equal(t, 2, found(), "%s the document is served by", when)
	}
	refused("beside a branch")
	_, err = own.Control.MoveGeneration(t.Context(), control.MoveRequest{Action: core.ActionPromote, Index: "side"})
	require.NoError(t, err)
	refused("promote it")

	_, err = own.Control.ChangeBranch(t.Context(), control.BranchRequest{Index: "base", Name: "side", Delete: true})
	require.NoError(t, err)
	begun := musttest.Get(own.Control.PurgeDocuments(t.Context(),
		control.PurgeRequest{Index: "base", Documents: []string{"c.md"}, Confirmed: true}))(t)
	completed(t, wait(t, own.Control, begun.Run.Run))
	stand, err := own.Control.ListPurges(t.Context(), control.PurgesRequest{Index: "base"})
	require.True(t, err == nil && len(stand.Purges) == 1 && stand.Purges[0].State == core.PurgeDone, "%+v, %v", stand, err)
	after, err := own.Control.ReadOverlay(t.Context(), "base")
	assert.True(t, err == nil && after.Set["shortening.threshold"] == "200",
		"what the branch brought is lost with the purge: %+v, %v", after, err)
	for _, chunk := range chunksOf(ask(t, own.HTTP, "base", "Who built the harbour? Who paid the ferryman?", nil)) {
		assert.True(t, chunk["document"] != "c.md", "a query returns %v", chunk)
	}
	stop()
	where := holdingWords(t, folder, purgedWords...)
	assert.True(t, len(where) == 0, "still stored in %q", where)
	_, err = os.Stat(filepath.Join(documents, "c.md"))
	assert.NoError(t, err)
}

// holdingWords gives the files below a folder in whose bytes one of some words stands, in whatever case.
func holdingWords(t *testing.T, folder string, words ...string) (where []string) {
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
	folder = t.TempDir()
	own = musttest.Get(start(folder))(t)
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
	musttest.Refuse(own.Control.PurgeDocuments(t.Context(), request))(t, fault.Usage)
	request.Documents, request.Confirmed = []string{"x.md"}, true
	musttest.Refuse(own.Control.PurgeDocuments(t.Context(), request))(t, fault.NotFound)
	request.Documents, request.DryRun = []string{"c.md"}, true
	looked := musttest.Get(own.Control.PurgeDocuments(t.Context(), request))(t)
	require.True(t, looked.Run == nil && len(looked.Plan.Drops) == 2 && looked.Plan.Documents[0].Known, "%+v", looked)
	calls := server.Stats().Chat
	request.DryRun = false
	asks := func(lines ...string) control.PurgeAnswer { // purges, judged by these probe questions
		gated := sp
		gated.Gate.Probes, gated.Gate.MaxRecallDrop = filepath.Join(t.TempDir(), "probes.jsonl"), 0.1
		require.NoError(t, os.WriteFile(gated.Gate.Probes, []byte(strings.Join(lines, "\n")), 0o600))
		request.Files = musttest.Get(config.ReadFiles(&gated))(t)
		request.Gate = &gated.Gate
		return musttest.Get(own.Control.PurgeDocuments(t.Context(), request))(t)
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
	again := musttest.Get(own.Control.PurgeDocuments(t.Context(), request))(t)
	assert.True(t, again.Run == nil && again.Purge != nil && again.Purge.State == core.PurgeDone, "once more: %+v", again)
	trail, err := own.Control.ListOperations(t.Context(), "del", 1)
	assert.True(t, err == nil && len(trail) == 1 && trail[0].Action == core.ActionPurge &&
		strings.HasPrefix(begun.Plan.Documents[0].Digest.String(), trail[0].Name), "%+v, %v", trail, err)
	completed(t, index(t, own.Control, sp)) // the source is still there, and stays out
	stop()
	where = holdingWords(t, folder, purgedWords...)
	assert.True(t, len(where) <= 0, "still stored in %q", where)
}

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/starter/cli"
	"github.com/unweaver/unweaver/starter/eval"
)

// command runs the command line against the stack, and decodes what it prints into out.
func command(t *testing.T, out any, args ...string) {
	t.Helper()
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
	absolute := must(filepath.Abs(sample))(t)
	embedder := serve(t, modeltest.Options{Dimension: 16})
	home := t.TempDir()
	t.Chdir(t.TempDir())
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	check(t, os.CopyFS("lines", os.DirFS(absolute)))
	const base, line = "eval-lines", "eval-lines-narrow"
	evaluated := func(args ...string) (report eval.Report) {
		t.Helper()
		command(t, &report, append([]string{"eval", "--dataset", "lines", "--methods", "vector", "--k", "2,5"}, args...)...)
		return report
	}
	serves := func(generation string) {
		t.Helper()
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

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/starter/cli"
	"github.com/unweaver/unweaver/starter/eval"
)

// ragRow is a row of RAGBench, as far as it is read, in its order of columns.
type ragRow struct {
	ID        string   `parquet:"id"`
	Question  string   `parquet:"question"`
	Documents []string `parquet:"documents,list"`
	Response  string   `parquet:"response"`
}

// publish writes files of the shapes of RAGBench and MuSiQue.
func publish(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "covidqa"), 0o755))
	var rows []ragRow
	var lines bytes.Buffer
	for i := range 4 {
		place, thing := fmt.Sprintf("Tolmin%d", i), fmt.Sprintf("Marbeck%d", i)
		texts := []string{
			fmt.Sprintf("%s is a town that sells salt to %s.", place, thing),
			fmt.Sprintf("%s is a ship that was built in %s.", thing, place),
		}
		rows = append(rows, ragRow{fmt.Sprint(i), "What does " + place + " sell?", texts, place + " sells salt."})
		line := musttest.Get(json.Marshal(map[string]any{
			"id": "2hop__" + fmt.Sprint(i), "question": "Where was " + thing + " built?", "answer": place, "answerable": true,
			"paragraphs": []map[string]any{
				{"idx": 0, "title": thing, "paragraph_text": texts[1], "is_supporting": true},
				{"idx": 1, "title": "Other", "paragraph_text": "Of no use.", "is_supporting": false},
			},
		}))(t)
		lines.Write(append(line, '\n'))
	}
	rows = append(rows, rows[0]) // of several models; the first counts
	require.NoError(t, parquet.WriteFile(filepath.Join(dir, "covidqa", "train-00000-of-00001.parquet"), rows))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "musique_ans_v1.0_dev.jsonl"), lines.Bytes(), 0o600))
	return dir
}

func TestTable1IsReproducedFromPublishedFilesAndGoesOnAfterAStopWithoutPayingTwice(t *testing.T) {
	published, work := publish(t), t.TempDir()
	server := serve(t, modeltest.Options{Dimension: 64})
	t.Chdir(work)
	reproduce := func(more ...string) (int, string, string) {
		var out, errs bytes.Buffer
		app := &cli.App{Out: &out, Err: &errs, Env: []string{"E2E_KEY=e2e", "HOME=" + work},
			Connect: func(context.Context, *config.Config) (cli.Connection, error) {
				return cli.Connection{Control: shared.Control, HTTP: shared.HTTP}, nil
			}}
		args := []string{"reproduce", "table1", published, "--runs", "1", "--workers", "1"}
		for _, kind := range []string{"chat", "embedding"} {
			args = append(args, "--set", "models."+kind+".provider=openai", "--set", "models."+kind+".model=paper",
				"--set", "models."+kind+".base_url="+server.URL, "--set", "models."+kind+".api_key_env=E2E_KEY")
		}
		exit := app.Run(t.Context(), append(append(args, "--set", "models.chat.price.completion=2"), more...))
		return exit, out.String(), errs.String()
	}
	exit, _, errs := reproduce()
	require.Equal(t, cli.ExitUsage, exit, errs)
	for _, part := range []string{
		"4 questions, where the paper has 1234", "covidqa: index of 8 passages: 8 extractions", "this costs money",
	} {
		assert.Contains(t, errs, part)
	}
	require.Zero(t, server.Stats().Chat, "something was paid for without --yes")

	var judged atomic.Int64
	server.Set(modeltest.Options{Dimension: 64, Script: func(seen modeltest.Seen) modeltest.Injection {
		if seen.Task == "judge" && judged.Add(1) > 7 {
			return modeltest.Injection{Status: http.StatusUnauthorized}
		}
		return modeltest.Injection{}
	}})
	exit, _, errs = reproduce("--yes")
	require.Equal(t, cli.ExitFailed, exit, errs)
	assert.Contains(t, errs, "about 100 calls, 0 journaled, 100 to pay")
	server.Set(modeltest.Options{Dimension: 64})
	exit, out, errs := reproduce("--yes")
	require.Equal(t, cli.ExitDone, exit, errs)
	paid := server.Stats()
	assert.Equal(t, []int64{8, 40}, []int64{paid.Tasks["extract"].Calls, paid.Tasks["answer"].Calls}, "%+v", paid.Tasks)
	assert.NotContains(t, out, "| unweaver | –", "extraction is not counted")
	for _, part := range []string{"# covidqa: 4 questions", "# musique: 4 questions", "| closed book | – |", "VectorRAG 0.3790"} {
		assert.Contains(t, out, part)
	}
	report := func() (out eval.Report) {
		raw := musttest.Get(os.ReadFile("table1/covidqa/report.json"))(t)
		require.NoError(t, json.Unmarshal(raw, &out))
		return out
	}
	first := report()
	require.Len(t, first.Rows, 5)
	vector, unweaver := first.Rows[2].Tokens, first.Rows[0].Tokens
	assert.True(t, vector.PromptIndex == 0 && vector.EmbedClasses == 0 && vector.EmbedChunks > 0, "%+v", vector)
	assert.True(t, unweaver.PromptIndex > 0 && unweaver.EmbedClasses > 0 && unweaver.EmbedChunks == 0 &&
		unweaver.EmbedQuery == vector.EmbedQuery && vector.EmbedQuery > 0, "%+v", unweaver)
	assert.True(t, first.Rows[3].Tokens.PromptQuery > 0 && first.Rows[3].F1.N == 4, "closed book: %+v", first.Rows[3])
	raw := musttest.Get(os.ReadFile("table1/covidqa/questions.jsonl"))(t)
	assert.Equal(t, 4, strings.Count(string(raw), "\n"))
	assert.Contains(t, string(raw), `"oracle":{"answer":"An answer from the test server."`)

	exit, _, errs = reproduce("--yes")
	require.Equal(t, cli.ExitDone, exit, errs)
	assert.Contains(t, errs, "covidqa: answers and judgements: about 100 calls, 100 journaled, 0 to pay: 0 tokens, cost 0.00")
	assert.Equal(t, paid.Chat, server.Stats().Chat, "a re-run pays")
	for i, row := range report().Rows {
		assert.Equal(t, first.Rows[i].Tokens, row.Tokens, row.Name)
	}
	exit, _, errs = reproduce("--yes", "--out", "again") // undisturbed
	require.Equal(t, cli.ExitDone, exit, errs)
	for _, task := range []string{"answer", "judge"} {
		assert.Equal(t, 2*paid.Tasks[task].Calls, server.Stats().Tasks[task].Calls, "the stop had %s paid for twice", task)
	}
	paid = server.Stats()
	for _, another := range []string{"chat", "embedding"} {
		exit, _, errs = reproduce("--yes", "--set", "models."+another+".model=another")
		assert.Equal(t, cli.ExitFailed, exit)
		assert.Contains(t, errs, "choose another --out")
	}
	assert.Equal(t, paid.Chat+paid.Embed, server.Stats().Chat+server.Stats().Embed, "an evaluation that is refused pays")
	exit, _, errs = reproduce("--yes", "--set", "models.judge.model=another")
	require.Equal(t, cli.ExitDone, exit, errs)
	judge, answer := server.Stats().Tasks["judge"], server.Stats().Tasks["answer"]
	assert.True(t, judge.Calls > paid.Tasks["judge"].Calls && answer.Calls == paid.Tasks["answer"].Calls,
		"another judge reads the answers that are there")
}

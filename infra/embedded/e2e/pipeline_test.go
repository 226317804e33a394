package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/starter/cli"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/eval"
)

// Promises: 6, 9.
func TestACorpusBecomesAPublishedIndexAndTheSecondRunPaysAndWritesNothing(t *testing.T) {
	server := serve(t, modeltest.Options{Shuffle: true})
	sp := spec(t, "pipe", copySample(t), server, "indexes.pipe.chunking.strategy=document")
	status := completed(t, index(t, shared.Control, sp))
	assert.True(t, status.Documents == 120 && status.Chunks == 120 && status.Classes >= 500 &&
		status.Calls.Extract == 120 && status.DeadLetters == 0 && status.Published, "first run: %+v", status.Report)
	before, b := server.Stats(), completed(t, index(t, shared.Control, sp))
	if after := server.Stats(); after.Chat != before.Chat || after.Embed != before.Embed {
		t.Errorf("the second run paid: %+v, then %+v", before, after)
	}
	assert.True(t, b.Unchanged && b.ContentHash == status.ContentHash && b.TextHash == status.TextHash &&
		b.VectorHash == status.VectorHash && b.Written == (core.Written{}) && b.Calls == (core.Calls{}), "second run: %+v",
		b.Report)
	assert.Zero(t, before.Duplicates+before.EmbedTwice, "paid twice: %+v", before)
	out := ask(t, shared.HTTP, "pipe",
		"Who was the first president of the association which published Journal of Psychotherapy Integration?",
		map[string]any{"answer": true, "explain": true})
	cs := chunksOf(out)
	require.True(t, len(cs) == 5 && out["generation"] == status.Generation && out["answer"] != nil, "answer %v", out)
	assert.True(t, strings.HasSuffix(cs[0]["document"].(string), "mt00006"), "the best chunk is %v", cs[0]["document"])
	t.Run("every chunk is a verbatim slice of its document", func(t *testing.T) { verbatim(t, cs) })
	t.Run("chunks lead to mentions and entities to chunks", func(t *testing.T) { trace(t, cs) })
}

func verbatim(t *testing.T, cs []map[string]any) {
	for _, c := range cs {
		path := fmt.Sprintf("/v1/indexes/pipe/documents/%s/text?start=%v&end=%v", url.PathEscape(c["document"].(string)),
			c["start"], c["end"])
		_, d := do(t, shared.HTTP, http.MethodGet, path, nil)
		assert.True(t, d["text"] == c["text"] && d["version"] == c["version"],
			"document text %q, chunk text %q", d["text"], c["text"])
	}
}

func trace(t *testing.T, cs []map[string]any) {
	_, d := do(t, shared.HTTP, http.MethodGet, "/v1/indexes/pipe/chunks/"+cs[0]["id"].(string), nil)
	chunk := d["chunk"].(map[string]any)
	text, located := []rune(chunk["text"].(string)), 0
	for _, x := range d["mentions"].([]any) {
		m := x.(map[string]any)
		for _, s := range m["spans"].([]any) {
			sp, start := s.([]any), int(chunk["start"].(float64))
			got := string(text[int(sp[0].(float64))-start : int(sp[1].(float64))-start])
			assert.True(t, strings.EqualFold(got, m["name"].(string)), "span of %q holds %q", m["name"], got)
			located++
		}
	}
	assert.True(t, located != 0, "no mention is located")
	_, es := do(t, shared.HTTP, http.MethodGet, "/v1/indexes/pipe/entities?prefix=journal&limit=5", nil)
	list := es["items"].([]any)
	require.True(t, len(list) != 0, "no entity starts with journal")
	id := list[0].(map[string]any)["id"].(string)
	_, ch := do(t, shared.HTTP, http.MethodGet, "/v1/indexes/pipe/entities/"+id+"/chunks", nil)
	assert.True(t, len(ch["items"].([]any)) != 0, "entity %s has no chunk", id)
}

func ids(cs []map[string]any) []string {
	var out []string
	for _, c := range cs {
		out = append(out, c["id"].(string))
	}
	return out
}

// Promises: 2.
func TestFaultsOfTheModelServerLoseNothing(t *testing.T) {
	sp := spec(t, "clean", copySample(t), serve(t, modeltest.Options{}), "indexes.clean.chunking.strategy=document")
	clean := completed(t, index(t, shared.Control, sp))
	bad := serve(t, modeltest.Options{Shuffle: true, Script: func(modeltest.Seen) modeltest.Injection {
		switch share := rand.Float64(); {
		case share < 0.1:
			return modeltest.Injection{Status: http.StatusTooManyRequests, RetryAfter: time.Second}
		case share < 0.2:
			return modeltest.Injection{Status: http.StatusInternalServerError}
		case share < 0.25:
			return modeltest.Injection{Content: "I am sorry, there is nothing that I could list."}
		}
		return modeltest.Injection{}
	}})
	sp = spec(t, "faults", copySample(t), bad, "indexes.faults.chunking.strategy=document", "models.chat.model=faults",
		"indexes.faults.failures.share=1")
	st := index(t, shared.Control, sp)
	require.True(t, st.Status == core.StatusCompleted || st.Status == core.StatusErrors, "%+v", st.Report)
	assert.True(t, st.DeadLetters != 0 || st.ContentHash == clean.ContentHash, "another hash than an undisturbed run")
	assert.Zero(t, bad.Stats().Duplicates)
}

// Promises: 8.
func TestAPoisonedChunkBecomesADeadLetterAndStaysReachable(t *testing.T) {
	server := serve(t, modeltest.Options{Poison: "Psychotherapy Integration"})
	sp := spec(t, "poison", copySample(t), server, "indexes.poison.chunking.strategy=document",
		"models.chat.model=poisoned", "indexes.poison.failures.share=0.2")
	a := index(t, shared.Control, sp)
	require.True(t, a.Status == core.StatusErrors && a.DeadLetters != 0 && a.Published, "%+v", a.Report)
	found := false
	for _, c := range chunksOf(ask(t, shared.HTTP, "poison", "Journal of Psychotherapy Integration",
		map[string]any{"top_chunks": 10})) {
		found = found || strings.Contains(c["text"].(string), "Psychotherapy Integration")
	}
	assert.True(t, found, "the chunk is not reachable")
	before := server.Stats().Chat
	sp.Index = "poison2" // the same store: content failures are not paid for again
	sp.Failures.Share = 0
	sp.Failures.Floor = 1
	b := index(t, shared.Control, sp)
	assert.True(t, b.Status == core.StatusHeld && b.Reason == "failure_budget" && server.Stats().Chat == before,
		"%s %s, %d calls more", b.Status, b.Reason, server.Stats().Chat-before)
}

func TestAnotherCorpusNeedsAWord(t *testing.T) {
	sp := spec(t, "swap", write(t, map[string]string{"a.txt": "Alpha is here."}), nil)
	completed(t, index(t, shared.Control, sp))
	sp.Corpus = write(t, map[string]string{"b.txt": "Beta is there."})
	if st := index(t, shared.Control, sp); st.Status != core.StatusFailed || st.Reason != string(fault.CorpusChanged) {
		t.Fatalf("%s %s", st.Status, st.Reason)
	}
	sp.Gate.MaxRemoved = 1
	r := musttest.Get(shared.Control.BuildIndex(t.Context(),
		control.IndexRequest{Spec: sp, Generation: "swapped", ReplaceCorpus: true}))(t)
	completed(t, wait(t, shared.Control, r.Run))
}

// paid holds a run's account to what the model server counted.
func paid(t *testing.T, when string, report core.Report, server *modeltest.Server) {
	t.Helper()
	stats := server.Stats()
	if got := report.Calls.Extract + report.Calls.Shorten; got != stats.Chat || report.Calls.Embed != stats.Embed {
		t.Errorf("%s: the report says %+v, the server answered %d chat and %d embedding requests",
			when, report.Calls, stats.Chat, stats.Embed)
	}
	want := core.Tokens{Prompt: stats.PromptTokens, Completion: stats.CompletionTokens, Embedding: stats.EmbedTokens}
	assert.Equal(t, want, report.Tokens, "%s: the report says", when)
}

// Promises: 21.
func TestNoCallStartsAfterPauseOrCancelAndTheAccountIsTrue(t *testing.T) {
	server := serve(t, modeltest.Options{Latency: 150 * time.Millisecond})
	sp := spec(t, "binds", copySample(t), server, "indexes.binds.chunking.strategy=document",
		"models.limits.concurrency=8", "models.embedding.dimension=256")
	begun := musttest.Get(shared.Control.BuildIndex(t.Context(), control.IndexRequest{Spec: sp}))(t)
	again, err := shared.Control.BuildIndex(t.Context(), control.IndexRequest{Spec: sp})
	assert.True(t, err == nil && again.Attached && again.Run == begun.Run, "a second start: %+v %v", again, err)
	quiet := func(what string, mark time.Time) {
		time.Sleep(1500 * time.Millisecond)
		n := server.StartedSince(mark)
		assert.True(t, n == 0, "%d calls started after %s was acknowledged", n, what)
	}
	for round := range 2 {
		musttest.Reach(t, "calls", func() bool { return server.Stats().Chat >= int64(10+20*round) })
		musttest.Get(shared.Control.PauseRun(t.Context(), begun.Run))(t)
		quiet("pause", time.Now())
		paid(t, "paused", wait(t, shared.Control, begun.Run).Report, server)
		_, err := shared.Control.PauseRun(t.Context(), begun.Run)
		assert.Error(t, err, "a paused run was paused again without a word")
		require.NoError(t, shared.Control.ResumeRun(t.Context(), begun.Run, nil))
	}
	musttest.Reach(t, "calls", func() bool { return server.Stats().Chat >= 60 })
	two, asked := 2, time.Now()
	limit := control.LimitRequest{Run: begun.Run, Limits: &core.LiveLimits{Concurrency: &two}}
	require.NoError(t, shared.Control.LimitRun(t.Context(), limit))
	last := time.Duration(0)
	for time.Since(asked) < 2*time.Second {
		if server.Stats().ChatInFlight > 2 {
			last = time.Since(asked)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("concurrency 8 to 2: more were in flight until %s after", last.Round(time.Millisecond))
	for from := server.Stats().Chat; server.Stats().Chat < from+6 && time.Since(asked) < time.Minute; {
		n := server.Stats().ChatInFlight
		require.True(t, n <= 2, "%d calls are in flight, the limit is 2", n)
		time.Sleep(5 * time.Millisecond)
	}
	asked = time.Now()
	stopped, err := shared.Control.CancelRun(t.Context(), begun.Run)
	require.True(t, err == nil && stopped.InFlight != nil && *stopped.InFlight <= 2, "%+v %v", stopped, err)
	t.Logf("cancel: %s, %d in flight", time.Since(asked).Round(time.Millisecond), *stopped.InFlight)
	quiet("cancel", time.Now())
	status := wait(t, shared.Control, begun.Run)
	require.True(t, status.Status == core.StatusCancelled, "%s %s", status.Status, status.Reason)
	paid(t, "cancelled", status.Report, server)
	assert.Error(t, musttest.Err(shared.Control.PauseRun(t.Context(), begun.Run)), "a run that ended was paused")
	assert.Zero(t, server.Stats().Duplicates)
}

// ragRow is a row of RAGBench, as far as it is read, in its order of columns.
type ragRow struct {
	ID        string   `parquet:"id"`
	Question  string   `parquet:"question"`
	Documents []string `parquet:"documents,list"`
	Response  string   `parquet:"response"`
}

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
		app := &console.App{Out: &out, Err: &errs, Env: []string{"E2E_KEY=e2e", "HOME=" + work},
			Connect: func(context.Context, *config.Config) (console.Connection, error) {
				return console.Connection{Control: control.Of(shared.Control), HTTP: shared.HTTP}, nil
			}}
		args := []string{"reproduce", "table1", published, "--runs", "1", "--workers", "1"}
		for _, kind := range []string{"chat", "embedding"} {
			args = append(args, "--set", "models."+kind+".provider=openai", "--set", "models."+kind+".model=paper",
				"--set", "models."+kind+".base_url="+server.URL, "--set", "models."+kind+".api_key_env=E2E_KEY")
		}
		exit := cli.Run(t.Context(), app, append(append(args, "--set", "models.chat.price.completion=2"), more...))
		return exit, out.String(), errs.String()
	}
	exit, _, errs := reproduce()
	require.Equal(t, console.ExitUsage, exit, errs)
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
	require.Equal(t, console.ExitFailed, exit, errs)
	assert.Contains(t, errs, "about 100 calls, 0 journaled, 100 to pay")
	server.Set(modeltest.Options{Dimension: 64})
	exit, out, errs := reproduce("--yes")
	require.Equal(t, console.ExitDone, exit, errs)
	paid := server.Stats()
	assert.Equal(t, []int64{8, 40}, []int64{paid.Tasks["extract"].Calls, paid.Tasks["answer"].Calls}, "%+v", paid.Tasks)
	assert.NotContains(t, out, "| unweaver | –", "extraction is not counted")
	for _, part := range []string{"# covidqa: 4 questions", "# musique: 4 questions", "| closed book | – |", "VectorRAG 0.3790"} {
		assert.Contains(t, out, part)
	}
	report := func() (out eval.Report) {
		require.NoError(t, json.Unmarshal(musttest.Get(os.ReadFile("table1/covidqa/report.json"))(t), &out))
		return out
	}
	first := report()
	require.Len(t, first.Rows, 5)
	vector, unweaver := first.Rows[2].Tokens, first.Rows[0].Tokens
	assert.True(t, vector.PromptIndex == 0 && vector.EmbedClasses == 0 && vector.EmbedChunks > 0, "%+v", vector)
	assert.True(t, unweaver.PromptIndex > 0 && unweaver.EmbedClasses > 0 && unweaver.EmbedChunks == 0 &&
		unweaver.EmbedQuery == vector.EmbedQuery && vector.EmbedQuery > 0, "%+v", unweaver)
	assert.True(t, first.Rows[3].Tokens.PromptQuery > 0 && first.Rows[3].F1.N == 4, "closed book: %+v", first.Rows[3])
	exit, _, errs = reproduce("--yes")
	require.Equal(t, console.ExitDone, exit, errs)
	assert.Contains(t, errs, "covidqa: answers and judgements: about 100 calls, 100 journaled, 0 to pay: 0 tokens, cost 0.00")
	assert.Equal(t, paid.Chat, server.Stats().Chat, "a re-run pays")
	for i, row := range report().Rows {
		assert.Equal(t, first.Rows[i].Tokens, row.Tokens, row.Name)
	}
	exit, _, errs = reproduce("--yes", "--out", "again") // undisturbed
	require.Equal(t, console.ExitDone, exit, errs)
	assert.Equal(t, 2*paid.Tasks["judge"].Calls, server.Stats().Tasks["judge"].Calls, "the stop had judgements paid for twice")
	paid = server.Stats()
	exit, _, errs = reproduce("--yes", "--set", "models.embedding.model=another")
	assert.Equal(t, console.ExitFailed, exit)
	assert.Contains(t, errs, "choose another --out")
	assert.Equal(t, paid.Chat+paid.Embed, server.Stats().Chat+server.Stats().Embed, "an evaluation that is refused pays")
	exit, _, errs = reproduce("--yes", "--set", "models.judge.model=another")
	require.Equal(t, console.ExitDone, exit, errs)
	judge, answer := server.Stats().Tasks["judge"], server.Stats().Tasks["answer"]
	assert.True(t, judge.Calls > paid.Tasks["judge"].Calls && answer.Calls == paid.Tasks["answer"].Calls,
		"another judge reads the answers that are there")
}

// A program fills an index, builds and asks it over the public API alone, from the start of a run on.
func TestAnIndexIsFilledBuiltAndAskedOverHTTP(t *testing.T) {
	folder := write(t, map[string]string{"oslo.txt": "Oslo is the capital of Norway."})
	completed(t, index(t, shared.Control, spec(t, "filled", folder, nil)))
	send := func(method, path, body string) (int, map[string]any) {
		request := musttest.Get(http.NewRequestWithContext(t.Context(), method, shared.HTTP+"/v1/indexes/filled"+path,
			strings.NewReader(body)))(t)
		request.Header.Set("Authorization", "Bearer "+shared.Token)
		request.Header.Set("Idempotency-Key", "once")
		response := musttest.Get(http.DefaultClient.Do(request))(t)
		defer func() { _ = response.Body.Close() }()
		var out map[string]any
		if response.StatusCode != http.StatusNoContent {
			require.NoError(t, json.NewDecoder(response.Body).Decode(&out))
		}
		return response.StatusCode, out
	}
	status, out := send("PUT", "/documents/cities/quito.txt", "Quito is the capital of Ecuador.")
	require.True(t, status == 201 && out["created"] == true, "%d %v", status, out)
	status, started := send("POST", "/runs", "")
	run, _ := started["generation"].(string)
	require.True(t, status == 202 && started["attached"] == false && run != "", "%d %v", status, started)
	status, out = send("GET", "/runs/"+run, "")
	require.True(t, status == 200, "at once: %d %v", status, out)
	completed(t, wait(t, shared.Control, "filled/"+run))
	status, out = send("POST", "/runs", "") // of who lost the answer
	assert.True(t, status == 202 && out["attached"] == true && out["generation"] == run, "%d %v", status, out)
	found := chunksOf(ask(t, shared.HTTP, "filled", "What is the capital of Ecuador?", nil))
	assert.Equal(t, "cities/quito.txt", found[0]["document"])
	status, out = send("POST", "/runs/"+run+"/pause", "")
	assert.True(t, status == 409 && out["code"] == "run_ended", "%d %v", status, out)
}

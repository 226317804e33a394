package cli_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/starter/cli/console"
)

// dataset writes one of two passages and two questions into the current folder.
func dataset(t *testing.T, more map[string]string) string {
	t.Chdir(t.TempDir())
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	files := map[string]string{
		"corpus.jsonl": `{"id":"a","title":"A","text":"Alpha is first"}` + "\n" + `{"id":"b","title":"B","text":"Beta"}`,
		"questions.jsonl": `{"id":"1","question":"which is first","gold":["a"],"answers":["Alpha"]}` + "\n" +
			`{"id":"2","question":"which is second","gold":["b"]}`,
	}
	for name, text := range more {
		files[name] = text
	}
	require.NoError(t, os.Mkdir("My_Set", 0o755))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join("My_Set", name), []byte(text), 0o600))
	}
	return "My_Set"
}

const ranked = `{"generation":"g1","models":"built-in models","chunks":[{"document":"corpus.jsonl#a"}]}`

func evaluate(t *testing.T, fake *fakeControl, served *queries, args ...string) result {
	server := httptest.NewServer(served)
	defer server.Close()
	return in(t, withConnection(fake, server.URL), nil, append([]string{"eval", "--dataset", "My_Set"}, args...)...)
}

func TestAnEvaluationBuildsAsksEveryQuestionByEveryMethodAndReports(t *testing.T) {
	dataset(t, nil)
	fake, served := &fakeControl{
		Statuses: []control.Status{finished(core.StatusCompleted)},
		Tokens:   &core.IndexTokens{Prompt: 77, Completion: 66, Classes: 55, Chunks: 44},
	}, &queries{bodies: []string{ranked}}
	got := evaluate(t, fake, served, "--methods", "vector,unweaver", "--rules", "weighted,pav", "--k", "5,1,5")
	require.Equal(t, console.ExitDone, got.exit, "%+v", got)
	request := last[control.IndexRequest](fake)
	spec := request.Spec
	assert.True(t, spec.Index == "eval-my-set" && spec.Chunking.Strategy == "document" &&
		spec.Chat.Provider == "builtin" && request.ReplaceCorpus, "%+v", request)
	if data, err := filepath.Abs("unweaver-data"); err != nil || strings.HasPrefix(spec.Corpus, data) {
		t.Errorf("%s is never read as documents: %v", spec.Corpus, err)
	}
	assert.Len(t, musttest.Get(os.ReadDir(spec.Corpus))(t), 1, "the index sees more than the corpus")
	asked := map[string]int{}
	for i, body := range served.asked {
		asked[toText(body["method"])+" "+toText(body["rule"])]++
		assert.True(t, body["top_chunks"] == 5.0 && served.paths[i] == "/v1/indexes/eval-my-set/query", "%v %s", body,
			served.paths[i])
	}
	assert.True(t, len(asked) == 3 && asked["vector "] == 2 && asked["unweaver weighted"] == 2 &&
		asked["unweaver pav"] == 2, "%v", asked)
	contains(t, got.out, "vector", "written: eval-my-set/report.md")
	raw := musttest.Get(os.ReadFile("eval-my-set/report.json"))(t)
	report := decoded(t, string(raw))
	rows := report["rows"].([]any)
	first := rows[0].(map[string]any)
	recall := first["recall"].([]any)
	assert.True(t, report["index"] == "eval-my-set" && report["content_hash"] == "c0ffee" && len(rows) == 3 &&
		len(recall) == 2 && recall[0].(map[string]any)["mean"] == 0.5 &&
		first["tokens"].(map[string]any)["prompt_index"] == 0.0, "%s", raw)
	contains(t, got.out, "| vector | – | – | – | 44 | – | – | – |", "| unweaver/pav | 77 | 66 | 55 | 44 | – |")
}

func toText(value any) string {
	text, _ := value.(string)
	return text
}

func TestAnEvaluationReplaysTheRecordingUnlessToldOtherwise(t *testing.T) {
	for _, tc := range []struct {
		args               []string
		provider, strategy string
	}{
		{nil, "recorded", "document"},
		{[]string{"--extraction", "config"}, "builtin", "document"},
		{[]string{"--set", "indexes.own.chunking.strategy=fixed", "--index", "own"}, "recorded", "fixed"},
	} {
		dataset(t, map[string]string{"extractions.jsonl": ""})
		fake := &fakeControl{Statuses: []control.Status{finished(core.StatusCompleted)}}
		got := evaluate(t, fake, &queries{bodies: []string{ranked}}, append(tc.args, "--methods", "vector")...)
		request := last[control.IndexRequest](fake)
		spec := request.Spec
		if got.exit != console.ExitDone || spec.Chat.Provider != tc.provider || spec.Chunking.Strategy != tc.strategy ||
			(tc.provider == "recorded") != filepath.IsAbs(spec.Chat.File) ||
			request.ReplaceCorpus == (spec.Index == "own") { // an index of another name may be somebody's
			t.Errorf("%v: %+v %+v", tc.args, got, spec)
		}
	}
}

func TestAnEvaluationComparesMethodsWithThemselvesElsewhere(t *testing.T) {
	dataset(t, nil)
	fake := &fakeControl{Statuses: []control.Status{finished(core.StatusCompleted)}}
	served := &queries{bodies: []string{ranked}}
	got := evaluate(t, fake, served, "--methods", "hybrid", "--against", "index=other; generation=g2",
		"--against", `params.list=50;top_entities=3`)
	require.Equal(t, console.ExitDone, got.exit, "%+v", got)
	paths := map[string]int{}
	for i, body := range served.asked {
		paths[served.paths[i]+" "+toText(body["generation"])]++
		params, ok := body["params"].(map[string]any)
		assert.True(t, !ok || params["list"] == 50.0 && body["top_entities"] == 3.0, "%v", body)
	}
	assert.True(t, paths["/v1/indexes/eval-my-set/query "] == 4 && paths["/v1/indexes/other/query g2"] == 2, "%v", paths)
	contains(t, got.out, "hybrid index=other generation=g2", "not significant", "The setting of hybrid was chosen on")
}

func TestAnEvaluationStopsBeforeItCostsWhatNobodyAskedFor(t *testing.T) {
	judge := "--answers --set models.chat.provider=openai --set models.chat.model=m"
	for _, tc := range []struct {
		args, want string
		files      map[string]string
	}{
		{"--dataset none", "a dataset is a folder", nil},
		{"--methods magic", "known: hybrid", nil},
		{"--methods unweaver --rules magic", "known: weighted", nil},
		{"--k 0", "want numbers from 1 to 100", nil},
		{"--k some", "want numbers from 1 to 100", nil},
		{"--against index", "it has no value", nil},
		{"--against colour=red", "colour is not known", nil},
		{"--against top_entities=few", "top_entities is not a number", nil},
		{"--answers", "it is builtin, which cannot judge", nil},
		{judge + " --set models.chat.price.prompt=2 --methods vector --runs 1", "to continue, add --yes", nil},
		{judge, "no question has a reference answer",
			map[string]string{"questions.jsonl": `{"question":"which is first","gold":["a"]}`}},
	} {
		t.Run(tc.args, func(t *testing.T) {
			dataset(t, tc.files)
			fake := &fakeControl{}
			got := evaluate(t, fake, &queries{bodies: []string{ranked}}, strings.Fields(tc.args)...)
			assert.True(t, got.exit == console.ExitUsage && len(fake.Asked) == 0, "%+v, asked %v", got, fake.Asked)
			contains(t, got.err, tc.want)
			if strings.HasSuffix(tc.want, "--yes") {
				contains(t, got.err, "about 15 calls, 0 journaled, 15 to pay", "(1 questions with answers, 3 rows, 1 runs)", "cost 0.04")
			}
		})
	}
}

func TestAPublishedIndexIsEvaluatedAndNothingIsBuilt(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(text string) { require.NoError(t, os.WriteFile("own.jsonl", []byte(text), 0o600)) }
	fake, served := &fakeControl{}, &queries{bodies: []string{ranked}}
	server := httptest.NewServer(served)
	defer server.Close()
	run := func(args ...string) result {
		return in(t, withConnection(fake, server.URL), nil, append([]string{"eval"}, args...)...)
	}

	write(`{"question":"which is first","documents":["corpus.jsonl#a"]}` + "\n" + `{"question":"which is second","documents":["b.md"]}`)
	got := run("docs", "--questions", "own.jsonl", "--methods", "hybrid,bm25", "--k", "5")
	require.Equal(t, console.ExitDone, got.exit, "%+v", got)
	contains(t, got.out, "Index docs, generation g1, embeddings by built-in models", "| hybrid | 50.0 ", "| bm25 | 50.0 ",
		"hybrid found none of the documents for 1 of 2 questions", "* which is second (b.md)", "written: eval-docs/report.md")
	assert.True(t, len(fake.Asked) == 0 && len(served.asked) == 4 && served.paths[0] == "/v1/indexes/docs/query",
		"asked %v, %v", fake.Asked, served.paths)

	write(`{"question":"which is first"}`)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"line 1: it names no document", []string{"docs", "--questions", "own.jsonl"}},
		{"no such file", []string{"docs", "--questions", "none.jsonl"}},
		{"require each other", []string{"docs", "--dataset", "own"}},
		{"require each other", []string{"--questions", "own.jsonl"}},
		{"want the name of one index", []string{"a+b", "--questions", "own.jsonl"}},
	} {
		got := run(c.args...)
		assert.Equal(t, console.ExitUsage, got.exit, "%v: %+v", c.args, got)
		contains(t, got.err, c.want)
	}
}

func TestAnEvaluationOfAnIndexThatDoesNotBuildFails(t *testing.T) {
	dataset(t, nil)
	held := finished(core.StatusHeld)
	held.Reason = "failures"
	got := evaluate(t, &fakeControl{Statuses: []control.Status{held}}, &queries{bodies: []string{ranked}},
		"--methods", "vector")
	assert.Equal(t, console.ExitFailed, got.exit, "%+v", got)
	contains(t, got.err, "held failures", "see: unweaver status eval-my-set/g1")
}

func TestASuiteEvaluatesEveryDatasetOfAFolder(t *testing.T) {
	dataset(t, nil)
	require.NoError(t, os.Mkdir("sets", 0o755))
	require.NoError(t, os.Rename("My_Set", "sets/My_Set"))
	require.NoError(t, os.CopyFS("sets/other", os.DirFS("sets/My_Set")))
	built := finished(core.StatusCompleted)
	fake, served := &fakeControl{Statuses: []control.Status{built, built}}, &queries{bodies: []string{ranked}}
	server := httptest.NewServer(served)
	defer server.Close()
	got := in(t, withConnection(fake, server.URL), nil, "eval", "--suite", "sets", "--methods", "hybrid")
	require.Equal(t, console.ExitDone, got.exit, "%+v", got)
	contains(t, got.out, "| My_Set | 2 | hybrid | 50.0 |", "| other | 2 | bm25 | 50.0 |", "written: eval-suite/suite.md")
	both := in(t, withConnection(fake, server.URL), nil, "eval", "--suite", "sets", "--dataset", "sets/other")
	assert.Equal(t, console.ExitUsage, both.exit)
}

package eval

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func write(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for n, s := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, n), []byte(s), 0o644))
	}
	return dir
}

func TestScoresByHand(t *testing.T) {
	s := scoreRanking([]string{"x", "a", "y", "b"}, []string{"a", "b"}, []int{1, 2, 4})
	want := (1/math.Log2(3) + 1/math.Log2(5)) / (1 + 1/math.Log2(3))
	assert.True(t, s.Recall[0] == 0 && s.Recall[1] == 0.5 && s.Recall[2] == 1 && s.All[1] == 0 && s.All[2] == 1 &&
		s.MRR == 0.5 && math.Abs(s.NDCG-want) <= 1e-12, "%+v, nDCG %g", s, want)
}

func TestIntervalsHoldTheMeanAndNarrow(t *testing.T) {
	var few, many []float64
	for i := range 1000 {
		v := float64(i % 2)
		if i < 20 {
			few = append(few, v)
		}
		many = append(many, v)
	}
	a, b := newInterval(few, drawResamples(len(few), 1)), newInterval(many, drawResamples(len(many), 1))
	assert.False(t, a.Mean != 0.5 || a.Low >= 0.5 || a.High <= 0.5 || b.High-b.Low >= a.High-a.Low, "%+v %+v", a, b)
	if half := 1.96 * 0.5 / math.Sqrt(1000); math.Abs(b.High-b.Low-2*half) > 0.01 {
		t.Errorf("the interval of 1000 coins is %g wide, want %g", b.High-b.Low, 2*half)
	}
	assert.Equal(t, a, newInterval(few, drawResamples(len(few), 1)), "the same seed gives another interval")
}

func TestFactualCorrectness(t *testing.T) {
	for _, c := range []struct {
		tp, fp, fn int
		want       float64
	}{{2, 0, 0, 1}, {0, 3, 2, 0}, {0, 0, 0, 0}, {1, 1, 1, 0.5}, {2, 1, 1, 0.67}} {
		assert.Equal(t, c.want, scoreClaims(c.tp, c.fp, c.fn), "%d %d %d", c.tp, c.fp, c.fn)
	}
}

func TestDatasetsThatDoNotFitAreRefused(t *testing.T) {
	corpus := `{"id":"a","title":"T","text":"x"}` + "\n"
	for says, files := range map[string]map[string]string{
		"nope":           {"corpus.jsonl": corpus, "questions.jsonl": `{"question":"q","gold":["a","nope"]}`},
		"line 2":         {"corpus.jsonl": corpus, "questions.jsonl": `{"question":"q","gold":["a"]}` + "\n{broken"},
		"requires":       {"corpus.jsonl": corpus, "questions.jsonl": `{"question":"q"}`},
		"no such":        {"corpus.jsonl": corpus},
		"requires an id": {"corpus.jsonl": `{"_id":"a","text":"x"}`, "questions.jsonl": `{"question":"q","gold":["a"]}`},
		"no question":    {"corpus.jsonl": corpus, "questions.jsonl": "\n"},
	} {
		_, err := Load(write(t, files))
		assert.True(t, fault.Is(err, fault.Usage) && strings.Contains(err.Error(), says), "want %q, got %v", says, err)
	}
	d, err := Load(write(t, map[string]string{
		"corpus.jsonl": corpus, "questions.jsonl": `{"question":"q","gold":["a"],"answers":["yes"]}`, "extractions.jsonl": "",
	}))
	assert.True(t, err == nil && len(d.Questions) == 1 && d.Questions[0].Answer == "yes" &&
		strings.HasSuffix(d.Recorded, "extractions.jsonl"), "%+v %v", d, err)
}

// judging is a chat model that cuts at full stops and supports what it finds in the context.
type judging struct{ calls int }

func (j *judging) Info() model.Info {
	return model.Info{Provider: "openai", Model: "judge", Paid: true}
}

func (j *judging) Complete(_ context.Context, call model.Call) (model.Reply, error) {
	j.calls++
	if call.System == claimsTask {
		var out []string
		for _, s := range strings.Split(strings.TrimPrefix(call.User, "Text: "), ".") {
			if s = strings.TrimSpace(s); s != "" {
				out = append(out, s)
			}
		}
		b, err := json.Marshal(map[string]any{"claims": out})
		return model.Reply{Text: "Here: " + string(b), Usage: model.Usage{Prompt: 10, Completion: 1}}, err
	}
	text, list, _ := strings.Cut(call.User, "\n\nStatements:\n")
	var vs []map[string]any
	for _, l := range strings.Split(strings.TrimSpace(list), "\n") {
		_, s, _ := strings.Cut(l, ". ")
		v := 0
		if strings.Contains(text, s) {
			v = 1
		}
		vs = append(vs, map[string]any{"statement": s, "reason": "", "verdict": v})
	}
	b, err := json.Marshal(map[string]any{"verdicts": vs})
	return model.Reply{Text: string(b), Usage: model.Usage{Prompt: 10, Completion: 1}}, err
}

// The answer's one claim is in the gold; one of the gold's two is in the answer: P 1/1, R 1/2.
func TestAnswersAreJudgedByTheClaimsOfBoth(t *testing.T) {
	judge := &judging{}
	f1, used, err := (&Judge{Chat: judge}).F1(t.Context(), "Alpha is first.", "Alpha is first. It is old.")
	assert.True(t, err == nil && f1 == 0.67 && judge.calls == 4 && used == 44, "%g, %d of %d calls, %v", f1, used, judge.calls, err)
}

func TestPublishedFilesAreReadOrRefusedWithTheReason(t *testing.T) {
	row := `{"id":"1","question":"q","documents":["b","a","b"],"response":"r"}` + "\n"
	for _, c := range []struct{ set, file, content, says string }{
		{"covidqa", "covidqa/train.jsonl", row + row, ""},
		{"covidqa", "covidqa/train.jsonl", `{"id":"7","question":"q","response":"r"}`, `question "7" lacks`},
		{"covidqa", "covidqa/train.jsonl", `{"id":"7","question":"q","documents":["a"]}`, `question "7" lacks`},
		{"covidqa", "covidqa/train.jsonl", row[:30], "unexpected end"},
		{"covidqa", "covidqa/train.jsonl", "\n", "has no question"},
		{"covidqa", "covidqa/train.parquet", "no parquet", "parquet"},
		{
			"musique", "musique_ans_v1.0_dev.jsonl",
			`{"id":"1","question":"q","answer":"r","paragraphs":[{"paragraph_text":"b","is_supporting":true},` +
				`{"paragraph_text":"a","is_supporting":true},{"paragraph_text":"c","is_supporting":false}]}` + "\n" +
				`{"id":"2","question":"p","answer":"r","answerable":false,"paragraphs":[]}`, "",
		},
		{"musique", "musique/musique_ans_v1.0_dev.jsonl", `{"id":"1","question":"q"}`, `question "1" lacks`},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, c.file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(c.content), 0o600))
		dataset, err := LoadPublished(dir, c.set)
		if c.says != "" {
			assert.True(t, fault.Is(err, fault.Usage), "%s: %v", c.content, err)
			assert.ErrorContains(t, err, c.says, c.content)
			continue
		}
		require.NoError(t, err, c.content)
		gold := []string{"92eb5ffee6ae2fec", "0cc175b9c0f1b6a8"} // the beginnings of the MD5 of b and a
		want := Question{ID: "1", Question: "q", Answer: "r", Gold: gold}
		assert.Equal(t, []Question{want}, dataset.Questions)
	}
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "techqa"), 0o755))
	require.NoError(t, parquet.WriteFile(filepath.Join(dir, "techqa", "train-0.parquet"), []struct {
		ID       string `parquet:"id"`
		Question string `parquet:"question"`
	}{{"1", "q"}}))
	assert.ErrorContains(t, musttest.Err(LoadPublished(dir, "techqa")), "it has no column documents")
	assert.Nil(t, musttest.Get(LoadPublished(dir, "emanual"))(t))
}

func TestAJournalGoesOnBehindATornLineAndRefusesAnotherEvaluation(t *testing.T) {
	dir := t.TempDir()
	asked := 0
	ask := func(key string) string {
		journal := musttest.Get(OpenJournal(dir, "this one"))(t)
		defer func() { require.NoError(t, journal.Close()) }()
		value := musttest.Get(askOnce(t.Context(), journal, []string{key}, func(context.Context) (string, error) {
			asked++
			return "answer " + key, nil
		}))(t)
		return value
	}
	assert.Equal(t, "answer a", ask("a"))
	path := filepath.Join(dir, "answers.jsonl")
	require.NoError(t, os.WriteFile(path, append(musttest.Get(os.ReadFile(path))(t), `{"key":"x","val`...), 0o600))
	assert.Equal(t, "answer a", ask("a"))
	assert.Equal(t, "answer b", ask("b"))
	assert.Equal(t, "answer b", ask("b"))
	assert.Equal(t, 2, asked)
	_, err := OpenJournal(dir, "another one")
	assert.ErrorContains(t, err, "belong to another evaluation: this one; this one is another one")
}

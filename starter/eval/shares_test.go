package eval_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/starter/eval"
)

func TestRecallIsToldAgainstWhatIsPaidFor(t *testing.T) {
	dir := t.TempDir()
	var corpus, questions strings.Builder
	for i := range 40 {
		text := fmt.Sprintf("Ada Lovelace met Charles Babbage in London %d times.", i)
		fmt.Fprintf(&corpus, `{"id":"p%d","title":"T","text":%q}`+"\n", i, text)
		fmt.Fprintf(&questions, `{"question":"How often, %d?","gold":["p%d"]}`+"\n", i, i)
	}
	for name, text := range map[string]string{"corpus.jsonl": corpus.String(), "questions.jsonl": questions.String()} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	dataset, err := eval.Load(dir)
	require.NoError(t, err)
	none, half, all := dataset.ShareOf(0, "i-share-0"), dataset.ShareOf(0.5, "i-share-50"), dataset.ShareOf(1, "i")
	if none.Sent != 0 || none.PaidShare() != 0 || all.Sent != 40 || all.PaidShare() != 1 || half.Sent == 0 ||
		half.Sent == 40 {
		t.Fatalf("%+v %+v %+v", none, half, all)
	}
	// the index of share 0 finds nothing, the others everything
	ask := func(index string) eval.Asker {
		return func(_ context.Context, body map[string]any) ([]byte, error) {
			id := "none"
			if index != none.Index {
				var n int
				if _, err := fmt.Sscanf(body["query"].(string), "How often, %d?", &n); err != nil {
					return nil, err
				}
				id = fmt.Sprint("p", n)
			}
			return fmt.Appendf(nil, `{"generation":"g","chunks":[{"document":"corpus.jsonl#%s"}]}`, id), nil
		}
	}
	report, err := eval.Run(t.Context(), eval.Plan{
		Dataset: dataset, Ks: []int{1}, Seed: 1, Ask: ask("i"), AskOf: ask, Notice: func(string) {},
		Systems: []eval.System{
			{Method: "bm25"}, {Method: "bm25", Index: none.Index}, {Method: "bm25", Index: half.Index},
		},
	})
	require.NoError(t, err)
	report.Index, report.Shares = "i", []eval.Share{none, half, all}
	page := report.RenderMarkdown()
	for _, want := range []string{
		"| 0 | 0 of 40 | 0.0 % | 0.0 (0.0–0.0) | -100.0 (-100.0 to -100.0): less |",
		fmt.Sprintf("| 0.5 | %d of 40 | %.1f %% | 100.0 (100.0–100.0) | +0.0 (+0.0 to +0.0): not told apart |", half.Sent,
			100*half.PaidShare()),
		"| 1 | 40 of 40 | 100.0 % | 100.0 (100.0–100.0) | – |",
		"Questions " + dataset.QuestionsSum()[:12],
	} {
		assert.Contains(t, page, want, "no")
	}
	require.NoError(t, report.Write(dir))
	drawn, err := os.ReadFile(filepath.Join(dir, "spend.svg"))
	assert.True(t, err == nil && strings.Count(string(drawn), "<circle") == 3, "%v %s", err, drawn)
}

func TestTheSumOfQuestionsIsOfWhatIsAskedAndOfNothingElse(t *testing.T) {
	one := eval.Question{ID: "1", Question: "a", Gold: []string{"x", "y"}}
	two := eval.Question{ID: "2", Question: "b", Gold: []string{"z"}}
	sum := func(questions ...eval.Question) string { return (&eval.Dataset{Questions: questions}).QuestionsSum() }
	renamed := one
	renamed.ID = "9"
	assert.Equal(t, sum(two, renamed), sum(one, two), "order, or an id, changes the sum")
	other := one
	other.Gold = []string{"x"}
	for name, got := range map[string]string{
		"one fewer": sum(one), "other gold": sum(other, two), "twice": sum(one, one, two),
	} {
		assert.True(t, got != sum(one, two), "%s has the same sum", name)
	}
}

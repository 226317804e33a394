package eval_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/starter/eval"
)

// many returns a set of questions of which each has a passage of its own.
func many(n int) *eval.Dataset {
	out := &eval.Dataset{Name: "2wiki", Texts: map[string]retrieve.Passage{}}
	for i := range n {
		id := fmt.Sprint(i)
		out.Texts[id] = retrieve.Passage{Text: "text " + id}
		out.Questions = append(out.Questions, eval.Question{ID: id, Question: id, Gold: []string{id}})
	}
	return out
}

// Promises: 132.
func TestVariantsAreComparedWithTheirMethodAndNothingInsideItsIntervalIsCalledReal(t *testing.T) {
	// Of 40 questions the index finds the first 20; another index 30; a setting finds 19 of them and one other.
	found := func(index string, body map[string]any) int {
		var i int
		_, err := fmt.Sscan(body["query"].(string), &i)
		switch {
		case err != nil:
			t.Error(err)
		case index == "better" && i < 30, index == "" && body["top_entities"] == nil && i < 20,
			body["top_entities"] == 7 && i > 0 && i < 21:
			return i
		}
		return -1
	}
	var asked []string
	of := func(index string) eval.Asker {
		return func(_ context.Context, body map[string]any) ([]byte, error) {
			asked = append(asked, fmt.Sprint(index, body["generation"], body["top_entities"], body["params"]))
			return fmt.Appendf(nil, `{"generation":"of %s","chunks":[{"document":"c#%d"}]}`, index, found(index, body)), nil
		}
	}
	plan := eval.Plan{
		Dataset: many(40), Ks: []int{1, 2}, Seed: 3, Ask: of(""), AskOf: of, Notice: func(string) {},
		Systems: []eval.System{
			{Method: "hybrid"},
			{Method: "vector"},
			{Method: "hybrid", Index: "better", Generation: "g7"},
			{Method: "hybrid", Settings: map[string]any{"top_entities": 7, "params": map[string]any{"list": 5.0}}},
		},
	}
	report, err := eval.Run(t.Context(), plan)
	require.NoError(t, err)
	better, same := report.Rows[2], report.Rows[3]
	if better.Base != "hybrid" || len(better.Paired) != 2 || better.Paired[0].Verdict() != "more" ||
		better.Paired[0].Mean != 0.25 || better.Generation != "of better" || report.Generation != "of " {
		t.Errorf("%+v of %s", better, report.Generation)
	}
	assert.True(t, same.Base == "hybrid" && same.Paired[1].Verdict() == "not told apart" && same.Paired[1].Mean == 0,
		"%+v", same)
	if report.Rows[1].Paired != nil {
		t.Errorf("another method is compared as if it were a variant: %+v", report.Rows[1])
	}
	assert.True(t, (eval.Interval{Mean: -0.1, Low: -0.2, High: -0.01}).Verdict() == "less",
		"a loss outside of zero is not called one")
	assert.Equal(t, "betterg7<nil> <nil>|<nil> 7 map[list:5]", asked[80]+"|"+asked[120], "asked")
	page := report.RenderMarkdown()
	for _, want := range []string{
		"| hybrid index=better generation=g7 | hybrid | of better | +25.0 (", ": more |",
		`| hybrid {"params":{"list":5},"top_entities":7} | hybrid |`, ": not told apart |",
		"this set has the name of one of them",
	} {
		assert.Contains(t, page, want, "the page lacks")
	}
}

func TestAPageSaysWhereTheSettingWasNotChosen(t *testing.T) {
	report := &eval.Report{Dataset: "own", Ks: []int{1}, Rows: []eval.Row{{Name: "bm25", Recall: make([]eval.Interval, 1),
		All: make([]eval.Interval, 1)}}}
	assert.Contains(t, report.RenderMarkdown(), "on no set of this name")
}

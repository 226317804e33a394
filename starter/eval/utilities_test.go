package eval_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/starter/eval"
)

// explaining answers method apr as the query API does where the policy is asked for, but for question "second", of
// which nothing is found.
func explaining(t *testing.T) eval.Asker {
	action := func(name string, told, tokens int, chosen bool, documents ...string) map[string]any {
		return map[string]any{
			"facts": name, "told": told, "tokens": tokens, "chosen": chosen, "documents": documents, "encoding": "ids",
		}
	}
	return func(_ context.Context, body map[string]any) ([]byte, error) {
		out := map[string]any{"generation": "g1", "models": "m", "chunks": []any{}}
		if params, _ := body["params"].(map[string]any); params["policy"] != true || body["explain"] != true {
			if body["method"] == eval.PolicyMethod {
				t.Errorf("%v does not ask for the policy", body)
			}
			out["explain"] = map[string]any{"policy": "of another method"}
			return json.Marshal(out)
		}
		policy := map[string]any{"features": map[string]any{"budget": 100, "runs": 7}, "actions": []any{}}
		if body["query"] != "second" {
			policy["actions"] = []any{
				action("none", 0, 0, false),
				action("unique", 1, 50, true, "corpus.jsonl#c"),
				action("all", 2, 100, false, "corpus.jsonl#c", "corpus.jsonl#d", "corpus.jsonl#d"),
			}
		}
		out["explain"] = map[string]any{"policy": policy}
		return json.Marshal(out)
	}
}

func TestUtilitiesOfEveryActionAreLogged(t *testing.T) {
	p := plan(explaining(t), eval.System{Method: "good"}, eval.System{Method: eval.PolicyMethod},
		eval.System{Method: eval.PolicyMethod, Settings: map[string]any{"params": map[string]any{"runs": 3}}})
	p.Utilities = true
	rep, err := eval.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if settings := p.Systems[2].Settings["params"].(map[string]any); len(settings) != 1 {
		t.Errorf("the settings of a system changed: %v", settings)
	}
	if len(rep.Utilities) != 4 {
		t.Fatalf("%d lines: one for a question of which something was found, and a system", len(rep.Utilities))
	}
	both := rep.Utilities[1]
	if both.Question != "3" || both.System != "apr" || !strings.Contains(string(both.Features), `"runs":7`) {
		t.Errorf("%+v", both)
	}
	for i, want := range []float64{0, 0.5 - 0.05, 1 - 0.1} {
		if got := both.Actions[i].Utility; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is worth %g, want %g", both.Actions[i].Facts, got, want)
		}
	}
	if best := both.Best(); best.Facts != "all" {
		t.Errorf("%+v is the best", best)
	}
	if best := rep.Utilities[0].Best(); best.Facts != "none" {
		t.Errorf("%+v is the best of what tells no gold passage", best)
	}
	markdown := rep.Markdown()
	for _, row := range []string{
		"| always none | 4 | 0.0 | 0 | 0.0 | 0.000 |", "| always all | 4 | 2.0 | 100 | 50.0 | 0.400 |",
		"| chosen by rule | 4 | 1.0 | 50 | 25.0 | 0.200 |", "| best | 4 | 1.0 | 50 | 50.0 | 0.450 |",
	} {
		if !strings.Contains(markdown, row) {
			t.Errorf("no row %q in\n%s", row, markdown)
		}
	}
	dir := t.TempDir()
	if err := rep.Write(dir); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, eval.UtilitiesFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	var last eval.Utility
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || len(lines) != 4 {
		t.Fatalf("%d lines: %v", len(lines), err)
	}
	if last.System != `apr {"params":{"runs":3}}` || len(last.Actions) != 3 || !last.Actions[1].Chosen {
		t.Errorf("%+v", last)
	}
	if strings.Contains(string(raw), "both") {
		t.Error("the log has the text of a question")
	}
}

func TestWithoutUtilitiesNothingIsExplained(t *testing.T) {
	ask := func(_ context.Context, body map[string]any) ([]byte, error) {
		if body["explain"] != nil || body["params"] != nil {
			t.Errorf("%v", body)
		}
		return []byte(ranked), nil
	}
	rep, err := eval.Run(t.Context(), plan(ask, eval.System{Method: eval.PolicyMethod}))
	if err != nil || rep.Utilities != nil || strings.Contains(rep.Markdown(), "utility") {
		t.Errorf("%v %+v", err, rep)
	}
	dir := t.TempDir()
	if err := rep.Write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, eval.UtilitiesFile)); err == nil {
		t.Error("a log of nothing was written")
	}
}

const ranked = `{"generation":"g1","models":"m","chunks":[{"document":"corpus.jsonl#a"}]}`

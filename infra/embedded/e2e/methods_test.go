package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// The sample is indexed once for the tests of methods, by built-in models, with metadata.
var methodsOnce sync.Once

func methodsIndex(t *testing.T) string {
	t.Helper()
	methodsOnce.Do(func() {
		var text strings.Builder
		src := must(os.ReadFile(filepath.Join(sample, "corpus.jsonl")))(t)
		for i, l := range strings.Split(strings.TrimSpace(string(src)), "\n") {
			var row map[string]any
			require.NoError(t, json.Unmarshal([]byte(l), &row))
			row["metadata"] = map[string]string{"half": fmt.Sprint(i % 2)}
			raw := must(json.Marshal(row))(t)
			fmt.Fprintf(&text, "%s\n", raw)
		}
		dir := must(os.MkdirTemp("", "unweaver-methods-"))(t)
		writeFile(t, filepath.Join(dir, "corpus.jsonl"), text.String())
		writeFile(t, filepath.Join(dir, "other.txt"),
			"Lighthouse Merrow stands on Cape Merrow. It was painted by Ottoline Quarrie.")
		completed(
			t,
			index(t, shared.Control, spec(t, "methods", dir, nil, "indexes.methods.chunking.strategy=document",
				"indexes.methods.enrich=[facts, gem]")),
		)
	})
	return "methods"
}

// systems returns all methods, and all rules of the one that elects.
func systems() []map[string]any {
	var out []map[string]any
	for _, m := range config.Methods {
		if m != "unweaver" {
			out = append(out, map[string]any{"method": m})
			continue
		}
		for _, r := range config.Rules {
			out = append(out, map[string]any{"method": m, "rule": r})
		}
	}
	return append(
		out,
		map[string]any{"method": "aligned", "params": map[string]any{"solver": "utility"}},
		map[string]any{
			"method": "unweaver",
			"rule":   "seqpav",
			"params": map[string]any{"weights": "similarity", "ties": "similarity"},
		},
		map[string]any{"method": "ppr", "params": map[string]any{"damping": 0.85}},
		map[string]any{"method": "hybrid", "params": map[string]any{"list": 50, "k_chunks": 5}},
		map[string]any{"method": "gem", "params": map[string]any{"search": "graph", "alpha": 0.5}},
	)
}

func with(a, b map[string]any) map[string]any {
	out := map[string]any{}
	for _, m := range []map[string]any{a, b} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

func chunkIDs(out map[string]any) string {
	var names []string
	for _, c := range chunksOf(out) {
		names = append(names, c["id"].(string))
	}
	return strings.Join(names, " ")
}

func TestEveryMethodAnswersExplainsAndRepeats(t *testing.T) {
	idx := methodsIndex(t)
	for _, sys := range systems() {
		name := fmt.Sprint(sys)
		out := ask(t, shared.HTTP, idx, question, with(sys, map[string]any{"explain": true}))
		cs := chunksOf(out)
		if len(cs) != 5 || out["explain"] == nil || out["method"] != sys["method"] {
			t.Errorf("%s: %d chunks, explanation %v", name, len(cs), out["explain"])
			continue
		}
		for i, c := range cs {
			assert.False(t, i > 0 && c["score"].(float64) > cs[i-1]["score"].(float64)+1e-12,
				"%s: scores rise at place %d", name, i+1)
			assert.True(t, int(c["rank"].(float64)) == i+1, "%s: rank %v at place %d", name, c["rank"], i+1)
		}
		again := ask(t, shared.HTTP, idx, question, with(sys, nil))
		assert.True(t, chunkIDs(again) == chunkIDs(out), "%s: the same question gives other chunks", name)
	}
}

func TestHybridFindsNoLessThanPlainSearchAndItsSharesAddUp(t *testing.T) {
	idx := methodsIndex(t)
	file := must(os.Open(filepath.Join(sample, "questions.jsonl")))(t)
	defer func() { _ = file.Close() }()
	found, want := map[string]int{}, 0
	for sc := bufio.NewScanner(file); sc.Scan(); {
		var q struct {
			Question string   `json:"question"`
			Gold     []string `json:"gold"`
		}
		require.NoError(t, json.Unmarshal(sc.Bytes(), &q))
		out := ask(t, shared.HTTP, idx, q.Question, map[string]any{"explain": true})
		require.True(t, out["method"] == "hybrid", "the default method is %v", out["method"])
		want += len(q.Gold)
		for _, m := range []string{"hybrid", "bm25", "vector"} {
			docs := map[string]bool{}
			for _, c := range chunksOf(ask(t, shared.HTTP, idx, q.Question, map[string]any{"method": m, "top_chunks": 10})) {
				k := c["document"].(string)
				docs[k[strings.LastIndexByte(k, '#')+1:]] = true
			}
			for _, g := range q.Gold {
				if docs[g] {
					found[m]++
				}
			}
		}
		for _, x := range out["explain"].(map[string]any)["chunks"].([]any) {
			c := x.(map[string]any)
			sum := c["plain_share"].(float64) + c["rest_share"].(float64)
			for _, s := range c["class_shares"].([]any) {
				sum += s.(map[string]any)["share"].(float64)
			}
			assert.False(t, c["mass"].(float64) > 0 && math.Abs(sum-1) > 1e-9, "the shares of a chunk's mass add up to %g", sum)
		}
	}
	t.Logf("of %d gold passages the first ten hold: %v", want, found)
	assert.True(t, found["hybrid"] >= found["bm25"] && found["hybrid"] >= found["vector"] && found["hybrid"] >= want/2,
		"of %d gold passages the first ten hold: %v", want, found)
}

func TestFiltersAndWithoutHoldForEveryMethod(t *testing.T) {
	idx := methodsIndex(t)
	for _, sys := range systems() {
		name := fmt.Sprint(sys)
		all := ask(t, shared.HTTP, idx, question, with(sys, nil))
		out := ask(t, shared.HTTP, idx, question,
			with(sys, map[string]any{"filter": map[string]any{"metadata": map[string]string{"half": "1"}}, "top_chunks": 10}))
		for _, c := range chunksOf(out) {
			assert.True(t, c["metadata"].(map[string]any)["half"] == "1", "%s: the filter lets %v through", name, c["document"])
		}
		assert.Equal(t, 10, len(chunksOf(out)), "%s", name)
		out = ask(t, shared.HTTP, idx, question,
			with(sys, map[string]any{"filter": map[string]any{"document_prefix": "other"}}))
		if cs := chunksOf(out); len(cs) > 1 || (len(cs) == 1 && cs[0]["document"] != "other.txt") {
			t.Errorf("%s: a prefix of one document gives %v", name, chunkIDs(out))
		}
		first := chunksOf(all)[0]
		out = ask(t, shared.HTTP, idx, question,
			with(sys, map[string]any{"without": map[string]any{"documents": []string{first["document"].(string)}}}))
		for _, c := range chunksOf(out) {
			assert.True(t, c["document"] != first["document"], "%s: a document that was left out is there", name)
		}
		if es, ok := all["entities"].([]any); ok && len(es) > 0 {
			id := es[0].(map[string]any)["id"].(string)
			out = ask(t, shared.HTTP, idx, question,
				with(sys, map[string]any{"without": map[string]any{"entities": []string{id}}}))
			for _, e := range out["entities"].([]any) {
				assert.True(t, e.(map[string]any)["id"] != id, "%s: an entity that was left out votes", name)
			}
		}
	}
}

func TestBadQueriesNameWhatIsKnown(t *testing.T) {
	idx := methodsIndex(t)
	for says, body := range map[string]map[string]any{
		"known: hybrid, unweaver":         {"method": "magic"},
		"weighted, av, sav":               {"method": "unweaver", "rule": "borda"},
		"method hybrid knows: k_chunks":   {"params": map[string]any{"damping": 0.5}},
		"want a number from 0.01 to 0.99": {"method": "ppr", "params": map[string]any{"damping": 2}},
		"entry 0":                         {"method": "aligned", "params": map[string]any{"capacities": []any{map[string]any{"prefix": "a"}}}},
		"method bm25 has no parameters":   {"method": "bm25", "params": map[string]any{"list": 5}},
		"not known for method ppr":        {"method": "ppr", "rule": "av"},
	} {
		status, out := do(t, shared.HTTP, http.MethodPost, "/v1/indexes/"+idx+"/query",
			with(body, map[string]any{"query": "x"}))
		said := fmt.Sprint(out["detail"], " ", out["hint"])
		assert.True(t, status == http.StatusUnprocessableEntity && strings.Contains(said, says),
			"%v: %d %v, want %q", body, status, out, says)
	}
}

func TestAQuestionWithoutAnyKnownWordIsNoMatch(t *testing.T) {
	dir := write(t, map[string]string{"a.txt": "Lighthouse Merrow stands on Cape Merrow."})
	sp := spec(t, "nomatch", dir, nil, "indexes.nomatch.retrieval.min_similarity=0.3")
	completed(t, index(t, shared.Control, sp))
	for _, m := range config.PlainMethods() {
		out := ask(t, shared.HTTP, "nomatch", "xylqz wvut", map[string]any{"method": m})
		assert.True(t, out["reason"] == "no_match" && len(chunksOf(out)) == 0, "%s: reason %v, %d chunks", m, out["reason"],
			len(chunksOf(out)))
		out = ask(t, shared.HTTP, "nomatch", "lighthouse", map[string]any{"method": m})
		assert.True(t, len(chunksOf(out)) == 1, "%s: a known word gives %v", m, out["reason"])
	}
}

func TestHybridGoesOnWithoutTheEmbedder(t *testing.T) {
	server := serve(t, modeltest.Options{})
	sp := spec(t, "degraded", copySample(t), server, "indexes.degraded.chunking.strategy=document")
	completed(t, index(t, shared.Control, sp))
	if out := ask(t, shared.HTTP, "degraded", question, nil); len(out["degraded"].([]any)) != 0 ||
		len(chunksOf(out)) != 5 {
		t.Errorf("degraded %v, %d chunks", out["degraded"], len(chunksOf(out)))
	}
	server.Close()
	out := ask(t, shared.HTTP, "degraded", question+" And who was the second?", nil)
	if d := out["degraded"].([]any); len(d) != 1 || d[0] != "dense" || len(chunksOf(out)) != 5 {
		t.Errorf("degraded %v, %d chunks", out["degraded"], len(chunksOf(out)))
	}
	if status, p := do(t, shared.HTTP, http.MethodPost, "/v1/indexes/degraded/query",
		map[string]any{"query": "And the third?", "method": "unweaver"}); status != http.StatusServiceUnavailable ||
		p["code"] != "embedder_unavailable" {
		t.Errorf("unweaver without its embedder: %d %v", status, p)
	}
}

// A damaged split is never a wrong answer: the generation is not opened, and restore makes the same file
// again.
func TestADamagedSplitIsMadeAgain(t *testing.T) {
	sp := spec(t, "broken", copySample(t), nil, "indexes.broken.chunking.strategy=document")
	st := completed(t, index(t, shared.Control, sp))
	store := shared.Control.Stores.Artifacts
	art := artifact.Index{Store: store, Name: "broken"}
	cur, _, err := art.ReadPointer(t.Context())
	require.NoError(t, err)
	manifest := must(art.Manifest(t.Context(), cur.Manifest))(t)
	key := art.SegmentKey(manifest.Segments.Splits[0].SHA256)
	good, _, err := blob.Read(t.Context(), store, key)
	require.NoError(t, err)
	bad := append([]byte(nil), good...)
	bad[len(bad)/2] ^= 1
	_, err = blob.Write(t.Context(), store, key, bad, blob.Cond{})
	require.NoError(t, err)
	r := must(shared.Control.RestoreIndex(t.Context(), "broken"))(t)
	res := completed(t, wait(t, shared.Control, r.Run))
	again, _, err := blob.Read(t.Context(), store, key)
	assert.True(t, err == nil && string(again) == string(good) && res.Written.Segments == 1,
		"the segment was not made again: %v, %+v", err, res.Written)
	out := ask(t, shared.HTTP, "broken", question, nil)
	assert.True(t, out["generation"] == st.Generation && len(chunksOf(out)) == 5, "%v", out["generation"])
}

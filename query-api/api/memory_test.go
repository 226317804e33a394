package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

func TestAMemoryIsToldByThemesAndBounded(t *testing.T) {
	f := serve(t, nil)
	memory := f.get("/v1/indexes/sample/memory")
	themes := memory["themes"].([]any)
	if len(themes) != 1 || memory["generation"] != "g1" || memory["graph"] != "matrix" || memory["shown"] != 2.0 {
		t.Fatalf("%v", memory)
	}
	theme := themes[0].(map[string]any)
	chunks := theme["chunks"].([]any)
	first := chunks[0].(map[string]any)
	if len(chunks) != 2 || first["member"] != true || first["question"] == "" || first["degree"].(float64) <= 0 ||
		first["loading"].(float64) < chunks[1].(map[string]any)["loading"].(float64) ||
		theme["questions"].([]any)[0] != retrievetest.SummaryQuestion {
		t.Errorf("%v", theme)
	}
	chunk := f.get("/v1/indexes/sample/chunks/" + first["id"].(string))["chunk"].(map[string]any)
	assert.True(t, chunk["document"] == first["document"] && chunk["ordinal"] == first["ordinal"],
		"%v is shown as %v", chunk, first)
	if one := f.get("/v1/indexes/sample/memory?nodes=1&generation=g1"); one["shown"] != 1.0 {
		t.Errorf("%v", one)
	}
	for path, status := range map[string]int{
		"/v1/indexes/sample/memory?nodes=0":   http.StatusUnprocessableEntity,
		"/v1/indexes/sample/memory?nodes=301": http.StatusUnprocessableEntity,
		"/v1/indexes/never/memory":            http.StatusNotFound,
	} {
		assert.Equal(t, status, f.page(path).Code, "%s", path)
	}
}

func TestAnIndexWithoutAMemoryNamesTheSetting(t *testing.T) {
	f := serve(t, nil)
	plain := retrievetest.Build(t, f.stores, "plain", retrievetest.Sample(), retrievetest.Options{Unasked: true})
	retrievetest.Publish(t, plain, 1)
	for param, ask := range map[string]func() (int, map[string]any, http.Header){
		"generation": func() (int, map[string]any, http.Header) { return f.do("GET", "/v1/indexes/plain/memory", nil) },
		"method": func() (int, map[string]any, http.Header) {
			return f.do("POST", "/v1/indexes/plain/query", map[string]any{"query": "Oslo", "method": "gem"})
		},
	} {
		status, problem, _ := ask()
		assert.True(t, status == http.StatusUnprocessableEntity && problem["param"] == param &&
			strings.Contains(problem["hint"].(string), "indexes.*.enrich"), "%d %v", status, problem)
	}
}

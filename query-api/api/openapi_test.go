package api_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/testkit/apitest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

var update = flag.Bool("update", false, "write openapi.json")

// description is an OpenAPI document, as far as tests look at it.
type description struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Tags       []struct{ Name, Description string }
	Components struct {
		Schemas map[string]map[string]any `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	OperationID string `json:"operationId"`
	Tags        []string
	Summary     string
	Description string
	Parameters  []struct {
		Name, In, Description string
		Example               any
	} `json:"parameters"`
	Responses map[string]struct {
		Description string
		Content     map[string]struct {
			Schema  map[string]any `json:"schema"`
			Example any
		} `json:"content"`
	} `json:"responses"`
}

func describe(t testing.TB) description {
	t.Helper()
	var out description
	require.NoError(t, json.Unmarshal(api.OpenAPI(methods.Registry()), &out))
	return out
}

// contract is what every answer of every test is checked against; New fails where it is no valid OpenAPI 3.1.
var contract = sync.OnceValues(func() (*apitest.Contract, error) {
	return apitest.New(api.OpenAPI(methods.Registry()))
})

// asDescribed fails where an answer is not.
func (f *fixture) asDescribed(request *http.Request, recorder *httptest.ResponseRecorder) {
	if f.unchecked {
		return
	}
	valid, err := contract()
	require.NoError(f.t, err, "the description")
	if err := valid.Check(request.Method, request.URL.EscapedPath(), recorder.Code, recorder.Header(),
		recorder.Body.Bytes()); err != nil {
		f.t.Error(err)
	}
}

func TestTheDescriptionIsCompleteAndItsExamplesAreRight(t *testing.T) {
	valid, err := contract()
	require.NoError(t, err)
	assert.NoError(t, valid.Examples())
	d := describe(t)
	known, tags := map[string]string{}, map[string]bool{}
	for _, tag := range d.Tags {
		tags[tag.Name] = tag.Description != ""
	}
	for path, operations := range d.Paths {
		for method, described := range operations {
			at := strings.ToUpper(method) + " " + path
			assert.True(t, described.OperationID != "" && known[described.OperationID] == "",
				"%s: operationId %q, as %s has", at, described.OperationID, known[described.OperationID])
			known[described.OperationID] = at
			if described.Summary == "" || described.Description == "" || len(described.Tags) != 1 ||
				!tags[described.Tags[0]] {
				t.Errorf("%s: %+v", at, described)
			}
			for _, parameter := range described.Parameters {
				assert.True(t, parameter.Description != "" && (parameter.In != "path" || parameter.Example != nil),
					"%s: parameter %s is not described", at, parameter.Name)
			}
			for status, response := range described.Responses {
				assert.True(t, response.Description != "", "%s: %s is not described", at, status)
				for kind, problem := range response.Content {
					assert.True(t, len(response.Content) != 1 || status < "400" || problem.Example != nil,
						"%s: %s has no example of %s", at, status, kind)
				}
			}
			for _, status := range []string{"401", "403", "429", "500", "503"} {
				_, ok := described.Responses[status]
				assert.True(t, ok || path == "/livez", "%s: %s is not described", at, status)
			}
		}
	}
	for name, schema := range d.Components.Schemas {
		properties, object := schema["properties"].(map[string]any)
		assert.True(t, !object || schema["description"] != nil, "schema %s is not described", name)
		for field, property := range properties {
			of := property.(map[string]any)
			assert.NotEmpty(t, cmp.Or(of["description"], of["$ref"]), "%s.%s is not described", name, field)
		}
		checkItems(t, name, schema)
	}
}

// checkItems fails where a schema of arrays does not say of what: generators of clients drop all that refers to it.
func checkItems(t *testing.T, at string, schema any) {
	switch schema := schema.(type) {
	case map[string]any:
		_, listed := schema["items"]
		assert.True(t, listed || !strings.Contains(fmt.Sprint(schema["type"]), "array"), "%s: an array has no items", at)
		for key, inner := range schema {
			checkItems(t, at+"."+key, inner)
		}
	case []any:
		for _, inner := range schema {
			checkItems(t, at, inner)
		}
	}
}

// Addresses that are made of the examples alone are answered.
func TestTheExamplesOfAddressesAreReal(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	f.report("g1", core.Report{Status: core.StatusCompleted})
	for path, operations := range describe(t).Paths {
		described, ok := operations["get"]
		if !ok {
			continue
		}
		var query []string
		for _, parameter := range described.Parameters {
			value := strings.ReplaceAll(fmt.Sprint(parameter.Example), "/", "%2F")
			switch {
			case parameter.In == "path":
				path = strings.ReplaceAll(path, "{"+parameter.Name+"}", value)
			case parameter.Example != nil:
				query = append(query, parameter.Name+"="+value)
			}
		}
		status, out, _ := f.do(http.MethodGet, path+"?"+strings.Join(query, "&"), nil)
		if status != http.StatusOK {
			t.Errorf("%s?%s: %d %v", path, strings.Join(query, "&"), status, out)
		}
	}
}

func TestTheDescriptionIsTheOneInTheRepository(t *testing.T) {
	got := api.OpenAPI(methods.Registry())
	if *update {
		require.NoError(t, os.WriteFile("openapi.json", got, 0o644))
	}
	want, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	assert.True(t, bytes.Equal(got, want),
		"openapi.json is not what the types say: run go test ./query-api/api -update, and look at the difference")
	assert.True(t, bytes.Equal(got, api.OpenAPI(methods.Registry())), "two descriptions differ")
	compareReference(t)
}

// Promises: 102.
func TestTheServedDescriptionIsTheSame(t *testing.T) {
	f := serve(t, nil)
	served := f.get("/openapi.json")
	var want map[string]any
	require.NoError(t, json.Unmarshal(api.OpenAPI(methods.Registry()), &want))
	assert.Equal(t, fmt.Sprint(want), fmt.Sprint(served), "another description is served")
}

func TestEveryAnswerIsAsDescribed(t *testing.T) {
	d := describe(t)
	f := serve(t, nil)
	f.ask(map[string]any{"query": "Oslo"})
	f.report("g1", core.Report{Status: core.StatusCompleted})
	oslo := retrievetest.ClassID("Oslo").String()
	chunk := retrievetest.ChunkID(retrievetest.Sample()[1], 0).String()
	seen := map[string]bool{}
	for path, real := range map[string]string{
		"/v1/indexes":         "/v1/indexes",
		"/v1/indexes/{index}": "/v1/indexes/sample",
		"/v1/indexes/{index}/generations/{generation}": "/v1/indexes/sample/generations/g1",
		"/v1/indexes/{index}/runs":                     "/v1/indexes/sample/runs",
		"/v1/indexes/{index}/runs/{run}":               "/v1/indexes/sample/runs/g1",
		"/v1/indexes/{index}/runs/{run}/report":        "/v1/indexes/sample/runs/g1/report",
		"/v1/indexes/{index}/trends":                   "/v1/indexes/sample/trends?nights=5",
		"/v1/indexes/{index}/memory":                   "/v1/indexes/sample/memory?nodes=9",
		"/v1/indexes/{index}/documents":                "/v1/indexes/sample/documents",
		"/v1/indexes/{index}/documents/{key}":          "/v1/indexes/sample/documents/cities/oslo.txt",
		"/v1/indexes/{index}/generations":              "/v1/indexes/sample/generations",
		"/v1/indexes/{index}/entities":                 "/v1/indexes/sample/entities?prefix=o&limit=3",
		"/v1/indexes/{index}/entities/{id}":            "/v1/indexes/sample/entities/" + oslo,
		"/v1/indexes/{index}/entities/{id}/chunks":     "/v1/indexes/sample/entities/" + oslo + "/chunks?limit=2",
		"/v1/indexes/{index}/chunks/{id}":              "/v1/indexes/sample/chunks/" + chunk,
		"/v1/indexes/{index}/documents/{key}/text":     "/v1/indexes/sample/documents/cities/oslo.txt/text?start=5",
		"/v1/models":         "/v1/models",
		"/v1/models/{model}": "/v1/models/unweaver/sample",

		"/livez":   "/livez",
		"/readyz":  "/readyz",
		"/metrics": "/metrics",
	} {
		seen["GET "+path] = true
		status, out, _ := f.do(http.MethodGet, real, nil)
		assert.True(t, status == http.StatusOK, "%s: %d %v", real, status, out)
	}
	query := "/v1/indexes/{index}/query"
	seen["POST "+query] = true
	for _, method := range methods.Registry().All() {
		spec := method.Spec()
		if spec.Needs.Enriched != "" { // the sample is not enriched
			continue
		}
		rules := []any{nil}
		for _, rule := range spec.Rules {
			rules = append(rules, rule.Name)
		}
		for _, rule := range rules {
			out := f.ask(map[string]any{
				"query": "the capital of Norway", "method": spec.Name, "rule": rule, "explain": true, "answer": true,
			})
			assert.True(t, out["explain"] != nil, "%s %v explains nothing", spec.Name, rule)
		}
	}
	f.askSeveral(map[string]any{"query": "Oslo", "explain": true, "answer": true}, "sam*")
	seen["POST /v1/query"] = true
	seen["POST "+completions], seen["POST /v1/responses"], seen["POST /mcp"] = true, true, true
	for status, message := range map[int]string{http.StatusOK: listing, http.StatusBadRequest: "{"} {
		got, out, _ := f.say(message)
		assert.True(t, got == status, "%s: %d %v", message, got, out)
	}
	for status, n := range map[int]int{http.StatusOK: 1, http.StatusBadRequest: 2} {
		got, out := f.chat(norway(map[string]any{"n": n}))
		assert.True(t, got == status, "%d answers: %d %v", n, got, out)
		input := map[int]string{1: `"Fram"`, 2: `"Fram","background":true`}[n]
		answered := f.send(http.MethodPost, "/v1/responses", `{"model":"unweaver/sample","input":`+input+`}`,
			"Content-Type", "application/json")
		assert.Equal(t, status, answered.Code, "%s", answered.Body)
	}
	for path, operations := range d.Paths {
		for method := range operations {
			assert.True(t, seen[strings.ToUpper(method)+" "+path], "%s %s is described and not tried", method, path)
		}
	}
}

func TestTheDescriptionKnowsWhatTheMethodsSay(t *testing.T) {
	d := describe(t)
	query := d.Components.Schemas["Query"]
	properties := query["properties"].(map[string]any)
	method := properties["method"].(map[string]any)["enum"].([]any)
	assert.Equal(t, "[hybrid unweaver ppr aligned vector bm25 gem apr <nil>]", fmt.Sprint(method), "methods: %v", method)
	params := properties["params"].(map[string]any)["properties"].(map[string]any)
	list := params["list"].(map[string]any)
	if list["minimum"] != 1.0 || list["maximum"] != 1000.0 || list["default"] != 100.0 || list["type"] != "integer" {
		t.Errorf("list: %v", list)
	}
	assert.True(t, query["additionalProperties"] == false && fmt.Sprint(query["required"]) == "[query]",
		"a body with other fields is refused, and the description says: %v", query)
	chunks := properties["top_chunks"].(map[string]any)
	assert.True(t, chunks["minimum"] == 1.0 && chunks["maximum"] == 100.0, "top_chunks: %v", chunks)
	kinds := d.Components.Schemas["Explain"]["anyOf"].([]any)
	assert.Len(t, kinds, 8)
}

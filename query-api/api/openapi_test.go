package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/retrieve/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

var update = flag.Bool("update", false, "write openapi.json")

// description is an OpenAPI document, as far as tests look at it.
type description struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]map[string]any `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	Parameters []struct {
		Name, In string
	} `json:"parameters"`
	Responses map[string]struct {
		Content map[string]struct {
			Schema map[string]any `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

func describe(t *testing.T) description {
	t.Helper()
	var out description
	if err := json.Unmarshal(api.OpenAPI(retrieve.Methods()), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// matches tells where a value leaves its schema: unknown fields, missing ones, other types.
func (d description) matches(value any, schema map[string]any, at string) []string {
	if name, ok := schema["$ref"].(string); ok {
		return d.matches(value, d.Components.Schemas[strings.TrimPrefix(name, "#/components/schemas/")], at)
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		if list, ok := schema[key].([]any); ok {
			var all []string
			for _, one := range list {
				wrong := d.matches(value, one.(map[string]any), at)
				if len(wrong) == 0 {
					return nil
				}
				all = append(all, wrong...)
			}
			return all
		}
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, value) {
		return []string{fmt.Sprintf("%s: %v is none of %v", at, value, enum)}
	}
	if kinds := kindsOf(schema); len(kinds) > 0 && !slices.ContainsFunc(kindOf(value), func(kind string) bool {
		return slices.Contains(kinds, kind)
	}) {
		return []string{fmt.Sprintf("%s: %T is not %v", at, value, kinds)}
	}
	var wrong []string
	switch v := value.(type) {
	case []any:
		items, _ := schema["items"].(map[string]any)
		for i, item := range v {
			wrong = append(wrong, d.matches(item, items, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case map[string]any:
		wrong = d.fields(v, schema, at)
	}
	return wrong
}

func (d description) fields(object, schema map[string]any, at string) []string {
	var wrong []string
	properties, named := schema["properties"].(map[string]any)
	further, _ := schema["additionalProperties"].(map[string]any)
	for key, value := range object {
		switch property, ok := properties[key].(map[string]any); {
		case ok:
			wrong = append(wrong, d.matches(value, property, at+"."+key)...)
		case further != nil:
			wrong = append(wrong, d.matches(value, further, at+"."+key)...)
		case named:
			wrong = append(wrong, at+"."+key+" is not described")
		}
	}
	required, _ := schema["required"].([]any)
	for _, key := range required {
		if _, ok := object[key.(string)]; !ok {
			wrong = append(wrong, at+"."+key.(string)+" is missing")
		}
	}
	return wrong
}

func kindsOf(schema map[string]any) []string {
	switch kind := schema["type"].(type) {
	case string:
		return []string{kind}
	case []any:
		var out []string
		for _, one := range kind {
			out = append(out, one.(string))
		}
		return out
	}
	return nil
}

func kindOf(value any) []string {
	switch v := value.(type) {
	case nil:
		return []string{"null"}
	case bool:
		return []string{"boolean"}
	case string:
		return []string{"string"}
	case float64:
		if v == math.Trunc(v) {
			return []string{"integer", "number"}
		}
		return []string{"number"}
	case []any:
		return []string{"array"}
	}
	return []string{"object"}
}

// answered fails where an answer is not as described.
func (d description) answered(t *testing.T, method, path string, status int, answer map[string]any) {
	t.Helper()
	operation, ok := d.Paths[path][strings.ToLower(method)]
	if !ok {
		t.Errorf("%s %s is not described", method, path)
		return
	}
	response, ok := operation.Responses[fmt.Sprint(status)]
	if !ok {
		t.Errorf("%s %s: status %d is not described", method, path, status)
		return
	}
	var wrongs []string
	for kind, content := range response.Content { // an answer is of one of the forms
		if kind == "text/event-stream" {
			continue
		}
		wrong := d.matches(answer, content.Schema, path)
		if len(wrong) == 0 {
			return
		}
		wrongs = append(wrongs, wrong...)
	}
	if len(wrongs) > 0 {
		t.Errorf("%s %s %d:\n%s", method, path, status, strings.Join(wrongs, "\n"))
	}
}

func TestTheDescriptionIsTheOneInTheRepository(t *testing.T) {
	got := api.OpenAPI(retrieve.Methods())
	if *update {
		if err := os.WriteFile("openapi.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("openapi.json is not what the types say: run go test ./query-api/api -update, and look at the difference")
	}
	if !bytes.Equal(got, api.OpenAPI(retrieve.Methods())) {
		t.Error("two descriptions differ")
	}
}

func TestTheServedDescriptionIsTheSame(t *testing.T) {
	f := serve(t, nil)
	served := f.get("/openapi.json")
	var want map[string]any
	if err := json.Unmarshal(api.OpenAPI(retrieve.Methods()), &want); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(served) != fmt.Sprint(want) {
		t.Error("another description is served")
	}
}

func TestEveryAnswerIsAsDescribed(t *testing.T) {
	d := describe(t)
	f := serve(t, nil)
	f.ask(map[string]any{"query": "Oslo"})
	oslo := retrievetest.ClassID("Oslo").String()
	chunk := retrievetest.ChunkID(retrievetest.Sample()[1], 0).String()
	seen := map[string]bool{}
	for path, real := range map[string]string{
		"/v1/indexes":                              "/v1/indexes",
		"/v1/indexes/{index}/generations":          "/v1/indexes/sample/generations",
		"/v1/indexes/{index}/entities":             "/v1/indexes/sample/entities?prefix=o&limit=3",
		"/v1/indexes/{index}/entities/{id}":        "/v1/indexes/sample/entities/" + oslo,
		"/v1/indexes/{index}/entities/{id}/chunks": "/v1/indexes/sample/entities/" + oslo + "/chunks?limit=2",
		"/v1/indexes/{index}/chunks/{id}":          "/v1/indexes/sample/chunks/" + chunk,
		"/v1/indexes/{index}/documents/{key}/text": "/v1/indexes/sample/documents/cities/oslo.txt/text?start=5",
		"/v1/models":         "/v1/models",
		"/v1/models/{model}": "/v1/models/unweaver/sample",

		"/livez":   "/livez",
		"/readyz":  "/readyz",
		"/metrics": "/metrics",
	} {
		seen["GET "+path] = true
		status, out, _ := f.do(http.MethodGet, real, nil)
		d.answered(t, http.MethodGet, path, status, out)
		if status != http.StatusOK {
			t.Errorf("%s: %d %v", real, status, out)
		}
	}
	query := "/v1/indexes/{index}/query"
	seen["POST "+query] = true
	for _, method := range retrieve.Methods().All() {
		spec := method.Spec()
		rules := []any{nil}
		for _, rule := range spec.Rules {
			rules = append(rules, rule.Name)
		}
		for _, rule := range rules {
			out := f.ask(map[string]any{
				"query": "the capital of Norway", "method": spec.Name, "rule": rule, "explain": true, "answer": true,
			})
			d.answered(t, http.MethodPost, query, http.StatusOK, out)
			if out["explain"] == nil {
				t.Errorf("%s %v explains nothing", spec.Name, rule)
			}
		}
	}
	seen["POST "+completions], seen["POST /mcp"] = true, true
	for status, message := range map[int]string{http.StatusOK: listing, http.StatusBadRequest: "{"} {
		_, out, _ := f.say(message)
		d.answered(t, http.MethodPost, "/mcp", status, out)
	}
	for status, n := range map[int]int{http.StatusOK: 1, http.StatusBadRequest: 2} {
		_, out := f.chat(norway(map[string]any{"n": n}))
		d.answered(t, http.MethodPost, completions, status, out)
	}
	for path, operations := range d.Paths {
		for method := range operations {
			if !seen[strings.ToUpper(method)+" "+path] {
				t.Errorf("%s %s is described and not tried", method, path)
			}
		}
	}
}

func TestTheDescriptionKnowsWhatTheMethodsSay(t *testing.T) {
	d := describe(t)
	query := d.Components.Schemas["Query"]
	properties := query["properties"].(map[string]any)
	method := properties["method"].(map[string]any)["enum"].([]any)
	if fmt.Sprint(method) != "[hybrid unweaver ppr aligned vector bm25 <nil>]" {
		t.Errorf("methods: %v", method)
	}
	params := properties["params"].(map[string]any)["properties"].(map[string]any)
	list := params["list"].(map[string]any)
	if list["minimum"] != 1.0 || list["maximum"] != 1000.0 || list["default"] != 100.0 || list["type"] != "integer" {
		t.Errorf("list: %v", list)
	}
	if query["additionalProperties"] != false || fmt.Sprint(query["required"]) != "[query]" {
		t.Errorf("a body with other fields is refused, and the description says: %v", query)
	}
	chunks := properties["top_chunks"].(map[string]any)
	if chunks["minimum"] != 1.0 || chunks["maximum"] != 100.0 {
		t.Errorf("top_chunks: %v", chunks)
	}
	kinds := d.Components.Schemas["Explain"]["anyOf"].([]any)
	if len(kinds) != 6 {
		t.Errorf("%d explanations", len(kinds))
	}
}

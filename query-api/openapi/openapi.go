package openapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/answer/bisect"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods/gem/gemmethod"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/query-api/chat"
	"github.com/unweaver/unweaver/query-api/problem"
)

// typeNames are components whose types are called otherwise.
var typeNames = map[reflect.Type]string{
	reflect.TypeFor[answer.Request]():        "Query",
	reflect.TypeFor[answer.SeveralRequest](): "SeveralQuery",
	reflect.TypeFor[answer.Response]():       "Result",
	reflect.TypeFor[retrieve.Place]():        "ListPlace",
	reflect.TypeFor[retrieve.ListSum]():      "ListSummary",
	reflect.TypeFor[retrieve.ExplainVote]():  "WeightedVote",
	reflect.TypeFor[core.Problem]():          "RunProblem",
	reflect.TypeFor[runlog.Run]():            "RunDetail",
	reflect.TypeFor[runlog.Summary]():        "RunSummary",
	reflect.TypeFor[control.Scheduled]():     "Schedule",
	reflect.TypeFor[control.NightRun]():      "ScheduledRun",
	reflect.TypeFor[gemmethod.View]():        "Memory",
	reflect.TypeFor[gemmethod.ViewedTheme](): "MemoryTheme",
	reflect.TypeFor[gemmethod.ViewedChunk](): "MemoryChunk",
	reflect.TypeFor[bisect.Request]():        "Bisect", reflect.TypeFor[bisect.Found](): "Bisected",
	reflect.TypeFor[bisect.Cause](): "BisectCause", reflect.TypeFor[bisect.Row](): "BisectRow",
	reflect.TypeFor[bisect.Probe](): "BisectProbe",
}

// Describe describes routes as OpenAPI 3.1.
func Describe(routes []Route, methods *retrieve.Registry) []byte {
	all := &schemas{
		components: map[string]any{},
		types:      map[string]reflect.Type{},
		names:      maps.Clone(typeNames),
	}
	all.schemaOf(reflect.TypeFor[problem.Problem]())
	all.schemaOf(reflect.TypeFor[Delta]())
	paths := map[string]any{}
	for _, route := range routes {
		path := route.DocPath()
		operations, _ := paths[path].(map[string]any)
		if operations == nil {
			operations = map[string]any{}
			paths[path] = operations
		}
		operations[strings.ToLower(route.Method)] = all.describeOperation(path, route)
	}
	all.queryOf(methods)
	all.components["Chosen"] = map[string]any{
		"type": "object", "description": "A result reduced to the requested fields.",
		"not": map[string]any{"required": all.components["Result"].(map[string]any)["required"]},
	}
	all.describeMeanings()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "UnWeaver query API", "version": "1",
			"summary": "Cited passages for questions", "description": apiText,
			"license": map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []any{map[string]any{"url": "/", "description": "the server that returned this description"}},
		"tags":     tagTexts,
		"paths":    paths,
		"security": []any{map[string]any{"key": []any{}}, map[string]any{"header": []any{}}, map[string]any{}},
		"components": map[string]any{"schemas": all.components, "responses": map[string]any{
			// No operation has it: it is the answer to another method of an address.
			"405": map[string]any{
				"description": codesOf(http.StatusMethodNotAllowed, false),
				"content":     contentOf("application/problem+json", newRef("Problem")),
			},
		}, "securitySchemes": map[string]any{
			"key": map[string]any{
				"type": "http", "scheme": "bearer", "description": keyText,
			},
			"header": map[string]any{
				"type": "apiKey", "in": "header", "name": "X-API-Key",
				"description": "the same key, for clients that cannot set Authorization",
			},
		}},
	}); err != nil {
		panic("api: openapi: " + err.Error()) // maps of strings and numbers always marshal
	}
	return out.Bytes()
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// describeOperation describes one route.
func (s *schemas) describeOperation(path string, route Route) map[string]any {
	out := map[string]any{
		"operationId": route.ID, "tags": []string{route.Tag}, "summary": route.Summary,
		"parameters": parametersIn(path, route), "responses": s.describeResponses(route),
		"description": route.Doc + " Scope of the key: " + string(route.Scope) + ".",
	}
	if route.Open {
		out["description"], out["security"] = route.Doc+" Needs no key.", []any{}
	}
	if route.Control {
		out["security"] = []any{map[string]any{"key": []any{}}, map[string]any{"header": []any{}}}
		out["description"] = out["description"].(string) + " Needs a key everywhere."
	}
	if route.Bytes {
		out["requestBody"] = map[string]any{
			"required": true, "description": "the document, of any type; at most query_api.upload_bytes",
			"content": map[string]any{"application/octet-stream": map[string]any{}},
		}
	}
	if route.Body != nil {
		s.strict = route.Failure == nil // OpenAI's form and JSON-RPC let further fields be
		body := contentOf("application/json", s.schemaOf(reflect.TypeOf(route.Body)))
		s.strict = false
		if several := examples[route.ID].Requests; several != nil {
			body["application/json"].(map[string]any)["examples"] = several
		}
		out["requestBody"] = map[string]any{
			"required": !route.Control, "content": body, "description": "at most " + cmp.Or(route.Most, "64 KiB"),
		}
	}
	return out
}

// parametersIn describes the parameters of a route, those of its path first.
func parametersIn(path string, route Route) []any {
	parameters := []any{}
	for _, match := range pathParameter.FindAllStringSubmatch(path, -1) {
		known := pathParameters[match[1]]
		schema := map[string]any{"type": "string"}
		if known.pattern != "" {
			schema["pattern"] = known.pattern
		} else {
			schema["minLength"] = 1
		}
		example := known.example
		if match[1] == "id" && strings.Contains(path, "/chunks/{id}") {
			example = exampleChunk
		}
		parameters = append(parameters, map[string]any{
			"name": match[1], "in": "path", "required": true, "schema": schema,
			"description": known.doc, "example": example,
		})
	}
	for i, parameter := range slices.Concat(route.Query, route.Headers) {
		in := "query"
		if i >= len(route.Query) {
			in = "header"
		}
		described := map[string]any{
			"name": parameter.Name, "in": in, "schema": parameter.Schema, "description": parameter.Doc,
		}
		if parameter.Example != nil {
			described["example"] = parameter.Example
		}
		parameters = append(parameters, described)
	}
	return parameters
}

// describeResponses describes what a route answers: once where all is well, and every problem.
func (s *schemas) describeResponses(route Route) map[string]any {
	ok := map[string]any{"description": "ok"}
	switch {
	case route.Answer != nil:
		schema := s.schemaOf(reflect.TypeOf(route.Answer))
		if route.ID == "query" || route.ID == "querySeveral" {
			schema = map[string]any{"anyOf": []any{schema, newRef("Chosen")}}
		}
		ok["content"] = contentOf("application/json", schema)
		if example := examples[route.ID].Response; example != nil {
			ok["content"].(map[string]any)["application/json"].(map[string]any)["example"] = example
		}
	case route.ID == "metrics":
		ok["content"] = contentOf("text/plain", map[string]any{"type": "string"})
	case route.ID == "getRunReport":
		ok["content"] = contentOf("text/markdown", map[string]any{"type": "string"})
	}
	out := describeDone(route, ok)
	if route.Kept {
		ok["headers"] = map[string]any{
			"ETag": newHeader("tag of this response; with If-None-Match, an unchanged response is a 304"),
			"Cache-Control": newHeader("max-age if the address names a generation, which never changes; otherwise no-cache. " +
				"private if an API key is required"),
		}
		out["304"] = map[string]any{"description": "the response is unchanged since the one that If-None-Match names"}
	}
	if route.Events != "" {
		ok["content"].(map[string]any)["text/event-stream"] = map[string]any{
			"schema": map[string]any{ // of one event, as readers of streams take it
				"type": "object", "description": route.Events, "required": []string{"data"},
				"properties": map[string]any{
					"event": map[string]any{"type": "string"}, "data": map[string]any{"type": "string"},
				},
			},
		}
	}
	if route.ID == "sendMessage" {
		out["202"] = map[string]any{"description": "a notification, or a message that needs no response"}
	}
	for _, status := range route.allProblems() {
		described := map[string]any{
			"description": codesOf(status, route.Control), "content": s.describeError(route, status),
		}
		switch status {
		case http.StatusServiceUnavailable, http.StatusTooManyRequests:
			described["headers"] = map[string]any{"Retry-After": newHeader("seconds")}
		case http.StatusUnauthorized:
			described["headers"] = map[string]any{"WWW-Authenticate": newHeader("Bearer")}
		}
		out[strconv.Itoa(status)] = described
	}
	if route.Pattern == "/readyz" {
		both := contentOf("application/json", newRef("Readiness"))
		both["application/problem+json"] = map[string]any{"schema": newRef("Problem")}
		out["503"] = map[string]any{
			"description": "not ready", "content": both, "headers": map[string]any{"Retry-After": newHeader("seconds")},
		}
	}
	return out
}

// describeDone describes the statuses of a route where all is well.
func describeDone(route Route, ok map[string]any) map[string]any {
	out := map[string]any{}
	for _, status := range route.Done {
		out[strconv.Itoa(status)] = ok
		if status == http.StatusNoContent {
			out[strconv.Itoa(status)] = map[string]any{"description": "done, and nothing to say"}
		}
	}
	if len(out) == 0 {
		out["200"] = ok
	}
	if route.Answer != nil && reflect.TypeOf(route.Answer).Name() == "RunStarted" {
		ok["headers"] = map[string]any{"Location": newHeader("address of the run")}
	}
	return out
}

// describeError describes the error of a status, in the form of its route.
func (s *schemas) describeError(route Route, status int) map[string]any {
	example := problemExample(status)
	plain := contentOf("application/problem+json", newRef("Problem"))
	plain["application/problem+json"].(map[string]any)["example"] = example
	if route.Failure == nil {
		return plain
	}
	failure := contentOf("application/json", s.schemaOf(reflect.TypeOf(route.Failure)))
	if !chat.IsChatPath(route.DocPath()) {
		failure["application/problem+json"] = plain["application/problem+json"] // the guard's
		return failure
	}
	// There the guard's are of that form too.
	failure["application/json"].(map[string]any)["example"] = chat.FailureOf(&example)
	return failure
}

func newHeader(text string) map[string]any {
	return map[string]any{"description": text, "schema": map[string]any{"type": "string"}}
}

func contentOf(kind string, schema map[string]any) map[string]any {
	return map[string]any{kind: map[string]any{"schema": schema}}
}

// codesOf names the problems that have a status, of queries or of control.
func codesOf(status int, control bool) string {
	if status == http.StatusInternalServerError {
		return "internal and other unexpected errors; see the log for the cause"
	}
	var codes []string
	for _, code := range problem.CodesOf(status, control) {
		codes = append(codes, string(code))
	}
	text := strings.Join(codes, ", ")
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		text += " (with Retry-After where waiting helps)"
	}
	return text
}

// queryOf adds to the schemas what the methods say: their names, rules, defaults, parameters and explanations.
func (s *schemas) queryOf(methods *retrieve.Registry) {
	query := s.components["Query"].(map[string]any)
	properties := query["properties"].(map[string]any)
	properties["fields"].(map[string]any)["items"] = map[string]any{"type": "string", "enum": ResultFields}
	method := properties["method"].(map[string]any)
	names := []any{}
	for _, name := range methods.Names() {
		names = append(names, name)
	}
	method["enum"] = append(names, nil)
	rules := []any{}
	for _, rule := range methods.Rules() {
		rules = append(rules, rule)
	}
	rule := properties["rule"].(map[string]any)
	rule["enum"] = append(rules, nil)
	var withRules, entities, docs []string
	params := map[string]any{}
	var explanations []any
	seen := map[string]bool{}
	for _, method := range methods.All() {
		spec := method.Spec()
		docs = append(docs, spec.Name+": "+spec.Doc)
		entities = append(entities, fmt.Sprintf("%s %d", spec.Name, spec.Entities))
		if len(spec.Rules) > 0 {
			withRules = append(withRules, spec.Name)
		}
		for _, param := range spec.Params {
			if params[param.Name] != nil {
				panic("openapi: two methods have the parameter " + param.Name) // met by the first test
			}
			params[param.Name] = paramSchema(spec.Name, param)
		}
		for _, shape := range spec.Explains {
			if seen[shape.Name] {
				continue
			}
			seen[shape.Name] = true
			s.names[reflect.TypeOf(shape.Zero)] = shape.Name
			explanations = append(explanations, s.schemaOf(reflect.TypeOf(shape.Zero)))
			s.components[shape.Name].(map[string]any)["description"] = shape.Doc
		}
	}
	method["description"] = "default: the index's retrieval.method; " + strings.Join(docs, "; ")
	rule["description"] = "method " + strings.Join(withRules, ", ") + " only"
	properties["top_entities"].(map[string]any)["description"] = "default by method: " + strings.Join(entities, ", ")
	properties["params"] = map[string]any{
		"type": []string{"object", "null"}, "description": "parameters of the method; others are an error",
		"properties": params, "additionalProperties": false,
	}
	several := s.components["SeveralQuery"].(map[string]any)
	several["required"] = []string{"query", "indexes"}
	fields := several["properties"].(map[string]any)
	for _, name := range []string{"method", "rule", "top_entities", "params", "fields"} {
		fields[name] = properties[name]
	}
	delete(fields, "generation") // it is one index's
	fields["indexes"].(map[string]any)["minItems"] = 1
	s.components["Explain"] = map[string]any{"description": "typed by method", "anyOf": explanations}
}

// paramSchema describes a parameter of a method.
func paramSchema(method string, param retrieve.Param) map[string]any {
	schema := map[string]any{"description": method + ": " + param.Doc}
	for key, value := range param.Schema {
		schema[key] = value
	}
	if param.Default != nil {
		schema["default"] = param.Default
	}
	return schema
}

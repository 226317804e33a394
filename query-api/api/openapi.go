package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/query-api/chat"
)

// OpenAPI describes the API as OpenAPI 3.1, made from the table of routes, the types of bodies and the registry of
// methods, so that it cannot say anything else than they do.
func OpenAPI(methods *retrieve.Registry) []byte {
	all := &schemas{
		components: map[string]any{},
		names: map[reflect.Type]string{
			reflect.TypeFor[Request]():              "Query",
			reflect.TypeFor[Response]():             "Result",
			reflect.TypeFor[retrieve.Place]():       "ListPlace",
			reflect.TypeFor[retrieve.ListSum]():     "ListSummary",
			reflect.TypeFor[retrieve.ExplainVote](): "WeightedVote",
		},
		strict: map[reflect.Type]bool{
			reflect.TypeFor[Request](): true, reflect.TypeFor[Filter](): true, reflect.TypeFor[Modified](): true,
			reflect.TypeFor[Without](): true,
		},
	}
	all.of(reflect.TypeFor[Problem]())
	all.of(reflect.TypeFor[Delta]())
	paths := map[string]any{}
	for _, route := range (&Server{metrics: newMetrics()}).routes() {
		path := route.path
		if path == "" {
			path = route.pattern
		}
		operations, _ := paths[path].(map[string]any)
		if operations == nil {
			operations = map[string]any{}
			paths[path] = operations
		}
		operations[strings.ToLower(route.method)] = all.operation(path, route)
	}
	all.queryOf(methods)
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "UnWeaver query API", "version": "1",
			"description": "Cited chunks for questions. v1 only gains response fields.",
		},
		"paths":    paths,
		"security": []any{map[string]any{"key": []any{}}, map[string]any{"header": []any{}}, map[string]any{}},
		"components": map[string]any{"schemas": all.components, "securitySchemes": map[string]any{
			"key": map[string]any{
				"type": "http", "scheme": "bearer",
				"description": "an API key (unweaver keys create); servers on loopback ask for none",
			},
			"header": map[string]any{"type": "apiKey", "in": "header", "name": "X-API-Key"},
		}},
	}); err != nil {
		panic("api: openapi: " + err.Error()) // maps of strings and numbers always marshal
	}
	return out.Bytes()
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// patterns of parameters in paths.
var patterns = map[string]string{"index": "^[a-z0-9][a-z0-9-]{0,62}$", "id": "^[0-9a-f]{32}$"}

// operation describes one route.
func (s *schemas) operation(path string, route route) map[string]any {
	parameters := []any{}
	for _, match := range pathParameter.FindAllStringSubmatch(path, -1) {
		schema := map[string]any{"type": "string"}
		if pattern := patterns[match[1]]; pattern != "" {
			schema["pattern"] = pattern
		}
		parameters = append(parameters, map[string]any{
			"name": match[1], "in": "path", "required": true, "schema": schema,
		})
	}
	for _, parameter := range route.query {
		parameters = append(parameters, map[string]any{
			"name": parameter.name, "in": "query", "schema": parameter.schema,
		})
	}
	ok := map[string]any{"description": "ok"}
	if route.answer != nil {
		ok["content"] = content("application/json", s.of(reflect.TypeOf(route.answer)))
	}
	if route.events != "" {
		ok["content"].(map[string]any)["text/event-stream"] = map[string]any{
			"schema": map[string]any{"type": "string", "description": route.events},
		}
	}
	responses := map[string]any{"200": ok}
	told := content("application/problem+json", ref("Problem"))
	if route.failure != nil {
		failure := content("application/json", s.of(reflect.TypeOf(route.failure)))
		if !chat.Speaks(strings.TrimSuffix(path, "/{model}")) { // there the guard's are of that form too
			failure["application/problem+json"] = told["application/problem+json"]
		}
		told = failure
	}
	for _, status := range route.allProblems() {
		responses[strconv.Itoa(status)] = map[string]any{"description": codesOf(status), "content": told}
	}
	if route.pattern == "/readyz" {
		responses["503"] = map[string]any{
			"description": "not ready", "content": content("application/json", ref("Readiness")),
		}
	}
	out := map[string]any{
		"summary": route.summary, "parameters": parameters, "responses": responses,
		"description": "Scope of the key: " + string(route.scope) + ".",
	}
	if route.open {
		out["description"], out["security"] = "Needs no key.", []any{}
	}
	if route.body != nil {
		body := content("application/json", s.of(reflect.TypeOf(route.body)))
		out["requestBody"] = map[string]any{"required": true, "content": body}
	}
	return out
}

func content(kind string, schema map[string]any) map[string]any {
	return map[string]any{kind: map[string]any{"schema": schema}}
}

// codesOf names the problems that have a status.
func codesOf(status int) string {
	if status == http.StatusGatewayTimeout {
		return "timeout"
	}
	var codes []string
	for _, code := range fault.Codes() {
		if statuses[code] == status {
			codes = append(codes, string(code))
		}
	}
	text := strings.Join(codes, ", ")
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		text += "; see Retry-After"
	}
	return text
}

// queryOf adds to the schemas what the methods say: their names, rules, defaults, parameters and explanations.
func (s *schemas) queryOf(methods *retrieve.Registry) {
	query := s.components["Query"].(map[string]any)
	query["required"] = []string{"query"}
	properties := query["properties"].(map[string]any)
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
			params[param.Name] = joined(params[param.Name], paramSchema(spec.Name, param))
		}
		for _, shape := range spec.Explains {
			if seen[shape.Name] {
				continue
			}
			seen[shape.Name] = true
			s.names[reflect.TypeOf(shape.Zero)] = shape.Name
			explanations = append(explanations, s.of(reflect.TypeOf(shape.Zero)))
			s.components[shape.Name].(map[string]any)["description"] = shape.Doc
		}
	}
	method["description"] = "default: the index's retrieval.method; " + strings.Join(docs, "; ")
	rule["description"] = "method " + strings.Join(withRules, ", ") + " only"
	properties["top_entities"].(map[string]any)["description"] = "default by method: " + strings.Join(entities, ", ")
	properties["params"] = map[string]any{
		"type": []string{"object", "null"}, "description": "by method; a parameter of another method is an error",
		"properties": params, "additionalProperties": false,
	}
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

// joined lets two methods have a parameter of one name.
func joined(earlier any, schema map[string]any) any {
	if earlier == nil {
		return schema
	}
	list, ok := earlier.(map[string]any)["anyOf"].([]any)
	if !ok {
		list = []any{earlier}
	}
	return map[string]any{"anyOf": append(list, schema)}
}

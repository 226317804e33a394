package api_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/telemetry/health"
	"github.com/unweaver/unweaver/internal/testkit/apitest"
	"github.com/unweaver/unweaver/query-api/api"
	"github.com/unweaver/unweaver/query-api/signon"
)

var update = flag.Bool("update", false, "write openapi.json")

// description is an OpenAPI document, as far as tests look at it.
type description struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Tags       []struct{ Name, Description string }
	Components struct {
		Schemas map[string]object `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	OperationID string `json:"operationId"`
	Tags        []string
	Summary     string
	Description string
	RequestBody any
	Security    []any
	Parameters  []parameter
	Responses   map[string]struct {
		Description string
		Content     map[string]struct {
			Schema  object `json:"schema"`
			Example any
		} `json:"content"`
	} `json:"responses"`
}

type parameter struct {
	Name, In, Description string
	Example               any
}

func describe(t testing.TB) description {
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
	assert.NoError(t, must(contract())(t).Examples())
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
			assert.True(t, described.Summary != "" && described.Description != "" && len(described.Tags) == 1 &&
				tags[described.Tags[0]], "%s: %+v", at, described)
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
		properties, structured := schema["properties"].(object)
		assert.True(t, !structured || schema["description"] != nil, "schema %s is not described", name)
		for field, property := range properties {
			of := property.(object)
			assert.NotEmpty(t, cmp.Or(of["description"], of["$ref"]), "%s.%s is not described", name, field)
		}
		checkItems(t, name, schema)
	}
}

// checkItems fails where a schema of arrays does not say of what: generators of clients drop all that refers to it.
func checkItems(t *testing.T, at string, schema any) {
	switch schema := schema.(type) {
	case object:
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

func TestTheDescriptionIsTheOneInTheRepository(t *testing.T) {
	got := api.OpenAPI(methods.Registry())
	if *update {
		require.NoError(t, os.WriteFile("openapi.json", got, 0o644))
	}
	assert.True(t, bytes.Equal(got, must(os.ReadFile("openapi.json"))(t)),
		"openapi.json is not what the types say: run go test ./query-api/api -update, and look at the difference")
	assert.True(t, bytes.Equal(got, api.OpenAPI(methods.Registry())), "two descriptions differ")
	compareReference(t)
	compareRoutes(t)
}

// compareRoutes fails where docs/reference/routes.md does not name every address, or says of a route of the description
// what is not so.
func compareRoutes(t *testing.T) {
	const path = "../../docs/reference/routes.md"
	raw := must(os.ReadFile(path))(t)
	head, _, found := strings.Cut(string(raw), "\n## API\n")
	require.True(t, found)
	routes, others := api.ListRoutes()
	for _, other := range slices.Concat(others, signon.Paths, health.Paths, []string{httpapi.Prefix}) {
		assert.Contains(t, head, "`"+strings.TrimSuffix(other, "{$}")+"`")
	}
	got := head + "\n## API\n\n| route | scope | documents with labels | quotas |\n| --- | --- | --- | --- |\n"
	rows := map[string][]string{} // methods by the rest of the row
	for _, route := range routes {
		assert.NotEmpty(t, route.Shows, "%s: what it shows of documents with labels is not said", route.ID)
		scope, counts := route.Scope, "requests"
		switch {
		case route.Open:
			scope, counts = "no key", "none"
		case route.ID == "getUsage":
			counts = "none"
		case route.Asks:
			counts = "all"
		case route.Control:
			scope += ", always a key"
		}
		row := fmt.Sprintf(" %s` | %s | %s | %s |\n", route.Path, scope, route.Shows, counts)
		rows[row] = append(rows[row], route.Method)
	}
	for _, row := range sortedKeys(rows) {
		got += "| `" + strings.Join(rows[row], ", ") + row
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	assert.Equal(t, got, string(raw), "run go test ./query-api/api -run TestTheDescriptionIsTheOneInTheRepository -update")
}

// Promises: 102.
func TestTheServedDescriptionIsTheSame(t *testing.T) {
	served := serve(t, nil).get("/openapi.json")
	var want object
	require.NoError(t, json.Unmarshal(api.OpenAPI(methods.Registry()), &want))
	assert.Equal(t, fmt.Sprint(want), fmt.Sprint(served), "another description is served")
}

// Addresses are made of the examples of the description, so that these are real.
func TestEveryAnswerIsAsDescribed(t *testing.T) {
	d := describe(t)
	o := operate(t, nil)
	o.control.Schedule = &control.Scheduled{Index: "sample"}
	f := o.fixture
	f.ask(object{"query": "Oslo"})
	f.report("g1", core.Report{Status: core.StatusCompleted})
	seen := map[string]bool{}
	for path, operations := range d.Paths {
		described, ok := operations["get"]
		if !ok {
			continue
		}
		seen["GET "+path] = true
		address, query := path, url.Values{}
		for _, parameter := range described.Parameters {
			value := fmt.Sprint(parameter.Example)
			switch {
			case parameter.In == "path":
				address = strings.ReplaceAll(address, "{"+parameter.Name+"}", url.PathEscape(value))
			case parameter.Example != nil:
				query.Set(parameter.Name, value)
			}
		}
		status, out, _ := f.do("GET", address+"?"+query.Encode(), nil)
		assert.True(t, status == 200, "%s?%s: %d %v", address, query.Encode(), status, out)
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
			out := f.ask(object{
				"query": "the capital of Norway", "method": spec.Name, "rule": rule, "explain": true, "answer": true,
			})
			assert.NotNil(t, out.Explain, "%s %v explains nothing", spec.Name, rule)
		}
	}
	f.askSeveral(object{"query": "Oslo", "explain": true, "answer": true}, "sam*")
	seen["POST /v1/query"] = true
	seen["POST "+completions], seen["POST /v1/responses"], seen["POST /mcp"] = true, true, true
	seen["POST /v1/indexes/{index}/hints"] = true  // TestHintsAreTakenWithAFreshSignatureOfTheirIndexAlone tries it
	seen["POST /v1/indexes/{index}/bisect"] = true // TestTheNightIsFoundWhereverItIs tries it
	for status, message := range map[int]string{200: listing, 400: "{"} {
		got, out, _ := f.say(message)
		assert.True(t, got == status, "%s: %d %v", message, got, out)
	}
	for status, n := range map[int]int{200: 1, 400: 2} {
		got, out := f.chat(norway(object{"n": n}))
		assert.True(t, got == status, "%d answers: %d %v", n, got, out)
		input := map[int]string{1: `"Fram"`, 2: `"Fram","background":true`}[n]
		answered := f.send("POST", "/v1/responses", `{"model":"unweaver/sample","input":`+input+`}`,
			"Content-Type", "application/json")
		assert.Equal(t, status, answered.Code, "%s", answered.Body)
	}
	for path, operations := range d.Paths {
		for method, described := range operations {
			control := len(described.Security) > 0 // which TestAnIndexIsBuiltSteeredAndServedOverHTTP tries
			assert.True(t, control || seen[strings.ToUpper(method)+" "+path], "%s %s is described and not tried", method, path)
		}
	}
}

const referencePath = "../../docs/reference/api.md"

// referenceSchema is a schema as the reference shows it.
type referenceSchema struct {
	Ref         string `json:"$ref"`
	Type        any
	Description string
	Enum        []any
	Items       *referenceSchema
	AnyOf       []referenceSchema
	OneOf       []referenceSchema
	Properties  map[string]referenceSchema
	Values      any `json:"additionalProperties"`
	Required    []string
}

// name returns the name of the type, with links to schemas.
func (s referenceSchema) name() string {
	parts := []string{}
	for _, one := range append(s.OneOf, s.AnyOf...) {
		parts = append(parts, one.name())
	}
	kinds, listed := s.Type.([]any)
	if !listed && s.Type != nil {
		kinds = []any{s.Type}
	}
	for _, kind := range kinds {
		values, mapped := s.Values.(object)
		switch {
		case kind == "array" && s.Items != nil:
			parts = append(parts, "list of "+s.Items.name())
		case kind == "object" && mapped:
			var inner referenceSchema
			raw, _ := json.Marshal(values) // it was read from JSON
			_ = json.Unmarshal(raw, &inner)
			parts = append(parts, "object of "+inner.name())
		default:
			parts = append(parts, fmt.Sprint(kind))
		}
	}
	if name := strings.TrimPrefix(s.Ref, "#/components/schemas/"); name != "" {
		parts = append(parts, "["+name+"](#"+strings.ToLower(name)+")")
	}
	slices.SortStableFunc(parts, func(a, b string) int { return cmp.Compare(isNull(a), isNull(b)) })
	return cmp.Or(strings.Join(slices.Compact(parts), " or "), "any")
}

func isNull(kind string) int { return strings.Count(kind, "null") }

// meaning returns the meaning of a field: what is said of it, else of its type, and the values that it may have.
func (s referenceSchema) meaning(all map[string]referenceSchema) string {
	text := cmp.Or(s.Description, all[strings.TrimPrefix(s.Ref, "#/components/schemas/")].Description)
	var values []string
	for _, value := range s.Enum {
		if value != nil {
			values = append(values, fmt.Sprintf("`%v`", value))
		}
	}
	if len(values) > 0 && len(values) < 20 {
		text += ". One of " + strings.Join(values, ", ")
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", " "), "|", `\|`)
}

var word = regexp.MustCompile(`[a-z_]+`)

func sortedKeys[T any](of map[string]T) []string { return slices.Sorted(maps.Keys(of)) }

// newReference renders docs/reference/api.md from the description.
func newReference(t *testing.T) string {
	var d struct {
		Tags  []struct{ Name, Description string }
		Paths map[string]map[string]struct {
			Tags                 []string
			Summary, Description string
			Security             []any
			Parameters           []struct {
				Name, In, Description string
				Example               any
				Schema                referenceSchema
			}
			RequestBody *struct {
				Content map[string]struct {
					Schema   referenceSchema
					Examples map[string]struct{ Value any }
				}
			}
			Responses map[string]struct {
				Description string
				Content     map[string]struct{ Schema referenceSchema }
			}
		}
		Components struct {
			Schemas   map[string]referenceSchema
			Responses map[string]struct{ Description string }
		}
	}
	require.NoError(t, json.Unmarshal(api.OpenAPI(methods.Registry()), &d))
	var out strings.Builder
	codes := map[string]string{"405": d.Components.Responses["405"].Description}
	for _, tag := range d.Tags {
		fmt.Fprintf(&out, "\n## Routes: %s\n\n%s\n", tag.Name, tag.Description)
		for _, path := range sortedKeys(d.Paths) {
			for _, method := range sortedKeys(d.Paths[path]) {
				one := d.Paths[path][method]
				if one.Tags[0] != tag.Name {
					continue
				}
				fmt.Fprintf(&out, "\n### `%s %s`\n\n%s. %s\n", strings.ToUpper(method), path, one.Summary, one.Description)
				address, rows := path, ""
				for _, parameter := range one.Parameters {
					if parameter.In == "path" {
						address = strings.ReplaceAll(address, "{"+parameter.Name+"}", url.PathEscape(fmt.Sprint(parameter.Example)))
					}
					rows += fmt.Sprintf("| `%s` | %s | %s | %s |\n", parameter.Name, parameter.In, parameter.Schema.name(),
						strings.ReplaceAll(parameter.Description, "|", `\|`))
				}
				call, sent := "curl -s http://127.0.0.1:8080"+address, ""
				if one.RequestBody != nil {
					body, isJSON := one.RequestBody.Content["application/json"]
					sent = " --data-binary @oslo.txt"
					if isJSON {
						example := must(json.Marshal(body.Examples[sortedKeys(body.Examples)[0]].Value))(t)
						sent = " -H 'Content-Type: application/json' \\\n  -d '" + string(example) + "'"
					}
					rows += fmt.Sprintf("| | body | %s | |\n", body.Schema.name())
				}
				if method != "get" && (method != "post" || sent == "") {
					call += " -X " + strings.ToUpper(method)
				}
				if len(one.Security) > 0 {
					call += " -H \"Authorization: Bearer $KEY\""
				}
				call += sent
				fmt.Fprintf(&out, "\n```sh no-run\n%s\n```\n", call)
				if rows != "" {
					out.WriteString("\n| parameter | in | type | meaning |\n| --- | --- | --- | --- |\n" + rows)
				}
				var answers, errors []string
				for _, status := range sortedKeys(one.Responses) {
					answer := one.Responses[status]
					if status >= "400" {
						errors = append(errors, status)
						if len(answer.Description) > len(codes[status]) {
							codes[status] = answer.Description
						}
						continue
					}
					answers = append(answers, status)
					for _, kind := range sortedKeys(answer.Content) {
						answers = append(answers, answer.Content[kind].Schema.name()+" as "+kind)
					}
				}
				fmt.Fprintf(&out, "\nAnswers: %s. Errors: %s.\n", strings.Join(answers, ", "), strings.Join(errors, ", "))
			}
		}
	}
	out.WriteString("\n## Statuses of errors\n\n| status | codes |\n| --- | --- |\n")
	for _, status := range sortedKeys(codes) {
		linked := word.ReplaceAllStringFunc(codes[status], func(code string) string {
			if fault.IsKnown(fault.Code(code)) {
				return "[" + code + "](errors.md#" + code + ")"
			}
			return code
		})
		fmt.Fprintf(&out, "| %s | %s |\n", status, linked)
	}
	out.WriteString("\n## Schemas\n\nA response field that is marked with ? may be absent. A request requires the fields " +
		"that are not.\n")
	for _, name := range sortedKeys(d.Components.Schemas) {
		schema := d.Components.Schemas[name]
		fmt.Fprintf(&out, "\n### %s\n\n%s\n", name, strings.ReplaceAll(schema.Description, "\n", " "))
		if kinds := append(schema.OneOf, schema.AnyOf...); len(kinds) > 0 {
			fmt.Fprintf(&out, "\nOne of: %s.\n", schema.name())
		}
		if len(schema.Properties) > 0 {
			out.WriteString("\n| field | type | meaning |\n| --- | --- | --- |\n")
		}
		for _, field := range sortedKeys(schema.Properties) {
			mark := "?"
			if slices.Contains(schema.Required, field) {
				mark = ""
			}
			property := schema.Properties[field]
			fmt.Fprintf(&out, "| `%s`%s | %s | %s |\n", field, mark, property.name(), property.meaning(d.Components.Schemas))
		}
	}
	return out.String()
}

// compareReference fails where docs/reference/api.md, behind its head, is not what the description says.
func compareReference(t *testing.T) {
	raw := must(os.ReadFile(referencePath))(t)
	head, _, found := strings.Cut(string(raw), "\n## Routes: ")
	require.True(t, found)
	got := head + newReference(t)
	if *update {
		require.NoError(t, os.WriteFile(referencePath, []byte(got), 0o644))
	} else {
		assert.True(t, string(raw) == got, "docs/reference/api.md is not what the description says: "+
			"run go test ./query-api/api -run TestTheDescriptionIsTheOneInTheRepository -update")
	}
}

// schemathesisConfig lets requests reach the sample, and says which refusals of a well-formed request are no fault:
// what is asked for may not be there (404), or was collected (410), and some rules are of two fields together (422).
// The form of OpenAI and JSON-RPC say 400 for what breaks such a rule.
const schemathesisConfig = `
[parameters]
"path.index" = "sample"

[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "408", "410", "413", "415", "421", "422", "429"]

[checks.positive_data_acceptance]
expected-statuses = ["2xx", "304", "404", "405", "409", "410", "422"]

[[operations]]
include-name = ["POST /v1/chat/completions", "POST /v1/responses", "POST /mcp"]
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404", "410", "422"]

[[operations]]
include-name = "POST /v1/indexes/{index}/hints"
[operations.checks.positive_data_acceptance]
expected-statuses = ["401"]
`

// TestSchemathesisFindsNothing has requests made from the description, good ones and bad ones, and checks every answer
// against it. UNWEAVER_TEST_SCHEMATHESIS is the program (make test-servers installs it into .tools);
// UNWEAVER_TEST_SCHEMATHESIS_SECONDS bounds it, by default to a minute; UNWEAVER_TEST_SCHEMATHESIS_SEED has it make
// other requests than those of seed 1.
// Promises: 102.
func TestSchemathesisFindsNothing(t *testing.T) {
	program := os.Getenv("UNWEAVER_TEST_SCHEMATHESIS")
	if program == "" {
		t.Skip("UNWEAVER_TEST_SCHEMATHESIS is not set: make test-servers sets it")
	}
	seconds := os.Getenv("UNWEAVER_TEST_SCHEMATHESIS_SECONDS")
	if seconds == "" {
		seconds = "60"
	}
	seed := cmp.Or(os.Getenv("UNWEAVER_TEST_SCHEMATHESIS_SEED"), "1")
	f := operate(t, nil).fixture
	f.ask(fram)
	f.publishNext(2)
	eventually(t, "switched", func() bool { return f.ask(fram).Generation == "g2" })
	address := "http://" + f.listening()
	folder := t.TempDir()
	config := filepath.Join(folder, "schemathesis.toml")
	require.NoError(t, os.WriteFile(config, []byte(schemathesisConfig), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, "--config-file", config, "run", address+"/openapi.json",
		"--header", "Authorization: Bearer "+ownerToken, "--no-color", "--seed", seed, "--max-time", seconds, "--checks", "all", "--exclude-checks", "use_after_free",
		"--phases", "examples,coverage,fuzzing,stateful",
		"--generation-database", "none", "--warnings", "off", "--continue-on-failure", "--output-truncate", "true")
	command.Dir = folder
	command.Env = append(os.Environ(), "HYPOTHESIS_STORAGE_DIRECTORY="+folder, "SCHEMATHESIS_HOOKS=")
	out, err := command.CombinedOutput()
	text := string(out)
	require.True(t, err == nil, "%v\n%s", err, text)
	assert.True(t, strings.Contains(text, "Operations:") && !strings.Contains(text, "Failures:"),
		"it did not run as expected:\n%s", text)
	t.Log(text)
}

// Package apitest checks answers of query-api against its description, for tests: every answer of a described address
// has a described status, content type and body, and every other error is a problem.
//
// openapi-3.1.schema.json is the OpenAPI Initiative's schema of such documents (Apache-2.0, 2022-10-07).
package apitest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed openapi-3.1.schema.json
var metaSchema []byte

// Contract is a description, ready to check answers against. It is safe for concurrent use.
type Contract struct {
	document map[string]any
	routes   []route
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

// route is one described address.
type route struct {
	template   string
	pattern    *regexp.Regexp
	operations map[string]any
}

const documentURL = "https://unweaver.test/openapi.json"

// New reads a description. It is an error where that is no valid document of OpenAPI 3.1.
func New(openapi []byte) (*Contract, error) {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapi))
	if err != nil {
		return nil, err
	}
	document, ok := parsed.(map[string]any)
	if !ok {
		return nil, errors.New("the description is no object")
	}
	if err := valid(document); err != nil {
		return nil, err
	}
	closeSchemas(document)
	c := &Contract{document: document, compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(documentURL, document); err != nil {
		return nil, err
	}
	paths, _ := document["paths"].(map[string]any)
	for template, operations := range paths {
		pattern := regexp.QuoteMeta(template)
		pattern = regexp.MustCompile(`\\\{(key|model)\\\}`).ReplaceAllString(pattern, `.+`)
		pattern = regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(pattern, `[^/]+`)
		c.routes = append(c.routes, route{
			template, regexp.MustCompile("^" + pattern + "$"), operations.(map[string]any),
		})
	}
	// Fixed parts go before parameters, and what has more of them first.
	sort.Slice(c.routes, func(i, j int) bool { return rank(c.routes[i].template) < rank(c.routes[j].template) })
	return c, nil
}

func rank(template string) string {
	return fmt.Sprintf("%02d %02d %s", strings.Count(template, "{"), 99-strings.Count(template, "/"), template)
}

// valid checks a document against the schema of OpenAPI 3.1.
func valid(document any) error {
	meta, err := jsonschema.UnmarshalJSON(bytes.NewReader(metaSchema))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("meta.json", meta); err != nil {
		return err
	}
	schema, err := compiler.Compile("meta.json")
	if err != nil {
		return err
	}
	return schema.Validate(document)
}

// closeSchemas has components refuse fields that they do not name: clients must accept further ones, but what this
// version sends is described.
func closeSchemas(document map[string]any) {
	components, _ := document["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	for _, schema := range schemas {
		object, _ := schema.(map[string]any)
		if object["properties"] != nil && object["additionalProperties"] == nil {
			object["additionalProperties"] = false
		}
	}
}

// Operation finds the described operation that a request means; empty template: none.
func (c *Contract) Operation(method, path string) (template string, operation map[string]any) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, route := range c.routes {
		if !route.pattern.MatchString(path) {
			continue
		}
		if strings.ToUpper(method) == method { // methods differ by case
			operation, _ = route.operations[strings.ToLower(method)].(map[string]any)
		}
		return route.template, operation
	}
	return "", nil
}

// Check says where an answer is not as described. path is as it was sent, without its query.
func (c *Contract) Check(method, path string, status int, header http.Header, body []byte) error {
	template, operation := c.Operation(method, path)
	what := fmt.Sprintf("%s %s: %d", method, path, status)
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if operation == nil { // nothing that is described: what goes wrong is a problem all the same
		if status < http.StatusBadRequest {
			return nil
		}
		if form := c.formOf(template, kind); form != "" { // described as the errors of the methods that the address has
			return wrap(what, c.matches(form, body))
		}
		return wrap(what, c.problem(kind, status, method, body))
	}
	responses, _ := operation["responses"].(map[string]any)
	response, ok := responses[strconv.Itoa(status)].(map[string]any)
	if !ok {
		return fmt.Errorf("%s is no status of %s", what, template)
	}
	contents, _ := response["content"].(map[string]any)
	if len(contents) == 0 || method == http.MethodHead {
		if len(contents) == 0 && len(body) > 0 && status >= http.StatusMultipleChoices {
			return fmt.Errorf("%s has a body, and none is described", what)
		}
		return nil
	}
	content, ok := contents[kind].(map[string]any)
	if !ok {
		return fmt.Errorf("%s is %q, which is not described", what, kind)
	}
	if kind == "application/problem+json" {
		return wrap(what, c.problem(kind, status, method, body))
	}
	if content["schema"] == nil || !strings.HasSuffix(kind, "json") {
		return nil
	}
	return wrap(what, c.matches(fmt.Sprintf("#/paths/%s/%s/responses/%d/content/%s/schema",
		escape(template), strings.ToLower(method), status, escape(kind)), body))
}

// formOf finds the schema of errors of a kind at a described address; empty: they are problems, or there are none.
func (c *Contract) formOf(template, kind string) string {
	if kind == "application/problem+json" {
		return ""
	}
	for _, route := range c.routes {
		if route.template != template {
			continue
		}
		for method, operation := range route.operations {
			responses, _ := operation.(map[string]any)["responses"].(map[string]any)
			response, _ := responses["400"].(map[string]any)
			contents, _ := response["content"].(map[string]any)
			if contents[kind] != nil {
				return fmt.Sprintf("#/paths/%s/%s/responses/400/content/%s/schema", escape(template), method, escape(kind))
			}
		}
	}
	return ""
}

// problem checks an error, whose status stands twice.
func (c *Contract) problem(kind string, status int, method string, body []byte) error {
	if kind != "application/problem+json" {
		return fmt.Errorf("an error is %q", kind)
	}
	if method == http.MethodHead {
		return nil
	}
	var said struct {
		Status int `json:"status"`
	}
	if err := json.Unmarshal(body, &said); err != nil || said.Status != status {
		return fmt.Errorf("the problem says %d: %w", said.Status, err)
	}
	return c.matches("#/components/schemas/Problem", body)
}

// matches checks a body against the schema at a place of the description.
func (c *Contract) matches(pointer string, body []byte) error {
	c.mu.Lock()
	schema := c.compiled[pointer]
	if schema == nil {
		var err error
		if schema, err = c.compiler.Compile(documentURL + pointer); err != nil {
			c.mu.Unlock()
			return err
		}
		c.compiled[pointer] = schema
	}
	c.mu.Unlock()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// escape writes a part of a JSON pointer in a URL.
func escape(part string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D", "+", "%2B").Replace(part)
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Examples checks that every example of the description is as its schema says.
func (c *Contract) Examples() error {
	var all []error
	for _, route := range c.routes {
		for method, operation := range route.operations {
			at := "#/paths/" + escape(route.template) + "/" + method
			described, _ := operation.(map[string]any)
			if body, ok := described["requestBody"].(map[string]any); ok {
				all = append(all, c.contentExamples(at+"/requestBody", body))
			}
			responses, _ := described["responses"].(map[string]any)
			for status, response := range responses {
				all = append(all, c.contentExamples(at+"/responses/"+status, response.(map[string]any)))
			}
			parameters, _ := described["parameters"].([]any)
			for i, parameter := range parameters {
				example := parameter.(map[string]any)["example"]
				all = append(all, c.example(fmt.Sprintf("%s/parameters/%d/schema", at, i), example))
			}
		}
	}
	return errors.Join(all...)
}

func (c *Contract) contentExamples(at string, described map[string]any) error {
	var all []error
	contents, _ := described["content"].(map[string]any)
	for kind, content := range contents {
		pointer := at + "/content/" + escape(kind) + "/schema"
		object, _ := content.(map[string]any)
		all = append(all, c.example(pointer, object["example"]))
		several, _ := object["examples"].(map[string]any)
		for _, example := range several {
			all = append(all, c.example(pointer, example.(map[string]any)["value"]))
		}
	}
	return errors.Join(all...)
}

func (c *Contract) example(pointer string, example any) error {
	if example == nil {
		return nil
	}
	raw, err := json.Marshal(example)
	if err != nil {
		return err
	}
	return wrap("the example for "+pointer, c.matches(pointer, raw))
}

package openapi

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/problem"
)

const apiText = "Ask an index built by UnWeaver, and read what it contains. v1 only gains response fields: clients " +
	"must accept new ones.\n\n" +
	"Errors are RFC 9457 problems with a stable `type`; `code` is its last part. Below /v1/chat, /v1/models " +
	"and /v1/responses they have OpenAI's form, with the same codes, but model_not_found and " +
	"unsupported_parameter. With status 429 or 503, Retry-After says when to retry; without it an operator must " +
	"fix the cause first. A request reads one generation of an index, which the response names; " +
	"`generation` selects it.\n\n" +
	"Lists have `next_cursor`; empty means the end. HEAD works like GET, OPTIONS returns Allow. Responses are " +
	"compressed with gzip if the client accepts it."

// keyText says what a caller shows.
const keyText = "an API key (unweaver keys create) or, where query_api.oidc is set, a token of the identity " +
	"provider; servers on loopback without query_api.oidc require neither"

// tagTexts groups the operations.
var tagTexts = []any{
	map[string]any{"name": "query", "description": "Questions and their answers."},
	map[string]any{"name": "indexes", "description": "Indexes and their generations."},
	map[string]any{"name": "documents", "description": "Documents and their passages."},
	map[string]any{"name": "entities", "description": "What the documents mention, and where."},
	map[string]any{"name": "runs", "description": "Builds and restores, running or ended."},
	map[string]any{
		"name": "control", "description": "Builds, schedules, publication and dead letters. Each needs a key of scope " +
			"operate, also on loopback, and `query_api.control: true`; `unweaver dev` always has it.",
	},
	map[string]any{
		"name": "agents", "description": "For clients of OpenAI's API or the Model Context Protocol (MCP).",
	},
	map[string]any{"name": "operations", "description": "For orchestrators and monitoring."},
}

// Values of examples: they are those of a small corpus about Norway.
const (
	exampleEntity = "8e016391c88c77d6773deab343b91f53"
	exampleChunk  = "68ec39bf04b5093d4a9daea68c4a5bce"
)

// pathParameters by name.
var pathParameters = map[string]struct{ pattern, doc, example string }{
	"index":      {"^[a-z0-9][a-z0-9-]{0,62}$", "name of the index", "sample"},
	"branch":     {"^[a-z0-9][a-z0-9-]{0,62}$", "name of the branch", "sample-large"},
	"tag":        {"^[a-z0-9][a-z0-9-]{0,62}$", "name of the tag", "before-migration"},
	"generation": {"^[a-z0-9][a-z0-9-]{0,62}$", "name of the generation", "g1"},
	"run":        {"^[a-z0-9][a-z0-9-]{0,62}$", "name of the run, which is the name of its generation", "g1"},
	"id":         {"^[0-9a-f]{32}$", "id, as in responses", exampleEntity},
	"model":      {"^unweaver/[a-z0-9][a-z0-9-]{0,62}$", "unweaver/ and the name of an index", "unweaver/sample"},
	"key": {
		"", "key of the document. Slashes may stay unescaped; write # as %23, and in a key that ends in /text that " +
			"slash as %2F",
		"cities/oslo.txt",
	},
}

//go:embed examples.json
var exampleFile []byte

// examples are those of requests, by name, and of the response, by operation.
var examples = func() (out map[string]struct {
	Requests map[string]any
	Response json.RawMessage
}) {
	if err := json.Unmarshal(exampleFile, &out); err != nil {
		panic("openapi: examples.json: " + err.Error()) // met by the first test
	}
	return out
}()

// Delta is a piece of an answer; all of them together are its text.
type Delta struct {
	Text string `json:"text"`
}

// problemExample returns a problem of a status, with a code that has it.
func problemExample(status int) problem.Problem {
	code := fault.Code("internal")
	switch status {
	case http.StatusBadRequest:
		code = fault.Usage
	case http.StatusNotFound:
		code = fault.UnknownIndex
	case http.StatusTooManyRequests:
		code = fault.RateLimited
	case http.StatusServiceUnavailable:
		code = fault.GenBusy
	case http.StatusInternalServerError:
	default:
		code = slices.Min(problem.CodesOf(status, true))
	}
	detail := exampleDetails[code]
	return problem.Problem{
		Type: problem.Base + string(code), Title: http.StatusText(status), Status: status, Code: string(code),
		Detail: cmp.Or(detail[0], "what failed, on what, and why"), Hint: detail[1],
	}
}

// exampleDetails are detail and hint of a code.
var exampleDetails = map[fault.Code][2]string{
	fault.UnknownIndex: {
		"query sample: there is no published index with this name",
		"GET /v1/indexes lists those you may ask; or the key is not for it",
	},
	fault.Unauthorized: {
		"check the API key: the request has no API key",
		"send the header Authorization: Bearer KEY; create a key with: unweaver keys create",
	},
	fault.InvalidParam: {"read query query: the question is empty", "send a question: {\"query\": \"…\"}"},
	fault.GenBusy:      {"open generation g1: it is being opened", "ask again in a moment"},
	fault.GenCollected: {"open generation g1: it was deleted", "omit generation to query the current one"},
	fault.RateLimited:  {"answer the request: too many requests per second", "send fewer requests, or raise the limit"},
	fault.Usage:        {"read body: there is data after the JSON object", "send exactly one JSON object"},
	fault.NoControl: {
		"use this address: this server was not given control of builds",
		"set query_api.control: true and engine in the configuration of query-api; unweaver dev has it",
	},
	fault.LeaseHeld: {"index sample: run sample/g2 is building it with other settings", "wait for it, or cancel it"},
	fault.MediaType: {"read body: the Content-Type is not JSON", "send Content-Type: application/json"},
}

package openai

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"

	oa "github.com/openai/openai-go/v3"

	"github.com/unweaver/unweaver/internal/model"
)

// form is how a request says what servers do not agree on. The zero value is said first.
type form struct {
	limit         limiting
	shape         shaping
	noTemperature bool // models that reason take the default alone
}

// limiting is how a server is told how long its answer may be.
type limiting int

// Servers know max_tokens; newer models of OpenAI refuse it and want the other name; and a limit that is larger than
// what a server can give, which nobody knows before, is refused too: then none is sent with that text.
const (
	maxTokens limiting = iota
	maxCompletionTokens
	noLimit
)

// shaping is how a server is told what its answer must look like. The prompt says so too, for those that take neither.
type shaping int

const (
	bySchema shaping = iota // response_format json_schema
	asObject                // response_format json_object
	byPrompt                // no response_format
)

// forms are what endpoints were found to take, over the process: address and model to form.
var (
	formsMu sync.Mutex
	forms   = map[string]form{}
)

func (c *Client) formKey() string { return c.cfg.BaseURL + "\x00" + c.cfg.Model }

func (c *Client) form() form {
	formsMu.Lock()
	defer formsMu.Unlock()
	return forms[c.formKey()]
}

// learn has later requests begin with what is lasting of a form that was taken. What others learnt meanwhile stays.
func (c *Client) learn(lasting form) {
	formsMu.Lock()
	defer formsMu.Unlock()
	known := forms[c.formKey()]
	known.limit = max(known.limit, lasting.limit)
	known.shape = max(known.shape, lasting.shape)
	known.noTemperature = known.noTemperature || lasting.noTemperature
	forms[c.formKey()] = known
}

// refused is what a server has against the form of a request.
type refused int

const (
	nothing         refused = iota
	limitName               // it does not know the parameter
	limitSize               // the parameter, or the text with it, is more than it can give
	answerShape             // it does not know this response_format
	someTemperature         // it takes the default alone
)

// unknownWords are how servers say that they do not know a parameter.
var unknownWords = []string{
	"unsupported", "not supported", "unrecognized", "unrecognised", "unknown", "not permitted", "not allowed",
	"unexpected", "does not support",
}

// sizeWords are how they say that the text and the limit together are more than the model's window.
var sizeWords = []string{
	"context_length_exceeded", "maximum context length", "context length", "context window", "context size",
	"too many tokens",
}

// shapeWords are how they name what an answer must look like.
var shapeWords = []string{
	"response_format", "response format", "json_schema", "json schema", "json_object", "json mode", "structured output",
	"structured_output", "guided_json", "guided decoding", "invalid schema", "grammar",
}

// refusedForm tells what a refusal says against the form of the request, and not against what it asks.
func (r *request) refusedForm() refused {
	if r.refused == nil {
		return nothing
	}
	switch r.refused.status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusNotImplemented:
	default:
		return nothing
	}
	said := r.refused.kind + " " + strings.ToLower(r.refused.text)
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(said, word) })
	}
	named := says("max_tokens", "max_completion_tokens", "max_new_tokens")
	switch {
	case named && says(unknownWords...):
		return limitName
	case named, says(sizeWords...):
		return limitSize
	case says(shapeWords...):
		return answerShape
	case says("temperature"):
		return someTemperature
	}
	return nothing
}

// next is what to try after a form was refused, the same where there is nothing, and what later calls may learn of it:
// a size is that of one text. A limit that was configured, or is the call's own, is never left out.
func (c *Client) next(call model.Call, now, learnt form, against refused) (form, form) {
	switch {
	case against == answerShape && now.shape < byPrompt:
		now.shape++
		learnt.shape = now.shape
	case against == someTemperature && !now.noTemperature:
		now.noTemperature, learnt.noTemperature = true, true
	case against == limitName && now.limit == maxTokens:
		now.limit, learnt.limit = maxCompletionTokens, maxCompletionTokens
	case c.cfg.MaxTokens > 0 || call.Most > 0: // the limit stays
	case against == limitName:
		now.limit, learnt.limit = noLimit, noLimit
	case against == limitSize:
		now.limit = noLimit
	}
	return now, learnt
}

// params of a request in a form; limit is the longest answer, in tokens.
func (c *Client) params(call model.Call, how form, limit int64) oa.ChatCompletionNewParams {
	params := oa.ChatCompletionNewParams{Model: c.cfg.Model}
	if !how.noTemperature {
		params.Temperature = oa.Float(0)
	}
	switch how.limit {
	case maxTokens:
		params.MaxTokens = oa.Int(limit)
	case maxCompletionTokens:
		params.MaxCompletionTokens = oa.Int(limit)
	}
	if call.System != "" {
		params.Messages = append(params.Messages, oa.SystemMessage(call.System))
	}
	params.Messages = append(params.Messages, oa.UserMessage(call.User))
	if call.Schema != nil {
		params.ResponseFormat = how.shape.of(call.Task, call.Schema)
	}
	return params
}

// of is the response_format of a task.
func (s shaping) of(task string, schema json.RawMessage) (format oa.ChatCompletionNewParamsResponseFormatUnion) {
	switch s {
	case bySchema:
		format.OfJSONSchema = &oa.ResponseFormatJSONSchemaParam{
			JSONSchema: oa.ResponseFormatJSONSchemaJSONSchemaParam{Name: task, Schema: schema, Strict: oa.Bool(true)},
		}
	case asObject:
		format.OfJSONObject = &oa.ResponseFormatJSONObjectParam{}
	}
	return format
}

package openai

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/model"
)

// form is how a request says what servers do not agree on. The zero value is said first.
type form struct {
	limit         limiting
	shape         shaping
	noTemperature bool // models that reason take the default alone
	plainNumbers  bool // embeddings: base64 is not asked for
	rerankTexts   bool // rerankers: what is ranked is called texts
}

// limiting is the parameter that bounds the length of an answer.
type limiting int

// Servers know max_tokens; newer models of OpenAI refuse it and require the other name; and a limit that is larger than
// what a server can give, which is not known before, is refused too: then none is sent with that text.
const (
	maxTokens limiting = iota
	maxCompletionTokens
	noLimit
)

// shaping is how a request gives the form of its answer. The prompt says so too, for those that take neither.
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

// openThoughts are the endpoints whose answers begin no thought without a mark, or did so, over the process: address
// and model to which of both. Of others nothing is known.
var openThoughts sync.Map

// learnThoughts takes whether an answer's thoughts began with a mark. One that did not counts for all that follow.
func (c *Client) learnThoughts(opened bool) {
	if opened {
		openThoughts.LoadOrStore(c.formKey(), true)
		return
	}
	openThoughts.Store(c.formKey(), false)
}

func (c *Client) opensThoughts() bool {
	opened, known := openThoughts.Load(c.formKey())
	return known && opened.(bool)
}

func (c *Client) currentForm() form {
	formsMu.Lock()
	defer formsMu.Unlock()
	return forms[c.formKey()]
}

// learnForm has later requests begin with what is lasting of a form that was taken. What others learnt meanwhile stays.
func (c *Client) learnForm(lasting form) {
	formsMu.Lock()
	defer formsMu.Unlock()
	known := forms[c.formKey()]
	known.limit = max(known.limit, lasting.limit)
	known.shape = max(known.shape, lasting.shape)
	known.noTemperature = known.noTemperature || lasting.noTemperature
	known.plainNumbers = known.plainNumbers || lasting.plainNumbers
	known.rerankTexts = known.rerankTexts || lasting.rerankTexts
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

// pictureWords are how servers say that the model takes no pictures, and that they expected a text.
var pictureWords = []string{
	"image_url is only supported", "not support image", "support image input", noPictures,
	"image inputs are not supported", "not a multimodal model", "at most 0 image", "missing data required for image",
	"no vision support", "vision is not supported", "not support vision", "unknown variant `image_url`",
	"content type 'image_url'",
}

// noPictures is said with status 500 as well, which else is an error of the server's own.
const noPictures = "image input is not supported"

// textWords are how servers say that a text is expected, of whatever field they name.
var textWords = []string{"str type expected", "valid string"}

// refusesPictures reports whether a refusal says that the model takes no pictures.
func (r *request) refusesPictures() bool {
	if !r.pictures {
		return false
	}
	said := r.refused.kind + " " + strings.ToLower(r.refused.text)
	says := func(word string) bool { return strings.Contains(said, word) }
	switch r.refused.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
		http.StatusNotImplemented:
		return slices.ContainsFunc(pictureWords, says) || says("content") && slices.ContainsFunc(textWords, says)
	}
	return r.refused.status == http.StatusInternalServerError && says(noPictures)
}

// refusedForm says what a refusal says against the form of the request, and not against what it asks.
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

// nextForm returns what to try after a form was refused, the same where there is nothing, and what later calls may
// learn of it: a size is that of one text. A limit that was configured, or is the call's own, is never left out; one
// that the call would be above is not its own.
func (c *Client) nextForm(call model.Call, now, learnt form, against refused) (form, form) {
	switch {
	case against == answerShape && now.shape < byPrompt:
		now.shape++
		learnt.shape = now.shape
	case against == someTemperature && !now.noTemperature:
		now.noTemperature, learnt.noTemperature = true, true
	case against == limitName && now.limit == maxTokens:
		now.limit, learnt.limit = maxCompletionTokens, maxCompletionTokens
	case c.cfg.MaxTokens > 0 || call.Most > 0 && int64(call.Most) < usualLimit(call): // the limit stays
	case against == limitName:
		now.limit, learnt.limit = noLimit, noLimit
	case against == limitSize:
		now.limit = noLimit
	}
	return now, learnt
}

// message of a request. Its content is a text, or, beside pictures, a list of parts.
type message struct {
	Content any    `json:"content"`
	Role    string `json:"role"`
}

// contentPart is a text or a picture of a message.
type contentPart struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

// userContent returns what a call asks: its text, and its pictures as data URLs.
func userContent(call model.Call) any {
	if len(call.Pictures) == 0 {
		return call.User
	}
	parts := []contentPart{{Type: "text", Text: call.User}}
	for _, picture := range call.Pictures {
		url := "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(picture)
		parts = append(parts, contentPart{Type: "image_url", ImageURL: &imageURL{url}})
	}
	return parts
}

// chatParams is the body of POST /chat/completions.
type chatParams struct {
	Messages            []message      `json:"messages"`
	Model               string         `json:"model"`
	MaxCompletionTokens int64          `json:"max_completion_tokens,omitempty"`
	MaxTokens           int64          `json:"max_tokens,omitempty"`
	Temperature         *float64       `json:"temperature,omitempty"`
	ResponseFormat      *answerFormat  `json:"response_format,omitempty"`
	StreamOptions       *streamOptions `json:"stream_options,omitempty"`
	Stream              bool           `json:"stream,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// answerFormat is response_format.
type answerFormat struct {
	JSONSchema *namedSchema `json:"json_schema,omitempty"`
	Type       string       `json:"type"`
}

type namedSchema struct {
	Name   string          `json:"name"`
	Strict bool            `json:"strict"`
	Schema json.RawMessage `json:"schema"`
}

// buildParams returns the parameters of a request in a form; limit is the longest answer, in tokens.
func (c *Client) buildParams(call model.Call, how form, limit int64) chatParams {
	params := chatParams{Model: c.cfg.Model}
	if !how.noTemperature {
		params.Temperature = new(float64)
	}
	switch how.limit {
	case maxTokens:
		params.MaxTokens = limit
	case maxCompletionTokens:
		params.MaxCompletionTokens = limit
	}
	if call.System != "" {
		params.Messages = append(params.Messages, message{Role: "system", Content: call.System})
	}
	params.Messages = append(params.Messages, message{Role: "user", Content: userContent(call)})
	if call.Schema != nil {
		params.ResponseFormat = how.shape.formatOf(call.Task, call.Schema)
	}
	return params
}

// formatOf returns the response_format of a task; nil where none is said.
func (s shaping) formatOf(task string, schema json.RawMessage) *answerFormat {
	switch s {
	case bySchema:
		return &answerFormat{Type: "json_schema", JSONSchema: &namedSchema{Name: task, Schema: schema, Strict: true}}
	case asObject:
		return &answerFormat{Type: "json_object"}
	}
	return nil
}

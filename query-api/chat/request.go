package chat

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/problem"
)

// Request is the body of POST /v1/chat/completions, as far as it is looked at: other fields are let be.
type Request struct {
	Model         string           `json:"model" pattern:"^unweaver/[a-z0-9*][a-z0-9*+-]*$" doc:"unweaver/INDEX, or A+B*"`
	Messages      []RequestMessage `json:"messages" doc:"the last one of a user is the question"`
	Stream        *bool            `json:"stream,omitempty" doc:"send the answer as events"`
	StreamOptions *StreamOptions   `json:"stream_options,omitempty" doc:"options of a stream"`

	MaxCompletionTokens *int `json:"max_completion_tokens,omitempty" bounds:"1,1000000" doc:"longest answer"`
	MaxTokens           *int `json:"max_tokens,omitempty" bounds:"1,1000000" doc:"the same limit; the smaller one applies"`

	Options map[string]any `json:"unweaver,omitempty" types:"object,null" doc:"more fields of a query"`
}

// RequestMessage is one message of a request.
type RequestMessage struct {
	Role    string `json:"role" doc:"user, assistant, system, developer or tool"`
	Content any    `json:"content,omitempty" doc:"text, or a list of parts of type text"`
}

// StreamOptions of a request.
type StreamOptions struct {
	IncludeUsage *bool `json:"include_usage,omitempty" doc:"the last event has the usage"`
}

// question is what a request asks.
type question struct {
	model  string
	index  string // empty: the body names several
	query  []byte // body for the query route
	stream bool
	usage  bool   // tell it at the end of a stream
	input  string // the field that holds the question

	ignored []string // fields that are let be although they wish for something
}

// mostWarned bounds the fields that Warning names: a client may send any number of them.
const mostWarned = 20

// writeWarnings says in the headers of an answer what was ignored.
func (q question) writeWarnings(header http.Header) {
	slices.Sort(q.ignored)
	for _, name := range q.ignored[:min(len(q.ignored), mostWarned)] {
		why := "it has no effect"
		if name == "tools" || name == "functions" { // frameworks of agents always send them
			why = "an index does not call tools"
		}
		header.Add("Warning", fmt.Sprintf("299 unweaver \"%s is ignored: %s\"", strings.Trim(strconv.QuoteToASCII(
			fmt.Sprintf("%.40s", name)), `"`), why))
	}
}

// refusal is of a field whose wish cannot be met, but for values that wish for nothing. Null always does.
type refusal struct {
	name, why string
	harmless  []string
}

var refused = []refusal{
	{"n", "a question gets one answer", []string{"1"}},
	{"tool_choice", "an index does not call tools", []string{`"none"`, `"auto"`}},
	{"function_call", "an index does not call functions", []string{`"none"`, `"auto"`}},
	{"response_format", "answers are always text", []string{`{"type":"text"}`}},
	{"modalities", "answers are always text", []string{`["text"]`}},
	{"audio", "answers are always text", nil},
	{"logprobs", "log probabilities are not available", []string{"false"}},
	{"top_logprobs", "log probabilities are not available", []string{"0"}},
	{"logit_bias", "token weights cannot be set", []string{"{}"}},
	{"stop", "stop sequences cannot be set", []string{"[]", `""`}},
	{"prediction", "predicted output cannot be used", nil},
	{"web_search_options", "only the index is searched, not the web", nil},
}

// options of our own: fields of a query that may stand under "unweaver".
var options = []string{
	"method", "rule", "top_entities", "top_chunks", "top_k", "params", "filter", "as_of", "without", "max_context_tokens",
	"generation",
	"rerank",
}

// elsewhere are fields of a query that this form has no place for.
var elsewhere = []string{"query", "history", "indexes", "answer", "explain", "fields", "max_answer_tokens"}

// indexName is the name of an index, or several names and patterns with + between them.
var indexName = regexp.MustCompile(`^[a-z0-9*][a-z0-9*+-]*$`)

// readQuestion takes the question from a body.
func readQuestion(raw []byte) (question, error) {
	fields, ignored, err := fieldsOf(raw, refused, "model", "messages", "stream", "stream_options",
		"max_completion_tokens", "max_tokens", "unweaver")
	if err != nil {
		return question{}, err
	}
	asked, err := readFields(fields)
	asked.ignored = ignored
	return asked, err
}

// fieldsOf reads the fields of a body, and refuses those whose wish cannot be met. Others that no name in read is of
// are ignored.
func fieldsOf(
	raw []byte, unmet []refusal, read ...string,
) (fields map[string]json.RawMessage, ignored []string, err error) {
	if err := middleware.CheckJSON(raw); err != nil {
		return nil, nil, err
	}
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return nil, nil, newParamError("", "the body is not one JSON object")
	}
	for _, name := range options {
		unmet = append(unmet[:len(unmet):len(unmet)], refusal{name, "put it inside the object unweaver", nil})
	}
	for _, name := range elsewhere {
		unmet = append(unmet, refusal{name, "it exists only in POST /v1/indexes/{index}/query", nil})
	}
	for _, field := range unmet {
		if err := field.checkValue(fields[field.name]); err != nil {
			return nil, nil, err
		}
		read = append(read, field.name)
	}
	for name, given := range fields {
		if !slices.Contains(read, name) && (refusal{name: name, harmless: []string{"[]"}}).checkValue(given) != nil {
			ignored = append(ignored, name)
		}
	}
	return fields, ignored, nil
}

// readFields takes the question from the fields of a body.
func readFields(fields map[string]json.RawMessage) (question, error) {
	out := question{input: "messages"}
	var streamed StreamOptions
	most, err := mostOf(fields)
	if err != nil {
		return out, err
	}
	for name, to := range map[string]any{
		"model": &out.model, "stream": &out.stream, "stream_options": &streamed,
	} {
		if given := fields[name]; given != nil && json.Unmarshal(given, to) != nil {
			return out, newParamError(name, "it has the wrong type")
		}
	}
	out.usage = streamed.IncludeUsage != nil && *streamed.IncludeUsage
	if out.model == "" {
		return out, newParamError("model", "no model is given; see the list at /v1/models")
	}
	index, ok := strings.CutPrefix(out.model, Prefix)
	if !ok || !indexName.MatchString(index) {
		return out, noModel(out.model)
	}
	var several []string
	if strings.ContainsAny(index, "+*") {
		several = strings.Split(index, "+")
	} else {
		out.index = index
	}
	text, history, err := readMessages(fields["messages"])
	if err != nil {
		return out, err
	}
	out.query, err = queryOf(text, history, several, most, fields["unweaver"])
	return out, err
}

// mostTokens that can be asked of an answer.
const mostTokens = 1_000_000

// mostOf returns the longest answer that is wished for, in tokens; 0: none is.
func mostOf(fields map[string]json.RawMessage) (int, error) {
	most := 0
	for _, name := range []string{"max_completion_tokens", "max_tokens"} {
		var wished *float64
		given := fields[name]
		unread := given != nil && json.Unmarshal(given, &wished) != nil
		if unread || wished != nil && (*wished < 1 || *wished > mostTokens || *wished != math.Trunc(*wished)) {
			return 0, newParamError(name, fmt.Sprintf("want a whole number from 1 to %d", mostTokens))
		}
		if wished != nil && (most == 0 || int(*wished) < most) {
			most = int(*wished)
		}
	}
	return most, nil
}

// checkValue returns the error of a value that wishes for something.
func (r refusal) checkValue(given json.RawMessage) error {
	if given == nil {
		return nil
	}
	var value any
	if json.Unmarshal(given, &value) != nil {
		return newParamError(r.name, "it is not valid JSON")
	}
	plain, _ := json.Marshal(value) // it was read as JSON
	if value == nil || slices.Contains(r.harmless, string(plain)) {
		return nil
	}
	return newUnsupported(r.name, r.name+" is not supported: "+r.why)
}

// readMessages returns the text of the last message of a user, and what is read of the messages before it.
func readMessages(raw json.RawMessage) (string, []answer.Turn, error) {
	var messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if raw == nil || json.Unmarshal(raw, &messages) != nil {
		return "", nil, newParamError("messages", "want a list of messages")
	}
	for last, message := range slices.Backward(messages) {
		if message.Role != answer.RoleUser {
			continue
		}
		text, err := textOf(message.Content)
		history := make([]answer.Turn, last)
		for i, earlier := range messages[:last] {
			content, _ := textOf(earlier.Content) // one that is no text is left out
			history[i] = answer.Turn{Role: earlier.Role, Content: content}
		}
		return text, answer.TrimHistory(history), err
	}
	return "", nil, newParamError("messages", "no message has the role user; the last user message is the question")
}

// textOf reads the content of a message: text, or parts of text.
func textOf(raw json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", newParamError("messages", "the content of the question must be text or a list of parts")
	}
	texts := make([]string, 0, len(parts))
	for _, part := range parts {
		if !slices.Contains([]string{"text", "input_text", "output_text"}, part.Type) {
			return "", newUnsupported("messages", "a question can contain only parts of type text")
		}
		texts = append(texts, part.Text)
	}
	return strings.Join(texts, "\n"), nil
}

// queryOf makes the body for the query route.
func queryOf(
	text string, history []answer.Turn, indexes []string, most int, given json.RawMessage,
) ([]byte, error) {
	body := map[string]json.RawMessage{}
	if given != nil && (json.Unmarshal(given, &body) != nil || body == nil && string(given) != "null") {
		return nil, newParamError("unweaver", "want an object")
	}
	if body == nil {
		body = map[string]json.RawMessage{}
	}
	for name := range body {
		if !slices.Contains(options, name) {
			return nil, newParamError("unweaver."+name, "unknown field; known: "+strings.Join(options, ", "))
		}
	}
	body["query"], _ = json.Marshal(text) // texts always marshal
	body["history"], _ = json.Marshal(history)
	body["answer"] = json.RawMessage("true")
	if indexes != nil {
		body["indexes"], _ = json.Marshal(indexes)
	}
	if most > 0 {
		body["max_answer_tokens"] = json.RawMessage(strconv.Itoa(most))
	}
	return json.Marshal(body)
}

// newParamError returns the error of a parameter.
func newParamError(param, why string) *problem.Problem {
	return &problem.Problem{
		Status: http.StatusUnprocessableEntity, Code: string(fault.InvalidParam), Detail: why, Param: param,
	}
}

// newUnsupported returns the error of a parameter whose wish cannot be met.
func newUnsupported(param, why string) *problem.Problem {
	return &problem.Problem{Status: http.StatusBadRequest, Code: "unsupported_parameter", Detail: why, Param: param}
}

// noModel returns the error of a name that is no model's.
func noModel(name string) *problem.Problem {
	return &problem.Problem{
		Status: 404, Code: "model_not_found", Param: "model", Detail: "The model `" + name + "` does not exist",
		Hint: "use " + Prefix + "INDEX; see the list at /v1/models; several are " + Prefix + "A+B",
	}
}

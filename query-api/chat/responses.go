package chat

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/unweaver/unweaver/query-api/problem"
	"github.com/unweaver/unweaver/query-api/sse"
)

// ResponseRequest is the body of POST /v1/responses, as far as it is looked at: other fields are let be.
type ResponseRequest struct {
	Model  string `json:"model" pattern:"^unweaver/[a-z0-9*][a-z0-9*+-]*$" doc:"unweaver/INDEX, or A+B*"`
	Input  any    `json:"input" types:"string,array" doc:"the question, or messages as of a chat"`
	Stream *bool  `json:"stream,omitempty" doc:"send the answer as events"`

	MaxOutputTokens *int `json:"max_output_tokens,omitempty" bounds:"1,1000000" doc:"longest answer"`

	Options map[string]any `json:"unweaver,omitempty" types:"object,null" doc:"more fields of a query"`
}

// Response is the answer to a ResponseRequest without stream.
type Response struct {
	ID         string         `json:"id"`
	Object     string         `json:"object"`
	CreatedAt  int64          `json:"created_at"`
	Status     string         `json:"status" enum:"in_progress,completed,incomplete"`
	Model      string         `json:"model"`
	Output     []OutputItem   `json:"output"`
	Error      *string        `json:"error"`
	Incomplete *Incomplete    `json:"incomplete_details"`
	Usage      *ResponseUsage `json:"usage"`
	Details    *Details       `json:"unweaver,omitempty"`

	ParallelToolCalls bool   `json:"parallel_tool_calls"`
	ToolChoice        string `json:"tool_choice"`
	Tools             []any  `json:"tools"`
	Store             bool   `json:"store" doc:"false: nothing is stored"`
}

// OutputItem is the one message of a response.
type OutputItem struct {
	ID      string       `json:"id"`
	Type    string       `json:"type"`
	Role    string       `json:"role"`
	Status  string       `json:"status"`
	Content []OutputText `json:"content"`
}

// OutputText is the text of a message.
type OutputText struct {
	Type        string             `json:"type"`
	Text        string             `json:"text"`
	Annotations []OutputAnnotation `json:"annotations"`
}

// OutputAnnotation is an annotation in the form of responses.
type OutputAnnotation struct {
	Type string `json:"type"`
	URLCitation
	Source Source `json:"unweaver"`
}

// Incomplete says why a response ends early.
type Incomplete struct {
	Reason string `json:"reason"`
}

// ResponseUsage is Usage under the names of responses.
type ResponseUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	TotalTokens  int64 `json:"total_tokens"`
}

// unmet are fields of a ResponseRequest whose wish cannot be met.
var unmet = []refusal{
	{"previous_response_id", "responses are not stored", nil},
	{"conversation", "conversations are not stored", nil},
	{"prompt", "prompts are not stored", nil},
	{"background", "responses are always synchronous", []string{"false"}},
	{"tool_choice", "an index does not call tools", []string{`"none"`, `"auto"`}},
}

// readResponse takes the question from the body of a response.
func readResponse(raw []byte) (question, error) {
	fields, ignored, err := fieldsOf(raw, unmet, "model", "input", "stream", "max_output_tokens", "text", "unweaver")
	if err != nil {
		return question{}, err
	}
	var form struct {
		Format struct{ Type string }
	}
	if given := fields["text"]; given != nil && json.Unmarshal(given, &form) != nil {
		return question{}, newParamError("text", "want an object")
	}
	if kind := form.Format.Type; kind != "" && kind != "text" {
		return question{}, refusal{"text.format", "answers are always text", nil}.checkValue([]byte(`"` + kind + `"`))
	}
	input := bytes.TrimSpace(fields["input"])
	if bytes.HasPrefix(input, []byte(`"`)) {
		input = []byte(`[{"role":"user","content":` + string(input) + `}]`)
	}
	asked, err := readFields(map[string]json.RawMessage{
		"model": fields["model"], "messages": input, "stream": fields["stream"], "unweaver": fields["unweaver"],
		"max_tokens": fields["max_output_tokens"],
	})
	asked.input, asked.ignored = "input", ignored
	if reported := problem.As(err); reported != nil {
		reported.Param = strings.NewReplacer("messages", "input", "max_tokens", "max_output_tokens").Replace(reported.Param)
	}
	return asked, err
}

// Respond answers POST /v1/responses.
func (s Service) Respond(w http.ResponseWriter, request *http.Request) {
	s.answerRequest(w, request, readResponse, s.streamResponse, func(out *reply, found found) any {
		return out.newResponse(&found)
	})
}

// newResponse returns the whole answer; nil: as it is before anything of it is known.
func (a *reply) newResponse(f *found) Response {
	out := Response{
		ID: "resp_" + a.id, Object: "response", CreatedAt: a.created, Status: "in_progress", Model: a.model,
		Output: []OutputItem{}, ToolChoice: "auto", Tools: []any{},
	}
	if f == nil {
		return out
	}
	details, used := f.newDetails(), f.sumUsage()
	out.Status, out.Output, out.Details = "completed", []OutputItem{a.newItem("completed", a.newText(f))}, &details
	out.Usage = &ResponseUsage{used.PromptTokens, used.CompletionTokens, used.TotalTokens}
	if f.Answer.Truncated {
		out.Status, out.Incomplete = "incomplete", &Incomplete{"max_output_tokens"}
	}
	return out
}

func (a *reply) newItem(status string, content ...OutputText) OutputItem {
	return OutputItem{
		ID: "msg_" + a.id, Type: "message", Role: "assistant", Status: status, Content: append([]OutputText{}, content...),
	}
}

// newText returns the part of a message that has the answer; nil: as it begins.
func (a *reply) newText(f *found) OutputText {
	out := OutputText{Type: "output_text", Annotations: []OutputAnnotation{}}
	if f == nil {
		return out
	}
	out.Text = f.Answer.Text
	for _, one := range f.listAnnotations(a.base) {
		out.Annotations = append(out.Annotations, OutputAnnotation{one.Type, one.URLCitation, one.Source})
	}
	return out
}

// streamResponse answers as the events of a response. What fails to be sent fails again at the end.
func (s Service) streamResponse(w http.ResponseWriter, request *http.Request, asked question, out *reply) {
	events, number := sse.New(w), 0
	send := func(kind string, with map[string]any) error {
		with["type"], with["sequence_number"] = kind, number
		number++
		return events.JSON(kind, with)
	}
	part := func(name string, value any) map[string]any {
		return map[string]any{"item_id": "msg_" + out.id, "output_index": 0, "content_index": 0, name: value}
	}
	begin := func() error {
		_ = send("response.created", map[string]any{"response": out.newResponse(nil)})
		_ = send("response.in_progress", map[string]any{"response": out.newResponse(nil)})
		_ = send("response.output_item.added", map[string]any{"output_index": 0, "item": out.newItem("in_progress")})
		return send("response.content_part.added", part("part", out.newText(nil)))
	}
	s.streamEvents(w, request, asked, events, streamed{
		begin: begin,
		piece: func(text string) error { return send("response.output_text.delta", part("delta", text)) },
		fail: func(failure Failure) {
			_ = send("error", map[string]any{"code": failure.Error.Code, "message": failure.Error.Message, "param": nil})
		},
		end: func(found found) {
			if !events.HasBegun() {
				_ = begin()
			}
			text, whole := out.newText(&found), out.newResponse(&found)
			_ = send("response.output_text.done", part("text", text.Text))
			_ = send("response.content_part.done", part("part", text))
			_ = send("response.output_item.done", map[string]any{"output_index": 0, "item": whole.Output[0]})
			_ = send("response."+whole.Status, map[string]any{"response": whole})
		},
	})
}

package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/model"
)

var _ model.Chat = (*Client)(nil)

// Info implements model.Chat.
func (c *Client) Info() model.Info {
	return model.Info{
		Provider:   "openai",
		Model:      c.cfg.Model,
		Endpoint:   c.cfg.BaseURL,
		Parameters: "temperature=0",
		Domain:     c.cfg.Domain,
		Paid:       true,
	}
}

// completion is what is read of an answer of POST /chat/completions.
type completion struct {
	Choices first[choice]   `json:"choices"`
	Model   modelName       `json:"model"`
	Usage   charged         `json:"usage"`
	Error   json.RawMessage `json:"error"` // of gateways that answer 200 with it
}

// first is a list of which one element at most is read: one is asked for, and an empty one takes far more memory than
// bytes.
type first[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (f *first[T]) UnmarshalJSON(raw []byte) error {
	list := json.NewDecoder(bytes.NewReader(raw))
	begin, err := list.Token()
	switch {
	case err != nil || begin == nil: // null
		return err
	case begin != json.Delim('['):
		return errors.New("it is no list")
	case !list.More():
		return nil
	}
	*f = make(first[T], 1)
	return list.Decode(&(*f)[0])
}

type choice struct {
	FinishReason string `json:"finish_reason"`
	Message      struct {
		Content  content `json:"content"`
		Refusal  string  `json:"refusal"`
		Thoughts content `json:"reasoning_content"` // charged, and not shown
	} `json:"message"`
}

// modelName is the name of the model that answered; empty where what the server gives is no name.
type modelName string

// nameForm matches names of models.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9._:/@+-]{1,128}$`)

// UnmarshalJSON reads whatever comes: it is for traces alone.
func (m *modelName) UnmarshalJSON(raw []byte) error {
	var name string
	if json.Unmarshal(raw, &name) == nil && nameForm.MatchString(name) {
		*m = modelName(redact.HideKnown(name))
	}
	return nil
}

// content of a message: a text, null, or a list of parts, of which those of text count. What else comes is the text as
// it stands: some servers give the JSON that was asked for as JSON.
type content string

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(raw []byte) error {
	var text *string
	if json.Unmarshal(raw, &text) == nil {
		*c = ""
		if text != nil {
			*c = content(*text)
		}
		return nil
	}
	read := textOf
	if raw[0] == '[' {
		read = textOfParts
	}
	whole, ok := read(raw)
	if !ok {
		whole = string(raw)
	}
	*c = content(whole)
	return nil
}

// textOfParts gives the text of a list of parts, as textOf does.
func textOfParts(raw json.RawMessage) (whole string, ok bool) {
	list, out := json.NewDecoder(bytes.NewReader(raw)), strings.Builder{}
	_, _ = list.Token() // it is a list
	for list.More() {
		var one json.RawMessage
		if list.Decode(&one) != nil {
			return "", false
		}
		text, ok := textOf(one)
		if !ok {
			return "", false
		}
		out.WriteString(text)
	}
	return out.String(), true
}

// textOf gives the text of a part; none of one that holds a thought, an image or a refusal.
func textOf(raw json.RawMessage) (text string, ok bool) {
	if json.Unmarshal(raw, &text) == nil {
		return text, true
	}
	var part struct {
		Type string          `json:"type"`
		Text json.RawMessage `json:"text"`
	}
	if json.Unmarshal(raw, &part) != nil || part.Type == "" && part.Text == nil {
		return "", false
	}
	if part.Type != "" && !strings.HasSuffix(part.Type, "text") {
		return "", true
	}
	var object struct {
		Value string `json:"value"`
	}
	if json.Unmarshal(part.Text, &text) != nil && json.Unmarshal(part.Text, &object) == nil {
		text = object.Value
	}
	return text, true
}

// charged is what a server says it charged; -1 where that is no number.
type charged struct{ Prompt, Completion int64 }

// UnmarshalJSON reads whatever comes: nonsense here must not cost the answer that it comes with.
func (c *charged) UnmarshalJSON(raw []byte) error {
	var report struct {
		Prompt     json.RawMessage `json:"prompt_tokens"`
		Completion json.RawMessage `json:"completion_tokens"`
		Total      json.RawMessage `json:"total_tokens"`
	}
	*c = charged{}
	if json.Unmarshal(raw, &report) != nil {
		return nil
	}
	if c.Prompt = parseNumber(report.Prompt); c.Prompt == 0 && len(report.Completion) == 0 { // embeddings of some servers
		c.Prompt = parseNumber(report.Total)
	}
	c.Completion = parseNumber(report.Completion)
	return nil
}

func parseNumber(raw json.RawMessage) int64 {
	if len(raw) == 0 || string(raw) == "null" {
		return 0
	}
	var value float64
	if json.Unmarshal(raw, &value) != nil || value < 0 || value > 1e15 {
		return -1
	}
	return int64(value)
}

// mostForms is how many forms of one request are tried: as often as anything in a form can change, and once.
const mostForms = 6

// Complete implements model.Chat. Where the server refuses the form of the request, and not what it asks, another form
// is sent, at most five times; each request is asked to model.Again. What was found out is kept for the process.
func (c *Client) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	how, learnt := c.currentForm(), form{}
	for tries := 1; ; tries++ {
		reply, sent, err := c.completeOnce(ctx, call, how)
		if err == nil {
			if learnt != (form{}) {
				c.learnForm(learnt)
			}
			return reply, nil
		}
		against := sent.refusedForm()
		if against == answerShape && call.Schema == nil { // none was asked for
			return reply, err
		}
		next, lasting := c.nextForm(call, how, learnt, against)
		if next == how || tries == mostForms {
			return reply, err
		}
		if held := model.CheckAgain(ctx); held != nil { // paused meanwhile: nothing more is sent
			return reply, held
		}
		how, learnt = next, lasting
	}
}

// completeOnce sends one request.
func (c *Client) completeOnce(ctx context.Context, call model.Call, how form) (model.Reply, *request, error) {
	limit := c.limitOf(call)
	params := c.buildParams(call, how, limit)
	if how.limit == noLimit {
		limit = 0
	}
	sent := &request{client: c, op: "call chat model", path: "chat/completions", longest: chatBody(limit),
		pictures: len(call.Pictures) > 0}
	var answer completion
	err := c.exchangeCompletion(ctx, sent, params, &answer)
	if err == nil && len(answer.Choices) == 0 && len(answer.Error) > 0 && string(answer.Error) != "null" {
		err = sent.inStream(ctx, answer.Error)
	}
	reply, err := c.buildReply(call, sent, answer, limit, err)
	return reply, sent, err
}

// buildReply makes a reply of what was read of an answer; err is that of reading it.
func (c *Client) buildReply(
	call model.Call, sent *request, answer completion, limit int64, err error,
) (model.Reply, error) {
	text, thoughts := "", ""
	if len(answer.Choices) > 0 {
		thoughts = string(answer.Choices[0].Message.Thoughts)
		text = redact.HideKnown(string(answer.Choices[0].Message.Content)) // a server may repeat the key that it was sent
	}
	roomier := limit > 0 && c.cfg.MaxTokens == 0 && call.Most == 0 && !call.Roomy
	var reply model.Reply
	if sent.answered {
		if limit == 0 {
			limit = mostTokens
		}
		reply.Usage, reply.Model = checkUsage(answer.Usage, call, thoughts+text, limit), string(answer.Model)
	}
	if err != nil {
		return reply, err
	}
	if len(answer.Choices) == 0 {
		return reply, sent.markError(fault.ModelUnreadable.At(sent.op, sent.objectName()).
			Because("the response contains no choices").
			Advise("check that models.chat.base_url and models.chat.model point to a chat model"))
	}
	first := answer.Choices[0]
	if call.Schema == nil {
		c.learnThoughts(model.HasOpeningMark(text))
	}
	reply.Text, reply.Thinking = model.TakeAnswer(text)
	reply.Finish, reply.Truncated = first.FinishReason, first.FinishReason == "length"
	reply.Roomier = reply.Truncated && roomier
	if first.FinishReason == "content_filter" || (reply.Text == "" && first.Message.Refusal != "") {
		return reply, sent.markError(fault.ModelRejected.At(sent.op, sent.objectName()).Because("the model refused the text"))
	}
	return reply, nil
}

package openai

import (
	"context"

	oa "github.com/openai/openai-go/v3"

	"github.com/unweaver/unweaver/internal/fault"
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
		Paid:       true,
	}
}

// completion is what is read of an answer of POST /chat/completions.
type completion struct {
	Choices []struct {
		FinishReason string `json:"finish_reason"`
		Message      struct {
			Content string `json:"content"`
			Refusal string `json:"refusal"`
		} `json:"message"`
	} `json:"choices"`
	Usage struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
	} `json:"usage"`
}

// Complete implements model.Chat.
func (c *Client) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	sent := request{client: c, op: "call chat model", path: "chat/completions"}
	var answer completion
	if err := sent.send(ctx, c.params(call), &answer); err != nil {
		return model.Reply{Usage: answer.usage()}, err
	}
	reply := model.Reply{Usage: answer.usage()}
	if len(answer.Choices) == 0 {
		return reply, sent.mark(fault.ModelUnavailable.At(sent.op, sent.object()).
			Because("the answer holds no choice").
			Advise("check that models.chat.base_url and models.chat.model are those of a chat model"))
	}
	choice := answer.Choices[0]
	reply.Text, reply.Truncated = choice.Message.Content, choice.FinishReason == "length"
	if choice.FinishReason == "content_filter" || (reply.Text == "" && choice.Message.Refusal != "") {
		return reply, sent.mark(fault.ModelRejected.At(sent.op, sent.object()).Because("the model refused the text"))
	}
	return reply, nil
}

func (c *Client) params(call model.Call) oa.ChatCompletionNewParams {
	params := oa.ChatCompletionNewParams{Model: c.cfg.Model, Temperature: oa.Float(0)}
	if call.System != "" {
		params.Messages = append(params.Messages, oa.SystemMessage(call.System))
	}
	params.Messages = append(params.Messages, oa.UserMessage(call.User))
	if call.Schema != nil {
		params.ResponseFormat = oa.ChatCompletionNewParamsResponseFormatUnion{
			OfJSONSchema: &oa.ResponseFormatJSONSchemaParam{
				JSONSchema: oa.ResponseFormatJSONSchemaJSONSchemaParam{
					Name:   call.Task,
					Schema: call.Schema,
					Strict: oa.Bool(true),
				},
			},
		}
	}
	return params
}

func (c completion) usage() model.Usage {
	return model.Usage{Prompt: c.Usage.Prompt, Completion: c.Usage.Completion}
}

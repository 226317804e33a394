package openai

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/unweaver/unweaver/internal/apr/triples"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
)

// Rebel has triples found by a server of REBEL, or of any model that writes as it does; it does nothing else. The
// contract: POST {base}/triples with {"model", "inputs": [texts]} is answered by {"outputs": [texts]}, one for each
// input and in its order, as the tokenizer decodes them with special tokens kept. Its weights are not part of this
// project.
type Rebel struct{ client *Client }

var _ model.Chat = (*Rebel)(nil)

// NewRebel makes one; it talks to no one yet.
func NewRebel(cfg Config) *Rebel { return &Rebel{New(cfg)} }

// Info implements model.Chat.
func (r *Rebel) Info() model.Info {
	cfg := r.client.cfg
	return model.Info{Provider: "rebel", Model: cfg.Model, Endpoint: cfg.BaseURL, Domain: cfg.Domain, Paid: true}
}

// Bounds of a request.
const (
	rebelInputs = 64      // sentences of one request
	rebelOutput = 8 << 10 // bytes of an output: REBEL stops at 256 tokens
)

// Complete implements model.Chat. A call with more sentences than a request takes is asked for in several, one after
// the other.
func (r *Rebel) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if call.Task != model.Triples {
		return model.Reply{}, fault.Internal.At("ask REBEL to", call.Task).Because("it finds triples alone")
	}
	outputs := make([]string, 0, len(call.Sentences))
	for from := 0; from < len(call.Sentences); from += rebelInputs {
		part, err := r.parse(ctx, call.Sentences[from:min(from+rebelInputs, len(call.Sentences))])
		if err != nil {
			return model.Reply{}, err
		}
		outputs = append(outputs, part...)
	}
	answer, err := triples.Answer(outputs)
	return model.Reply{Text: answer}, err
}

func (r *Rebel) parse(ctx context.Context, inputs []string) ([]string, error) {
	size := 0
	for _, input := range inputs {
		size += len(input)
	}
	sent := &request{
		client: r.client, op: "find triples", path: "triples",
		longest: bodyBase + int64(len(inputs))*rebelOutput + escapedByte*int64(size),
	}
	params := struct {
		Model  string   `json:"model,omitempty"`
		Inputs []string `json:"inputs"`
	}{r.client.cfg.Model, inputs}
	var answer struct {
		Outputs []string `json:"outputs"`
	}
	if err := sent.send(ctx, params, func(body []byte) error { return json.Unmarshal(body, &answer) }); err != nil {
		return nil, err
	}
	if len(answer.Outputs) != len(inputs) {
		return nil, sent.mark(fault.ModelUnavailable.At(sent.op, sent.object()).
			Because(fmt.Sprintf("%d outputs for %d inputs", len(answer.Outputs), len(inputs))).
			Advise("the server breaks the contract of POST /triples (docs/methods/apr.md): one output for each input"))
	}
	return answer.Outputs, nil
}

package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/triples"
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

// rebelOutput bounds an output, in bytes: REBEL stops at 256 tokens.
const rebelOutput = 8 << 10

// Complete implements model.Chat. A call is one request, so that account and budget have what was asked for: what
// makes calls cuts texts to that (triples.MostSentences).
func (r *Rebel) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if call.Task != model.Triples {
		return model.Reply{}, fault.Internal.At("ask REBEL to", call.Task).Because("it finds triples alone")
	}
	if len(call.Sentences) > triples.MostSentences {
		return model.Reply{}, fault.Internal.At("ask REBEL for", fmt.Sprint(len(call.Sentences), " sentences")).
			Because("a request takes " + strconv.Itoa(triples.MostSentences))
	}
	outputs, err := r.parse(ctx, call.Sentences)
	if err != nil {
		return model.Reply{}, err
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

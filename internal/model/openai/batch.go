package openai

import (
	"encoding/json"
	"fmt"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/batch"
)

var _ model.Batcher = (*Client)(nil)

// Batches gives who answers batches.
func (c *Client) Batches() batch.Server {
	if c.cfg.Batches != nil {
		return c.cfg.Batches
	}
	return batch.NewClient(c.cfg.BaseURL, c.cfg.APIKey, 0)
}

// Form implements model.Batcher.
func (c *Client) Form() string {
	known := c.currentForm()
	return fmt.Sprintf("%d %d %t", known.limit, known.shape, known.noTemperature)
}

// Begin implements model.Batcher. A form that another release wrote in another way says nothing.
func (c *Client) Begin(said string) {
	var known form
	if _, err := fmt.Sscanf(said, "%d %d %t", &known.limit, &known.shape, &known.noTemperature); err == nil {
		c.learnForm(known)
	}
}

// Request implements model.Batcher: in the form that this process found the server to take.
func (c *Client) Request(call model.Call) (json.RawMessage, error) {
	how := c.currentForm()
	limit := c.limitOf(call)
	raw, err := json.Marshal(c.buildParams(call, how, limit))
	if err != nil {
		return nil, fault.Internal.At("write a request", call.Ref).Because(err)
	}
	return raw, nil
}

// Read implements model.Batcher.
func (c *Client) Read(call model.Call, body []byte) (model.Reply, error) {
	sent := &request{client: c, op: "read an answer of a batch", path: "chat/completions", answered: true}
	var answer completion
	err := json.Unmarshal(body, &answer)
	if err != nil {
		err = sent.markError(fault.BadOutput.At(sent.op, sent.objectName()).Because(err))
	}
	return c.buildReply(call, sent, answer, c.limitOf(call), err)
}

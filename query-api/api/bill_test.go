package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

// sellingChat is paid for, and fails.
type sellingChat struct {
	usage model.Usage
	err   error
	send  bool
}

func (sellingChat) Info() model.Info { return model.Info{Provider: "openai", Model: "m", Paid: true} }

func (c sellingChat) Complete(ctx context.Context, _ model.Call) (model.Reply, error) {
	if c.send {
		if err := model.CheckSend(ctx); err != nil {
			return model.Reply{}, err
		}
	}
	return model.Reply{Text: "Oslo.", Usage: c.usage}, c.err
}

type sellingEmbedder struct{ model.Embedder }

func (sellingEmbedder) Info() model.Info {
	return model.Info{Provider: "openai", Model: "m", Paid: true}
}

func (sellingEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	vectors, _, err := builtin.Embedder{}.Embed(ctx, texts)
	return vectors, model.Usage{Prompt: 5}, err
}

// A caller's money is counted whatever becomes of the answer.
func TestWhatAServerChargedIsSpentAlsoWhenTheAnswerFails(t *testing.T) {
	used := model.Usage{Prompt: 5, Completion: 5}
	refused := fault.ModelRateLimited.At("call chat model", "m")
	down := fault.ModelUnavailable.At("call chat model", "m")
	for name, c := range map[string]struct {
		chat     sellingChat
		embedder bool
		question string
		spent    bool
	}{
		"an answer":           {sellingChat{usage: used, send: true}, false, answered, true},
		"an error with usage": {sellingChat{used, model.AnsweredError(down), true}, false, answered, true},
		"nothing came back":   {sellingChat{err: down, send: true}, false, answered, true},
		"the time was over":   {sellingChat{err: context.DeadlineExceeded, send: true}, false, answered, true},
		"the client has gone": {sellingChat{err: context.Canceled, send: true}, false, answered, true},
		"it was never sent":   {sellingChat{err: context.Canceled}, false, answered, false},
		"it was refused":      {sellingChat{err: refused, send: true}, false, answered, false},
		"a vector":            {sellingChat{}, true, `{"query":"Oslo","method":"vector"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := lock(t, func(f *fixture, config *api.Config) {
				price := core.Price{Prompt: 1e6, Completion: 1e6}
				f.built = retrievetest.Build(t, f.stores, "sample", retrievetest.Sample(), retrievetest.Options{
					Generation: "priced", Seq: 2,
					Spec: func(spec *core.Spec) { // models.chat costs nothing: it does not answer
						spec.Roles = map[string]core.ChatModel{core.RoleAnswer: {Price: price}}
						spec.Embedding.Price = price
					},
				})
				retrievetest.Publish(t, f.built, 2)
				installed := models{chat: c.chat}
				if c.embedder {
					installed.embedder = func(model.Embedder) model.Embedder { return sellingEmbedder{builtin.Embedder{}} }
				}
				config.Models = installed
			})
			key := l.key(access.Request{Scope: access.Query, Index: "*", Limits: access.Limits{MoneyPerDay: 1}})
			ask := func(body string) int {
				return l.send(http.MethodPost, "/v1/indexes/sample/query", body, bearer(key.Text)...).Code
			}
			first := ask(c.question)
			second := l.send(http.MethodPost, "/v1/indexes/sample/query", answered, bearer(key.Text)...)
			if refused := strings.Contains(second.Body.String(), "budget_spent"); refused != c.spent {
				t.Errorf("first %d, second %d %s", first, second.Code, second.Body)
			}
		})
	}
}

const answered = `{"query":"What is the capital of Norway?","answer":true}`

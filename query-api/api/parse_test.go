package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

// withFacts publishes the sample with its facts, and what its configuration says more.
func withFacts(spec func(*core.Spec), edit func(*api.Config)) func(*fixture, *api.Config) {
	return func(f *fixture, config *api.Config) {
		f.built = retrievetest.Build(f.t, f.stores, "sample", retrievetest.Sample(), retrievetest.Options{
			Generation: "facts", Seq: 2, Facts: true, Spec: spec,
		})
		retrievetest.Publish(f.t, f.built, 2)
		if edit != nil {
			edit(config)
		}
	}
}

// parsing is a chat model that finds triples in questions.
type parsing struct {
	says string
	err  error
	wait bool // until the request is over
	seen *[]model.Call
}

func (parsing) Info() model.Info { return model.Info{Provider: "openai", Model: "m", Paid: true} }

func (p parsing) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if p.seen != nil {
		*p.seen = append(*p.seen, call)
	}
	if err := model.CheckSend(ctx); err != nil {
		return model.Reply{}, err
	}
	if p.wait {
		<-ctx.Done()
		return model.Reply{}, ctx.Err()
	}
	if call.Task == model.Answer {
		return model.Reply{Text: "Roald Amundsen [1]", Usage: model.Usage{Prompt: 100, Completion: 10}}, nil
	}
	return model.Reply{Text: p.says, Usage: model.Usage{Prompt: 20, Completion: 7}}, p.err
}

func priced(spec *core.Spec) {
	spec.Chat = core.ChatModel{Provider: "openai", Model: "m", Price: core.Price{Prompt: 1e6, Completion: 1e6}}
}

const southPole = "who was the first at the south pole" // no name that rules find

func TestAChatModelFindsTheTriplesOfAQuestionWhereItIsAskedTo(t *testing.T) {
	var seen []model.Call
	says := `{"triples":[{"sentence":0,"head":"?x","relation":"reached","tail":"South Pole"}]}`
	f := serve(t, withFacts(priced, func(c *api.Config) { c.Models = models{chat: parsing{says: says, seen: &seen}} }))
	body := map[string]any{"query": southPole, "method": "apr", "explain": true}
	plain := f.ask(body)
	require.True(t, len(seen) == 0 && plain["explain"].(map[string]any)["by"] == "rules",
		"a model was asked though the request did not ask for it: %v", plain["explain"])
	body["params"] = map[string]any{"triples": "chat"}
	out := f.ask(body)
	reported := out["explain"].(map[string]any)
	asked := reported["asked"].([]any)
	if reported["by"] != "chat" || len(asked) != 1 || asked[0].(map[string]any)["head"] != "?x" ||
		!slices.Equal(reported["names"].([]any), []any{"South Pole"}) {
		t.Errorf("%v", reported)
	}
	first := out["chunks"].([]any)[0].(map[string]any)
	assert.True(t, first["document"] == "people/amundsen.txt" && len(out["degraded"].([]any)) == 0,
		"%v %v", first["document"], out["degraded"])
	usage := out["usage"].(map[string]any)
	assert.True(t, usage["prompt_tokens"] == 20.0 && usage["completion_tokens"] == 7.0, "%v", usage)
	call := seen[0]
	assert.True(t, call.Most != 0 && strings.Contains(call.System, "?x") && strings.Contains(call.User, southPole),
		"%+v", call)
	body["answer"] = true // both count
	if usage := f.ask(body)["usage"].(map[string]any); usage["prompt_tokens"] != 120.0 || usage["completion_tokens"] != 17.0 {
		t.Errorf("with an answer: %v", usage)
	}
}

func TestAModelThatFindsNoTriplesCostsNoAnswer(t *testing.T) {
	down := fault.ModelUnavailable.At("call chat model", "m")
	for name, c := range map[string]struct {
		chat     parsing
		degraded bool
	}{
		"it is down":            {parsing{err: down}, true},
		"it says something":     {parsing{says: "I cannot"}, true},
		"empty parts":           {parsing{says: `{"triples":[{"sentence":0,"head":" ","relation":"r","tail":"b"}]}`}, true},
		"none":                  {parsing{says: `{"triples":[]}`}, false},
		"placeholders alone":    {parsing{says: `{"triples":[["?x","reached","?y"]]}`}, false},
		"it takes all its time": {parsing{wait: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serve(t, withFacts(priced, func(config *api.Config) { config.Models = models{chat: c.chat} }))
			const question = "What did Roald Amundsen reach?"
			body := map[string]any{"query": question, "method": "apr", "explain": true}
			want := idsOf(f.ask(body))
			body["params"] = map[string]any{"triples": "chat"}
			out := f.ask(body)
			reported := out["explain"].(map[string]any)
			if got := slices.Contains(out["degraded"].([]any), any("question_triples")); got != c.degraded {
				t.Errorf("degraded %v", out["degraded"])
			}
			if reported["by"] != "rules" || !slices.Equal(idsOf(out), want) ||
				!slices.Equal(reported["names"].([]any), []any{"Roald Amundsen"}) {
				t.Errorf("%v %v, want %v", reported, idsOf(out), want)
			}
		})
	}
}

func TestTriplesOfQuestionsNeedTheModelThatIsAskedFor(t *testing.T) {
	f := serve(t, withFacts(nil, nil))
	assert.Contains(t, f.get("/v1/indexes/sample")["enriched"], "facts")
	for parser, setting := range map[string]string{"chat": "models.chat", "never": "rules"} {
		status, out, _ := f.do(http.MethodPost, "/v1/indexes/sample/query", map[string]any{
			"query": southPole, "method": "apr", "params": map[string]any{"triples": parser},
		})
		assert.True(t, status == http.StatusUnprocessableEntity && strings.Contains(fmt.Sprint(out), setting),
			"%s: %d %v", parser, status, out)
	}
}

// Reading a question is a call to the chat model: who may have no more of these gets none, and what it cost is spent.
func TestReadingAQuestionIsPaidForByTheKey(t *testing.T) {
	says := `{"triples":[["?x","reached","South Pole"]]}`
	l := lock(t, withFacts(priced, func(c *api.Config) { c.Models = models{chat: parsing{says: says}} }))
	key := l.key(access.Request{Scope: access.Query, Index: "*", Limits: access.Limits{MoneyPerDay: 1}})
	const body = `{"query":"` + southPole + `","method":"apr","params":{"triples":"chat"}}`
	first := l.send(http.MethodPost, "/v1/indexes/sample/query", body, bearer(key.Text)...)
	second := l.send(http.MethodPost, "/v1/indexes/sample/query", body, bearer(key.Text)...)
	assert.True(t, first.Code == http.StatusOK && strings.Contains(second.Body.String(), "budget_spent"),
		"first %d %s, second %d %s", first.Code, first.Body, second.Code, second.Body)
}

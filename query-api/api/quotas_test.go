package api_test

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/model"
	coordination "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/query-api/api"
	"github.com/unweaver/unweaver/query-api/middleware"
)

func TestAKeySeesItsQuotasAndIsRefusedAboveThem(t *testing.T) {
	chat := sellingChat{usage: model.Usage{Prompt: 5, Completion: 5}, send: true}
	answers, money := 3.0, 7000.0 // an answer is taken to cost about 6,500, and costs 10
	l := lock(t, withFacts(priced, func(c *api.Config) {
		quotas := []config.Quota{{Keys: "*", Answers: &answers, Money: &money}}
		c.Models = models{chat: chat}
		c.Policy.Quotas = middleware.NewQuotas(quotas, coordination.NewQuotas(nil), slog.New(slog.DiscardHandler), nil)
	}))
	key := l.key(access.Request{Scope: access.Query, Index: "*"})
	uses := func() string { return l.send("GET", "/v1/usage", "", bearer(key.Text)...).Body.String() }
	assert.Equal(t, 200, l.query(answered, bearer(key.Text)...).Code)
	assert.Contains(t, uses(), `[{"quota":"answers","limit":3,"used":1},{"quota":"money","limit":7000,"used":10}]`)
	got := l.query(strings.Replace(answered, "{", `{"max_answer_tokens":2000,`, 1), bearer(key.Text)...)
	assert.True(t, got.Code == 429 && strings.Contains(got.Body.String(), "money is 7000 a day: 10 are used"),
		"a dearer answer: %d %s", got.Code, got.Body)
	text, _, failed := call(t, l.agent(key.Text), "answer", object{"index": "sample", "query": "Who designed the Fram?"})
	require.False(t, failed, text)
	assert.Contains(t, uses(), `"used":2},{"quota":"money","limit":7000,"used":20}]`, "a tool is counted once")
	several := strings.Replace(answered, "{", `{"indexes":["sample"],`, 1)
	got = l.send("POST", "/v1/query", several, bearer(key.Text)...)
	require.Equal(t, 200, got.Code, "%s", got.Body)
	assert.Contains(t, uses(), `"used":3},{"quota":"money","limit":7000,"used":30}]`)
	got = l.query(answered, bearer(key.Text)...)
	wait, err := strconv.Atoi(got.Header().Get("Retry-After"))
	_, rest, _ := strings.Cut(uses(), `"renews_in":`)
	renews, _, _ := strings.Cut(rest, ",")
	assert.True(t, err == nil && got.Code == 429 && strings.Contains(got.Body.String(), "budget_spent"), "%s", got.Body)
	assert.InDelta(t, must(strconv.Atoi(renews))(t), wait, 60, "it renews at midnight")
	assert.Equal(t, 200, l.query(question, bearer(key.Text)...).Code, "a search costs nothing")
}

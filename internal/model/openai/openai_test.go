package openai_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/reranktest"
)

func server(t *testing.T, o modeltest.Options) *modeltest.Server {
	t.Helper()
	s := modeltest.New(o)
	require.NoError(t, s.Listen("127.0.0.1:0"))
	t.Cleanup(s.Close)
	return s
}

func TestEmbeddingsComeBackInTheOrderOfTheirTexts(t *testing.T) {
	texts := []string{"alpha one", "beta two", "gamma three", "delta four", "epsilon five"}
	for name, o := range map[string]modeltest.Options{
		"shuffled base64": {Shuffle: true, Dimension: 64},
		"shuffled floats": {Shuffle: true, Float: true, Dimension: 64},
	} {
		embedder := openai.NewEmbedder(openai.Config{BaseURL: server(t, o).URL, APIKey: "k", Model: "m"})
		vs, usage, err := embedder.Embed(t.Context(), texts)
		require.NoError(t, err, name)
		for i, x := range texts {
			want := modeltest.Vector(x, 64)
			vectors.Normalise(want)
			for j := range want {
				d := want[j] - vs[i][j]
				require.True(t, d <= 1e-6 && d >= -1e-6, "%s: text %d: component %d is %g, want %g", name, i, j, vs[i][j], want[j])
			}
		}
		assert.True(t, usage.Prompt != 0 && embedder.Dimension() == 64,
			"%s: usage %d, dimension %d", name, usage.Prompt, embedder.Dimension())
	}
}

func TestAServerThatIsDownIsTransientAndNamed(t *testing.T) {
	c := openai.New(openai.Config{BaseURL: "http://127.0.0.1:1/v1", APIKey: "k", Model: "m"})
	_, err := c.Complete(context.Background(), model.Call{Task: model.Answer, User: "hello"})
	assert.True(t, fault.Is(err, fault.ModelUnavailable) && fault.As(err).Hint != "", "got %v", err)
}

// account is a meter that counts as the accounts of a build do.
type account struct {
	mu                 sync.Mutex
	begun, ended, paid int64
	prompt, completion int64
}

func (a *account) Begin(context.Context, string, int64) (func(model.Usage, bool), error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun++
	return func(usage model.Usage, answered bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ended++
		if answered {
			a.paid++
		}
		a.prompt += usage.Prompt
		a.completion += usage.Completion
	}, nil
}

// check fails unless each of so many requests began and ended, and calls of them were paid for, unless they failed.
func (a *account) check(t *testing.T, requests int, calls int64, failed bool) {
	t.Helper()
	if failed {
		calls = 0
	}
	assert.True(t, a.begun == int64(requests) && a.ended == a.begun && a.paid == calls,
		"%d requests are metered as %d, %d and %d paid", requests, a.begun, a.ended, a.paid)
}

func scripted(t *testing.T, injection modeltest.Injection) *modeltest.Server {
	t.Helper()
	return server(t, modeltest.Options{Script: func(modeltest.Seen) modeltest.Injection { return injection }})
}

// long is more than anything takes, also on a machine that has much else to do.
const long = 5 * time.Minute

func config(server *modeltest.Server) openai.Config {
	return openai.Config{BaseURL: server.URL, APIKey: "sk-secret-key", Model: "m", Timeout: long, Stall: long}
}

// What the meter counts equals what the server counts, whatever the answers are worth.
func TestTheAccountEqualsTheServersOwn(t *testing.T) {
	noChoice := `{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":2}}`
	refusal := `{"choices":[{"message":{"refusal":"no"}}],"usage":{"prompt_tokens":11,"completion_tokens":2}}`
	filtered := `{"choices":[{"finish_reason":"content_filter","message":{"content":"x"}}],"usage":{"prompt_tokens":11,"completion_tokens":2}}`
	for name, c := range map[string]struct {
		injection modeltest.Injection
		code      fault.Code
		usage     model.Usage
	}{
		"no choice":            {modeltest.Injection{Body: noChoice}, fault.ModelUnreadable, model.Usage{Prompt: 11, Completion: 2}},
		"a refusal":            {modeltest.Injection{Body: refusal}, fault.ModelRejected, model.Usage{Prompt: 11, Completion: 2}},
		"filtered":             {modeltest.Injection{Body: filtered}, fault.ModelRejected, model.Usage{Prompt: 11, Completion: 2}},
		"a page":               {modeltest.Injection{Body: "<html>welcome</html>"}, fault.ModelUnreadable, model.Usage{}},
		"half a body":          {modeltest.Injection{HalfBody: true}, fault.ModelUnavailable, model.Usage{}},
		"a body that stalls":   {modeltest.Injection{StallBody: true}, fault.ModelUnavailable, model.Usage{}},
		"a server error":       {modeltest.Injection{Status: 500}, fault.ModelUnavailable, model.Usage{}},
		"too many requests":    {modeltest.Injection{Status: 429}, fault.ModelRateLimited, model.Usage{}},
		"a broken connection":  {modeltest.Injection{Cut: true}, fault.ModelUnavailable, model.Usage{}},
		"garbage, but a reply": {modeltest.Injection{Content: "no list"}, "", model.Usage{Prompt: 1, Completion: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			server, account := scripted(t, c.injection), &account{}
			cfg := config(server)
			if c.injection.StallBody {
				cfg.Stall = 80 * time.Millisecond
			}
			chat := model.MeterChat(openai.New(cfg), account)
			reply, err := chat.Complete(t.Context(), model.Call{Task: model.Answer, User: "hello"})
			assert.True(t, fault.CodeOf(err) == c.code && reply.Usage == c.usage,
				"got %v and %+v, want %s and %+v", err, reply.Usage, c.code, c.usage)
			account.check(t, 1, server.Stats().Chat, false)
			assert.True(t, account.prompt == c.usage.Prompt && account.completion == c.usage.Completion,
				"tokens %+v, want %+v", account, c.usage)
		})
	}
}

func TestEmbeddingsOfNoUseArePaid(t *testing.T) {
	for name, c := range map[string]struct {
		options modeltest.Options
		code    fault.Code
	}{
		"one is missing":    {modeltest.Options{Drop: 1}, fault.BadEmbeddings},
		"one is NaN":        {modeltest.Options{NaN: true, Dimension: 64}, fault.BadVector},
		"one is zero":       {modeltest.Options{Zero: true, Dimension: 64}, fault.BadVector},
		"another dimension": {modeltest.Options{Dimension: 32}, fault.DimensionChanged},
		"good":              {modeltest.Options{Dimension: 64}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server, account := server(t, c.options), &account{}
			cfg := config(server)
			cfg.Dimension = 64
			embedder := model.MeterEmbedder(openai.NewEmbedder(cfg), account)
			_, usage, err := embedder.Embed(t.Context(), []string{"some words here", "some other words"})
			require.Equal(t, c.code, fault.CodeOf(err), "%v", err)
			got := server.Stats()
			assert.True(t, account.paid == 1 && got.Embed == 1 && account.prompt == got.EmbedTokens &&
				usage.Prompt == account.prompt,
				"counted %+v and %+v, the server %d tokens", account, usage, got.EmbedTokens)
		})
	}
}

func TestEveryRequestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		injection modeltest.Injection
		timeout   time.Duration
		stall     time.Duration
		says      string
	}{
		"no answer": {modeltest.Injection{Hang: true}, 60 * time.Millisecond, long, "no whole answer within 60ms"},
		"a body that stalls": {modeltest.Injection{StallBody: true}, long, 80 * time.Millisecond,
			"no byte of the answer came for 80ms"},
		"an answer in pieces": {modeltest.Injection{StallBody: true}, 60 * time.Millisecond, long,
			"no whole answer within 60ms"},
		"a late answer": {modeltest.Injection{Latency: time.Second}, 60 * time.Millisecond, long,
			"no whole answer within 60ms"},
	} {
		cfg := config(scripted(t, c.injection))
		cfg.Timeout, cfg.Stall = c.timeout, c.stall
		_, err := openai.New(cfg).Complete(t.Context(), model.Call{Task: model.Answer, User: "hello"})
		assert.True(t, fault.Is(err, fault.ModelUnavailable) && strings.Contains(err.Error(), c.says),
			"%s: chat: got %v, want %q", name, err, c.says)
		_, _, err = openai.NewEmbedder(cfg).Embed(t.Context(), []string{"hello"})
		assert.True(t, fault.Is(err, fault.ModelUnavailable) && strings.Contains(err.Error(), c.says),
			"%s: embed: got %v, want %q", name, err, c.says)
	}
}

// On a busy machine the caller may be gone before the server has answered, unless it waits longer.
func TestTheCallersOwnEndIsNotAFaultOfTheServer(t *testing.T) {
	for _, patience := range []time.Duration{40 * time.Millisecond, time.Second, time.Minute} {
		server := scripted(t, modeltest.Injection{StallBody: true})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		account := &account{}
		chat := model.MeterChat(openai.New(config(server)), account)
		_, err := chat.Complete(ctx, model.Call{Task: model.Answer, User: "hello"})
		assert.True(t, errors.Is(err, context.DeadlineExceeded) && fault.As(err) == nil, "got %v", err)
		if account.paid == 1 {
			return
		}
	}
	t.Error("the server had answered with a 200 when its caller left")
}

func TestRerankerKeepsTheContractOfItsPort(t *testing.T) {
	reranktest.Run(t, func(baseURL, key, model string, timeout time.Duration) rerank.Ranker {
		return openai.NewReranker(openai.Config{BaseURL: baseURL, APIKey: key, Model: model, Timeout: timeout})
	})
}

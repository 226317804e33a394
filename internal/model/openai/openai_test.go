package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

func server(t *testing.T, o modeltest.Options) *modeltest.Server {
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
	if failed {
		calls = 0
	}
	assert.True(t, a.begun == int64(requests) && a.ended == a.begun && a.paid == calls,
		"%d requests are metered as %d, %d and %d paid", requests, a.begun, a.ended, a.paid)
}

func scripted(t *testing.T, injection modeltest.Injection) *modeltest.Server {
	return server(t, modeltest.Options{Script: func(modeltest.Seen) modeltest.Injection { return injection }})
}

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

func event(text string) string {
	raw, _ := json.Marshal(text)
	return `data: {"choices":[{"index":0,"delta":{"content":` + string(raw) + `},"finish_reason":null}]}` + "\n\n"
}

func wrong(why string, status int) string {
	return fmt.Sprintf("data: {\"error\":{\"message\":%q,\"code\":%d}}\n\n", why, status)
}

const (
	stop  = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	spent = `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":9}}` + "\n\n"
	done  = "data: [DONE]\n\n"
)

func streaming(t *testing.T, serve http.HandlerFunc) (taken []string, reply model.Reply, err error) {
	client := hostile(t, serve)
	client.LearnThoughts(true)
	return take(t, client)
}

func take(t *testing.T, client *openai.Client) (taken []string, reply model.Reply, err error) {
	ctx := model.WithDeltas(t.Context(), func(text string) error { taken = append(taken, text); return nil })
	reply, err = client.Complete(ctx, model.Call{User: "Who painted the Night Watch?"})
	return taken, reply, err
}

func sends(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	}
}

func TestAStreamedAnswerComesInThePiecesThatTheServerGives(t *testing.T) {
	for name, c := range map[string]struct {
		body  string
		taken []string
		usage model.Usage
	}{
		"with usage": {event("Rembrandt") + event(" did [1].") + stop + spent + done,
			[]string{"Rembrandt", " did [1]."}, model.Usage{Prompt: 7, Completion: 9}},
		"with comments and other line ends": {": ping\r\n\r\nevent: x\r\n" + strings.ReplaceAll(event("Yes.")+stop+spent,
			"\n", "\r\n") + "data: [DONE]", []string{"Yes."}, model.Usage{Prompt: 7, Completion: 9}},
		"without usage": {event("Rembrandt van Rijn did.") + stop + done,
			[]string{"Rembrandt van Rijn did."}, model.Usage{Prompt: 6, Completion: 6, Doubted: true}},
		"without usage, with thoughts": {
			`data: {"choices":[{"delta":{"reasoning_content":"Was it Hals, or Rembrandt?"}}]}` + "\n\n" +
				event("Rembrandt van Rijn did.") + stop + done,
			[]string{"Rembrandt van Rijn did."}, model.Usage{Prompt: 6, Completion: 14, Doubted: true}},
	} {
		taken, reply, err := streaming(t, sends("text/event-stream; charset=utf-8", c.body))
		require.True(t, err == nil && slices.Equal(taken, c.taken) && reply.Text == strings.Join(c.taken, ""),
			"%s: %q %+v %v", name, taken, reply, err)
		assert.Equal(t, c.usage, reply.Usage, name)
	}
}

func TestTheFirstPieceComesBeforeTheServerHasFinished(t *testing.T) {
	finish := make(chan struct{})
	client := hostile(t, func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, event("First"))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-finish:
		case <-request.Context().Done():
		}
		_, _ = io.WriteString(w, stop+done)
	})
	client.LearnThoughts(true)
	came := false
	ctx := model.WithDeltas(t.Context(), func(string) error { // the server waits for it
		came = true
		close(finish)
		return nil
	})
	_, err := client.Complete(ctx, model.Call{User: "x"})
	assert.True(t, err == nil && came, "%v %v", came, err)
}

func TestAServerThatKnowsNoStreamsAnswersInOnePiece(t *testing.T) {
	var asked atomic.Int32
	whole := says(`{"prompt_tokens":7,"completion_tokens":3}`)
	for name, serve := range map[string]http.HandlerFunc{
		"it ignores the wish": sends("application/json", whole),
		"it refuses the wish": func(w http.ResponseWriter, request *http.Request) {
			asked.Add(1)
			if body, _ := io.ReadAll(request.Body); strings.Contains(string(body), `"stream":true`) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"error":{"message":"Unsupported parameter: stream_options"}}`)
				return
			}
			sends("application/json", whole)(w, request)
		},
	} {
		taken, reply, err := streaming(t, serve)
		assert.True(t, err == nil && slices.Equal(taken, []string{"one two three"}) && reply.Usage.Completion == 3,
			"%s: %q %+v %v", name, taken, reply, err)
	}
	assert.Equal(t, int32(2), asked.Load(), "asked")
}

// Nothing of a thought is given on, whatever is known of the model; what one answer teaches holds for the next.
func TestAStreamHoldsThoughtsBack(t *testing.T) {
	for name, c := range map[string]struct {
		answers []string // of one server after the other
		taken   [][]string
	}{
		"plain answers": {[]string{event("Oslo") + event(" it is.") + stop + done},
			[][]string{{"Oslo it is."}, {"Oslo", " it is."}}},
		"thoughts with both marks": {
			[]string{event("<think>Is it") + event("?</think>") + event("Oslo") + event(" it is.") + stop + done},
			[][]string{{"Oslo", " it is."}, {"Oslo", " it is."}},
		},
		"thoughts whose beginning is lost": {
			[]string{event("Is it") + event("?\n</think>\n") + event("Oslo") + event(" it is.") + stop + done},
			[][]string{{"Oslo", " it is."}, {"Oslo", " it is."}},
		},
		"thoughts beside the answer": {
			[]string{`data: {"choices":[{"delta":{"content":null,"reasoning_content":"Is it?"}}]}` + "\n\n" +
				event("Oslo") + event(" it is.") + stop + done}, [][]string{{"Oslo", " it is."}},
		},
		"parts": {
			[]string{`data: {"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Is it?"}]}]}}]}` +
				"\n\n" + `data: {"choices":[{"delta":{"content":[{"type":"text","text":"Oslo"}]}}]}` + "\n\n" + stop + done},
			[][]string{{"Oslo"}},
		},
		"an unclosed thought": {[]string{event("<think>Is it") + event(" Oslo?") + stop + done}, [][]string{nil}},
		"a body that is whole": {[]string{`{"choices":[{"message":{"content":"Is it?</think>Oslo."}}]}`},
			[][]string{{"Oslo."}}},
	} {
		kind := "text/event-stream"
		if strings.HasPrefix(c.answers[0], "{") {
			kind = "application/json"
		}
		client := hostile(t, sends(kind, c.answers[0]))
		for i, want := range c.taken {
			taken, reply, err := take(t, client)
			assert.True(t, err == nil && slices.Equal(taken, want) && reply.Text == strings.Join(want, ""),
				"%s: %d: %q %+v %v, want %q", name, i, taken, reply, err, want)
		}
	}
}

// A model whose answers were plain begins to think: what was given cannot be taken back, and the next answer is held.
func TestAThoughtThatComesAsAnAnswerEndsTheStream(t *testing.T) {
	client := hostile(t, sends("text/event-stream", event("Is it?")+event("\n</think>\n")+event("Oslo.")+stop+spent+done))
	client.LearnThoughts(true)
	for i, want := range []string{"Is it?", "Oslo."} {
		taken := ""
		ctx := model.WithDeltas(t.Context(), func(text string) error { taken += text; return nil })
		_, err := client.Complete(ctx, model.Call{User: "Where?"})
		assert.True(t, taken == want && (err != nil) == (i == 0), "%d: %q %v", i, taken, err)
	}
}

// What a stream cost is known whatever becomes of it, and what breaks off is no answer.
func TestAStreamThatFailsIsAnErrorWithWhatItCost(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		code fault.Code
		says string
	}{
		"it ends early":  {event("Rembrandt van"), fault.ModelUnavailable, "before the answer did"},
		"an error in it": {event("Rem") + wrong("overloaded", 503), fault.ModelUnavailable, "overloaded"},
		"a limit in it":  {event("Rem") + wrong("slow down", 429), fault.ModelRateLimited, "slow down"},
		"a limit by name": {event("Rem") + `data: {"error":{"message":"slow down","type":"rate_limit_error"}}` + "\n\n",
			fault.ModelRateLimited, "slow down"},
		"no JSON":            {event("Rem") + "data: {no\n\n", fault.ModelUnavailable, "no valid JSON"},
		"a line without end": {"data: " + strings.Repeat("x", 2<<20), fault.ModelUnavailable, "token too long"},
		"an event without end": {strings.Repeat("data: "+strings.Repeat("x", 1<<16)+"\n", 40),
			fault.ModelUnavailable, "token too long"},
		"nothing": {done, fault.ModelUnreadable, "no choice"},
	} {
		_, reply, err := streaming(t, sends("text/event-stream", c.body))
		assert.True(t, fault.Is(err, c.code) && strings.Contains(fmt.Sprint(err), c.says) && reply.Usage.Prompt != 0,
			"%s: %+v %v", name, reply, err)
	}
}

func TestAStreamThatHasNoEndIsGivenUp(t *testing.T) {
	_, reply, err := streaming(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			if _, err := io.WriteString(w, event(strings.Repeat("word ", 2000))); err != nil {
				return
			}
		}
	})
	assert.True(t, fault.Is(err, fault.ModelUnavailable) && strings.Contains(err.Error(), "longer than"), "%v", err)
	assert.True(t, reply.Usage.Completion != 0, "%+v", reply.Usage)
}

// The caller goes in the middle: the request ends with it, and what came until then counts.
func TestACallerThatGoesEndsTheStream(t *testing.T) {
	ended := make(chan struct{})
	client := hostile(t, func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, event("Rembrandt van Rijn"))
		_ = http.NewResponseController(w).Flush()
		<-request.Context().Done()
		close(ended)
	})
	client.LearnThoughts(true)
	ctx, leave := context.WithCancel(t.Context())
	ctx = model.WithDeltas(ctx, func(string) error { leave(); return nil })
	reply, err := client.Complete(ctx, model.Call{User: "Who painted it?"})
	assert.True(t, errors.Is(err, context.Canceled) && reply.Usage.Prompt != 0 && reply.Usage.Completion >= 3,
		"%+v %v", reply, err)
	select {
	case <-ended:
	case <-time.After(long):
		t.Error("the server goes on")
	}
}

func TestWhoTakesTheTextCanEndIt(t *testing.T) {
	enough := errors.New("enough")
	client := hostile(t, sends("text/event-stream", event("a")+event("b")+stop+done))
	times := 0
	ctx := model.WithDeltas(t.Context(), func(string) error { times++; return enough })
	_, err := client.Complete(ctx, model.Call{User: "x"})
	assert.True(t, errors.Is(err, enough) && times == 1, "%v after %d", err, times)
}

func TestAKeyDoesNotPassInPieces(t *testing.T) {
	redact.Register("sk-streamed-secret-0123456789")
	taken, reply, err := streaming(t, sends("text/event-stream",
		event("Your key is sk-stre")+event("amed-secret-01234")+event("56789, and sk-str is none. sk-")+stop+done))
	want := "Your key is ***, and sk-str is none. sk-"
	got := strings.Join(taken, "")
	assert.True(t, err == nil && got == want && reply.Text == want, "%q %q %v", got, reply.Text, err)
}

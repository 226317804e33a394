package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/query-api/api"
)

// writing is a chat model that gives its answer in pieces, and waits before each but the first where it is asked to.
type writing struct {
	pieces []string
	next   chan struct{}
	ended  chan error // what a call ended with
	fails  error
}

func (writing) Info() model.Info { return model.Info{Provider: "openai", Model: "m", Paid: true} }

func (m writing) Complete(ctx context.Context, _ model.Call) (model.Reply, error) {
	used := model.Usage{Prompt: 40, Completion: int64(len(m.pieces))}
	err := m.write(ctx)
	if m.ended != nil {
		m.ended <- err
	}
	return model.Reply{Text: strings.Join(m.pieces, ""), Usage: used}, model.AnsweredError(err)
}

func (m writing) write(ctx context.Context) error {
	take := model.FindTaker(ctx)
	for i, piece := range m.pieces {
		if m.next != nil && i > 0 {
			select {
			case <-m.next:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if take == nil {
			continue
		}
		if err := take(piece); err != nil {
			return err
		}
	}
	return m.fails
}

func chatting(chat model.Chat) func(*fixture, *api.Config) {
	return func(_ *fixture, config *api.Config) { config.Models = models{chat: chat} }
}

// event of a stream.
type event struct {
	name string
	data object
}

func eventsOf(t *testing.T, body string) (out []event) {
	for _, block := range strings.Split(strings.TrimSpace(body), "\n\n") {
		name, data, ok := strings.Cut(block, "\ndata: ")
		next := event{name: strings.TrimPrefix(name, "event: ")}
		err := json.Unmarshal([]byte(data), &next.data)
		require.True(t, err == nil && ok, "%q: %v", block, err)
		out = append(out, next)
	}
	return out
}

const streamed = `{"query":"What is the capital of Norway?","answer":true,"stream":true}`

func TestAStreamedAnswerIsTheAnswer(t *testing.T) {
	f := serve(t, chatting(writing{pieces: []string{"Oslo ", "is the capital", " [1", "], not [77]."}}))
	got := f.query(streamed, "Content-Type", "application/json")
	kind := got.Header().Get("Content-Type")
	require.True(t, got.Code == 200 && kind == "text/event-stream", "%d %s %s", got.Code, kind, got.Body)
	events := eventsOf(t, got.Body.String())
	found, last := events[0], events[len(events)-1]
	assert.True(t, found.name == "found" && found.data["answer"] == nil && len(found.data["chunks"].([]any)) != 0 &&
		found.data["chunks"].([]any)[0].(object)["in_context"] == true, "first: %v", found)
	text := ""
	for _, delta := range events[1 : len(events)-1] {
		assert.Equal(t, "delta", delta.name, "%v", delta)
		text += delta.data["text"].(string)
	}
	want, _ := json.Marshal(f.askRaw(object{"query": "What is the capital of Norway?", "answer": true})["answer"])
	have, _ := json.Marshal(last.data["answer"])
	assert.True(t, last.name == "response" && bytes.Equal(want, have) &&
		text == last.data["answer"].(object)["text"] && text == "Oslo is the capital [1], not ." && len(events) >= 5,
		"%q %s, want %s", text, have, want)
}

// Where the built-in model would quote what hardly fits, a stream says that there is no answer, as the whole does.
func TestAStreamSaysThatThereIsNoAnswer(t *testing.T) {
	f := serve(t, nil)
	for question, kind := range map[string]string{
		"Who reached the South Pole first?":                          "best_sentence",
		"Who reached the finals of the 2018 football cup in Ottawa?": "none",
	} {
		body, _ := json.Marshal(object{"query": question, "answer": true, "stream": true})
		events := eventsOf(t, f.query(string(body), "Content-Type", "application/json").Body.String())
		text := ""
		for _, delta := range events[1 : len(events)-1] {
			text += delta.data["text"].(string)
		}
		whole := f.ask(object{"query": question, "answer": true}).Answer
		last, _ := events[len(events)-1].data["answer"].(object)
		assert.True(t, last["kind"] == kind && whole.Kind == kind && text == whole.Text && text == last["text"],
			"%s: %q %v, whole %+v", question, text, last, whole)
	}
}

// A chat model that gives nothing is reported as such, and a sentence is quoted in its place, whole or streamed.
func TestAChatModelThatGivesNothingIsTold(t *testing.T) {
	f := serve(t, chatting(writing{}))
	whole := f.askRaw(object{"query": "What is the capital of Norway?", "answer": true})
	events := eventsOf(t, f.query(streamed, "Content-Type", "application/json").Body.String())
	for _, out := range []object{whole, events[len(events)-1].data} {
		answer := out["answer"].(object)
		assert.True(t, slices.Contains(out["degraded"].([]any), any("chat_model")) && answer["kind"] == "best_sentence" &&
			strings.Contains(answer["text"].(string), "Oslo") && len(answer["citations"].([]any)) != 0 &&
			strings.Contains(answer["reason"].(string), "the model gave no answer (finish_reason"), "%v %v", out["degraded"],
			answer)
	}
}

// A chat model that fails for no reason of the caller's leaves the passages and a quotation; in the form of OpenAI its
// error has a status, by which clients try again. What is the caller's is an error everywhere.
func TestPassagesAreQuotedInPlaceOfAChatModelThatFails(t *testing.T) {
	inForm := `{"model":"unweaver/sample","messages":[{"role":"user","content":"What is the capital of Norway?"}]}`
	for cause, status := range map[error]int{
		fault.ModelAuth.At("call chat model", "m"):        200,
		fault.ModelUnknown.At("call chat model", "m"):     200,
		fault.ModelRateLimited.At("call chat model", "m"): 200,
		fault.ModelQuota.At("call chat model", "m"):       200,
		fault.ModelUnavailable.At("call chat model", "m"): 200,
		fault.ModelUnreadable.At("call chat model", "m"):  200,
		fault.EndpointRefused.At("call chat model", "m"):  200,
		fault.BudgetSpent.At("answer", "a key"):           429,
		fault.Internal.At("call chat model", "m"):         500,
		context.DeadlineExceeded:                          504,
	} {
		code := string(fault.CodeOf(cause))
		f := serve(t, chatting(writing{fails: cause}))
		got := f.query(answered, "Content-Type", "application/json")
		require.Equal(t, status, got.Code, "%s: %s", code, got.Body)
		formed := f.send("POST", "/v1/chat/completions", inForm, "Content-Type", "application/json")
		assert.GreaterOrEqual(t, formed.Code, 400, "%s: %s", code, formed.Body)
		events := eventsOf(t, f.query(streamed, "Content-Type", "application/json").Body.String())
		last := events[len(events)-1]
		if status != 200 {
			assert.Equal(t, "error", last.name, "%s: %v", code, last)
			continue
		}
		var whole object
		require.NoError(t, json.Unmarshal(got.Body.Bytes(), &whole))
		for _, out := range []object{whole, last.data} {
			answer := out["answer"].(object)
			assert.True(t, slices.Contains(out["degraded"].([]any), any("chat_model")) && answer["kind"] == "best_sentence" &&
				strings.Contains(answer["text"].(string), "Oslo") && len(out["chunks"].([]any)) > 0 &&
				answer["reason"] == "the chat model failed: "+code, "%s: %v", code, answer)
		}
		text, _, failed := call(t, f.agent(""), "answer", object{"query": "What is the capital of Norway?"})
		assert.True(t, !failed && strings.Contains(text, "the chat model failed: "+code), "%s: %s", code, text)
	}
}

// askStream sends a request over a connection and returns the lines of the answer as they come; leave ends it.
func askStream(t *testing.T, handler http.Handler, path, body string, headers ...string) (
	lines *bufio.Scanner, leave func(),
) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	ctx, leave := context.WithCancel(t.Context())
	request, _ := http.NewRequestWithContext(ctx, "POST", server.URL+path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response := must(http.DefaultClient.Do(request))(t)
	t.Cleanup(func() { leave(); _ = response.Body.Close() })
	lines = bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return lines, leave
}

// await reads to a line that holds a text.
func await(t *testing.T, lines *bufio.Scanner, text string) {
	require.NoError(t, lineWith(lines, text))
}

// lineWith reads until a line that contains a text.
func lineWith(lines *bufio.Scanner, text string) error {
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return nil
		}
	}
	return fmt.Errorf("no line with %q: %w", text, lines.Err())
}

// What is flushed arrives at once, whether the client accepts packed answers or not.
func TestAPieceIsSentBeforeTheModelWritesTheNext(t *testing.T) {
	for _, accepts := range []string{"identity", "gzip"} {
		chat := writing{pieces: []string{"Oslo", " is", " it."}, next: make(chan struct{})}
		lines, _ := askStream(t, serve(t, chatting(chat)).server.Handler(), sampleQuery, streamed, "Accept-Encoding", accepts)
		for _, piece := range []string{`"Oslo"`, `" is"`} {
			await(t, lines, piece)
			chat.next <- struct{}{}
		}
		await(t, lines, "event: response")
	}
}

// Who goes away ends the model's work, and has spent what was written until then.
func TestAReaderThatGoesEndsTheModelsWorkAndPaysForIt(t *testing.T) {
	chat := writing{pieces: []string{"Oslo", " is it."}, next: make(chan struct{}), ended: make(chan error, 1)}
	l, key := selling(t, models{chat: chat})
	served := make(chan struct{}) // the request that was left has ended, with its bill
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(served)
		l.server.Handler().ServeHTTP(w, r)
	})
	lines, leave := askStream(t, handler, sampleQuery, streamed, bearer(key.Text)...)
	await(t, lines, "Oslo")
	leave()
	select {
	case err := <-chat.ended:
		assert.Error(t, err, "the call ended as if nothing had happened")
	case <-time.After(long):
		t.Fatal("the model goes on")
	}
	<-served
	again := l.query(answered, bearer(key.Text)...)
	assert.Contains(t, again.Body.String(), "budget_spent", "the money is not spent: %d %s", again.Code, again.Body)
}

func TestAnErrorOfAStreamIsToldWhereItComes(t *testing.T) {
	for name, c := range map[string]struct {
		body, code string
		inStream   bool
	}{
		"before it begins":   {strings.Replace(streamed, "{", `{"generation":"none",`, 1), "unknown_generation", false},
		"without an answer":  {`{"query":"x","stream":true}`, "invalid_parameter", false},
		"while it is coming": {streamed, "model_rate_limited", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, chatting(writing{pieces: []string{"Oslo"}, fails: fault.ModelRateLimited.At("call chat model", "m")}))
			got := f.query(c.body, "Content-Type", "application/json")
			if !c.inStream {
				assert.True(t, got.Code >= 400 && strings.Contains(got.Body.String(), `"code":"`+c.code+`"`),
					"%d %s", got.Code, got.Body)
				return
			}
			events := eventsOf(t, got.Body.String())
			last := events[len(events)-1]
			assert.True(t, last.name == "error" && last.data["code"] == c.code, "%v", last)
		})
	}
}

// The deadlines of bodies and writes end who does not send or read, not an answer that waits for the model. A busy
// machine may not come to write within the shortest of these; a server that counts the model's time fails with each.
func TestAModelMayThinkLongerThanABodyOrAWriteMayTake(t *testing.T) {
	var last string
	for _, timeout := range []time.Duration{50 * time.Millisecond, time.Second, 10 * time.Second} {
		if last = thoughtLong(t, timeout); last == "" {
			return
		}
	}
	t.Error(last)
}

// thoughtLong asks a model that thinks four times as long as a body and a write may take. It returns what goes wrong.
func thoughtLong(t *testing.T, timeout time.Duration) string {
	chat := writing{pieces: []string{"Oslo", " is it."}, next: make(chan struct{}), ended: make(chan error, 1)}
	f := serve(t, func(_ *fixture, config *api.Config) {
		config.Models, config.Timeout = models{chat: chat}, long
		config.Policy.BodyTimeout, config.Policy.WriteTimeout = timeout, timeout
	})
	think := func(over <-chan string) error {
		time.Sleep(4 * timeout)
		select {
		case chat.next <- struct{}{}:
			return <-chat.ended
		case err := <-chat.ended:
			return fmt.Errorf("the model was ended: %w", err)
		case got := <-over:
			return fmt.Errorf("answered without the model: %s", got)
		}
	}
	whole, address := make(chan string, 1), "http://"+f.listening()+sampleQuery
	go func() { // the whole answer, over HTTP/1
		response, err := http.Post(address, "application/json", strings.NewReader(answered))
		if err != nil {
			whole <- err.Error()
			return
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		whole <- string(body)
	}()
	if err := think(whole); err != nil {
		return err.Error()
	}
	if got := <-whole; !strings.Contains(got, "Oslo is it.") {
		return got
	}
	server := httptest.NewUnstartedServer(f.server.Handler())
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	response, err := server.Client().Post(server.URL+sampleQuery, "application/json", strings.NewReader(streamed))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, 2, response.ProtoMajor, "%s", response.Proto)
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	if err := lineWith(lines, `"Oslo"`); err != nil {
		return err.Error()
	}
	if err := errors.Join(think(nil), lineWith(lines, "event: response")); err != nil {
		return err.Error()
	}
	return ""
}

// selling has models that cost money, and a key that may spend a little of it in a day.
func selling(t *testing.T, installed models) (*locked, access.Made) {
	t.Helper()
	l := lock(t, withFacts(func(spec *core.Spec) {
		price := core.Price{Prompt: 1e6, Completion: 1e6}
		spec.Roles = map[string]core.ChatModel{core.RoleAnswer: {Price: price}} // models.chat costs nothing
		spec.Embedding.Price = price
	}, func(config *api.Config) { config.Models = installed }))
	return l, l.key(access.Request{Scope: access.Query, Index: "*", Limits: access.Limits{MoneyPerDay: 1}})
}

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
			installed := models{chat: c.chat}
			if c.embedder {
				installed.embedder = func(model.Embedder) model.Embedder { return sellingEmbedder{builtin.Embedder{}} }
			}
			l, key := selling(t, installed)
			ask := func(body string) int { return l.query(body, bearer(key.Text)...).Code }
			first := ask(c.question)
			second := l.query(answered, bearer(key.Text)...)
			assert.Equal(t, c.spent, strings.Contains(second.Body.String(), "budget_spent"), "first %d, second %d %s", first,
				second.Code, second.Body)
		})
	}
}

const answered = `{"query":"What is the capital of Norway?","answer":true}`

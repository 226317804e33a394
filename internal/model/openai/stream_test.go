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
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
)

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

// streaming asks with a taker and gives what it was given.
func streaming(t *testing.T, serve http.HandlerFunc) (taken []string, reply model.Reply, err error) {
	t.Helper()
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
		"with comments and other line ends": {": ping\r\n\r\nevent: x\r\n" + strings.ReplaceAll(event("Yes")+stop+spent,
			"\n", "\r\n") + "data: [DONE]", []string{"Yes"}, model.Usage{Prompt: 7, Completion: 9}},
		"without usage": {event("Rembrandt van Rijn did.") + stop + done,
			[]string{"Rembrandt van Rijn did."}, model.Usage{Prompt: 6, Completion: 6, Doubted: true}},
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

package openai_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

type seen struct {
	line, body string
	header     http.Header
}

// recording gives the address of a server that answers as serve says, and what reached it.
func recording(t *testing.T, serve func(w http.ResponseWriter, body string)) (url string, requests func() []seen) {
	var mu sync.Mutex
	var all []seen
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		raw, _ := io.ReadAll(request.Body)
		mu.Lock()
		all = append(all, seen{request.Method + " " + request.URL.String(), string(raw), request.Header})
		mu.Unlock()
		serve(w, string(raw))
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []seen {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func write(body string) func(http.ResponseWriter, string) {
	return func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, body) }
}

// The bodies are those that servers have always been sent, byte by byte: what they keep by prompt is found again.
// Promises: 71.
func TestBodiesAreWhatTheyWere(t *testing.T) {
	const chat = `{"messages":[{"content":"a < b & c","role":"system"},` +
		`{"content":"é  \u2028 \u0001 \ufffd","role":"user"}],"model":"m",`
	url, requests := recording(t, func(w http.ResponseWriter, body string) {
		switch {
		case strings.Contains(body, "json_"):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"response_format"}}`)
		case strings.Contains(body, "input"):
			_, _ = w.Write(modeltest.EncodeEmbeddings([][]float32{{1, 2}, {3, 4}}, true))
		default:
			_, _ = io.WriteString(w, says(`{"prompt_tokens":9,"completion_tokens":3}`))
		}
	})
	cfg := openai.Config{BaseURL: url + "/v1/", APIKey: "k", Model: "m"}
	asked := model.Call{
		Task: model.Extract, System: "a < b & c", User: "é  \u2028 \x01 \xff", Schema: []byte(`{"type":"object","d":"<a>"}`),
		Input: "for models that are rules",
	}
	musttest.Get(openai.New(cfg).Complete(t.Context(), asked))(t)
	streamed := model.WithDeltas(t.Context(), func(string) error { return nil })
	musttest.Get(openai.New(cfg).Complete(streamed, model.Call{User: "u"}))(t)
	musttest.Get(openai.New(cfg).Complete(t.Context(), model.Call{User: "u", Pictures: [][]byte{[]byte("jpeg")}}))(t)
	musttest.Get2(openai.NewEmbedder(cfg).Embed(t.Context(), []string{"a < b", "\u2028\xff"}))(t)
	want := []string{
		chat + `"max_tokens":16407,"temperature":0,"response_format":{"json_schema":{"name":"extract","strict":true,` +
			`"schema":{"type":"object","d":"<a>"}},"type":"json_schema"}}`,
		chat + `"max_tokens":16407,"temperature":0,"response_format":{"type":"json_object"}}`,
		chat + `"max_tokens":16407,"temperature":0}`,
		`{"messages":[{"content":"u","role":"user"}],"model":"m","max_tokens":16384,"temperature":0,` +
			`"stream_options":{"include_usage":true},"stream":true}`,
		`{"messages":[{"content":[{"type":"text","text":"u"},{"type":"image_url","image_url":` +
			`{"url":"data:image/jpeg;base64,anBlZw=="}}],"role":"user"}],"model":"m","max_tokens":16384,"temperature":0}`,
		`{"encoding_format":"base64","input":["a < b","\u2028\ufffd"],"model":"m"}`,
	}
	got := requests()
	require.Len(t, got, len(want))
	for i, request := range got {
		line := "POST /v1/chat/completions"
		if i == len(got)-1 {
			line = "POST /v1/embeddings"
		}
		assert.True(t, request.line == line && strings.TrimSpace(request.body) == want[i],
			"%s\n%s\nwant %s\n%s", request.line, request.body, line, want[i])
		header := request.header
		assert.True(t, header.Get("Authorization") == "Bearer k" && header.Get("Accept") == "application/json" &&
			header.Get("Content-Type") == "application/json" && strings.HasPrefix(header.Get("User-Agent"), "unweaver/"),
			"%v", header)
	}
}

// What lies in the environment for clients of OpenAI's own is used for no other server.
func TestAnotherServerIsToldNothingOfTheEnvironment(t *testing.T) {
	for _, name := range []string{
		"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_WEBHOOK_SECRET",
	} {
		t.Setenv(name, "of-somebody-else")
	}
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-More: of-somebody-else")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/of-somebody-else")
	url, requests := recording(t, write(says(`{}`)))
	musttest.Get(openai.New(openai.Config{BaseURL: url, Model: "m"}).Complete(t.Context(), model.Call{}))(t)
	got := fmt.Sprint(requests())
	assert.True(t, !strings.Contains(got, "somebody") && !strings.Contains(got, "Authorization"), "%v", got)
}

func TestARedirectIsNotFollowed(t *testing.T) {
	other, requests := recording(t, write(says(`{}`)))
	for _, status := range []int{301, 302, 303, 307, 308} {
		url, _ := recording(t, func(w http.ResponseWriter, _ string) {
			w.Header().Set("Location", other+"/v1/chat/completions")
			w.WriteHeader(status)
		})
		cfg := openai.Config{BaseURL: url, APIKey: "k", Model: "m"}
		_, err := openai.New(cfg).Complete(t.Context(), model.Call{User: "hello"})
		assert.True(t, fault.Is(err, fault.ModelUnavailable) && strings.Contains(err.Error(), fmt.Sprint(status)), "%v", err)
	}
	assert.Empty(t, requests())
}

// A body that is packed is bounded by what it holds, and an answer that is packed is read.
func TestPackedAnswersAreReadAndBounded(t *testing.T) {
	packed := func(body string, times int) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Encoding", "gzip")
			packer := gzip.NewWriter(w)
			for range times {
				_, _ = io.WriteString(packer, body)
			}
			_ = packer.Close()
		}
	}
	url, requests := recording(t, packed(says(`{"prompt_tokens":1,"completion_tokens":3}`), 1))
	reply, err := openai.New(openai.Config{BaseURL: url, Model: "m"}).Complete(t.Context(), model.Call{User: "hello"})
	assert.True(t, err == nil && reply.Text == "one two three" && requests()[0].header.Get("Accept-Encoding") == "gzip",
		"%+v %v", reply, err)
	url, _ = recording(t, packed(strings.Repeat(" ", 1<<20), 8))
	_, err = openai.New(openai.Config{BaseURL: url, Model: "m"}).Complete(t.Context(), model.Call{User: "hello"})
	assert.True(t, fault.Is(err, fault.ModelUnavailable) && strings.Contains(err.Error(), "longer than"), "%v", err)
}

// Rounds of requests at once go over the connections of the first round.
func TestConnectionsAreUsedAgain(t *testing.T) {
	const atOnce, rounds = 64, 6
	var opened atomic.Int64
	var round sync.WaitGroup
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body)
		round.Done()
		round.Wait() // all are here
		_, _ = io.WriteString(w, says(`{"prompt_tokens":1,"completion_tokens":3}`))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	client := openai.New(openai.Config{BaseURL: server.URL, Model: "m"})
	for range rounds {
		round.Add(atOnce)
		require.NoError(t, parallel.Each(t.Context(), atOnce, atOnce, func(ctx context.Context, _ int) error {
			return musttest.Err(client.Complete(ctx, model.Call{User: "hello"}))
		}))
	}
	// Where the machine is slow, a connection may be given up as it seems stuck: few are.
	got := opened.Load()
	assert.True(t, got <= atOnce*rounds/2, "%d connections for %d rounds of %d requests", got, rounds, atOnce)
}

// An embedder is asked for base64 where it can be: it is found out once.
func TestAServerWithoutBase64IsAskedForNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		says   string
		sent   string // by two calls: b for base64
		fails  fault.Code
	}{
		"takes it":         {200, "", "bb", ""},
		"takes it not":     {400, `{"error":{"message":"encoding_format: must be 'float'"}}`, "b--", ""},
		"knows it not":     {422, `{"detail":[{"loc":["body","encoding_format"],"msg":"extra fields"}]}`, "b--", ""},
		"means the text":   {400, `{"error":{"message":"input is too long"}}`, "bb", fault.ModelRejected},
		"refuses the rest": {401, `{"error":{"message":"no base64 for you"}}`, "bb", fault.ModelAuth},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := recording(t, func(w http.ResponseWriter, body string) {
				packed := strings.Contains(body, `"encoding_format":"base64"`)
				if packed && c.status != http.StatusOK {
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.says)
					return
				}
				_, _ = w.Write(modeltest.EncodeEmbeddings([][]float32{{3, 4}}, packed))
			})
			var metered account
			embedder := model.MeterEmbedder(openai.NewEmbedder(openai.Config{BaseURL: url, Model: "m"}), &metered)
			for range 2 {
				got, _, err := embedder.Embed(t.Context(), []string{"hello"})
				require.True(t, (c.fails == "" || fault.Is(err, c.fails)) && (c.fails != "" || err == nil), "%v, %q", err, c.fails)
				assert.True(t, err != nil || slices.Equal(got[0], []float32{0.6, 0.8}), "%v", got)
			}
			sent := ""
			for _, request := range requests() {
				var asked struct {
					Format string `json:"encoding_format"`
				}
				require.NoError(t, json.Unmarshal([]byte(request.body), &asked))
				sent += map[string]string{"base64": "b", "": "-"}[asked.Format]
			}
			assert.Equal(t, c.sent, sent, "sent")
			metered.check(t, len(sent), 2, c.fails != "")
		})
	}
}

// Buffers of bodies are used again: what an answer gave must not change with the next.
func TestAnAnswerDoesNotChangeWithTheNext(t *testing.T) {
	number := 0
	url, _ := recording(t, func(w http.ResponseWriter, body string) {
		if number++; strings.Contains(body, "input") {
			_, _ = w.Write(modeltest.EncodeEmbeddings([][]float32{{float32(number), 0}}, number%2 == 0))
			return
		}
		_, _ = fmt.Fprintf(w, `{"choices":[{"message":{"content":"answer %d"}}]}`, number)
	})
	cfg := openai.Config{BaseURL: url, Model: "m", Timeout: time.Minute}
	chat, embedder := openai.New(cfg), openai.NewEmbedder(cfg)
	var texts []string
	var vectors [][]float32
	for range 4 {
		reply := musttest.Get(chat.Complete(t.Context(), model.Call{User: "hello"}))(t)
		vector, _ := musttest.Get2(embedder.Embed(t.Context(), []string{"hello"}))(t)
		texts, vectors = append(texts, reply.Text), append(vectors, vector[0])
	}
	for i, vector := range vectors {
		assert.True(t, texts[i] == fmt.Sprint("answer ", 2*i+1) && slices.Equal(vector, []float32{1, 0}),
			"%q %v", texts[i], vector)
	}
}

// formOf says how a request asks for what its answer must look like, and whether it sets a temperature.
func formOf(body string) string {
	form := "prompt"
	for _, one := range []string{"json_schema", "json_object"} {
		if strings.Contains(body, `"type":"`+one+`"`) {
			form = one
		}
	}
	if !strings.Contains(body, `"temperature"`) {
		form += " without temperature"
	}
	return form
}

// Which form a server takes is found out once an endpoint and model, and what it refuses is not paid for.
// Promises: 70.
func TestAServerIsAskedInTheFormThatItTakes(t *testing.T) {
	for name, c := range map[string]struct {
		refuses map[string]string // what a body holds -> what the server says to it
		status  int
		sent    []string // by three calls
		fails   fault.Code
	}{
		"takes schemas": {nil, 400, []string{"json_schema", "json_schema", "json_schema"}, ""},
		"takes objects alone": {map[string]string{"json_schema": "'response_format.type' must be 'json_object' or 'text'"},
			400, []string{"json_schema", "json_object", "json_object", "json_object"}, ""},
		"knows no JSON mode": {map[string]string{"response_format": "This response_format type is unavailable now"}, 400,
			[]string{"json_schema", "json_object", "prompt", "prompt", "prompt"}, ""},
		"does not know the parameter": {
			map[string]string{"response_format": `[{"loc":["body","response_format"],"msg":"Extra inputs"}]`}, 422,
			[]string{"json_schema", "json_object", "prompt", "prompt", "prompt"}, "",
		},
		"has not built it": {map[string]string{"json_schema": "structured output is not there yet"}, 501,
			[]string{"json_schema", "json_object", "json_object", "json_object"}, ""},
		"takes its own temperature": {
			map[string]string{"temperature": "'temperature' does not support 0 with this model."}, 400,
			[]string{
				"json_schema", "json_schema without temperature", "json_schema without temperature",
				"json_schema without temperature",
			}, "",
		},
		"knows neither, nor a limit": {
			map[string]string{
				"response_format": "response_format: unknown", "temperature": "temperature is fixed",
				"_tokens": "unknown parameter max_tokens, max_completion_tokens",
			}, 400,
			[]string{
				"json_schema", "json_object", "prompt", "prompt without temperature", "prompt without temperature",
				"prompt without temperature", "prompt without temperature", "prompt without temperature",
			}, "",
		},
		"refuses whatever it is asked": {map[string]string{"messages": "response_format is not supported"}, 400,
			slices.Repeat([]string{"json_schema", "json_object", "prompt"}, 3), fault.BadConfig},
		"is unreachable by another name": {map[string]string{"messages": "upstream mismatch"}, 400,
			slices.Repeat([]string{"json_schema"}, 3), fault.ModelRefused},
	} {
		t.Run(name, func(t *testing.T) {
			var sent []string
			client := hostile(t, func(w http.ResponseWriter, request *http.Request) {
				raw, _ := io.ReadAll(request.Body)
				sent = append(sent, formOf(string(raw)))
				for _, what := range []string{"response_format", "json_schema", "temperature", "_tokens", "messages"} {
					if why := c.refuses[what]; why != "" && strings.Contains(string(raw), what) {
						w.WriteHeader(c.status)
						_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, why)
						return
					}
				}
				_, _ = io.WriteString(w, says(`{"prompt_tokens":2,"completion_tokens":3}`))
			})
			var metered account
			chat := model.MeterChat(client, &metered)
			call := model.Call{Task: "extract", User: "hello", Schema: []byte(`{"type":"object"}`)}
			for range 3 {
				_, err := chat.Complete(t.Context(), call)
				require.True(t, (c.fails != "" || err == nil) && (c.fails == "" || fault.Is(err, c.fails)), "%v, %q", err, c.fails)
			}
			assert.True(t, slices.Equal(sent, c.sent), "sent %q,\nwant %q", sent, c.sent)
			metered.check(t, len(sent), 3, c.fails != "")
		})
	}
}

// A form that no configuration asked for is not negotiated about.
func TestACallWithoutASchemaIsSentOnce(t *testing.T) {
	sent := 0
	client := hostile(t, func(w http.ResponseWriter, _ *http.Request) {
		sent++
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"response_format is not supported"}}`)
	})
	_, err := client.Complete(t.Context(), model.Call{User: "hello"})
	assert.True(t, err != nil && sent == 1, "%d requests, %v", sent, err)
}

// Whatever form a message has, its text is what the model says beside its thoughts.
func TestTheTextOfAMessageIsReadInEveryForm(t *testing.T) {
	for name, c := range map[string]struct{ message, want, nothing string }{
		"text":                   {`{"content":"Oslo"}`, "Oslo", ""},
		"text behind a thought":  {`{"content":"<think>Is it?</think>Oslo"}`, "Oslo", ""},
		"thoughts beside it":     {`{"content":"Oslo","reasoning_content":"Is it?","reasoning":"Is it?"}`, "Oslo", ""},
		"parts":                  {`{"content":[{"type":"text","text":"Os"},{"type":"text","text":"lo"}]}`, "Oslo", ""},
		"parts of another type":  {`{"content":[{"type":"output_text","text":"Oslo"}]}`, "Oslo", ""},
		"parts without a type":   {`{"content":[{"text":"Oslo"}]}`, "Oslo", ""},
		"parts with values":      {`{"content":[{"type":"text","text":{"value":"Oslo"}}]}`, "Oslo", ""},
		"bare parts":             {`{"content":["Os","lo"]}`, "Oslo", ""},
		"a part of its own":      {`{"content":{"type":"text","text":"Oslo"}}`, "Oslo", ""},
		"a part that is thought": {`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Is it?"}]},{"type":"text","text":"Oslo"}]}`, "Oslo", ""},
		"JSON as JSON":           {`{"content":{"entities":[]}}`, `{"entities":[]}`, ""},
		"a list as JSON":         {`{"content":[{"name":"Oslo"}]}`, `[{"name":"Oslo"}]`, ""},
		"null":                   {`{"content":null,"reasoning_content":"Is it?"}`, "", "finish_reason length)"},
		"no part":                {`{"content":[]}`, "", "finish_reason length)"},
		"a thought alone":        {`{"content":"<think>Is it"}`, "", "finish_reason length, within its thoughts)"},
	} {
		body := `{"choices":[{"finish_reason":"length","message":` + c.message + `}]}`
		reply, err := hostile(t, sends("application/json", body)).Complete(t.Context(), model.Call{User: "Where?"})
		assert.True(t, err == nil && reply.Text == c.want && reply.Truncated, "%s: %+v %v, want %q", name, reply, err, c.want)
		assert.True(t, c.nothing == "" || strings.Contains(reply.ExplainEmpty(), c.nothing),
			"%s: %s", name, reply.ExplainEmpty())
	}
}

// A reply that was cut may be asked for with twice the room, unless somebody said how long it may be.
func TestACutReplySaysWhetherThereIsMoreRoom(t *testing.T) {
	for name, c := range map[string]struct {
		call    model.Call
		most    int
		roomier bool
		limit   int64
	}{
		"as usual":     {model.Call{}, 0, true, openai.DefaultMaxTokens},
		"once":         {model.Call{Roomy: true}, 0, false, 2 * openai.DefaultMaxTokens},
		"configured":   {model.Call{}, 500, false, 500},
		"of the query": {model.Call{Most: 70}, 0, false, 70},
	} {
		var asked struct {
			MaxTokens int64 `json:"max_tokens"`
		}
		url, requests := recording(t, write(`{"choices":[{"finish_reason":"length","message":{"content":"Os"}}]}`))
		client := openai.New(openai.Config{BaseURL: url, Model: "m", MaxTokens: c.most})
		reply, err := client.Complete(t.Context(), c.call)
		require.NoError(t, json.Unmarshal([]byte(requests()[0].body), &asked))
		assert.True(t, err == nil && reply.Truncated && reply.Roomier == c.roomier && asked.MaxTokens == c.limit,
			"%s: %+v %v within %d", name, reply, err, asked.MaxTokens)
	}
}

// A 200 that is no answer says why: with the error that it holds, or with the beginning of its body.
func TestA200ThatIsNoAnswerIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		kind, body string
		code       fault.Code
		says       string
	}{
		"a long page":      {"text/html", "<html>" + strings.Repeat(" x", 300), fault.ModelUnreadable, "/chat/completions model m"},
		"a page":           {"text/html", "<html>Sign in</html>", fault.ModelUnreadable, "<html>Sign in</html>"},
		"words as JSON":    {"application/json", "upstream connect error", fault.ModelUnreadable, "upstream connect error"},
		"another shape":    {"application/json", `{"choices":{}}`, fault.ModelUnreadable, `{"choices":{}}`},
		"half of it":       {"application/json", `{"choices":[{"mess`, fault.ModelUnreadable, `{"choices":[{"mess`},
		"nothing":          {"application/json", "", fault.ModelUnreadable, "0 bytes"},
		"no choice":        {"application/json", `{"choices":[]}`, fault.ModelUnreadable, "no choice"},
		"an error":         {"application/json", `{"error":{"message":"overloaded","code":529}}`, fault.ModelUnavailable, "overloaded"},
		"a limit":          {"application/json", `{"error":{"message":"slow down","code":429}}`, fault.ModelRateLimited, "slow down"},
		"an error beside":  {"application/json", `{"error":{"message":"no key","code":401},"choices":[]}`, fault.ModelAuth, "no key"},
		"a secret in them": {"application/json", "Bearer sk-abcdefghijklmnopqrstuvwxyz0123456789", fault.ModelUnreadable, "***"},
	} {
		_, err := hostile(t, sends(c.kind, c.body)).Complete(t.Context(), model.Call{User: "Where?"})
		assert.True(t, fault.Is(err, c.code) && (c.says == "***" || strings.Contains(err.Error(), c.says)) &&
			!strings.Contains(err.Error(), "sk-abcdefghijk") && len(err.Error()) < 500, "%s: %v", name, err)
	}
}

package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
)

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
				require.True(t, (c.fails != "" || err == nil) && (c.fails == "" || fault.Is(err, c.fails)),
					"%v, want %q", err, c.fails)
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

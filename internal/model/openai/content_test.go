package openai_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
)

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
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			_ = json.NewDecoder(request.Body).Decode(&asked)
			sends("application/json", `{"choices":[{"finish_reason":"length","message":{"content":"Os"}}]}`)(w, request)
		}))
		t.Cleanup(server.Close)
		client := openai.New(openai.Config{BaseURL: server.URL, Model: "m", MaxTokens: c.most})
		reply, err := client.Complete(t.Context(), c.call)
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
			!strings.Contains(err.Error(), "sk-abcdefghijk"), "%s: %v", name, err)
	}
}

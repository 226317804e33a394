package openai_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
)

// Servers differ in how they say no.
func TestRefusalsOfOtherServers(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		code   fault.Code
		says   string
	}{
		"an error text": {400, `{"error":"prompt is too long"}`, fault.ModelRejected, "400 prompt is too long"},
		"a message":     {400, `{"object":"error","message":"prompt is too long"}`, fault.ModelRejected, "prompt is too long"},
		"a detail":      {422, `{"detail":[{"loc":["body"],"msg":"missing"}]}`, fault.ModelRefused, `"msg":"missing"`},
		"a filter":      {400, `{"error":{"code":"content_filter","message":"no"}}`, fault.ModelRejected, "400 no"},
		"a text that is too long": {400, `{"error":{"code":"context_length_exceeded","message":"8192 is the most"}}`,
			fault.ModelRejected, "8192"},
		"a gateway that is set up badly":  {422, "upstream mismatch", fault.ModelRefused, "422 upstream mismatch"},
		"a body that is too large for it": {413, "", fault.ModelRefused, "413 Request Entity Too Large"},
		"a teapot":                        {418, "", fault.ModelRefused, "418 I'm a teapot"},
		"plain text":                      {401, "go away", fault.ModelAuth, "401 go away"},
		"nothing":                         {502, "", fault.ModelUnavailable, "502 Bad Gateway"},
		"a number as code": {404, `{"error":{"code":404,"message":"no such model","type":"x"}}`, fault.ModelUnknown,
			"404 no such model"},
		"the key itself":       {401, `{"error":{"message":"bad key sk-secret-key"}}`, fault.ModelAuth, "bad key ***"},
		"a moved address":      {301, "", fault.ModelUnavailable, "301 Moved Permanently"},
		"nothing to say":       {204, "", fault.ModelUnavailable, "204 No Content"},
		"no structured output": {400, `{"error":{"message":"response_format is not supported"}}`, fault.BadConfig, "400"},
		"a model as 400":       {400, `{"error":{"message":"model x not found"}}`, fault.ModelUnknown, "400"},
		"payment":              {402, `{"error":{"message":"no credit"}}`, fault.ModelQuota, "402 no credit"},
		"billing as 429":       {429, `{"error":{"message":"check your billing"}}`, fault.ModelQuota, "429"},
		"a conflict":           {409, "", fault.ModelUnavailable, "409 Conflict"},
	} {
		t.Run(name, func(t *testing.T) {
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = fmt.Fprint(w, c.body)
			}))
			defer other.Close()
			cfg := openai.Config{BaseURL: other.URL, APIKey: "sk-secret-key", Model: "m"}
			_, err := openai.New(cfg).Complete(t.Context(), model.Call{Task: model.Answer, User: "hello"})
			assert.True(t, fault.Is(err, c.code) && strings.Contains(err.Error(), c.says),
				"got %v (%s), want %q (%s)", err, fault.CodeOf(err), c.says, c.code)
			assert.False(t, strings.Contains(fmt.Sprint(err), "sk-secret"), "the key is in %v", err)
		})
	}
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	for name, c := range map[string]struct {
		header   string
		from, to time.Duration
	}{
		"seconds":            {"7", 7 * time.Second, 7 * time.Second},
		"part of a second":   {"0.5", 500 * time.Millisecond, 500 * time.Millisecond},
		"a date":             {time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), 50 * time.Second, time.Minute},
		"a date in the past": {time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat), 0, 0},
		"nonsense":           {"soon", 0, 0},
		"a negative number":  {"-3", 0, 0},
		"not there":          {"", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			limited := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", c.header)
				w.WriteHeader(http.StatusTooManyRequests)
			}))
			defer limited.Close()
			cfg := openai.Config{BaseURL: limited.URL, APIKey: "k", Model: "m"}
			_, err := openai.New(cfg).Complete(t.Context(), model.Call{Task: model.Answer, User: "hello"})
			got := fault.RetryAfter(err)
			assert.True(t, got >= c.from && got <= c.to, "%s, want %s to %s", got, c.from, c.to)
		})
	}
}

func TestSecretsInTheAddressStayOutOfErrors(t *testing.T) {
	cfg := openai.Config{BaseURL: "http://me:hidden@127.0.0.1:1/v1", APIKey: "k", Model: "m"}
	_, err := openai.New(cfg).Complete(t.Context(), model.Call{Task: model.Answer, User: "hello"})
	assert.True(t, err != nil && !strings.Contains(err.Error(), "hidden") &&
		strings.Contains(err.Error(), "127.0.0.1:1/v1"), "got %v", err)
}

// What a call asks for reaches the server as the contract says.
func TestTheRequestCarriesItsTask(t *testing.T) {
	var body string
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		raw := make([]byte, 64<<10)
		n, _ := request.Body.Read(raw)
		body = request.Header.Get("Authorization") + " " + string(raw[:n])
		_, _ = fmt.Fprint(w, `{"choices":[{"finish_reason":"length","message":{"content":"cut"}}]}`)
	}))
	defer echo.Close()
	cfg := openai.Config{BaseURL: echo.URL + "/", APIKey: "k", Model: "m"}
	reply, err := openai.New(cfg).Complete(t.Context(), model.Call{
		Task: model.Extract, System: "rules", User: "text", Schema: []byte(`{"type":"object"}`), Input: "never sent",
	})
	require.True(t, err == nil && reply.Text == "cut" && reply.Truncated, "%+v, %v", reply, err)
	for _, part := range []string{
		"Bearer k", `"role":"system"`, `"rules"`, `"role":"user"`, `"text"`, `"name":"extract"`, `"strict":true`,
		`"temperature":0`, `"model":"m"`,
	} {
		assert.Contains(t, body, part)
	}
	assert.False(t, strings.Contains(body, "never sent"), "Input is for models that are rules")
}

package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
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
		"a limit":              {429, "", fault.ModelRateLimited, "429"},
		"quota":                {429, `{"error":{"code":"insufficient_quota"}}`, fault.ModelQuota, "429"},
		"forbidden":            {403, "", fault.ModelAuth, "403 Forbidden"},
		"a timeout":            {408, "", fault.ModelUnavailable, "408"},
		"an error of its own":  {500, "", fault.ModelUnavailable, "500"},
	} {
		_, err := answering(t, c.status, nil, c.body).Complete(t.Context(), model.Call{User: "hello"})
		assert.True(t, fault.Is(err, c.code) && strings.Contains(err.Error(), c.says),
			"%s: got %v (%s), want %q (%s)", name, err, fault.CodeOf(err), c.says, c.code)
		assert.False(t, strings.Contains(fmt.Sprint(err), "sk-secret"), "%s: the key is in %v", name, err)
	}
	for says, code := range map[string]fault.Code{ // OpenAI, vLLM, llama.cpp, a router, a server with texts alone; a page
		`400 image_url is only supported by certain models`: fault.PicturesRefused,
		`400 m is not a multimodal model`:                   fault.PicturesRefused,
		`500 image input is not supported`:                  fault.PicturesRefused,
		`404 No endpoints found that support image input`:   fault.PicturesRefused,
		`422 content: Input should be a valid string`:       fault.PicturesRefused,
		`422 model: Input should be a valid string`:         fault.ModelRefused,
		`500 m is not a multimodal model`:                   fault.ModelUnavailable,
		`400 rejected by our safety system`:                 fault.ModelRejected, `400 the image is too small`: fault.ModelRefused,
		`400 this model's maximum context length with multimodal inputs is 4096 tokens`: fault.ModelRejected,
	} {
		status, message, _ := strings.Cut(says, " ")
		number := musttest.Get(strconv.Atoi(status))(t)
		call := model.Call{User: "hello", Pictures: [][]byte{model.ProbePicture()}}
		_, err := answering(t, number, nil, `{"error":{"message":"`+message+`"}}`).Complete(t.Context(), call)
		assert.Equal(t, code, fault.CodeOf(err), says)
	}
}

func TestSecretsInTheAddressStayOutOfErrors(t *testing.T) {
	cfg := openai.Config{BaseURL: "http://me:hidden@127.0.0.1:1/v1", APIKey: "k", Model: "m"}
	_, err := openai.New(cfg).Complete(t.Context(), model.Call{Task: model.Answer, User: "hello"})
	assert.True(t, fault.Is(err, fault.ModelUnavailable) && fault.As(err).Hint != "" && !strings.Contains(err.Error(), "hidden") &&
		strings.Contains(err.Error(), "127.0.0.1:1/v1"), "got %v", err)
}

func answering(t *testing.T, status int, headers map[string]string, body string) *openai.Client {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return openai.New(openai.Config{BaseURL: server.URL, APIKey: "sk-secret-key", Model: "m"})
}

// Promises: 70.
func TestMillisecondsToWaitComeBeforeSeconds(t *testing.T) {
	for name, c := range map[string]struct {
		headers map[string]string
		want    time.Duration
	}{
		"milliseconds":         {map[string]string{"Retry-After-Ms": "250"}, 250 * time.Millisecond},
		"both":                 {map[string]string{"Retry-After-Ms": "1500", "Retry-After": "2"}, 1500 * time.Millisecond},
		"nonsense and seconds": {map[string]string{"Retry-After-Ms": "soon", "Retry-After": "2"}, 2 * time.Second},
		"without end":          {map[string]string{"Retry-After-Ms": "1e300"}, fault.LongestRetryAfter},
		"seconds":              {map[string]string{"Retry-After": "7"}, 7 * time.Second},
		"part of a second":     {map[string]string{"Retry-After": "0.5"}, 500 * time.Millisecond},
		"a negative number":    {map[string]string{"Retry-After": "-3"}, 0},
		"nonsense":             {map[string]string{"Retry-After": "soon"}, 0},
		"nothing":              {nil, 0},
		"days":                 {map[string]string{"Retry-After": "259200"}, fault.LongestRetryAfter},
		"a date in years":      {map[string]string{"Retry-After": "Fri, 31 Dec 2100 23:59:59 GMT"}, fault.LongestRetryAfter},
		"a date that is over":  {map[string]string{"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, 0},
	} {
		_, err := answering(t, 429, c.headers, "").Complete(t.Context(), model.Call{User: "hello"})
		assert.Equal(t, c.want, fault.RetryAfter(err), "%s: %v", name, err)
	}
	soon := map[string]string{"Retry-After": time.Now().Add(200 * time.Second).UTC().Format(http.TimeFormat)}
	_, err := answering(t, 429, soon, "").Complete(t.Context(), model.Call{User: "hello"})
	assert.InDelta(t, 150, fault.RetryAfter(err).Seconds(), 50, "a date")
}

// Promises: 70.
func TestAServersWordOnAskingAgainCounts(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		word   string
		body   string
		code   fault.Code
	}{
		"a refusal that passes":       {400, "true", "warming up", fault.ModelUnavailable},
		"an error that stays":         {500, "false", "no such backend", fault.ModelRefused},
		"a limit that stays":          {429, "false", "", fault.ModelQuota},
		"a limit that passes":         {429, "true", "", fault.ModelRateLimited},
		"a key is wrong all the same": {401, "true", "", fault.ModelAuth},
		"a text that is too long": {400, "false", `{"error":{"code":"context_length_exceeded","message":"8192"}}`,
			fault.ModelRejected},
		"another word": {503, "perhaps", "", fault.ModelUnavailable},
	} {
		client := answering(t, c.status, map[string]string{"x-should-retry": c.word}, c.body)
		_, err := client.Complete(t.Context(), model.Call{User: "hello"})
		assert.True(t, fault.Is(err, c.code), "%s: %v (%s), want %s", name, err, fault.CodeOf(err), c.code)
	}
}

// Promises: 70.
func TestWhatIsLeftOfAQuotaIsTold(t *testing.T) {
	soon := func(unit time.Duration) string {
		return fmt.Sprint(time.Now().Add(40*time.Second).UnixNano() / int64(unit))
	}
	known := func(count int64, reset time.Duration) model.Left {
		return model.Left{Known: true, Count: count, Reset: reset}
	}
	for name, c := range map[string]struct {
		status  int
		headers map[string]string
		want    model.Quota
	}{
		"of both": {200, map[string]string{
			"x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": "1s",
			"x-ratelimit-remaining-tokens": "149984", "x-ratelimit-reset-tokens": "6m0s",
		}, model.Quota{Requests: known(59, time.Second), Tokens: known(149984, fault.LongestRetryAfter)}},
		"of a refusal": {429, map[string]string{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20ms"},
			model.Quota{Requests: known(0, 20*time.Millisecond)}},
		"in seconds": {200, map[string]string{"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "7.66"},
			model.Quota{Tokens: known(5, 7660*time.Millisecond)}},
		"of what is not said": {200, map[string]string{"x-ratelimit-remaining": "3", "x-ratelimit-reset": "9"},
			model.Quota{Requests: known(3, 9*time.Second)}},
		"until a time": {200, map[string]string{"x-ratelimit-remaining": "0", "x-ratelimit-reset": soon(time.Second)},
			model.Quota{Requests: known(0, 40*time.Second)}},
		"until a time in milliseconds": {200, map[string]string{
			"x-ratelimit-remaining": "0", "x-ratelimit-reset": soon(time.Millisecond),
		}, model.Quota{Requests: known(0, 40*time.Second)}},
		"without a time": {200, map[string]string{
			"x-ratelimit-remaining-requests": "4", "x-ratelimit-reset-requests": "in a while",
		}, model.Quota{Requests: known(4, 0)}},
		"nonsense": {200, map[string]string{
			"x-ratelimit-remaining-requests": "many", "x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-tokens": "NaN",
		}, model.Quota{}},
		"below zero, which says unknown": {200,
			map[string]string{"x-ratelimit-remaining-requests": "-1", "x-ratelimit-reset-requests": "-1s"}, model.Quota{}},
		"nothing": {200, nil, model.Quota{}},
	} {
		var report []model.Quota
		ctx := model.OnQuota(t.Context(), func(quota model.Quota) { report = append(report, quota) })
		client := answering(t, c.status, c.headers, says(`{"prompt_tokens":2,"completion_tokens":3}`))
		_, _ = client.Complete(ctx, model.Call{User: "hello"})
		require.Len(t, report, 1, "%s: reports", name)
		near := func(got, want model.Left) bool {
			off := (got.Reset - want.Reset).Abs()
			return got.Known == want.Known && got.Count == want.Count && off < 3*time.Second &&
				(want.Reset > 30*time.Second || off < time.Microsecond)
		}
		assert.True(t, near(report[0].Requests, c.want.Requests) && near(report[0].Tokens, c.want.Tokens),
			"%s: got %+v, want %+v", name, report[0], c.want)
	}
}

func hostile(t *testing.T, serve http.HandlerFunc) *openai.Client {
	return hostileWithin(t, long, serve)
}

func hostileWithin(t *testing.T, timeout time.Duration, serve http.HandlerFunc) *openai.Client {
	server := httptest.NewServer(serve)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return openai.New(openai.Config{BaseURL: server.URL, APIKey: "k", Model: "m", Timeout: timeout})
}

func says(usage string) string {
	return `{"choices":[{"message":{"content":"one two three"}}],"usage":` + usage + `}`
}

func TestABodyThatIsLongerThanWhatWasAskedForEndsTheRequest(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"without an end": func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, strings.Repeat(" ", 64<<10)); err != nil {
					return
				}
			}
		},
		"of a gigabyte": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(1<<30))
			w.WriteHeader(http.StatusOK)
		},
	} {
		_, err := hostile(t, serve).Complete(t.Context(), model.Call{User: "hello"})
		assert.True(t, fault.Is(err, fault.ModelUnavailable) && strings.Contains(err.Error(), "longer than"),
			"%s: %v", name, err)
	}
}

func TestADripEndsWithTheTimeOfItsRequest(t *testing.T) {
	client := hostileWithin(t, time.Second, func(w http.ResponseWriter, request *http.Request) {
		for request.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(50 * time.Millisecond)
		}
	})
	musttest.Refuse(client.Complete(t.Context(), model.Call{User: "hello"}))(t, fault.ModelUnavailable)
}

func TestUsageThatCannotBeIsReplacedByOurCount(t *testing.T) {
	question := strings.Repeat("a question of some words ", 40) // about 200 tokens
	for usage, doubted := range map[string]bool{
		`{"prompt_tokens":210,"completion_tokens":4}`:                 false,
		`{"prompt_tokens":210,"completion_tokens":3000}`:              false, // reasoning
		`{"prompt_tokens":-2000000000000000,"completion_tokens":4}`:   true,
		`{"prompt_tokens":1000000000000000000,"completion_tokens":4}`: true,
		`{"prompt_tokens":1e300,"completion_tokens":"many"}`:          true,
		`{"prompt_tokens":210,"completion_tokens":1000000000000}`:     true,
		`{"prompt_tokens":0,"completion_tokens":0}`:                   true, `{"prompt_tokens":1,"completion_tokens":4}`: true,
		`null`: true, `["none"]`: true,
	} {
		client := hostile(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, says(usage)) })
		reply, err := client.Complete(t.Context(), model.Call{User: question})
		report := reply.Usage
		assert.True(t, err == nil && report.Doubted == doubted && report.Prompt >= 150 && report.Prompt <= 300 &&
			report.Completion >= 1 && report.Completion <= 3000, "%s: %+v %v", usage, report, err)
	}
}

// What a server takes is found out once, by its words of a name; a size is that of one text.
func TestTheLimitOfAnAnswerIsSentInTheFormThatTheServerTakes(t *testing.T) {
	for name, c := range map[string]struct {
		refuses, says string
		sent          []string // names of the limit in the requests of two calls
		fails         bool
	}{
		"takes max_tokens": {"nothing at all", "", []string{"max_tokens", "max_tokens"}, false},
		"requires the other name": {`"max_tokens"`,
			"Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
			[]string{"max_tokens", "max_completion_tokens", "max_completion_tokens"}, false},
		"knows no limit": {`_tokens"`, "Unknown parameter: max_tokens or max_completion_tokens.",
			[]string{"max_tokens", "max_completion_tokens", "", ""}, false},
		"has a small window": {`_tokens"`, "This model's maximum context length is 8192 tokens.",
			[]string{"max_tokens", "", "max_tokens", ""}, false},
		"gives shorter answers": {`_tokens"`,
			"max_tokens is too large: 16386. This model supports at most 4096 completion tokens.",
			[]string{"max_tokens", "", "max_tokens", ""}, false},
		"means another context": {"{", "Cannot bind the request in this security context.",
			[]string{"max_tokens", "max_tokens"}, true},
		"has a text that is too long": {"{", "This model's maximum context length is 8192 tokens.",
			[]string{"max_tokens", "", "max_tokens", ""}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var sent []string
			client := hostile(t, func(w http.ResponseWriter, request *http.Request) {
				raw, _ := io.ReadAll(request.Body)
				limit := ""
				for _, name := range []string{"max_tokens", "max_completion_tokens"} {
					if strings.Contains(string(raw), `"`+name+`"`) {
						limit = name
					}
				}
				sent = append(sent, limit)
				if strings.Contains(string(raw), c.refuses) {
					w.WriteHeader(http.StatusBadRequest)
					_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, c.says)
					return
				}
				_, _ = io.WriteString(w, says(`{"prompt_tokens":2,"completion_tokens":3}`))
			})
			var metered account
			chat := model.MeterChat(client, &metered)
			for range 2 {
				_, err := chat.Complete(t.Context(), model.Call{User: "hello"})
				require.True(t, (err != nil) == c.fails, "%v", err)
			}
			assert.True(t, slices.Equal(sent, c.sent), "%q, want %q", sent, c.sent)
			metered.check(t, len(sent), 2, c.fails)
		})
	}
}

// A limit of the caller's own is kept, whatever a server says of it: what is asked for must not cost more.
func TestTheCallersLimitOfAReplyIsSentAndNeverLeftOut(t *testing.T) {
	var sent []string
	refuses := false
	client := hostile(t, func(w http.ResponseWriter, request *http.Request) {
		var body struct {
			MaxTokens json.Number `json:"max_tokens"`
		}
		_ = json.NewDecoder(request.Body).Decode(&body)
		sent = append(sent, body.MaxTokens.String())
		if refuses {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"This model's maximum context length is 8192 tokens."}}`)
			return
		}
		_, _ = io.WriteString(w, says(`{"prompt_tokens":2,"completion_tokens":3}`))
	})
	musttest.Get(client.Complete(t.Context(), model.Call{User: "hello", Most: 7}))(t)
	musttest.Get(client.Complete(t.Context(), model.Call{User: "hello", Most: 1 << 30}))(t)
	refuses = true
	assert.Error(t, musttest.Err(client.Complete(t.Context(), model.Call{User: "hello", Most: 9})), "it is answered")
	assert.Error(t, musttest.Err(client.Complete(t.Context(), model.Call{User: "hello", Most: 1 << 30})), "it is answered")
	// A limit that is above ours is not the caller's own: as without one, none is sent at last.
	assert.Equal(t, []string{"7", "16386", "9", "16386", ""}, sent)
}

func TestASecretThatAServerRepeatsInItsAnswerIsTakenOut(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	redact.Register(secret, "horses")
	client := hostile(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"of `+secret+`, horses, token=abcdefgh1"}}]}`)
	})
	reply, err := client.Complete(t.Context(), model.Call{User: "hello"})
	want := "of " + redact.Mark + ", horses, token=abcdefgh1"
	assert.True(t, err == nil && reply.Text == want, "%q, %v", reply.Text, err)
}

// A server that repeats what it was sent may do so where its words are cut: the part of a key that is left is no whole
// one.
func TestASecretThatIsCutIsTakenOut(t *testing.T) {
	const secret = "zebra" + "quagmire" + "walnut"
	redact.Register(secret)
	for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
		client := hostile(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, strings.Repeat("x", 189)+" "+secret+strings.Repeat(" y", 9))
		})
		_, err := client.Complete(t.Context(), model.Call{User: "hello"})
		assert.True(t, err != nil && !strings.Contains(err.Error(), secret[:5]) && strings.Contains(err.Error(), redact.Mark),
			"%d: %v", status, err)
	}
}

// What is not read of an answer takes no memory.
func TestEmptyChoicesTakeNoMemory(t *testing.T) {
	body := `{"choices":[{"message":{"content":"Oslo"}}` + strings.Repeat(",{}", 400_000) + `]}`
	client := hostile(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	reply, err := client.Complete(t.Context(), model.Call{User: "Where?"})
	runtime.ReadMemStats(&after)
	require.True(t, err == nil && reply.Text == "Oslo", "%q, %v", reply.Text, err)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(30*len(body)))
}

package openai_test

import (
	"encoding/json"
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

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
)

func hostile(t *testing.T, serve http.HandlerFunc) *openai.Client {
	t.Helper()
	return hostileWithin(t, long, serve)
}

func hostileWithin(t *testing.T, timeout time.Duration, serve http.HandlerFunc) *openai.Client {
	t.Helper()
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
		t.Run(name, func(t *testing.T) {
			_, err := hostile(t, serve).Complete(t.Context(), model.Call{User: "hello"})
			assert.True(t, fault.Is(err, fault.ModelUnavailable) && strings.Contains(err.Error(), "longer than"), "%v", err)
		})
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
	_, err := client.Complete(t.Context(), model.Call{User: "hello"})
	assert.True(t, fault.Is(err, fault.ModelUnavailable), "%v", err)
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
		`{"prompt_tokens":0,"completion_tokens":0}`:                   true,
		`{"prompt_tokens":1,"completion_tokens":4}`:                   true,
		`null`:     true,
		`["none"]`: true,
	} {
		client := hostile(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, says(usage)) })
		reply, err := client.Complete(t.Context(), model.Call{User: question})
		report := reply.Usage
		assert.True(t, err == nil && report.Doubted == doubted && report.Prompt >= 150 && report.Prompt <= 300 &&
			report.Completion >= 1 && report.Completion <= 3000, "%s: %+v %v", usage, report, err)
	}
}

func TestAServersWishToBeWaitedForIsBounded(t *testing.T) {
	client := hostile(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "99999999")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	_, err := client.Complete(t.Context(), model.Call{User: "hello"})
	assert.Equal(t, fault.LongestRetryAfter, fault.RetryAfter(err), "%v", err)
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
			paid := int64(2)
			if c.fails {
				paid = 0
			}
			if all := int64(len(sent)); metered.begun != all || metered.ended != all || metered.paid != paid {
				t.Errorf("%d requests are metered as %d, %d and %d paid", all, metered.begun, metered.ended, metered.paid)
			}
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
	_, err := client.Complete(t.Context(), model.Call{User: "hello", Most: 7})
	require.NoError(t, err)
	_, err = client.Complete(t.Context(), model.Call{User: "hello", Most: 1 << 30})
	require.NoError(t, err)
	refuses = true
	_, err = client.Complete(t.Context(), model.Call{User: "hello", Most: 9})
	assert.Error(t, err, "it is answered")
	_, err = client.Complete(t.Context(), model.Call{User: "hello", Most: 1 << 30})
	assert.Error(t, err, "it is answered")
	// A limit that is above ours is not the caller's own: as without one, none is sent at last.
	want := []string{"7", "16386", "9", "16386", ""}
	assert.True(t, slices.Equal(sent, want), "%q, want %q", sent, want)
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

package openai_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
)

// answering gives a client of a server that answers with a status, headers and a body.
func answering(t *testing.T, status int, headers map[string]string, body string) *openai.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return openai.New(openai.Config{BaseURL: server.URL, Model: "m"})
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
		"days":                 {map[string]string{"Retry-After": "259200"}, fault.LongestRetryAfter},
		"a date in years":      {map[string]string{"Retry-After": "Fri, 31 Dec 2100 23:59:59 GMT"}, fault.LongestRetryAfter},
		"a date that is over":  {map[string]string{"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := answering(t, 429, c.headers, "").Complete(t.Context(), model.Call{User: "hello"})
			assert.Equal(t, c.want, fault.RetryAfter(err), "%v", err)
		})
	}
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
		t.Run(name, func(t *testing.T) {
			client := answering(t, c.status, map[string]string{"x-should-retry": c.word}, c.body)
			_, err := client.Complete(t.Context(), model.Call{User: "hello"})
			assert.True(t, fault.Is(err, c.code), "%v (%s), want %s", err, fault.CodeOf(err), c.code)
		})
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
			"x-ratelimit-remaining-requests": "many", "x-ratelimit-reset-requests": "1s",
			"x-ratelimit-remaining-tokens": "NaN",
		}, model.Quota{}},
		"below zero, which says unknown": {200,
			map[string]string{"x-ratelimit-remaining-requests": "-1", "x-ratelimit-reset-requests": "-1s"}, model.Quota{}},
		"nothing": {200, nil, model.Quota{}},
	} {
		t.Run(name, func(t *testing.T) {
			var report []model.Quota
			ctx := model.OnQuota(t.Context(), func(quota model.Quota) { report = append(report, quota) })
			client := answering(t, c.status, c.headers, says(`{"prompt_tokens":2,"completion_tokens":3}`))
			_, _ = client.Complete(ctx, model.Call{User: "hello"})
			require.Len(t, report, 1, "reports")
			near := func(got, want model.Left) bool {
				off := (got.Reset - want.Reset).Abs()
				return got.Known == want.Known && got.Count == want.Count && off < 3*time.Second &&
					(want.Reset > 30*time.Second || off < time.Microsecond)
			}
			assert.True(t, near(report[0].Requests, c.want.Requests) && near(report[0].Tokens, c.want.Tokens),
				"got %+v, want %+v", report[0], c.want)
		})
	}
}

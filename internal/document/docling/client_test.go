package docling_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/document/docling"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// A server that is busy is waited for; one without a connection or a right key is down, which a file that it refuses
// or a task that it loses does not say. No error has its address.
func TestWhatARefusalMeans(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int // of the first answer at path; 0: nothing listens
		path   string
		after  string
		fails  string // empty: it converts
		down   bool
	}{
		"busy":           {http.StatusServiceUnavailable, "/v1/convert/file/async", "0", "", false},
		"busy polled":    {http.StatusTooManyRequests, "/v1/status/poll/t-1", "0", "", false},
		"busy for long":  {http.StatusTooManyRequests, "/v1/convert/file/async", "500", "it was not done within 1s", false},
		"out of service": {http.StatusServiceUnavailable, "/v1/convert/file/async", "", "503", false},
		"file refused":   {http.StatusRequestEntityTooLarge, "/v1/convert/file/async", "", "413", false},
		"key refused":    {http.StatusUnauthorized, "/v1/convert/file/async", "", "401", true},
		"no such path":   {http.StatusNotFound, "/v1/convert/file/async", "", "404", true},
		"task lost":      {http.StatusNotFound, "/v1/status/poll/t-1", "", "404", false},
		"not there":      {0, "", "", "connection refused", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := &documenttest.Docling{Answer: func(raw string) (string, string) { return raw + "!", "success" }}
			refused := false
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				if request.URL.Path != c.path || refused {
					fake.ServeHTTP(w, request)
					return
				}
				refused = true
				if c.after != "" {
					w.Header().Set("Retry-After", c.after)
				}
				w.WriteHeader(c.status)
			}))
			defer server.Close()
			if c.status == 0 {
				server.Close()
			}
			waits, longest := 0, time.Minute
			if c.after == "500" {
				longest = time.Second
			}
			text, err := (&docling.Client{BaseURL: server.URL, Timeout: longest}).Convert(
				t.Context(), "a.pdf", []byte("words"), func() { waits++ })
			if c.fails == "" {
				assert.NoError(t, err)
				assert.Equal(t, "words!\n\f\n", text)
				assert.Equal(t, 5, waits, "a post, two polls, a result, and what was refused")
				return
			}
			assert.ErrorContains(t, err, c.fails)
			assert.Equal(t, c.down, errors.Is(err, docling.ErrDown), "%v", err)
			assert.NotContains(t, err.Error(), server.Listener.Addr().String())
			assert.NotErrorIs(t, err, docling.ErrFile)
		})
	}
}

func TestAKeyThatIsRepeatedIsTakenOut(t *testing.T) {
	const secret = "marmalade-and-toast-at-noon"
	redact.Register(secret)
	server := httptest.NewServer(&documenttest.Docling{Key: secret, Answer: func(string) (string, string) {
		return "with " + secret, "success"
	}})
	defer server.Close()
	text, err := (&docling.Client{BaseURL: server.URL, APIKey: secret, Timeout: time.Minute}).Convert(
		t.Context(), "a.pdf", []byte("words"), func() {})
	assert.True(t, err == nil && strings.HasPrefix(text, "with "+redact.Mark), "%q, %v", text, err)
}

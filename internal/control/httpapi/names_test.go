package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control/httpapi"
)

func TestANameThatCouldBeAPathReachesNothing(t *testing.T) {
	asked := &recorder{}
	server := httptest.NewServer(httpapi.Handler(asked, httpapi.Access{Token: "token"}))
	defer server.Close()
	post := func(method, body string) (int, string) {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+httpapi.Prefix+method,
			strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer token")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		raw, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(raw)
	}
	for _, method := range []string{"status", "pause", "resume", "cancel", "lost", "generations", "restore"} {
		for _, name := range []string{
			"../../../../etc", "docs/../x", "/etc", "docs//g1", "", "a/b/c/d", "docs/g1#../x", "docs\\u0000", "_access",
		} {
			if status, text := post(method, `{"name":"`+name+`"}`); status != http.StatusConflict ||
				!strings.Contains(text, `"usage"`) {
				t.Errorf("%s %s: %d %s", method, name, status, text)
			}
		}
	}
	if status, text := post("audit", `{"index":"../x"}`); status != http.StatusConflict {
		t.Errorf("audit: %d %s", status, text)
	}
	if status, text := post("index", `{"spec":{"index":"../x"}}`); status != http.StatusConflict {
		t.Errorf("index: %d %s", status, text)
	}
	for _, body := range []string{
		`{"index":"../x"}`, `{"index":"docs","generation":"../../x"}`, `{"index":"docs","name":"a/b"}`,
	} {
		status, text := post("move", body)
		assert.True(t, status == http.StatusConflict, "move: %d %s", status, text)
	}
	assert.True(t, asked.asked == nil, "it came through: %v", asked.asked)
	for _, name := range []string{"docs", "docs/g1", "build/docs/g1", "docs/g1#3f0c-aa"} {
		status, text := post("status", `{"name":"`+name+`"}`)
		assert.True(t, status == http.StatusOK, "%s: %d %s", name, status, text)
	}
}

package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/starter/cli"
)

// A URL of query-api is asked with the key of the environment; no embedded stack is looked for.
func TestAQueryAsksTheAddressThatIsConfigured(t *testing.T) {
	t.Chdir(t.TempDir())
	var key, path string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		key, path = request.Header.Get("Authorization"), request.URL.Path
		if strings.Contains(path, "none") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"code":"index_unknown","detail":"query none: no such index","hint":"build it"}`))
			return
		}
		_, _ = w.Write([]byte(`{"index":"docs","answer":{"text":"From afar."}}`))
	}))
	defer server.Close()
	env := []string{"UNWEAVER_QUERY_API_ADDRESS=" + server.URL + "/", "UNWEAVER_API_KEY=uw_key"}
	got := in(t, nil, env, "query", "Who?", "--index", "docs")
	if got.exit != cli.ExitDone || !strings.Contains(got.out, "From afar.") || key != "Bearer uw_key" ||
		path != "/v1/indexes/docs/query" {
		t.Errorf("%+v, key %q, path %q", got, key, path)
	}
	got = in(t, nil, env, "query", "Who?", "--index", "none", "--json")
	assert.True(t, got.exit == cli.ExitFailed && strings.Count(got.out+got.err, "(build it)") <= 1, "%+v", got)
	var failed struct{ Hint string }
	if err := json.Unmarshal([]byte(got.out+got.err), &failed); err != nil || failed.Hint != "build it" {
		t.Errorf("%v: %+v", err, got)
	}
}

func TestAKeyLastsForDays(t *testing.T) {
	t.Chdir(t.TempDir())
	for given, says := range map[string]string{
		"-1d": "whole days", "1.5d": "whole days", "soon": "90d, 36h", "40000d": "whole days",
	} {
		got := in(t, nil, nil, "keys", "create", "--expires", given)
		assert.True(t, got.exit == cli.ExitUsage && strings.Contains(got.err, says), "%s: %+v", given, got)
	}
	got := in(t, nil, nil, "keys", "create", "--expires", "90d")
	assert.True(t, got.exit != cli.ExitUsage, "%+v", got)
}

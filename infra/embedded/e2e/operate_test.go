package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// A program fills an index, builds and asks it over the public API alone, from the start of a run on.
func TestAnIndexIsFilledBuiltAndAskedOverHTTP(t *testing.T) {
	folder := write(t, map[string]string{"oslo.txt": "Oslo is the capital of Norway."})
	completed(t, index(t, shared.Control, spec(t, "filled", folder, nil)))
	send := func(method, path, body string) (int, map[string]any) {
		request := musttest.Get(http.NewRequestWithContext(t.Context(), method, shared.HTTP+"/v1/indexes/filled"+path,
			strings.NewReader(body)))(t)
		request.Header.Set("Authorization", "Bearer "+shared.Token)
		request.Header.Set("Idempotency-Key", "once")
		response := musttest.Get(http.DefaultClient.Do(request))(t)
		defer func() { _ = response.Body.Close() }()
		var out map[string]any
		if response.StatusCode != http.StatusNoContent {
			require.NoError(t, json.NewDecoder(response.Body).Decode(&out))
		}
		return response.StatusCode, out
	}
	status, out := send("PUT", "/documents/cities/quito.txt", "Quito is the capital of Ecuador.")
	require.True(t, status == 201 && out["created"] == true, "%d %v", status, out)
	status, started := send("POST", "/runs", "")
	run, _ := started["generation"].(string)
	require.True(t, status == 202 && started["attached"] == false && run != "", "%d %v", status, started)
	status, out = send("GET", "/runs/"+run, "")
	require.True(t, status == 200, "at once: %d %v", status, out)
	completed(t, wait(t, shared.Control, "filled/"+run))
	status, out = send("POST", "/runs", "") // of who lost the answer
	assert.True(t, status == 202 && out["attached"] == true && out["generation"] == run, "%d %v", status, out)
	found := chunksOf(ask(t, shared.HTTP, "filled", "What is the capital of Ecuador?", nil))
	assert.Equal(t, "cities/quito.txt", found[0]["document"])
	status, out = send("POST", "/runs/"+run+"/pause", "")
	assert.True(t, status == 409 && out["code"] == "run_ended", "%d %v", status, out)
}

package api_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/telemetry/webhook"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/query-api/api"
)

// Signed hints are kept, once each; everything else is refused in words that do not say which indexes there are.
func TestHintsAreTakenWithAFreshSignatureOfTheirIndexAlone(t *testing.T) {
	const secret = "0123456789abcdef"
	f := serve(t, func(_ *fixture, config *api.Config) {
		config.HintSecrets = map[string]string{"sample": secret}
		config.Policy.Required = true
	})
	send := func(index, id, key, body string, at time.Time) (int, string) {
		stamp := strconv.FormatInt(at.Unix(), 10)
		signature := "v1,old " + webhook.Sign(key, id, stamp, []byte(body))
		if key == "none" {
			signature = ""
		}
		recorder := f.send(http.MethodPost, "/v1/indexes/"+index+"/hints", body, "Content-Type", "application/json",
			webhook.HeaderID, id, webhook.HeaderTimestamp, stamp, webhook.HeaderSignature, signature)
		return recorder.Code, recorder.Body.String()
	}
	now, good := time.Now(), `{"keys":["a.md","sub/b.md"]}`
	unread := strings.Repeat(" ", 65<<10) // who reads it refuses its size
	for name, tc := range map[string]struct {
		index, id, key, body string
		at                   time.Time
		status               int
		says                 string
	}{
		"signed":             {"sample", "1", secret, good, now, 202, `"keys":2`},
		"another secret":     {"sample", "2", "fedcba9876543210", good, now, 401, "takes no hints"},
		"an empty secret":    {"sample", "3", "", good, now, 401, "takes no hints"},
		"another index":      {"other", "4", secret, good, now, 401, "takes no hints"},
		"no secret, no hint": {"other", "4", "", good, now, 401, "takes no hints"},
		"too old":            {"sample", "5", secret, unread, now.Add(-6 * time.Minute), 401, "5 minutes"},
		"too early":          {"sample", "6", secret, good, now.Add(6 * time.Minute), 401, "5 minutes"},
		"no id":              {"sample", "", secret, unread, now, 401, "header is missing"},
		"no signature":       {"sample", "12", "none", unread, now, 401, "header is missing"},
		"signed, too large":  {"sample", "13", secret, unread, now, 413, "64 KiB"},
		"outside":            {"sample", "7", secret, `{"keys":["../../etc/passwd"]}`, now, 422, "outside"},
		"too long":           {"sample", "8", secret, `{"keys":["` + strings.Repeat("k", 1025) + `"]}`, now, 422, "1,024"},
		"none":               {"sample", "9", secret, `{"keys":[]}`, now, 422, "1 to 1000"},
		"too many":           {"sample", "10", secret, `{"keys":["k"` + strings.Repeat(`,"k"`, 1e3) + `]}`, now, 422, "1001"},
		"misspelt":           {"sample", "11", secret, `{"key":["a.md"]}`, now, 422, "unknown field"},
	} {
		status, says := send(tc.index, tc.id, tc.key, tc.body, tc.at)
		assert.True(t, status == tc.status && strings.Contains(says, tc.says), "%s: %d %s", name, status, says)
	}
	status, says := send("sample", "1", secret, good, now)
	require.Equal(t, 202, status, says)
	kept := 0
	for _, err := range f.store.List(t.Context(), "sample/hints/inbox/", "") {
		require.NoError(t, err)
		kept++
	}
	assert.Equal(t, 1, kept, "a request that is sent again is kept once")
	for i := range core.MostDeliveries - 1 {
		musttest.Get(blob.Write(t.Context(), f.store, fmt.Sprintf("sample/hints/inbox/%d.json", i), []byte("[]"), blob.Cond{}))(t)
	}
	status, says = send("sample", "14", secret, good, now)
	assert.True(t, status == 429 && strings.Contains(says, "wait for a build"), "a full inbox: %d %s", status, says)
	for _, path := range []string{"/v1/indexes/sample", "/v1/indexes/sample/hints", "/v1/indexes/sample%2Fhints"} {
		assert.Equal(t, http.StatusUnauthorized, f.send(http.MethodGet, path, "").Code, "%s needs a key still", path)
	}
	assert.Equal(t, http.StatusUnauthorized, f.send(http.MethodPost, "/v1/indexes/sample%2Fhints", "").Code)
}

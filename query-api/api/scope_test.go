package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// Readiness and metrics name indexes: a key hears of those that it is for.
func TestAKeyForOneIndexHearsOfNoOther(t *testing.T) {
	l := lock(t, nil)
	all := l.key(access.Request{Scope: access.Operate})
	mine := l.key(access.Request{Scope: access.Operate, Index: "samp*"})
	other := l.key(access.Request{Scope: access.Operate, Index: "other"})
	eventually(t, "the index is open", func() bool {
		return l.send("GET", "/readyz", "", bearer(all.Text)...).Code == http.StatusOK
	})
	for name, c := range map[string]struct {
		text     string
		reported bool
		meter    int
	}{
		"of all":     {all.Text, true, http.StatusOK},
		"of this":    {mine.Text, true, http.StatusForbidden},
		"of another": {other.Text, false, http.StatusForbidden},
	} {
		got := l.send("GET", "/readyz", "", bearer(c.text)...)
		reported := strings.Contains(got.Body.String(), "index sample")
		assert.True(t, got.Code == http.StatusOK && reported == c.reported, "%s: %d %s", name, got.Code, got.Body)
		got = l.send("GET", "/metrics", "", bearer(c.text)...)
		assert.True(t, got.Code == c.meter && (c.meter == http.StatusOK || !strings.Contains(got.Body.String(), "sample")),
			"%s: %d %s", name, got.Code, got.Body)
	}
	got := l.send("POST", "/v1/indexes/sample/query", `{"query":"x"}`, bearer(other.Text)...)
	assert.True(t, got.Code == http.StatusNotFound && strings.Contains(got.Body.String(), "or the key is not for it"),
		"%d %s", got.Code, got.Body)
	got = l.send("POST", "/v1/indexes/sample/query", `{"query":"x"}`, append(bearer(all.Text),
		"Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site")...)
	if got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "from its own page only") ||
		!strings.Contains(got.Body.String(), `"hint":"call this server from the backend`) {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

// What was asked of one index is remembered for it alone: a key of another must not find out by asking the same.
func TestNoKeyLearnsWhatWasAskedOfAnotherIndex(t *testing.T) {
	l := lock(t, nil)
	retrievetest.Publish(t, retrievetest.Build(
		t, l.stores, "other-one", retrievetest.Sample()[:2], retrievetest.Options{},
	), 1)
	cached := func(index string) bool {
		key := l.key(access.Request{Scope: access.Query, Index: index}).Text
		var body string
		eventually(t, index+" is open", func() bool {
			got := l.send("POST", "/v1/indexes/"+index+"/query", `{"query":"Who pays for Oslo?"}`,
				append(bearer(key), "Content-Type", "application/json")...)
			body = got.Body.String()
			return got.Code == http.StatusOK
		})
		return strings.Contains(body, `"embed_cached":true`)
	}
	assert.False(t, cached("sample"), "it was never asked")
	assert.False(t, cached("other-one"), "the other index shows that it was asked before")
	assert.True(t, cached("sample"), "it is embedded again")
}

package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

func TestWhatDidNotChangeIsNotSentAgain(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	chunk := "/v1/indexes/sample/chunks/" + retrievetest.ChunkID(retrievetest.Sample()[1], 0).String()
	for path, keep := range map[string]string{
		"/v1/indexes": "no-cache", "/v1/indexes/sample": "no-cache", "/v1/indexes/sample/generations": "no-cache",
		"/v1/indexes/sample/generations/g1": "no-cache", "/v1/indexes/sample/entities": "no-cache",
		"/v1/indexes/sample/documents": "no-cache", "/openapi.json": "no-cache", chunk: "no-cache",
		"/v1/indexes/sample/documents/cities/oslo.txt/text": "no-cache",
		chunk + "?generation=g1":                            "max-age=86400, immutable",
		"/v1/indexes/sample/entities?generation=g1":         "max-age=86400, immutable",
		cursor("/v1/indexes/sample/documents", "g1", 2):     "max-age=86400, immutable",
	} {
		first := f.send("GET", path, "")
		tag := first.Header().Get("ETag")
		if first.Code != 200 || tag == "" || first.Header().Get("Cache-Control") != keep {
			t.Errorf("%s: %d, ETag %q, Cache-Control %q", path, first.Code, tag, first.Header().Get("Cache-Control"))
		}
		for _, given := range []string{tag, `"other", ` + tag, strings.TrimPrefix(tag, "W/")} {
			again := f.send("GET", path, "", "If-None-Match", given)
			if again.Code != http.StatusNotModified || again.Body.Len() > 0 || again.Header().Get("ETag") != tag ||
				again.Header().Get("Cache-Control") != keep {
				t.Errorf("%s with %s: %d %v %s", path, given, again.Code, again.Header(), again.Body)
			}
		}
		for _, given := range []string{`"other"`, "*", ""} {
			again := f.send("GET", path, "", "If-None-Match", given)
			assert.True(t, again.Code == 200 && again.Body.Len() != 0, "%s with %q: %d", path, given, again.Code)
		}
	}
	missing := f.send("GET", "/v1/indexes/sample/documents/nowhere", "")
	assert.True(t, missing.Header().Get("ETag") == "" && missing.Header().Get("Cache-Control") == "no-store",
		"an error is kept: %v", missing.Header())
	if asked := f.send("POST", "/v1/indexes/sample/query", question, "Content-Type", "application/json"); asked.
		Header().Get("Cache-Control") != "no-store" {
		t.Errorf("an answer is kept: %v", asked.Header())
	}
}

func TestAnotherGenerationHasAnotherTag(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	for _, path := range []string{"/v1/indexes/sample/documents", "/v1/indexes/sample", "/v1/indexes"} {
		if f.send("GET", path, "").Header().Get("ETag") == f.send("GET", path+"?", "").Header().Get("ETag") &&
			strings.HasSuffix(path, "documents") {
			t.Error("two addresses share a tag")
		}
	}
	old := f.send("GET", "/v1/indexes/sample/documents", "").Header().Get("ETag")
	card := f.send("GET", "/v1/indexes/sample", "").Header().Get("ETag")
	f.publishNext(2)
	eventually(t, "switched", func() bool { return f.ask(fram)["generation"] == "g2" })
	if got := f.send("GET", "/v1/indexes/sample/documents", "", "If-None-Match", old); got.Code != http.StatusOK {
		t.Errorf("documents of another generation: %d", got.Code)
	}
	if got := f.send("GET", "/v1/indexes/sample", "", "If-None-Match", card); got.Code != http.StatusOK {
		t.Errorf("the card of another generation: %d", got.Code)
	}
}

// What a key may read must not be kept by a cache that others use.
func TestAnswersForAKeyArePrivate(t *testing.T) {
	l := lock(t, nil)
	key := l.key(access.Request{Scope: access.Query})
	for _, path := range []string{"/v1/indexes", "/v1/indexes/sample/entities?generation=g1"} {
		header := l.send("GET", path, "", bearer(key.Text)...).Header()
		if !strings.HasPrefix(header.Get("Cache-Control"), "private, ") ||
			!strings.Contains(strings.Join(header.Values("Vary"), ","), "Authorization") {
			t.Errorf("%s: %v", path, header)
		}
	}
	operate := l.key(access.Request{Scope: access.Operate})
	at := l.built.Index.GenerationKey("g1", "report.json")
	report := core.Report{Status: core.StatusCompleted}
	_, err := blob.WriteJSON(t.Context(), l.stores.Blobs, at, report, blob.Cond{})
	require.NoError(t, err)
	for text, reported := range map[string]bool{key.Text: false, operate.Text: true} {
		got := l.send("GET", "/v1/indexes/sample/generations/g1", "", bearer(text)...)
		assert.True(t, got.Code == 200 && reported == strings.Contains(got.Body.String(), `"report":{`),
			"%d %s", got.Code, got.Body)
	}
}

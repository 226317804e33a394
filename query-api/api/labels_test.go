package api_test

import (
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

// hidden is a document that readers with the label hr may read alone; Oslo is in others, too.
var hidden = retrievetest.Document{
	Key: "hr/pay.txt", Title: "Pay in Zanzibar", Meta: map[string]string{"labels": "hr"}, Chunks: []retrievetest.Chunk{{
		Text: "The capital of Norway pays Zanzibar.", Entities: []string{"Oslo", "Zanzibar", "Norway"},
	}},
}

func withLabels(spec *core.Spec) {
	spec.Documents = &core.Documents{Labels: core.Labels{Field: "labels", Rules: []string{"**=public"}}}
}

// withHidden returns the sample with the hidden document.
func withHidden() (out []retrievetest.Document) {
	for _, document := range retrievetest.Sample() {
		if document.Key > hidden.Key && (len(out) == 0 || out[len(out)-1].Key < hidden.Key) {
			out = append(out, hidden)
		}
		out = append(out, document)
	}
	return out
}

// publishLabelled publishes generation g2, whose documents have labels, and g0 before it, whose have none.
func publishLabelled(t *testing.T, f *fixture, documents []retrievetest.Document) retrievetest.Built {
	before := retrievetest.Build(t, f.stores, "sample", documents, retrievetest.Options{
		Generation: "g0", Unasked: true,
	})
	retrievetest.Publish(t, before, 2)
	built := retrievetest.Build(t, f.stores, "sample", documents, retrievetest.Options{
		Generation: "g2", Spec: withLabels, Seq: 2, Unasked: true,
		Edit: func(m *core.Manifest) { m.Hashes.Content.Add(core.Sum(fmt.Sprint(len(documents)))) },
	})
	retrievetest.Publish(t, built, 3)
	return built
}

// lockLabelled serves that.
func lockLabelled(t *testing.T, documents []retrievetest.Document) *locked {
	return lock(t, func(f *fixture, _ *api.Config) { publishLabelled(t, f, documents) })
}

// varying is what of an answer changes from one request to the next.
var varying = regexp.MustCompile(
	`"(request_id|key|reference|timings_ms|instance|age_seconds|published)":("[^"]*"|[^{,}]+|\{[^}]*\})`)

// questions returns bodies that ask about the hidden document, by the path that takes them.
func questions() iter.Seq2[string, string] {
	return func(yield func(path, body string) bool) {
		const words = "Who pays in the capital of Norway?"
		for _, method := range methods.Registry().ListPlain() {
			_ = yield(sampleQuery, fmt.Sprintf(`{"query": %q, "method": %q, "explain": true, "answer": true}`, words, method))
		}
		_ = yield("/v1/query", fmt.Sprintf(`{"indexes": ["sample"], "query": %q, "explain": true}`, words)) &&
			yield("/mcp", fmt.Sprintf(`{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search",
				"arguments": {"index": "sample", "query": %q}}}`, words))
	}
}

// Every route that a key may ask answers as it does where there are no documents but those that the key may read, to a
// key without labels, and to one with others.
// Promises: 170.
func TestEveryRouteAnswersAsIfThereWereNoOtherDocuments(t *testing.T) {
	with, without := lockLabelled(t, withHidden()), lockLabelled(t, retrievetest.Sample())
	places := strings.NewReplacer("cities/oslo.txt", hidden.Key, retrievetest.ClassID("Oslo").String(),
		core.FragmentID("zanzibar", "hr").String())
	chunk := "GET /v1/indexes/sample/chunks/" + retrievetest.ChunkID(hidden, 0).String()
	asked := []string{chunk, "GET /v1/indexes/sample/documents/" + hidden.Key + "/text?generation=g0",
		"GET /v1/indexes/sample/entities/" + core.ClassID("zanzibar").String(),
		"GET /v1/indexes/sample/entities?document=" + hidden.Key}
	for route := range routes(t) {
		asked = append(asked, route, places.Replace(route))
	}
	for _, labels := range [][]string{nil, {"board", "x y"}} {
		readers := access.Request{Scope: access.Query, Labels: labels}
		first, second := with.key(readers), without.key(readers)
		for _, route := range asked {
			got, want := with.attempt(route, bearer(first.Text)), without.attempt(route, bearer(second.Text))
			require.Equal(t, varying.ReplaceAllString(withoutID(want), ""), varying.ReplaceAllString(withoutID(got), ""), route)
			require.Equal(t, want.Code, got.Code, route)
			require.NotContains(t, strings.ToLower(got.Body.String()), "zanzibar", route)
		}
		for path, body := range questions() {
			headers := append(bearer(first.Text), "Accept", "application/json, text/event-stream")
			got := with.send("POST", path, body, headers...)
			headers[1] = "Bearer " + second.Text
			want := without.send("POST", path, body, headers...)
			require.Equal(t, 200, got.Code, "%s: %s", body, got.Body)
			require.Equal(t, varying.ReplaceAllString(withoutID(want), ""), varying.ReplaceAllString(withoutID(got), ""), body)
		}
	}
	for labels, code := range map[string]int{"hr": 200, "*": 200, "hr2": 404} {
		key := with.key(access.Request{Scope: access.Query, Labels: []string{labels}})
		assert.Equal(t, code, with.attempt(chunk, bearer(key.Text)).Code, labels)
		oslo := with.attempt("GET /v1/indexes/sample/entities/"+retrievetest.ClassID("Oslo").String(), bearer(key.Text))
		assert.Equal(t, http.StatusOK, oslo.Code)
		assert.Equal(t, code == 404, oslo.Body.String() == without.attempt("GET /v1/indexes/sample/entities/"+
			retrievetest.ClassID("Oslo").String(), bearer(without.key(access.Request{Scope: access.Query}).Text)).Body.String())
	}
}

// A key without labels gets no tag of one with: what a client kept for another key is not shown.
func TestWhatIsKeptForOneKeyIsNotAnothers(t *testing.T) {
	l := lockLabelled(t, withHidden())
	tags := map[string]bool{}
	for _, labels := range [][]string{nil, {"hr"}} {
		key := l.key(access.Request{Scope: access.Query, Labels: labels})
		got := l.attempt("GET /v1/indexes/sample/documents?generation=g2", bearer(key.Text))
		assert.Equal(t, "private, no-cache", got.Header().Get("Cache-Control"))
		tags[got.Header().Get("ETag")] = true
	}
	assert.Len(t, tags, 2, fmt.Sprint(tags))
	without := lockLabelled(t, retrievetest.Sample()) // no tag says what is in a document that the key may not read
	key := without.key(access.Request{Scope: access.Query})
	got := without.attempt("GET /v1/indexes/sample/documents?generation=g2", bearer(key.Text))
	assert.True(t, tags[got.Header().Get("ETag")])
	plain := lock(t, nil) // its documents may have labels when the client asks again
	for label, want := range map[string]string{"": "private, max-age=86400, immutable", "hr": "private, no-cache"} {
		key := plain.key(access.Request{Scope: access.Query, Labels: strings.Fields(label)})
		got := plain.attempt("GET /v1/indexes/sample/documents?generation=g1", bearer(key.Text))
		assert.Equal(t, want, got.Header().Get("Cache-Control"), label)
	}
}

// Where it is not known whether the documents have labels now, an earlier generation without them is nobody's who may
// not read every document; nor are runs a caller's without a key, who may see those of an index without labels.
func TestWhereLabelsAreNotKnownNothingOfAllDocumentsIsShown(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(f *fixture, g2 retrievetest.Built) error
		code int // of an earlier generation
	}{
		"labelled": {func(*fixture, retrievetest.Built) error { return nil }, 403},
		"unread":   {func(f *fixture, _ retrievetest.Built) error { return nil }, 403},
		"no pointer": {func(f *fixture, g2 retrievetest.Built) error {
			return f.stores.Blobs.Delete(t.Context(), g2.Index.CurrentKey())
		}, 403},
		"damaged pointer": {func(f *fixture, g2 retrievetest.Built) error {
			_, err := blob.Write(t.Context(), f.stores.Blobs, g2.Index.CurrentKey(), []byte("{"), blob.Cond{})
			return err
		}, 503},
		"no manifest": {func(f *fixture, g2 retrievetest.Built) error {
			return f.stores.Blobs.Delete(t.Context(), g2.Index.SegmentKey(g2.SHA))
		}, 503},
	} {
		t.Run(name, func(t *testing.T) {
			l := lock(t, func(f *fixture, config *api.Config) {
				config.Policy.Required, config.Warm = false, []string{"other"}
				g2 := publishLabelled(t, f, withHidden())
				require.NoError(t, c.harm(f, g2))
			})
			l.unchecked = true
			assert.Equal(t, 401, l.attempt("GET /metrics", nil).Code)
			if name == "unread" {
				l.server.EnsureIndex("sample")
			}
			key := l.key(access.Request{Scope: access.Query})
			for _, headers := range [][]string{nil, bearer(key.Text)} {
				for _, route := range []string{"/generations", "/documents/" + hidden.Key + "/text?generation=g0"} {
					got := l.attempt("GET /v1/indexes/sample"+route, headers)
					assert.Equal(t, c.code, got.Code, "%s %s", route, got.Body)
				}
			}
			for _, route := range []string{"/runs", "/runs/g2", "/runs/g2/report", "/trends"} {
				assert.Equal(t, 401, l.attempt("GET /v1/indexes/sample"+route, nil).Code, route)
			}
			operator := l.key(access.Request{Scope: access.Operate, Labels: []string{"*"}})
			assert.NotContains(t, []int{401, 403}, l.attempt("GET /v1/indexes/sample/generations", bearer(operator.Text)).Code)
			assert.NotEqual(t, 401, l.attempt("GET /v1/indexes/sample/runs", bearer(operator.Text)).Code)
			kept := l.attempt("GET /v1/indexes", bearer(operator.Text)).Header()
			assert.Contains(t, kept.Get("Cache-Control"), "private")
			assert.Contains(t, kept.Values("Vary"), "Authorization, X-API-Key")
		})
	}
}

// A generation that was open before the published one serves readers only where it hides what that one hides: it has
// labels and the other can be opened, or the other has none.
func TestTheGenerationBeforeShowsNothingThatIsHiddenNow(t *testing.T) {
	for name, c := range map[string]struct {
		former, labelled, broken bool
		code                     int // of readers without labels
	}{
		"turned on": {false, true, false, 503}, "turned on, broken": {false, true, true, 503},
		"still on": {true, true, false, 200}, "still on, broken": {true, true, true, 503},
		"turned off, broken": {true, false, true, 200}, "never on, broken": {false, false, true, 200},
	} {
		t.Run(name, func(t *testing.T) {
			build := func(f *fixture, generation string, seq int64, labelled, broken bool) retrievetest.Built {
				options := retrievetest.Options{Generation: generation, Seq: seq, Unasked: true}
				if labelled {
					options.Spec = withLabels
				}
				if broken {
					options.Analyser = "en/1"
				}
				return retrievetest.Build(t, f.stores, "sample", withHidden(), options)
			}
			l := lock(t, func(f *fixture, config *api.Config) {
				config.WaitForNew(10 * time.Millisecond)
				retrievetest.Publish(t, build(f, "g2", 2, c.former, false), 2)
			})
			reader, all := l.key(access.Request{Scope: access.Query}), l.key(access.Request{
				Scope: access.Operate, Labels: []string{"*"},
			})
			list := func(key access.Made, query string) *httptest.ResponseRecorder {
				return l.attempt("GET /v1/indexes/sample/documents"+query, bearer(key.Text))
			}
			first := list(reader, "?limit=1")
			require.Equal(t, 200, first.Code)
			next := build(l.fixture, "g3", 3, c.labelled, c.broken)
			split, release := next.Manifest.Segments.Splits[0].SHA256, func() {}
			if !c.broken {
				release = l.store.stall(split)
				defer release()
			}
			retrievetest.Publish(t, next, 3)
			eventually(t, "the published generation is known, and was tried", func() bool {
				ready := l.attempt("GET /readyz?index=sample", bearer(all.Text)).Body.String()
				return !c.broken && l.store.reads(split) > 0 || strings.Contains(ready, "behind")
			})
			got := list(reader, "")
			assert.Equal(t, c.code, got.Code, got.Body)
			assert.Equal(t, 200, list(all, "").Code)
			if c.former && c.labelled && !c.broken { // a list that was begun before ends
				release()
				eventually(t, "open", func() bool { return strings.Contains(list(reader, "").Body.String(), `"g3"`) })
				cursor := regexp.MustCompile(`g2\.[^"]*`).FindString(first.Body.String())
				assert.Equal(t, 410, list(reader, "?limit=1&cursor="+cursor).Code)
				assert.Contains(t, list(reader, "?generation=g2").Body.String(), "not the current generation")
			}
		})
	}
}

// What readers asked is remembered for those who read the same: others must not find out by asking what looks the same.
func TestNoReaderLearnsWhatOthersAsked(t *testing.T) {
	documents := slices.Clone(retrievetest.Sample()[:2])
	documents[0].Meta, documents[1].Meta = map[string]string{"labels": "hr"}, map[string]string{"labels": "hr2"}
	l := lockLabelled(t, documents)
	cached := func(label, question string) bool {
		key := l.key(access.Request{Scope: access.Query, Labels: []string{label}})
		got := l.query(fmt.Sprintf(`{"query": %q}`, question), append(bearer(key.Text), "Content-Type", "application/json")...)
		require.Equal(t, 200, got.Code, got.Body)
		return strings.Contains(got.Body.String(), `"embed_cached":true`)
	}
	assert.False(t, cached("hr", "2Oslo"))
	assert.False(t, cached("hr2", "Oslo"))
	assert.True(t, cached("hr2", "Oslo"))
}

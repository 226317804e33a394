package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
	coordination "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/signon"
)

// hidden is a document that readers with the label hr may read alone; Oslo is in others, too. ofEng is one of eng.
var (
	hidden = retrievetest.Document{
		Key: "hr/pay.txt", Title: "Pay of a Dugong9", Meta: map[string]string{"labels": "hr", "quoll8": "okapi9"},
		Chunks: []retrievetest.Chunk{{
			Text: "The capital of Norway pays Zanzibar.", Entities: []string{"Oslo", "Zanzibar", "Norway"},
		}},
	}
	ofEng = retrievetest.Document{
		Key: "eng/plan.txt", Title: "Plan", Meta: map[string]string{"labels": "eng"},
		Chunks: []retrievetest.Chunk{{Text: "The plan of Oslo and Bergen.", Entities: []string{"Oslo", "Bergen"}}},
	}
	// secrets are what no other document than hidden has, and no random id by chance: those have no 8 and no 9.
	secrets = []string{
		hidden.Key, "dugong9", "quoll8", "okapi9", "zanzibar", retrievetest.ChunkID(hidden, 0).String(),
		core.ClassID("zanzibar").String(), core.FragmentID("zanzibar", "hr").String(), core.FragmentID("oslo", "hr").String(),
	}
)

func withLabels(spec *core.Spec) {
	spec.Documents = &core.Documents{Labels: core.Labels{Field: "labels", Rules: []string{"**=public"}}}
}

// withHidden returns the sample with the document of eng and the hidden one.
func withHidden() []retrievetest.Document { return addTo(retrievetest.Sample(), ofEng, hidden) }

func addTo(documents []retrievetest.Document, more ...retrievetest.Document) []retrievetest.Document {
	return slices.SortedFunc(slices.Values(append(documents, more...)), func(a, b retrievetest.Document) int {
		return strings.Compare(a.Key, b.Key)
	})
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

// lockLabelled serves that to keys, and to people of a provider unless it is nil.
func lockLabelled(t *testing.T, p *provider, documents []retrievetest.Document) *locked {
	return lock(t, func(f *fixture, c *api.Config) {
		if publishLabelled(t, f, documents); p != nil {
			c.Policy.SignOn = must(signon.New(p.settings(""), c.Log, p.now))(t)
			quotas := []config.Quota{{Keys: "broke", Requests: new(float64)}, {Keys: "poor", Answers: new(float64)}}
			c.Policy.Quotas = middleware.NewQuotas(quotas, coordination.NewQuotas(nil), c.Log, nil)
		}
	})
}

// varying is what of an answer changes from one request to the next.
var varying = regexp.MustCompile(`(chatcmpl-|resp_|msg_)[0-9A-Z]+|"(request_id|key|reference|timings_ms|instance|` +
	`age_seconds|published|created|created_at|completed_at)":("[^"]*"|[^{,}]+|\{[^}]*\})`)

// request is one that is made from the description. first: the route as it is usually asked.
type request struct {
	api.Route
	path, body string
	first      bool
}

// listRequests returns requests of every route that is not open: with what the sample has, and of scope query with each
// secret in each parameter of the path, of the query and of the body, which of other routes is {}.
func listRequests(t *testing.T) (out []request) {
	real := strings.NewReplacer("{index}", "sample", "{id}", retrievetest.ClassID("Oslo").String(), "{key}",
		"cities/oslo.txt", "{generation}", "g2", "{run}", "g2", "{model}", "unweaver/sample", "{tag}", "t1", "{branch}", "b1")
	described := describe(t)
	routes, _ := api.ListRoutes()
	for _, route := range routes {
		if route.Open {
			continue
		}
		operation, body := described.Paths[route.Path][strings.ToLower(route.Method)], ""
		if operation.RequestBody != nil {
			body = "{}"
		}
		add := func(path, body string) {
			first := len(out) == 0 || out[len(out)-1].ID != route.ID
			out = append(out, request{route, real.Replace(path), body, first})
		}
		if add(route.Path, body); route.Scope == "operate" { // no reader comes so far
			continue
		}
		for _, secret := range secrets {
			bodies := listBodies(t, route.ID, secret)
			require.Equal(t, body == "", len(bodies) == 0, "%s: the test asks for no secrets", route.ID)
			for _, body := range bodies {
				add(route.Path, body)
			}
			for _, one := range operation.Parameters {
				switch asked := route.Path + "?" + one.Name + "=" + secret; {
				case one.In == "path" && one.Name != "index":
					add(strings.ReplaceAll(route.Path, "{"+one.Name+"}", url.PathEscape(secret)), body)
				case one.In == "query":
					add(asked, body)
					if one.Name != "generation" && strings.Contains(fmt.Sprint(operation.Parameters), "{generation query") {
						add(asked+"&generation=g0", body) // which has no labels
					}
				}
			}
		}
	}
	return out
}

// listBodies returns bodies of a route that ask about a secret.
func listBodies(t *testing.T, id, secret string) (out []string) {
	words := "Who pays the " + secret + " in the capital of Norway?"
	var bodies []object
	switch id {
	case "query", "querySeveral":
		for _, method := range retrievetest.ListPlain() {
			bodies = append(bodies, object{"method": method, "explain": true, "answer": true})
		}
		for _, filter := range []object{
			{"document_prefix": secret}, {"metadata": object{secret: "x"}}, {"metadata": object{"quoll8": secret}},
		} {
			bodies = append(bodies, object{"filter": filter})
		}
		bodies = append(bodies, object{"generation": secret}, object{"without": object{"documents": []string{secret}}},
			object{"without": object{"entities": []string{secret}}})
		for _, body := range bodies {
			if body["query"] = words; id == "querySeveral" {
				body["indexes"] = []string{"sam*"}
			}
		}
	case "createChatCompletion":
		bodies = []object{{"model": "unweaver/sample", "messages": []object{{"role": "user", "content": words}}}}
	case "createResponse":
		bodies = []object{{"model": "unweaver/sample", "input": words}}
	case "sendMessage":
		bodies = []object{{"method": "resources/list"}, {"method": "resources/read", "params": object{"uri": secret}}}
		for tool, arguments := range map[string][]object{
			"search": {{"query": words}, {"query": words, "filter": object{"document_prefix": secret}}},
			"answer": {{"query": words}}, "explain": {{"query": words}}, "get_chunk": {{"chunk": secret}},
			"get_document":  {{"document": secret}},
			"list_entities": {{"document": secret}, {"prefix": secret}, {"contains": secret}, {"type": secret}},
			"list_indexes":  {{}},
		} {
			for _, one := range arguments {
				bodies = append(bodies, object{"method": "tools/call", "params": object{"name": tool, "arguments": one}})
			}
		}
		for _, body := range bodies {
			body["jsonrpc"], body["id"] = "2.0", 1
		}
	}
	for _, body := range bodies {
		out = append(out, string(must(json.Marshal(body))(t)))
	}
	return out
}

// try sends a request with a key or a token. shown: the answer has a secret that was not asked for.
func (l *locked) try(one request, key string) (got *httptest.ResponseRecorder, shown bool) {
	got = l.send(one.Method, one.path, one.body, append(bearer(key), "Accept", "application/json, text/event-stream")...)
	said, asked := strings.ToLower(fmt.Sprint(got.Header(), got.Body)), one.body+must(url.QueryUnescape(one.path))(l.t)
	return got, slices.ContainsFunc(secrets, func(secret string) bool {
		return strings.Contains(said, secret) && !strings.Contains(asked, secret)
	})
}

// No request that is not allowed succeeds, whatever its route, key, scope and labels. What a reader may not read is
// answered, to the byte, as what does not exist. New routes of the description are tried by themselves.
// Promises: 140, 160, 170.
func TestNoRequestThatIsNotAllowedSucceeds(t *testing.T) {
	p := startProvider(t)
	with, without := lockLabelled(t, p, withHidden()), lockLabelled(t, p, addTo(retrievetest.Sample(), ofEng))
	with.unchecked, without.unchecked = true, true
	revoked := with.key(access.Request{Scope: access.Admin, Labels: []string{"*"}})
	must(with.book.RevokeKey(t.Context(), revoked.Key.ID))(t)
	expired := with.key(access.Request{Scope: access.Admin, Labels: []string{"*"}, Expires: time.Nanosecond})
	other := with.key(access.Request{Scope: access.Operate, Index: "other-*", Labels: []string{"*"}})
	of := func(groups ...string) string { return p.sign(claim("groups", groups)) }
	const elsewhere = 404 // of routes of an index
	strangers := map[string]int{
		"": 401, "word": 401, anothers(revoked.Text): 401, revoked.Text: 401, expired.Text: 401, other.Text: elsewhere,
		p.sign(claim("aud", "x")): 401, p.sign(inHeader("alg", "none")): 401, of("hr"): 403, of("others", "hr"): elsewhere,
		p.sign(claim("exp", p.now().Add(-time.Hour).Unix())): 401,
	}
	ada, both := of("staff", "eng", "*"), of("staff", "others") // all groups are labels, and none is every document
	readers := [][2]string{{ada, ada}}
	for _, labels := range [][]string{nil, {"eng", "hr2", "x y"}} {
		reader := access.Request{Scope: access.Query, Labels: labels}
		readers = append(readers, [2]string{with.key(reader).Text, without.key(reader).Text})
	}
	broke := with.key(access.Request{Scope: access.Operate, Name: "broke"}).Text
	poor := with.key(access.Request{Scope: access.Operate, Name: "poor"}).Text
	ofHR, operator := of("staff", "hr"), of("operators")
	tried, seen, asks := 0, map[string]bool{}, map[string]bool{}
	for _, one := range listRequests(t) {
		ofIndex := strings.Contains(one.Path, "{index}")
		for key, status := range strangers {
			if !one.first || status == elsewhere && !ofIndex && one.Path != "/metrics" { // lists have other indexes
				continue
			}
			if one.Path == "/metrics" && status == elsewhere {
				status = 403
			}
			got, shown := with.try(one, key)
			tried++
			require.True(t, got.Code == status && !shown, "%.20s, %+v: %d %s", key, one, got.Code, got.Body)
		}
		for _, reader := range readers {
			got, shown := with.try(one, reader[0])
			require.False(t, shown, "%+v: %s", one, got.Body)
			if tried++; one.Scope == "operate" {
				require.Equal(t, 403, got.Code, "%+v: %s", one, got.Body)
				continue
			}
			want, _ := without.try(one, reader[1])
			require.Equal(t, want.Code, got.Code, "%+v: %s", one, got.Body)
			require.Equal(t, varying.ReplaceAllString(withoutID(want), ""), varying.ReplaceAllString(withoutID(got), ""), one)
			require.True(t, !one.first || got.Code == 403 == strings.HasPrefix(one.Shows, "all"), "%+v: %d", one, got.Code)
		}
		if one.first {
			got, _ := with.try(one, operator)
			refused := got.Code == 401 || got.Code == 403
			require.Equal(t, strings.HasPrefix(one.Shows, "all, or"), refused, "%+v: %s", one, got.Body)
			got, _ = with.try(one, both) // what one group may do is not carried to the indexes of another
			require.True(t, one.Scope != "operate" || !ofIndex || got.Code == 403, "%+v: %s", one, got.Body)
			got, _ = with.try(one, broke)
			require.Equal(t, one.ID != "getUsage", got.Code == 429, "%+v: %s", one, got.Body)
		}
		got, _ := with.try(one, poor)
		if strings.Contains(got.Body.String(), "the quota for answers is 0") {
			require.True(t, one.Asks, "%+v: %s", one, got.Body)
			asks[one.ID] = true
		}
		if _, shown := with.try(one, ofHR); shown {
			seen[one.ID] = true
		}
	}
	assert.Len(t, asks, 5, "routes that need a quota of answers")
	assert.Len(t, seen, 12, "where readers of hr see secrets")
	t.Logf("%d requests that are not allowed, none let in", tried)
}

// A key without labels gets no tag of one with: what a client kept for another key is not shown.
func TestWhatIsKeptForOneKeyIsNotAnothers(t *testing.T) {
	l := lockLabelled(t, nil, withHidden())
	tags := map[string]bool{}
	for _, labels := range [][]string{nil, {"hr"}} {
		key := l.key(access.Request{Scope: access.Query, Labels: labels})
		got := l.attempt("GET /v1/indexes/sample/documents?generation=g2", bearer(key.Text))
		assert.Equal(t, "private, no-cache", got.Header().Get("Cache-Control"))
		tags[got.Header().Get("ETag")] = true
	}
	assert.Len(t, tags, 2, fmt.Sprint(tags))
	without := lockLabelled(t, nil, retrievetest.Sample()) // no tag says what is in a document that the key may not read
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

// While the published generation has no labels, what a run with labels left or goes on with is nobody's without a key.
func TestNothingOfALabelledRunIsShownWithoutAKeyWhileThePublishedHasNone(t *testing.T) {
	for name, hold := range map[string]bool{"held": true, "running or failed": false} {
		l := lock(t, func(f *fixture, config *api.Config) {
			config.Policy.Required = false
			built := retrievetest.Build(t, f.stores, "sample", withHidden(), retrievetest.Options{
				Generation: "g2", Spec: withLabels, Seq: 2, Unasked: true,
			})
			if hold {
				retrievetest.Hold(t, built, core.GenerationHeld)
			}
		})
		l.unchecked = true
		l.report("g2", core.Report{Status: core.StatusFailed, Problems: []core.Problem{{Object: hidden.Key}}})
		bisect := `{"query": "Who pays?", "expect": "cities/oslo.txt", "to": "g2", "top_chunks": 1}`
		operator := l.key(access.Request{Scope: access.Operate})
		for _, path := range []string{
			sampleIndex + "/runs", sampleIndex + "/runs/g2/report", sampleIndex + "/trends",
		} {
			assert.Equal(t, 401, l.attempt("GET "+path, nil).Code, "%s: %s", name, path)
			assert.Equal(t, 200, l.attempt("GET "+path, bearer(operator.Text)).Code, "%s: %s", name, path)
		}
		assert.Equal(t, 200, l.attempt("GET "+sampleIndex+"/documents?generation=g1", nil).Code, name)
		for _, path := range []string{"/generations", "/generations/g1", "/documents?generation=g2"} { // also reports
			assert.Equal(t, 403, l.attempt("GET "+sampleIndex+path, nil).Code, "%s: %s", name, path)
		}
		got := l.send("POST", sampleIndex+"/bisect", bisect, "Content-Type", "application/json")
		assert.Equal(t, 401, got.Code, "%s: %s", name, got.Body)
		if hold {
			got = l.send("POST", sampleIndex+"/bisect", bisect, bearer(operator.Text)...)
			assert.Equal(t, 403, got.Code, got.Body)
			assert.Equal(t, 403, l.attempt("GET "+sampleIndex+"/generations/g2", nil).Code)
		}
	}
	plain := lock(t, func(_ *fixture, config *api.Config) { config.Policy.Required = false })
	plain.report("g1", core.Report{Status: core.StatusCompleted})
	assert.Equal(t, 200, plain.attempt("GET "+sampleIndex+"/runs", nil).Code)
	before := plain.store.reads("/specs/")
	assert.Equal(t, 200, plain.attempt("GET "+sampleIndex+"/runs", nil).Code)
	assert.Equal(t, before, plain.store.reads("/specs/"), "configurations are read once")
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
				config.Patience = 10 * time.Millisecond
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

// What a reader asked is remembered for that reader alone: others must not find out by asking the same, also those who
// hold the same labels. The log of requests has the labels.
func TestNoReaderLearnsWhatOthersAsked(t *testing.T) {
	var log bytes.Buffer
	l := lock(t, func(f *fixture, c *api.Config) {
		publishLabelled(t, f, withHidden())
		c.Log = slog.New(slog.NewJSONHandler(&log, nil))
	})
	cached := func(key access.Made, path string) bool {
		body := `{"query": "Oslo", "indexes": ["sample"]}`
		if path != "/v1/query" {
			body = `{"query": "Oslo"}`
		}
		got := l.send("POST", path, body, append(bearer(key.Text), "Content-Type", "application/json")...)
		require.Equal(t, 200, got.Code, got.Body)
		return strings.Contains(got.Body.String(), `"embed_cached":true`)
	}
	labels := []string{"a", "b", "c", "d", "hr", "x"}
	same := access.Request{Scope: access.Query, Labels: labels}
	one, other := l.key(same), l.key(same)
	assert.False(t, cached(one, sampleQuery))
	assert.True(t, cached(one, sampleQuery) && cached(one, "/v1/query"))
	assert.False(t, cached(other, "/v1/query"))
	assert.False(t, cached(l.key(access.Request{Scope: access.Query}), sampleQuery))
	assert.Equal(t, 4, strings.Count(log.String(), `"labels":"a,b,c,d,hr and 1 more"`), log.String())
	assert.Equal(t, 4, strings.Count(log.String(), `"labels":`), "a key without labels has none in the log")
}

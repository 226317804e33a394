package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// carrying sends a key with each request.
type carrying struct{ key string }

func (c carrying) RoundTrip(request *http.Request) (*http.Response, error) {
	if c.key != "" {
		request = request.Clone(request.Context())
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	return http.DefaultTransport.RoundTrip(request)
}

// agent returns a client of the tools over HTTP.
func (f *fixture) agent(key string) *sdk.ClientSession {
	server := httptest.NewServer(f.server.Handler())
	f.t.Cleanup(server.Close)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session := must(client.Connect(f.t.Context(), &sdk.StreamableClientTransport{
		Endpoint: server.URL + "/mcp", HTTPClient: &http.Client{Transport: carrying{key}}, MaxRetries: -1,
	}, nil))(f.t)
	f.t.Cleanup(func() { _ = session.Close() })
	return session
}

// call calls a tool and returns its text, what it gives as a structure, and whether that is an error.
func call(t *testing.T, session *sdk.ClientSession, name string, arguments object) (
	text string, out object, failed bool,
) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
	require.NoError(t, err, "%s", name)
	for _, content := range result.Content {
		text += content.(*sdk.TextContent).Text
	}
	out, _ = result.StructuredContent.(object)
	return text, out, result.IsError
}

func TestToolsOnlyReadAndSayWhatTheyGive(t *testing.T) {
	list := must(serve(t, nil).agent("").ListTools(t.Context(), nil))(t)
	assert.True(t, list.CacheScope == "private" && list.TTLMs == 0, "others may keep the list: %+v", list.Cacheable)
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		assert.True(t, tool.Annotations.ReadOnlyHint && !*tool.Annotations.OpenWorldHint && tool.OutputSchema != nil &&
			tool.Description != "", "%s: %+v", tool.Name, tool.Annotations)
	}
	assert.Equal(t, "answer explain get_chunk get_document list_entities list_indexes search", strings.Join(names, " "))
}

// An agent finds its way from the list of indexes to the text around a passage.
func TestAnAgentSearchesAndReadsOn(t *testing.T) {
	f := serve(t, nil)
	session := f.agent("")
	text, out, failed := call(t, session, "list_indexes", nil)
	require.True(t, !failed && strings.Contains(text, "sample: ") &&
		out["indexes"].([]any)[0].(object)["index"] == "sample", "%s %v", text, out)
	capital := object{"query": "What is the capital of Norway?", "top_chunks": 2}
	text, out, failed = call(t, session, "search", capital)
	passages, _ := out["passages"].([]any)
	require.True(t, !failed && len(passages) == 2 && out["cut"] == nil, "%s %v", text, out)
	first := passages[0].(object)
	best := f.ask(capital).Chunks[0]
	assert.True(t, first["chunk"] == best.ID && first["text"] == best.Text && first["document"] == best.Document &&
		strings.HasPrefix(text, "[1] "+best.Title) && strings.Contains(text, best.Text), "%s\n%v", text, first)
	_, out, failed = call(t, session, "get_chunk", object{"index": "sample", "chunk": first["chunk"]})
	passage, _ := out["passage"].(object)
	assert.True(t, !failed && passage["text"] == best.Text && len(out["entities"].([]any)) != 0, "%v", out)
	text, out, failed = call(t, session, "get_document",
		object{"document": first["document"], "start": first["start"], "end": first["end"]})
	assert.True(t, out["metadata"] != nil && assert.ObjectsAreEqual(first["metadata"], out["metadata"]), "%v", out)
	assert.True(t, !failed && out["text"] == best.Text && out["next_start"] == nil &&
		strings.Contains(text, best.Text), "%s %v", text, out)
	text, out, failed = call(t, session, "answer", object{"query": "What is the capital of Norway?"})
	cited, _ := out["passages"].([]any)
	assert.True(t, !failed && out["answer"] != "" && len(cited) != 0 && out["kind"] == "best_sentence" &&
		out["confidence"] != nil && out["answer_confidence"] != nil && strings.Contains(text, "Quoted from the passages") &&
		cited[0].(object)["chunk"] == out["citations"].([]any)[0] && strings.HasPrefix(text, out["answer"].(string)),
		"%s %v", text, out)
	text, out, failed = call(t, session, "explain", object{"query": "the capital of Norway", "method": "unweaver"})
	assert.True(t, !failed && out["explain"] != nil && strings.Contains(text, "found through"), "%s %v", text, out)
	resource, err := session.ReadResource(t.Context(),
		&sdk.ReadResourceParams{URI: "unweaver://sample/" + first["document"].(string)})
	assert.True(t, err == nil && strings.Contains(resource.Contents[0].Text, best.Text) &&
		resource.CacheScope == "private", "%+v %v", resource, err)
	_, err = session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "unweaver://sample/none"})
	assert.Error(t, err, "a document that is not there is read")
}

func TestMaxTokensLeavesOutWholePassagesAndSaysWhich(t *testing.T) {
	session := serve(t, nil).agent("")
	asked := object{"query": "Norway", "top_chunks": 10}
	whole, all, _ := call(t, session, "search", asked)
	passages := all["passages"].([]any)
	for _, most := range []int{tokens.Count(whole) / 2, 120, 1} {
		asked["max_tokens"] = most
		text, out, failed := call(t, session, "search", asked)
		kept := out["passages"].([]any)
		cut := out["cut"].(object)
		left := cut["chunks"].([]any)
		assert.True(t, !failed && len(kept)+len(left) == len(passages) && len(left) != 0 &&
			cut["of"] == float64(len(passages)), "%d: %v", most, out)
		assert.True(t, (most < 120 || tokens.Count(text) <= most+60) && strings.Contains(text, left[0].(string)),
			"%d: %d tokens: %s", most, tokens.Count(text), text)
		for _, passage := range kept {
			assert.Contains(t, text, passage.(object)["text"].(string), "%d: a passage is not whole", most)
		}
	}
	text, out, _ := call(t, session, "get_document", object{"document": "cities/oslo.txt", "max_tokens": 105})
	next, ok := out["next_start"].(float64)
	require.True(t, ok && next == out["end"] && tokens.Count(out["text"].(string)) <= 5 &&
		strings.Contains(text, "continues"), "%s %v", text, out)
	_, rest, _ := call(t, session, "get_document", object{"document": "cities/oslo.txt", "start": next})
	_, full, _ := call(t, session, "get_document", object{"document": "cities/oslo.txt"})
	assert.True(t, out["text"].(string)+rest["text"].(string) == full["text"] && rest["next_start"] == nil,
		"%v %v %v", out, rest, full)
}

// Names reach agents from documents, too: none leads a tool to the route of another tool, whatever the key may do.
func TestAMistakeOfAnAgentIsAToolErrorThatSaysWhatToDo(t *testing.T) {
	l := lock(t, nil)
	session := l.agent(l.key(access.Request{Scope: access.Admin}).Text)
	const empty = "must not contain empty parts"
	for name, c := range map[string]struct {
		tool      string
		arguments object
		says      string
	}{
		"an unknown index":  {"search", object{"index": "none", "query": "x"}, "list_indexes"},
		"an unknown method": {"search", object{"query": "x", "method": "magic"}, "hybrid"},
		"no tokens":         {"search", object{"query": "x", "max_tokens": 0}, "1 to 131072"},
		"a book":            {"get_document", object{"document": "x", "max_tokens": 131073}, "1 to 131072"},
		"too many":          {"search", object{"query": "x", "top_chunks": 1000}, "1 to 100"},
		"no question":       {"answer", object{}, "query"},
		"a wrong name":      {"search", object{"query": "x", "topk": 3}, "topk"},
		"a lost chunk":      {"get_chunk", object{"chunk": "00"}, "none of that id"},
		"a lost document":   {"get_document", object{"document": "a b/c#1"}, "none of that id"},
		"another route":     {"get_document", object{"index": "sample", "document": "../chunks"}, empty},
		"keys":              {"get_document", object{"document": "../../../admin/v1/keys?x="}, empty},
		"an index above":    {"get_document", object{"index": "..", "document": "sample"}, empty},
		"a chunk above":     {"get_chunk", object{"index": "sample", "chunk": ".."}, empty},
		"no chunk":          {"get_chunk", object{"chunk": ""}, empty},
		"no document":       {"get_document", object{"document": ""}, empty},
		"a search above":    {"search", object{"index": "..", "query": "Oslo"}, empty},
	} {
		text, _, failed := call(t, session, c.tool, c.arguments)
		assert.True(t, failed && strings.Contains(text, c.says), "%s: %v %s", name, failed, text)
	}
}

// A key's scope, indexes and money are those of the tools.
func TestToolsKnowOnlyWhatTheKeyDoes(t *testing.T) {
	l := lock(t, nil)
	retrievetest.Publish(t,
		retrievetest.Build(t, l.stores, "other-one", retrievetest.Sample()[:2], retrievetest.Options{}), 1)
	narrow := l.agent(l.key(access.Request{Scope: access.Query, Index: "other-*"}).Text)
	eventually(t, "the second index is there", func() bool {
		text, _, _ := call(t, narrow, "list_indexes", nil)
		return strings.Contains(text, "other-one") && !strings.Contains(text, "sample")
	})
	if text, _, failed := call(t, narrow, "search", object{"index": "sample", "query": "Oslo"}); !failed ||
		!strings.Contains(text, "list_indexes") {
		t.Errorf("another's index: %s", text)
	}
	_, out, failed := call(t, narrow, "search", object{"query": "Oslo"})
	assert.True(t, !failed && out["index"] == "other-one", "the one index of a key needs no name: %v", out)
	text, _, failed := call(t, l.agent(l.key(access.Request{Scope: access.Query}).Text), "search", object{"query": "Oslo"})
	assert.True(t, failed && strings.Contains(text, "other-one") && strings.Contains(text, "sample"), "which of two: %s",
		text)
	poor := l.agent(l.key(access.Request{Scope: access.Query, Limits: access.Limits{AnswersPerMinute: 1}}).Text)
	asked := object{"index": "sample", "query": "What is the capital of Norway?"}
	text, _, failed = call(t, poor, "answer", asked)
	assert.False(t, failed, "%s", text)
	text, _, failed = call(t, poor, "answer", asked)
	assert.True(t, failed && strings.Contains(text, "too many answers a minute"), "a limit of the key: %s", text)
}

// say posts a message to the tools.
func (f *fixture) say(message string, headers ...string) (int, object, string) {
	f.t.Helper()
	headers = append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"},
		headers...)
	got := f.send("POST", "/mcp", message, headers...)
	var out object
	_ = json.Unmarshal(got.Body.Bytes(), &out)
	return got.Code, out, got.Header().Get("Content-Type")
}

const listing = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func TestMessagesThatAreNotServedAreRefusedInForm(t *testing.T) {
	l := lock(t, nil)
	key := l.key(access.Request{Scope: access.Query}).Text
	bearing := []string{"Authorization", "Bearer " + key}
	for name, c := range map[string]struct {
		message string
		headers []string
		status  int
		kind    string
	}{
		"a good one":         {listing, bearing, 200, "application/json"},
		"an old version":     {listing, append(bearing, "MCP-Protocol-Version", "2025-06-18"), 200, "application/json"},
		"an unknown version": {listing, append(bearing, "MCP-Protocol-Version", "1999-01-01"), 400, "application/json"},
		"no JSON":            {"{", bearing, 400, "application/json"},
		"no method":          {`{"jsonrpc":"2.0","id":1}`, bearing, 400, "application/json"},
		"an answer":          {`{"jsonrpc":"2.0","id":1,"result":{}}`, bearing, 400, "application/json"},
		"a list of params":   {strings.Replace(listing, "}", `,"params":[1]}`, 1), bearing, 400, "application/json"},
		"no params":          {strings.Replace(listing, "}", `,"params":null}`, 1), bearing, 200, "application/json"},
		"a wrong version":    {strings.Replace(listing, `"2.0"`, "2", 1), bearing, 400, "application/json"},
		"a wrong method":     {strings.Replace(listing, `"tools/list"`, "5", 1), bearing, 400, "application/json"},
		"a wrong id":         {strings.Replace(listing, "1", "{}", 1), bearing, 400, "application/json"},
		"a tool of no name":  {strings.Replace(listing, "}", `,"params":{"name":7}}`, 1), bearing, 400, "application/json"},
		"half a message":     {listing[:20], bearing, 400, "application/json"},
		"several messages":   {"\n [" + listing + "," + listing + "]", bearing, 400, "application/json"},
		"several, as once was": {
			"[" + listing + "]", append(bearing, "MCP-Protocol-Version", "2025-03-26"), 400, "application/json",
		},
		"nested": {
			strings.Replace(listing, "}", `,"params":{"_meta":{"a":`+nested(100, "1")+`}}}`, 1), bearing,
			400, "application/json",
		},
		"no form that it takes": {listing, append(bearing, "Accept", "text/html"), 400, "application/json"},
		"too large":             {`{"x":"` + strings.Repeat("x", 1<<20) + `"}`, bearing, 413, "application/json"},
		"no key":                {listing, nil, 401, "application/problem+json"},
		"another origin":        {listing, append(bearing, "Origin", "https://e.example"), 403, "application/problem+json"},
		"a form":                {"a=b", append(bearing, "Content-Type", "text/plain"), 415, "application/problem+json"},
	} {
		status, out, kind := l.say(c.message, c.headers...)
		assert.True(t, status == c.status && kind == c.kind && (status != 400 || out["error"] != nil),
			"%s: %d %s %v", name, status, kind, out)
		assert.NotRegexp(t, "unmarshal|unexpected EOF|jsonrpc2|Go ", out["error"], name)
	}
	for _, method := range []string{"GET", "DELETE"} {
		got := l.send(method, "/mcp", "", bearer(key)...)
		assert.True(t, got.Code == 405, "%s: %d %s", method, got.Code, got.Body)
	}
	open := serve(t, nil) // on loopback, without keys: who asks by another name may be a page of somebody else's
	status, out, _ := open.say(listing, "Host", "evil.example:8080")
	assert.True(t, status == 421, "another host: %d %v", status, out)
}

// An error carries the id of what it answers, and the code of JSON-RPC.
func TestAnErrorOfAMessageHasItsIdAndItsCode(t *testing.T) {
	f := serve(t, nil)
	for message, want := range map[string]struct {
		id   any
		code float64
	}{
		`{"jsonrpc":"2.0","id":7,"method":"foo/bar"}`:                           {7.0, -32601},
		`{"jsonrpc":"2.0","id":"a","method":"tools/call"}`:                      {"a", -32602},
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":null}`:          {7.0, -32602},
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[1]}`:           {7.0, -32602},
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"no"}}`: {7.0, -32602},
		`{"jsonrpc":"1.0","id":7,"method":"tools/list"}`:                        {7.0, -32600},
		`{"jsonrpc":"2.0","id":{},"method":"tools/list"}`:                       {nil, -32600},
		`{"jsonrpc":"2.0","id":7,`:                                              {nil, -32700},
	} {
		_, out, _ := f.say(message)
		wrong, _ := out["error"].(object)
		assert.True(t, out["id"] == want.id && wrong["code"] == want.code, "%s: %v", message, out)
	}
}

// An agent that goes ends what it asked for.
func TestAnAgentThatGoesEndsTheModelsWork(t *testing.T) {
	chat := writing{pieces: []string{"Oslo", " is", "."}, next: make(chan struct{}), ended: make(chan error, 1)}
	f := serve(t, chatting(chat))
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		server := httptest.NewServer(f.server.Handler())
		ctx, leave := context.WithCancel(t.Context())
		message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"answer","arguments":{"query":"Oslo?"}}}`
		request, _ := http.NewRequestWithContext(ctx, "POST", server.URL+"/mcp", strings.NewReader(message))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		request.Header.Set("MCP-Protocol-Version", version)
		go func() { // once the model is at work
			chat.next <- struct{}{}
			leave()
		}()
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
		}
		select {
		case err := <-chat.ended:
			assert.Error(t, err, "%s: it ended as if nothing had happened", version)
		case <-time.After(long):
			t.Fatalf("%s: the model goes on", version)
		}
		server.Close()
	}
}

// What was listed while nothing of it was published is listed as soon as something is.
func TestAFirstPublicationIsListedAtOnce(t *testing.T) {
	f := serve(t, nil)
	session := f.agent("")
	built := retrievetest.Build(t, f.stores, "alpha", retrievetest.Sample(), retrievetest.Options{})
	for epoch, want := range []int{1, 2} {
		_, out, failed := call(t, session, "list_indexes", object{})
		assert.True(t, !failed && len(out["indexes"].([]any)) == want, "%v", out)
		retrievetest.Publish(t, built, int64(epoch+1))
	}
}

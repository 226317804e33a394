package api_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/query-api/chat"
)

const completions = "/v1/chat/completions"

// norway returns a question in the form of OpenAI.
func norway(more object) string {
	body := object{"model": "unweaver/sample", "messages": []any{
		object{"role": "system", "content": "Answer in French."},
		object{"role": "user", "content": "What is the capital of Sweden?"},
		object{"role": "assistant", "content": "Stockholm."},
		object{"role": "user", "content": []any{
			object{"type": "text", "text": "What is the capital"},
			object{"type": "text", "text": "of Norway?"},
		}},
	}}
	for name, value := range more {
		body[name] = value
	}
	raw, _ := json.Marshal(body)
	return string(raw)
}

func (f *fixture) chat(body string, headers ...string) (int, object) {
	got := f.send("POST", completions, body, append([]string{"Content-Type", "application/json"}, headers...)...)
	var out object
	require.NoError(f.t, json.Unmarshal(got.Body.Bytes(), &out), "%q", got.Body)
	return got.Code, out
}

// completed asks for a completion and returns it with its one message.
func (f *fixture) completed(body string) (out chat.Completion, message chat.Message) {
	got := f.send("POST", completions, body, "Content-Type", "application/json")
	require.Equal(f.t, 200, got.Code, "%s", got.Body)
	require.NoError(f.t, json.Unmarshal(got.Body.Bytes(), &out), "%q", got.Body)
	require.Len(f.t, out.Choices, 1)
	return out, out.Choices[0].Message
}

func TestAnIndexAnswersAsAModel(t *testing.T) {
	f := serve(t, chatting(writing{pieces: []string{"Pas Trømso: Oslo [1]", " et [1], pas [77]."}}))
	out, message := f.completed(norway(object{
		"temperature": 0.7, "n": 1, "tools": []any{}, "stop": nil, "user": "somebody", "seed": 4,
		"response_format": object{"type": "text"}, "unweaver": object{"top_chunks": 2},
	}))
	assert.True(t, out.Object == "chat.completion" && out.Model == "unweaver/sample" &&
		out.Choices[0].FinishReason == "stop" && message.Content == "Pas Trømso: Oslo [1] et [1], pas .", "%+v", out)
	plain := f.ask(object{"query": "What is the capital\nof Norway?", "top_chunks": 2})
	first := plain.Chunks[0]
	require.Len(t, message.Annotations, 2, "%+v", message)
	for i, annotation := range message.Annotations {
		cited, start := annotation.URLCitation, []int{17, 24}[i]
		assert.Equal(t, "[1]", part(message.Content, cited.StartIndex, cited.EndIndex))
		assert.True(t, cited.StartIndex == start && cited.Title == first.Title, "%+v", cited)
		assert.Equal(t, chat.Source{Chunk: first.ID, Document: first.Document, Version: first.Version, Start: first.Start,
			End: first.End, Rank: first.Rank}, annotation.Source)
		address, _ := strings.CutPrefix(cited.URL, "http://localhost:8080")
		assert.Equal(t, first.Text, f.get(address)["chunk"].(object)["text"], address)
	}
	assert.Equal(t, chat.Usage{PromptTokens: 40, CompletionTokens: 2, TotalTokens: 42}, out.Usage)
	assert.True(t, out.Details.Generation == plain.Generation && out.Details.AnswerKind == "model" &&
		*out.Details.Confidence == *plain.Confidence, "%+v", out.Details)
}

func TestAnAnswerWithoutMarksIsCitedAsAWhole(t *testing.T) {
	_, message := serve(t, chatting(writing{pieces: []string{"Oslo is the capital."}})).completed(norway(nil))
	require.Len(t, message.Annotations, 1, "%+v", message)
	cited := message.Annotations[0].URLCitation
	assert.True(t, cited.StartIndex == 0 && cited.EndIndex == len([]rune(message.Content)), "%+v", message)
}

// Without a chat model every answer with passages has a citation: of each extract, or of the best passage.
func TestWhatIsQuotedIsCitedByMarks(t *testing.T) {
	f := serve(t, nil)
	for question, kind := range map[string]string{
		"What is the capital of Norway?":                             "best_sentence",
		"Who reached the finals of the 2018 football cup in Ottawa?": "none",
	} {
		out, message := f.completed(norway(object{"messages": []any{object{"role": "user", "content": question}}}))
		assert.True(t, out.Details.AnswerKind == kind && out.Details.Confidence != nil && len(message.Annotations) > 0,
			"%s: %+v", question, out)
		for _, one := range message.Annotations {
			mark := part(message.Content, one.URLCitation.StartIndex, one.URLCitation.EndIndex)
			assert.Equal(t, "[", mark[:1], "%s: %q of %q", question, mark, message.Content)
		}
	}
}

func TestWhatNoDocumentSpeaksOfHasNoAnswer(t *testing.T) {
	f := serve(t, chatting(writing{pieces: []string{"Invented."}}))
	asks := norway(object{"unweaver": object{"method": "bm25"}})
	out, message := f.completed(strings.NewReplacer("What is the capital", "zzqx", "of Norway?", "qqvv").Replace(asks))
	assert.True(t, message.Content != "" && message.Content != "Invented." && len(message.Annotations) == 0 &&
		*out.Details.Reason == "no_match" && out.Details.AnswerKind == "none" && out.Usage.TotalTokens == 0, "%+v", out)
}

// What cannot be done as it is wished for is an error that names the wish, in the form that clients of this form read.
func TestWishesThatCannotBeMetAreRefused(t *testing.T) {
	f := serve(t, nil)
	asked := func(content any) []any { return []any{object{"role": "user", "content": content}} }
	picture := asked([]any{object{"type": "image_url"}})
	own := func(name string, value any) object { return object{name: value} }
	for name, c := range map[string]struct {
		field       string
		value       any
		status      int
		code, param string
	}{
		"two answers":     {"n", 2, 400, "unsupported_parameter", "n"},
		"JSON":            {"response_format", own("type", "json_object"), 400, "unsupported_parameter", "response_format"},
		"an end":          {"stop", ".", 400, "unsupported_parameter", "stop"},
		"an own field":    {"filter", own("metadata", nil), 400, "unsupported_parameter", "filter"},
		"no place for it": {"explain", true, 400, "unsupported_parameter", "explain"},
		"another model":   {"model", "gpt-4o", 404, "model_not_found", "model"},
		"no such index":   {"model", "unweaver/none", 404, "model_not_found", "model"},
		"no model":        {"model", nil, 422, "invalid_parameter", "model"},
		"no tokens":       {"max_tokens", 0, 422, "invalid_parameter", "max_tokens"},
		"half a token":    {"max_completion_tokens", 1.5, 422, "invalid_parameter", "max_completion_tokens"},
		"tokens as text":  {"max_tokens", "5", 422, "invalid_parameter", "max_tokens"},
		"a book":          {"max_tokens", 1e7, 422, "invalid_parameter", "max_tokens"},
		"no question":     {"messages", []any{}, 422, "invalid_parameter", "messages"},
		"an empty one":    {"messages", asked(" "), 422, "invalid_parameter", "messages"},
		"a picture":       {"messages", picture, 400, "unsupported_parameter", "messages"},
		"an option":       {"unweaver", own("answer", false), 422, "invalid_parameter", "unweaver.answer"},
		"a bad option":    {"unweaver", own("top_k", 0), 422, "invalid_parameter", "unweaver.top_k"},
		"an unknown way":  {"unweaver", own("method", "magic"), 422, "invalid_parameter", "unweaver.method"},
		"a lost snapshot": {"unweaver", own("generation", "none"), 404, "unknown_generation", "unweaver.generation"},
		"too much":        {"pad", strings.Repeat("x", 2<<20), 413, "too_large", ""},
	} {
		for _, streamed := range []bool{false, true} {
			status, out := f.chat(norway(object{c.field: c.value, "stream": streamed}))
			reported, _ := out["error"].(object)
			param, _ := reported["param"].(string)
			assert.True(t, status == c.status && reported["code"] == c.code && param == c.param && reported["message"] != "" &&
				reported["type"] == "invalid_request_error", "%s: %d %v", name, status, out)
		}
	}
}

// bounding is a chat model that says how long a reply was wished for, and ends there.
type bounding struct {
	writing
	most *int
}

func (m bounding) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	*m.most = call.Most
	reply, err := m.writing.Complete(ctx, call)
	reply.Truncated = call.Most > 0
	return reply, err
}

func TestAnAnswerIsAsLongAsIsWishedFor(t *testing.T) {
	var most int
	f := serve(t, chatting(bounding{writing{pieces: []string{"Oslo"}}, &most}))
	for name, c := range map[string]struct {
		wished object
		most   int
		ended  string
	}{
		"nothing said": {object{"max_tokens": nil}, 0, "stop"},
		"the old name": {object{"max_tokens": 7}, 7, "length"},
		"the new name": {object{"max_completion_tokens": 8.0}, 8, "length"},
		"both":         {object{"max_completion_tokens": 9, "max_tokens": 5}, 5, "length"},
		"streamed":     {object{"max_tokens": 7, "stream": true}, 7, "length"},
	} {
		got := f.send("POST", completions, norway(c.wished), "Content-Type", "application/json")
		assert.True(t, got.Code == 200 && most == c.most &&
			strings.Contains(got.Body.String(), `"finish_reason":"`+c.ended+`"`), "%s: %d tokens, %d %s", name, most, got.Code,
			got.Body)
	}
}

func TestAQuotedSentenceEndsWhereItIsWishedToo(t *testing.T) {
	f := serve(t, nil)
	whole := f.ask(object{"query": "What is the capital of Norway?", "answer": true}).Answer
	cut := f.ask(object{"query": "What is the capital of Norway?", "answer": true, "max_answer_tokens": 2}).Answer
	assert.True(t, !whole.Truncated && cut.Truncated && cut.Text != "" && tokens.Count(cut.Text) <= 2 &&
		strings.HasPrefix(whole.Text, cut.Text), "%+v, of %+v", cut, whole)
}

func TestErrorsBeforeTheRouteHaveItsFormToo(t *testing.T) {
	l := lock(t, nil)
	key := l.key(access.Request{Scope: access.Query, Index: "other-*"})
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		code               string
	}{
		"no key":          {"POST", completions, norway(nil), bearer("")[2:], 401, "unauthorized"},
		"another's index": {"POST", completions, norway(nil), bearer(key.Text), 404, "model_not_found"},
		"another's model": {"GET", "/v1/models/unweaver/sample", "", bearer(key.Text), 404, "model_not_found"},
		"another origin": {"POST", completions, norway(nil),
			append(bearer(key.Text), "Origin", "https://elsewhere.example"), 403, "forbidden"},
		"no JSON": {"POST", completions, norway(nil),
			append(bearer(key.Text), "Content-Type", "text/plain"), 415, "unsupported_media_type"},
		"another method": {"GET", completions, "", bearer(key.Text), 405, "method_not_allowed"},
		"no embeddings":  {"POST", "/v1/embeddings", `{"input":"x"}`, bearer(key.Text), 404, "not_found"},
		"no such below":  {"GET", "/v1/responses/resp_1", "", bearer(key.Text), 404, "not_found"},
		"too long":       {"POST", "/v1/responses", strings.Repeat("x", 2<<20), bearer(key.Text), 413, "too_large"},
		"no key there":   {"POST", "/v1/responses", `{}`, bearer("")[2:], 401, "unauthorized"},
	} {
		l.unchecked = c.code == "not_found" // such an address is not described
		got := l.send(c.method, c.path, c.body, c.headers...)
		var out struct {
			Error struct{ Code, Message, Type string }
		}
		err := json.Unmarshal(got.Body.Bytes(), &out)
		assert.True(t, err == nil && got.Code == c.status && out.Error.Code == c.code && out.Error.Message != "" &&
			out.Error.Type != "", "%s: %d %s %v", name, got.Code, got.Body, err)
	}
	got := l.send("GET", "/v1/models", "", bearer(key.Text)...)
	assert.False(t, strings.Contains(got.Body.String(), "sample"), "a key of other indexes sees %s", got.Body)
}

// The money of an answer in this form is the key's, as on the query route.
func TestAnAnswerAsAModelIsPaidForByTheKey(t *testing.T) {
	l, key := selling(t, models{chat: writing{pieces: []string{"Oslo."}}})
	status, out := l.chat(norway(nil), bearer(key.Text)...)
	require.True(t, status == 200, "%d %v", status, out)
	got := l.send("POST", completions, norway(object{"stream": true}), bearer(key.Text)...)
	assert.True(t, got.Code == 429 && strings.Contains(got.Body.String(), `"code":"budget_spent"`) &&
		strings.Contains(got.Body.String(), `"type":"rate_limit_error"`) && got.Header().Get("Retry-After") != "", "%d %v %s",
		got.Code, got.Header(), got.Body)
}

// asking has our own client ask the API as it asks any server of models, and gives the pieces that it was given.
func asking(t *testing.T, f *fixture) (pieces []string, reply model.Reply, err error) {
	t.Helper()
	server := httptest.NewServer(f.server.Handler())
	t.Cleanup(server.Close)
	client := openai.New(openai.Config{BaseURL: server.URL + "/v1", APIKey: "none", Model: "unweaver/sample"})
	ctx := model.WithDeltas(t.Context(), func(text string) error {
		pieces = append(pieces, text)
		return nil
	})
	reply, err = client.Complete(ctx, model.Call{User: "What is the capital of Norway?"})
	return pieces, reply, err
}

// chunk is an event of a stream, as clients of OpenAI read it.
type chunk struct {
	chat.Chunk
	Error *chat.FailureBody `json:"error"`
}

// chunks asks for a stream and returns its chunks; it must be one of events with data alone, and end as such streams
// do.
func (f *fixture) chunks(more object) (out []chunk) {
	more["stream"] = true
	got := f.send("POST", completions, norway(more), "Content-Type", "application/json")
	kind := got.Header().Get("Content-Type")
	require.True(f.t, got.Code == 200 && strings.HasPrefix(kind, "text/event-stream"),
		"%d %s %s", got.Code, kind, got.Body)
	body, ended := strings.CutSuffix(got.Body.String(), "data: [DONE]\n\n")
	for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(block, "data: ")
		var next chunk
		err := json.Unmarshal([]byte(data), &next)
		require.True(f.t, err == nil && ok && !strings.Contains(data, "\n"), "%v in %q", err, block)
		out = append(out, next)
	}
	failed := out[len(out)-1].Error != nil
	require.True(f.t, ended != failed, "it ends as it should not: %s", got.Body)
	return out
}

func TestAStreamIsThatOfAModel(t *testing.T) {
	f := serve(t, chatting(writing{pieces: []string{"Oslo", " it is [1]."}}))
	all := f.chunks(object{"stream_options": object{"include_usage": true}})
	var pieces, reasons []string
	var annotations []chat.Annotation
	for _, next := range all {
		assert.True(t, next.Object == "chat.completion.chunk" && next.ID != "" && next.ID == all[0].ID && next.Created != 0 &&
			next.Model == "unweaver/sample", "%+v", next)
		for _, choice := range next.Choices {
			if choice.Delta.Content != nil {
				pieces = append(pieces, *choice.Delta.Content)
			}
			annotations = append(annotations, choice.Delta.Annotations...)
			if choice.FinishReason != nil {
				reasons = append(reasons, *choice.FinishReason)
			}
			assert.Zero(t, choice.Index, "%+v", choice)
		}
	}
	assert.Equal(t, "Oslo it is [1].", strings.Join(pieces, ""))
	require.Len(t, annotations, 1)
	assert.Equal(t, "[1]", part("Oslo it is [1].", annotations[0].URLCitation.StartIndex, annotations[0].URLCitation.EndIndex))
	last := all[len(all)-1]
	assert.True(t, slices.Equal(reasons, []string{"stop"}) && all[0].Choices[0].Delta.Role == "assistant" &&
		len(last.Choices) == 0 && last.Usage != nil && last.Usage.TotalTokens == 42, "%q, %+v", reasons, last)
}

// What asks other servers can ask this one: the two sides of the contract meet.
func TestAClientOfModelsReadsAStream(t *testing.T) {
	pieces, reply, err := asking(t, serve(t, chatting(writing{pieces: []string{"Oslo", " it is [1]."}})))
	assert.True(t, err == nil && strings.Join(pieces, "") == reply.Text && reply.Text == "Oslo it is [1]." &&
		reply.Usage.Prompt+reply.Usage.Completion == 42 && !reply.Truncated, "%q %+v %v", pieces, reply, err)
}

func TestAClientOfModelsReadsTheErrorOfAStream(t *testing.T) {
	f := serve(t, chatting(writing{pieces: []string{"Oslo"}, fails: fault.ModelRateLimited.At("call chat model", "m")}))
	pieces, _, err := asking(t, f)
	if !fault.Is(err, fault.ModelRateLimited) || len(pieces) > 0 { // the first answer of a model comes whole, or not
		t.Errorf("%q %v", pieces, err)
	}
	all := f.chunks(object{})
	reported := all[len(all)-1].Error
	assert.True(t, reported != nil && reported.Message != "" && reported.Type == "rate_limit_error", "%+v", reported)
}

// Frameworks of agents send their tools with every question.
func TestFieldsAreIgnoredWithAWarning(t *testing.T) {
	f := serve(t, nil)
	tools := object{"tools": []any{object{"type": "function"}}, "tool_choice": "auto", "user": nil, "a\r\nb\"ü": 1}
	for path, body := range map[string]object{
		completions:     {"messages": []any{object{"role": "user", "content": "What is the capital of Norway?"}}},
		"/v1/responses": {"input": "What is the capital of Norway?"},
	} {
		body["model"] = "unweaver/sample"
		for _, with := range []object{{}, tools} {
			maps.Copy(body, with)
			got := f.send("POST", path, string(must(json.Marshal(body))(t)), "Content-Type", "application/json")
			var want []string
			if len(with) > 0 {
				want = []string{
					`299 unweaver "a\r\nb\"\u00fc is ignored: it has no effect"`,
					`299 unweaver "tools is ignored: an index does not call tools"`,
				}
			}
			assert.Equal(t, want, got.Header().Values("Warning"), "%d %s", got.Code, got.Body)
			assert.Equal(t, 200, got.Code)
		}
	}
}

// respond asks in the newer form of OpenAI.
func (f *fixture) respond(body object) *httptest.ResponseRecorder {
	return f.send("POST", "/v1/responses", string(must(json.Marshal(body))(f.t)), "Content-Type", "application/json")
}

func TestAResponseSaysWhatACompletionDoes(t *testing.T) {
	f := serve(t, chatting(writing{pieces: []string{"Oslo", " it is [1]."}}))
	message := object{"role": "user", "content": []any{
		object{"type": "input_text", "text": "What is the capital of Norway?"},
	}}
	var whole object
	for _, input := range []any{"What is the capital of Norway?", []any{message}} {
		got := f.respond(object{"model": "unweaver/sample", "input": input})
		require.NoError(t, json.Unmarshal(got.Body.Bytes(), &whole), "%s", got.Body)
		output := whole["output"].([]any)[0].(object)
		text := output["content"].([]any)[0].(object)
		cited := text["annotations"].([]any)[0].(object)
		assert.True(t, whole["status"] == "completed" && text["text"] == "Oslo it is [1]." && cited["start_index"] == 11.0 &&
			cited["type"] == "url_citation" && whole["usage"].(object)["total_tokens"] == 42.0, "%v", whole)
	}
	events := f.respond(object{"model": "unweaver/sample", "input": "What is the capital of Norway?", "stream": true})
	var kinds []string
	var pieces string
	var last struct {
		Response object `json:"response"`
	}
	for i, block := range strings.Split(strings.TrimSuffix(events.Body.String(), "\n\n"), "\n\n") {
		head, data, _ := strings.Cut(block, "\ndata: ")
		var event struct {
			Type   string `json:"type"`
			Number int    `json:"sequence_number"`
			Delta  string `json:"delta"`
		}
		require.NoError(t, json.Unmarshal([]byte(data), &event), "%q", block)
		assert.True(t, head == "event: "+event.Type && event.Number == i, "%q", block)
		if pieces += event.Delta; event.Delta == "" {
			kinds = append(kinds, strings.TrimPrefix(event.Type, "response."))
		}
		require.NoError(t, json.Unmarshal([]byte(data), &last))
	}
	assert.Equal(t, "created in_progress output_item.added content_part.added output_text.done content_part.done "+
		"output_item.done completed", strings.Join(kinds, " "))
	assert.Equal(t, "Oslo it is [1].", pieces)
	assert.Equal(t, whole["usage"], last.Response["usage"])
}

func TestAResponseRefusesWhatItCannotKeep(t *testing.T) {
	f := serve(t, nil)
	for param, value := range map[string]any{
		"previous_response_id": "resp_1", "background": true, "input": []any{}, "max_output_tokens": 0,
		"text.format": "json_schema", "top_k": 3,
	} {
		body := object{"model": "unweaver/sample", "input": "x", param: value}
		if param == "text.format" {
			body["text"] = object{"format": object{"type": value}}
		}
		got := f.respond(body)
		status := 400
		if strings.Contains(got.Body.String(), `"code":"invalid_parameter"`) {
			status = 422
		}
		assert.True(t, got.Code == status && strings.Contains(got.Body.String(), `"param":"`+param+`"`),
			"%s: %d %s", param, got.Code, got.Body)
	}
}

func TestIndexesAreListedAsModels(t *testing.T) {
	f := serve(t, nil)
	list := f.get("/v1/models")
	listed, _ := list["data"].([]any)
	require.True(t, list["object"] == "list" && len(listed) == 1 && listed[0].(object)["id"] == "unweaver/sample",
		"%v", list)
	made, err := time.Parse(time.RFC3339, f.get("/v1/indexes/sample")["created"].(string))
	created := listed[0].(object)["created"]
	assert.True(t, err == nil && created == float64(made.Unix()) && made.Year() >= 2000,
		"made at %v, and the index at %s, %v", created, made, err)
	for _, path := range []string{"/v1/models/unweaver/sample", "/v1/models/unweaver%2Fsample"} {
		found := f.get(path)
		assert.True(t, found["id"] == "unweaver/sample" && found["object"] == "model", "%v", found)
	}
}

// program returns the path of another project's program, where infra/clients/clients.sh could install it; make
// test-servers does.
func program(t *testing.T, parts ...string) string {
	t.Helper()
	folder := os.Getenv("UNWEAVER_TEST_CLIENTS")
	if folder == "" {
		t.Skip("SKIPPED: UNWEAVER_TEST_CLIENTS names no folder of infra/clients/clients.sh")
	}
	path := filepath.Join(append([]string{folder}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	return path
}

func TestThePythonClientOfOpenAIReadsIt(t *testing.T) {
	python := program(t, "venv", "bin", "python")
	server := httptest.NewServer(serve(t, nil).server.Handler())
	defer server.Close()
	out, err := exec.CommandContext(t.Context(), python, "testdata/openai_client.py", server.URL+"/v1").CombinedOutput()
	require.True(t, err == nil, "%v\n%s", err, out)
	t.Logf("%s", out)
}

func TestTheInspectorReadsTheTools(t *testing.T) {
	inspector := program(t, "node", "node_modules", ".bin", "mcp-inspector")
	server := httptest.NewServer(serve(t, nil).server.Handler())
	defer server.Close()
	inspect := func(args ...string) object {
		t.Helper()
		command := exec.CommandContext(t.Context(), inspector,
			append([]string{"--cli", server.URL + "/mcp", "--transport", "http"}, args...)...)
		command.Env = append(os.Environ(), "PATH="+filepath.Dir(inspector)+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
		var reported strings.Builder
		command.Stderr = &reported
		raw, err := command.Output()
		var out object
		require.True(t, err == nil && json.Unmarshal(raw, &out) == nil, "%v: %v\n%s\n%s", args, err, raw, reported.String())
		return out
	}
	tools := inspect("--method", "tools/list", "--strict")["tools"].([]any)
	assert.True(t, len(tools) == 7, "%d tools", len(tools))
	answer := inspect("--method", "tools/call", "--tool-name", "answer", "--tool-arg",
		"query=What is the capital of Norway?", "max_tokens=500")
	structured := answer["structuredContent"].(object)
	assert.True(t, strings.Contains(structured["answer"].(string), "Oslo"), "%v", answer)
}

package modeltest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

func serve(t *testing.T, options modeltest.Options) *modeltest.Server {
	t.Helper()
	server := modeltest.New(options)
	require.NoError(t, server.Listen("127.0.0.1:0"))
	t.Cleanup(server.Close)
	return server
}

// post sends a body and gives the status and what came back; status 0 is a connection that broke before an answer.
func post(t *testing.T, address string, body any) (int, string) {
	t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, bytes.NewReader(raw))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return response.StatusCode, "broken: " + err.Error()
	}
	return response.StatusCode, string(answer)
}

// ask makes a chat request of a task.
func ask(task, user string) map[string]any {
	return map[string]any{
		"model":           "m",
		"messages":        []map[string]string{{"role": "system", "content": "rules"}, {"role": "user", "content": user}},
		"response_format": map[string]any{"json_schema": map[string]string{"name": task}},
	}
}

func TestTheBookAgreesWithWhatWasAnswered(t *testing.T) {
	server := serve(t, modeltest.Options{})
	chat, embed := server.URL+"/chat/completions", server.URL+"/embeddings"
	var prompt, completion, embedded int64
	for _, body := range []map[string]any{
		ask("extract", "Niels Bohr met Einstein."), ask("shorten", "A long text. About something."),
		ask("", "a question"), ask("extract", "Niels Bohr met Einstein."),
		ask("extract", model.ProbeText), ask("extract", model.ProbeText),
	} {
		status, raw := post(t, chat, body)
		var answer struct {
			Usage struct {
				Prompt     int64 `json:"prompt_tokens"`
				Completion int64 `json:"completion_tokens"`
			} `json:"usage"`
		}
		if err := json.Unmarshal([]byte(raw), &answer); err != nil || status != 200 || answer.Usage.Prompt == 0 {
			t.Fatalf("%d %s: %v", status, raw, err)
		}
		prompt += answer.Usage.Prompt
		completion += answer.Usage.Completion
	}
	for range 2 {
		status, raw := post(t, embed, map[string]any{"model": "m", "input": []string{"one text", "another text"}})
		var answer struct {
			Usage struct {
				Prompt int64 `json:"prompt_tokens"`
			} `json:"usage"`
		}
		if err := json.Unmarshal([]byte(raw), &answer); err != nil || status != 200 {
			t.Fatalf("%d %s: %v", status, raw, err)
		}
		embedded += answer.Usage.Prompt
	}
	got := server.Stats()
	if got.Chat != 6 || got.Embed != 2 || got.Texts != 4 || got.Started != 8 || got.Refused != 0 || got.InFlight != 0 {
		t.Errorf("counts %+v", got)
	}
	if got.PromptTokens != prompt || got.CompletionTokens != completion || got.EmbedTokens != embedded {
		t.Errorf("tokens %+v, the answers said %d, %d, %d", got, prompt, completion, embedded)
	}
	assert.Equal(t, int64(2), got.Probes)
	if got.Duplicates != 1 || got.EmbedTwice != 2 {
		t.Errorf("%d prompts and %d texts were paid twice, want 1 and 2", got.Duplicates, got.EmbedTwice)
	}
	calls := map[string]int64{}
	for task, cost := range got.Tasks {
		calls[task] = cost.Calls
	}
	if want := map[string]int64{"extract": 4, "shorten": 1, "answer": 1,
		"embed": 2}; fmt.Sprint(calls) != fmt.Sprint(want) {
		t.Errorf("by task %v, want %v", calls, want)
	}
	assert.Equal(t, embedded, got.Tasks["embed"].Prompt, "embedding tokens")
	server.Reset()
	if after := server.Stats(); after.Started+after.Chat+after.PromptTokens+int64(len(after.Tasks)) != 0 {
		t.Errorf("after a reset: %+v", after)
	}
}

func TestInjectionsAndWhatTheyCount(t *testing.T) {
	for name, c := range map[string]struct {
		injection modeltest.Injection
		status    int
		says      string
		paid      int64
		bad       int64
	}{
		"a good answer":       {modeltest.Injection{}, 200, "An answer from", 1, 0},
		"a refusal":           {modeltest.Injection{Status: 503, ErrorCode: "busy"}, 503, "busy", 0, 0},
		"a cut connection":    {modeltest.Injection{Cut: true}, 0, "EOF", 0, 0},
		"garbage":             {modeltest.Injection{Content: "no list"}, 200, "no list", 1, 1},
		"a page of a proxy":   {modeltest.Injection{Body: "<html>"}, 200, "<html>", 1, 1},
		"half a body":         {modeltest.Injection{HalfBody: true}, 200, "broken: unexpected EOF", 1, 1},
		"a body of its own":   {modeltest.Injection{Body: `{"choices":[]}`}, 200, `{"choices":[]}`, 1, 1},
		"explicitly answered": {modeltest.Injection{Status: 200}, 200, "An answer from", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, modeltest.Options{Script: func(modeltest.Seen) modeltest.Injection { return c.injection }})
			status, raw := post(t, server.URL+"/chat/completions", ask("", "a question"))
			if status != c.status || !strings.Contains(raw, c.says) {
				t.Errorf("%d %q, want %d %q", status, raw, c.status, c.says)
			}
			if got := server.Stats(); got.Chat != c.paid || got.Garbage != c.bad || got.Refused != 1-c.paid {
				t.Errorf("paid %d, garbage %d, refused %d", got.Chat, got.Garbage, got.Refused)
			}
		})
	}
}

func TestAScriptSeesEachRequest(t *testing.T) {
	var mu sync.Mutex
	var seen []modeltest.Seen
	server := serve(t, modeltest.Options{Script: func(s modeltest.Seen) modeltest.Injection {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, s)
		if s.N == 2 {
			return modeltest.Injection{Status: 429, RetryAfter: 7 * time.Second}
		}
		return modeltest.Injection{}
	}})
	post(t, server.URL+"/chat/completions", ask("shorten", "some text"))
	post(t, server.URL+"/embeddings", map[string]any{"input": []string{"first", "second"}})
	post(t, server.URL+"/chat/completions", ask("", "a question"))
	want := []modeltest.Seen{{1, "shorten", "some text"}, {2, "embed", "first"}, {3, "answer", "a question"}}
	assert.Equal(t, fmt.Sprint(want), fmt.Sprint(seen), "seen %v, want %v", seen, want)
	if got := server.Stats(); got.RateLimited != 1 || got.Embed != 0 || got.Chat != 2 {
		t.Errorf("counts %+v", got)
	}
}

func TestRequestsAreCountedWhenTheyArrive(t *testing.T) {
	release := make(chan struct{})
	server := serve(t, modeltest.Options{Script: func(modeltest.Seen) modeltest.Injection {
		<-release
		return modeltest.Injection{}
	}})
	before := time.Now()
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { post(t, server.URL+"/chat/completions", ask("", fmt.Sprint("question ", i))) })
	}
	for server.Stats().Started < 3 {
		time.Sleep(time.Millisecond)
	}
	mark := time.Now()
	got := server.Stats()
	if got.Chat != 0 || got.InFlight != 3 || got.MaxFlight != 3 || got.LastStart.Before(before) ||
		got.LastStart.After(mark) {
		t.Errorf("while they are served: %+v", got)
	}
	if server.StartedSince(before) != 3 || server.StartedSince(mark) != 0 {
		t.Errorf("started %d, %d", server.StartedSince(before), server.StartedSince(mark))
	}
	close(release)
	wg.Wait()
	if server.StartedSince(mark) != 0 || server.Stats().Chat != 3 {
		t.Error("an answer is not a start")
	}
	post(t, server.URL+"/chat/completions", ask("", "one more"))
	assert.Equal(t, int64(1), server.StartedSince(mark), "started since the mark")
}

func TestWhatIsInFlightIsKnownInTheUnitsThatArePaid(t *testing.T) {
	release := make(chan struct{})
	server := serve(t, modeltest.Options{Script: func(modeltest.Seen) modeltest.Injection {
		<-release
		return modeltest.Injection{}
	}})
	var wg sync.WaitGroup
	wg.Go(func() { post(t, server.URL+"/chat/completions", ask("", "a question")) })
	wg.Go(func() { post(t, server.URL+"/embeddings", map[string]any{"input": []string{"one", "two", "three"}}) })
	for got := server.Stats(); got.ChatInFlight != 1 || got.TextsInFlight != 3; got = server.Stats() {
		if got.ChatInFlight > 1 || got.TextsInFlight > 3 {
			t.Fatalf("%d calls and %d texts are in flight", got.ChatInFlight, got.TextsInFlight)
		}
		time.Sleep(time.Millisecond)
	}
	server.Reset() // what is in flight stays so
	if got := server.Stats(); got.ChatInFlight != 1 || got.TextsInFlight != 3 {
		t.Errorf("after a reset %d calls and %d texts are in flight", got.ChatInFlight, got.TextsInFlight)
	}
	close(release)
	wg.Wait()
	for got := server.Stats(); got.ChatInFlight+got.TextsInFlight != 0; got = server.Stats() {
		time.Sleep(time.Millisecond)
	}
}

func TestTheAdminPaths(t *testing.T) {
	server := serve(t, modeltest.Options{})
	base := strings.TrimSuffix(server.URL, "/v1")
	mark := time.Now().UTC()
	post(t, server.URL+"/chat/completions", ask("", "a question"))
	_, raw := post(t, base+"/stats?since="+url.QueryEscape(mark.Format(time.RFC3339Nano)), nil)
	var stats map[string]any
	require.NoError(t, json.Unmarshal([]byte(raw), &stats))
	for key, want := range map[string]float64{
		"chat": 1, "duplicates": 0, "embed_calls": 0, "embed_texts": 0, "embed_tokens": 0, "c429": 0, "c500": 0,
		"garbage": 0, "max_inflight": 1, "started": 1, "started_since": 1,
	} {
		if stats[key] != want {
			t.Errorf("%s is %v, want %v", key, stats[key], want)
		}
	}
	post(t, base+"/latency?chat=40ms&embed=bad", nil)
	begin := time.Now()
	post(t, server.URL+"/chat/completions", ask("", "another question"))
	if took := time.Since(begin); took < 40*time.Millisecond {
		t.Errorf("answered after %s", took)
	}
	post(t, base+"/reset", nil)
	assert.Zero(t, server.Stats().Started, "after /reset")
	if status, _ := post(t, server.URL+"/nothing", nil); status != 404 || server.Stats().Started != 0 {
		t.Errorf("an unknown path: %d", status)
	}
}

func TestKnownPassagesAreReplayedAndOthersExtractedByRule(t *testing.T) {
	dir := t.TempDir()
	passage := "Niels Bohr was a physicist who lived in Copenhagen for most of his life."
	corpus, extractions := filepath.Join(dir, "corpus.jsonl"), filepath.Join(dir, "extractions.jsonl")
	for path, line := range map[string]string{
		corpus:      fmt.Sprintf(`{"id":"7","text":%q}`, passage),
		extractions: `{"chunk_id":"7","entities":["A name",{"name":"B","description":"of B"},17]}`,
	} {
		require.NoError(t, os.WriteFile(path, []byte(line+"\n"), 0o600))
	}
	server := serve(t, modeltest.Options{})
	require.NoError(t, server.Replay(corpus, extractions))
	_, known := post(t, server.URL+"/chat/completions", ask("extract", passage))
	if !strings.Contains(known, `A name`) || !strings.Contains(known, `of B`) || strings.Contains(known, "Copenhagen") {
		t.Errorf("a known passage: %s", known)
	}
	_, other := post(t, server.URL+"/chat/completions", ask("extract", "Lothair of Tours met the king of Denmark."))
	assert.Contains(t, other, "Lothair", "another passage")
	assert.Error(t, server.Replay(filepath.Join(dir, "none"), extractions), "a missing corpus is no error")
}

// What enrichments ask for is answered in the shapes that they read, and counted.
func TestEnrichmentsAreAnswered(t *testing.T) {
	server := serve(t, modeltest.Options{})
	for _, c := range []struct{ task, property, user, want string }{
		{model.Extract, "questions", "Carla Ruiz built the quay.", "What is said of Carla Ruiz?"},
		{model.Triples, "triples", "[0] Carla Ruiz built the quay of Port Alma.", "Carla Ruiz"},
		{model.Pairs, "same", "A: Port Alma\nSaid of it: x\n\nB: PortAlma\nSaid of it: y", `"same":true`},
		{model.Pairs, "same", "A: Port Alma\nSaid of it: x\n\nB: Port Verin\nSaid of it: y", `"same":false`},
	} {
		body := ask(c.task, c.user)
		body["response_format"] = map[string]any{"json_schema": map[string]any{
			"name": c.task, "schema": map[string]any{"properties": map[string]any{c.property: map[string]any{}}},
		}}
		status, raw := post(t, server.URL+"/chat/completions", body)
		var answer struct {
			Choices []struct{ Message struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(raw), &answer); err != nil || status != http.StatusOK || len(answer.Choices) != 1 ||
			!strings.Contains(answer.Choices[0].Message.Content, c.want) {
			t.Errorf("%s: %d, %s, %v; want %s", c.task, status, raw, err, c.want)
		}
	}
	assert.Equal(t, int64(4), server.Stats().Chat)
}

package batch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/batch"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

var errKilled = errors.New("killed")

// world is a server, a store that outlives runners, and the book that answers are taken into.
type world struct {
	server *modeltest.Server
	store  *mortal
	polls  int

	mu     sync.Mutex
	book   map[string]batch.Answer
	killAt int // takes and writes that are left before a runner dies; below 0: it does not
}

// mortal is a store whose writer dies before or after a write.
type mortal struct {
	blob.Store
	w     *world
	after bool
}

func (m *mortal) Put(ctx context.Context, key string, body io.Reader, size int64, c blob.Cond) (blob.Info, error) {
	dies := m.w.dies()
	if dies && !m.after {
		return blob.Info{}, errKilled
	}
	info, err := m.Store.Put(ctx, key, body, size, c)
	if dies {
		return info, errKilled
	}
	return info, err
}

func (w *world) dies() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.killAt--
	return w.killAt == -1
}

func newWorld(t *testing.T, faults modeltest.BatchFaults) *world {
	w := &world{server: modeltest.New(modeltest.Options{}), book: map[string]batch.Answer{}, killAt: -1}
	w.store = &mortal{Store: blobmemory.New(), w: w}
	require.NoError(t, w.server.Listen("127.0.0.1:0"))
	t.Cleanup(w.server.Close)
	w.server.SetBatchFaults(faults)
	return w
}

func (w *world) runner(t *testing.T) *batch.Runner {
	return w.runnerOf(t, batch.NewClient(w.server.URL, "", 0))
}

func (w *world) runnerOf(t *testing.T, server batch.Server) *batch.Runner {
	return &batch.Runner{
		Client: server, Store: w.store, Prefix: "batches", Tokens: 4000, Now: time.Now,
		Wait: func(context.Context, time.Duration) error {
			if w.polls++; w.polls > 2000 {
				t.Fatal("it does not end")
			}
			return nil
		},
		Missing: func(_ context.Context, ids []string) ([]string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
				answer, got := w.book[id]
				return got && !answer.CanRetry()
			}), nil
		},
		Take: func(_ context.Context, answers []batch.Answer) error {
			for i, answer := range answers {
				if i == len(answers)/2 && w.dies() {
					return errKilled
				}
				w.mu.Lock()
				w.book[answer.ID] = answer
				w.mu.Unlock()
			}
			return nil
		},
	}
}

func requests(n int) []batch.Request {
	out := make([]batch.Request, n)
	for i := range out {
		user := fmt.Sprintf("Ada Lovelace wrote note %d about the Analytical Engine <of> Charles Babbage.", i)
		body, _ := json.Marshal(map[string]any{
			"model": "test", "messages": []any{map[string]string{"role": "user", "content": user}},
			"response_format": map[string]any{"json_schema": map[string]string{"name": "extract"}},
		})
		out[i] = batch.Request{ID: core.Sum(user).String(), Body: body, Tokens: 60}
	}
	return out
}

func parts(t *testing.T, n int) []batch.Part {
	return musttest.Get(batch.Cut(requests(n), batch.Limits{Requests: 10}))(t)
}

// everything is each fault of the server at once.
var everything = modeltest.BatchFaults{
	LoseCreate: 2, CutCreate: 2, LateFile: 2, Limited: 2, Down: 2, Expire: 3, Busy: 3, Drop: 2,
	Reject: "note 7 ", Tokens: 1300,
}

// TestNothingIsPaidTwice plays every fault of the server, with a runner that dies at each of its steps in turn: what
// was paid for once is found again.
func TestNothingIsPaidTwice(t *testing.T) {
	cut, pushes := parts(t, 40), 0
	for _, after := range []bool{false, true} {
		for step := -1; step < 24; step++ {
			w := newWorld(t, everything)
			w.store.after, w.killAt = after, step
			var left []string
			err := errKilled
			for runs := 0; err != nil; runs++ {
				left, err = w.runner(t).Run(t.Context(), cut)
				require.True(t, err == nil || runs <= 1 && errors.Is(err, errKilled), "step %d after %v: %v", step, after, err)
			}
			stats := w.server.Stats()
			assert.True(t, stats.Duplicates == 0 && stats.Chat == 39 && len(left) == 0 && len(w.book) == 40,
				"step %d after %v: paid twice %d, paid %d of 39, left %d, known %d", step, after, stats.Duplicates, stats.Chat,
				len(left), len(w.book))
			_, pushed := w.server.Batches()
			pushes += pushed
		}
	}
	assert.True(t, pushes != 0, "no batch met the limit of tokens")
}

func TestNoOutputFileWhenAllFail(t *testing.T) {
	w := newWorld(t, modeltest.BatchFaults{Reject: "Lovelace"})
	require.Empty(t, musttest.Get(w.runner(t).Run(t.Context(), parts(t, 5)))(t))
	for id, answer := range w.book {
		assert.True(t, answer.Status == 400 && answer.Code == "content_filter" && !answer.CanRetry(), "%s: %+v", id, answer)
	}
	assert.Len(t, w.book, 5)
}

// forgetful is a server that forgot some files before anybody read them, as after 30 days.
type forgetful struct {
	*batch.Client
	mu     sync.Mutex
	forget int
}

func (f *forgetful) Content(ctx context.Context, file string, requests int) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.forget--; f.forget >= 0 {
		return nil, fault.NotFound.At("read", file)
	}
	return f.Client.Content(ctx, file, requests)
}

func TestAnswersThatTheServerForgotAreAskedForInAnotherRound(t *testing.T) {
	w := newWorld(t, modeltest.BatchFaults{})
	server := &forgetful{Client: batch.NewClient(w.server.URL, "", 0), forget: 1}
	left := musttest.Get(w.runnerOf(t, server).Run(t.Context(), parts(t, 20)))(t)
	require.True(t, len(left) == 0 && len(w.book) == 20, "left %d, known %d", len(left), len(w.book))
	created, _ := w.server.Batches()
	assert.True(t, created == 3, "%d batches, want one more than parts", created)
}

// TestRoundsOfPartsThatNobodyWants are ended, and what they answered is taken.
func TestRoundsOfPartsThatNobodyWants(t *testing.T) {
	w := newWorld(t, modeltest.BatchFaults{Stuck: true})
	runner := w.runner(t)
	runner.Wait = func(context.Context, time.Duration) error { return errKilled }
	_, err := runner.Run(t.Context(), parts(t, 20))
	require.True(t, errors.Is(err, errKilled), "%v", err)
	cut := musttest.Get(batch.Cut(requests(30)[20:], batch.Limits{Requests: 10}))(t)
	w.server.SetBatchFaults(modeltest.BatchFaults{})
	require.Empty(t, musttest.Get(w.runner(t).Run(t.Context(), cut))(t))
	assert.Len(t, w.book, int(w.server.Stats().Chat), "known of those that were paid for")
	assert.True(t, len(w.book) > 10 && w.server.Files() == 0, "known %d, files %d", len(w.book), w.server.Files())
}

func TestBatchesAnHourAreBounded(t *testing.T) {
	w := newWorld(t, modeltest.BatchFaults{})
	runner, now := w.runner(t), time.Unix(0, 0)
	begun := map[int64]int{}
	runner.Hourly, runner.Tokens, runner.Now = 2, 0, func() time.Time { return now }
	runner.Wait = func(context.Context, time.Duration) error {
		created, _ := w.server.Batches()
		begun[now.Unix()/3600] = created
		now = now.Add(10 * time.Minute)
		return nil
	}
	require.Empty(t, musttest.Get(runner.Run(t.Context(), parts(t, 50)))(t))
	assert.True(t, begun[0] == 2 && begun[1] == 4, "batches by hour, summed up: %v", begun)
}

// TestDeadline leaves what a batch did not answer in time to online calls, and keeps what it did.
func TestDeadline(t *testing.T) {
	w := newWorld(t, modeltest.BatchFaults{Stuck: true})
	runner, now := w.runner(t), time.Unix(0, 0)
	runner.Now, runner.Until = func() time.Time { return now }, now.Add(time.Hour)
	runner.Wait = func(context.Context, time.Duration) error {
		now = now.Add(10 * time.Minute)
		return nil
	}
	left := musttest.Get(runner.Run(t.Context(), parts(t, 20)))(t)
	assert.True(t, len(left) == 10 && len(w.book) == 10 && w.server.Stats().Chat == 10,
		"left %d, known %d, paid %d: want 10 each", len(left), len(w.book), w.server.Stats().Chat)
	for _, id := range left {
		_, got := w.book[id]
		assert.False(t, got, "%s would be paid for again", id)
	}
}

// TestWhatAnotherAnsweredUntilItIsHeldIsNotAskedFor: another runner held a request, and was answered since this one
// looked; its claim is given back.
// Promises: 2.
func TestWhatAnotherAnsweredUntilItIsHeldIsNotAskedFor(t *testing.T) {
	w, freed := newWorld(t, modeltest.BatchFaults{}), map[string]bool{}
	another := requests(10)[3].ID
	runner := w.runner(t)
	runner.Hold = func(_ context.Context, ids []string) ([]string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.book[another] = batch.Answer{ID: another, Status: 200}
		return ids, nil
	}
	runner.Free = func(_ context.Context, ids []string) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, id := range ids {
			freed[id] = true
		}
		return nil
	}
	assert.Empty(t, musttest.Get(runner.Run(t.Context(), parts(t, 10)))(t))
	stats := w.server.Stats()
	assert.True(t, stats.Chat == 9 && len(w.book) == 10 && freed[another], "%+v, known %d, %v", stats, len(w.book), freed)
}

// answering answers what lies in the input folder as vllm run-batch does: a line for each request, in any order, a
// status and an error for what the engine refuses, codes as numbers.
func answering(t *testing.T, dir string) {
	inputs := musttest.Get(filepath.Glob(filepath.Join(dir, "input", "*.jsonl")))(t)
	for _, input := range inputs {
		raw := musttest.Get(os.ReadFile(input))(t)
		var out strings.Builder
		for line := range strings.Lines(string(raw)) {
			var asked struct {
				ID     string `json:"custom_id"`
				Method string `json:"method"`
				URL    string `json:"url"`
			}
			err := json.Unmarshal([]byte(line), &asked)
			require.True(t, err == nil && asked.Method == "POST" && asked.URL == "/v1/chat/completions", "%s: %v", line, err)
			if strings.Contains(line, "note 3 ") {
				fmt.Fprintf(&out, `{"id":"vllm-1","custom_id":%q,"response":{"status_code":400,"request_id":"r","body":null},`+
					`"error":{"message":"too long","code":400}}`+"\n", asked.ID)
				continue
			}
			fmt.Fprintf(&out, `{"id":"vllm-1","custom_id":%q,"response":{"status_code":200,"body":{"n":1}},"error":null}`+"\n",
				asked.ID)
		}
		part := filepath.Join(dir, "output", "."+filepath.Base(input))
		require.NoError(t, os.WriteFile(part, []byte(out.String()), 0o600))
		require.NoError(t, os.Rename(part, filepath.Join(dir, "output", filepath.Base(input))))
	}
}

func TestAFolderIsAnsweredByAnotherProgram(t *testing.T) {
	w := &world{store: &mortal{Store: blobmemory.New()}, book: map[string]batch.Answer{}, killAt: -1}
	w.store.w = w
	dir := filepath.Join(t.TempDir(), "batches")
	runner := w.runnerOf(t, batch.Folder{Dir: dir})
	runner.Wait = func(context.Context, time.Duration) error {
		answering(t, dir)
		return nil
	}
	left, err := runner.Run(t.Context(), parts(t, 25))
	require.True(t, err == nil && len(left) == 0 && len(w.book) == 25, "%d, %d, %v", len(left), len(w.book), err)
	refused := 0
	for _, answer := range w.book {
		if !answer.IsAnswered() {
			refused++
			assert.True(t, answer.Code == "400" && answer.Message == "too long" && !answer.CanRetry(), "%+v", answer)
		}
	}
	assert.Equal(t, 1, refused)
	assert.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		assert.True(t, err != nil || entry.IsDir(), "%s is left", path)
		return err
	}))
}

func TestAFolderThatNobodyAnswersIsLeftAtTheDeadline(t *testing.T) {
	w := &world{store: &mortal{Store: blobmemory.New()}, book: map[string]batch.Answer{}, killAt: -1}
	w.store.w = w
	runner, now := w.runnerOf(t, batch.Folder{Dir: t.TempDir()}), time.Unix(0, 0)
	runner.Now, runner.Until = func() time.Time { return now }, now.Add(time.Hour)
	runner.Wait = func(context.Context, time.Duration) error { now = now.Add(20 * time.Minute); return nil }
	require.Len(t, musttest.Get(runner.Run(t.Context(), parts(t, 25)))(t), 25)
}

func TestAFolderGivesNothingFromOutside(t *testing.T) {
	folder := batch.Folder{Dir: t.TempDir()}
	for _, id := range []string{"", "../x", "a/b", ".hidden"} {
		musttest.Code(t, musttest.Err(folder.Get(t.Context(), id)), fault.Internal, "%q", id)
	}
	musttest.Refuse(folder.Get(t.Context(), "absent"))(t, fault.NotFound)
}

func TestCutIsByContent(t *testing.T) {
	given := requests(25)
	first, err := batch.Cut(given, batch.Limits{Requests: 10})
	require.True(t, err == nil && len(first) == 3, "%d parts: %v", len(first), err)
	again := append(slices.Clone(given), given[3])
	slices.Reverse(again)
	second, err := batch.Cut(again, batch.Limits{Requests: 10})
	assert.True(t, err == nil && reflect.DeepEqual(first, second), "another order gives other parts: %v", err)
}

func TestCutKeepsLimits(t *testing.T) {
	given := requests(25)
	one := musttest.Get(batch.Encode(given[:1]))(t)
	most := int64(3*len(one) + 20)
	cut, held := musttest.Get(batch.Cut(given, batch.Limits{Bytes: most}))(t), 0
	for _, part := range cut {
		lines, err := batch.Encode(part.Requests)
		assert.True(t, err == nil && int64(len(lines)) <= most, "%d bytes of %d: %v", len(lines), most, err)
		held += len(part.Requests)
	}
	byTokens := musttest.Get(batch.Cut(given, batch.Limits{Tokens: 120}))(t)
	assert.True(t, len(byTokens) == 13 && held == 25, "%d parts of two, %d requests", len(byTokens), held)
	musttest.Refuse(batch.Cut(given, batch.Limits{Bytes: 10}))(t, fault.TooLarge)
}

func TestRead(t *testing.T) {
	output := []byte(`{"custom_id":"b","response":{"status_code":200,"body":{"x":1}},"error":null}
{"custom_id":"a","response":{"status_code":200,"body":{}},"error":null}
no line
{"custom_id":"foreign","response":{"status_code":200,"body":{}}}
`)
	failures := []byte(`{"custom_id":"c","response":null,"error":{"code":"batch_expired","message":"late"}}
{"custom_id":"a","response":{"status_code":500,"body":{}},"error":null}
`)
	got := batch.Read(map[string]bool{"a": true, "b": true, "c": true, "d": true}, output, failures)
	assert.True(t, len(got.Answers) == 3 && got.Foreign == 1 && got.Broken == 1, "%+v", got)
	assert.True(t, got.Answers["a"].IsAnswered() && string(got.Answers["b"].Body) == `{"x":1}`, "%+v", got.Answers)
	expired := got.Answers["c"]
	assert.True(t, expired.Code == batch.Expired && expired.CanRetry() && !expired.IsAnswered(), "%+v", expired)
}

// A server without an end is given up.
func TestWhatABatchServerSendsIsBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Empty(t, r.Header.Get("Accept-Encoding"))
		if r.URL.Path == "/batches" {
			_, _ = io.WriteString(w, `{"data":[{"id":"b"}],"has_more":true}`)
			return
		}
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat(" ", 64<<10)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	client := batch.NewClient(server.URL, "", 0)
	_, err := client.Find(t.Context(), map[string]bool{"part": true})
	assert.True(t, fault.Is(err, fault.ModelUnavailable) && strings.Contains(err.Error(), "1000 pages"), "%v", err)
	_, err = client.Get(t.Context(), "b")
	assert.True(t, fault.Is(err, fault.ModelUnavailable) && strings.Contains(err.Error(), "2 MiB"), "%v", err)
	_, err = client.Content(t.Context(), "f", 8)
	assert.True(t, fault.Is(err, fault.ModelUnavailable) && strings.Contains(err.Error(), "3 MiB"), "%v", err)
}

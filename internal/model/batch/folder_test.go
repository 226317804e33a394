package batch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/batch"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

// answering answers what lies in the input folder as vllm run-batch does: a line for each request, in any order, a
// status and an error for what the engine refuses, codes as numbers.
func answering(t *testing.T, dir string) {
	t.Helper()
	inputs, err := filepath.Glob(filepath.Join(dir, "input", "*.jsonl"))
	require.NoError(t, err)
	for _, input := range inputs {
		raw, err := os.ReadFile(input)
		require.NoError(t, err)
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
	require.True(t, err == nil && len(left) == 0 && len(w.book) == 25,
		"left %d, known %d: %v", len(left), len(w.book), err)
	refused := 0
	for _, answer := range w.book {
		if !answer.IsAnswered() {
			refused++
			assert.True(t, answer.Code == "400" && answer.Message == "too long" && !answer.CanRetry(), "%+v", answer)
		}
	}
	assert.Equal(t, 1, refused)
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		assert.True(t, err != nil || entry.IsDir(), "%s is left", path)
		return err
	})
	assert.NoError(t, err)
}

func TestAFolderThatNobodyAnswersIsLeftAtTheDeadline(t *testing.T) {
	w := &world{store: &mortal{Store: blobmemory.New()}, book: map[string]batch.Answer{}, killAt: -1}
	w.store.w = w
	dir := t.TempDir()
	runner := w.runnerOf(t, batch.Folder{Dir: dir})
	now := time.Unix(0, 0)
	runner.Now, runner.Until = func() time.Time { return now }, now.Add(time.Hour)
	runner.Wait = func(context.Context, time.Duration) error {
		now = now.Add(20 * time.Minute)
		return nil
	}
	left, err := runner.Run(t.Context(), parts(t, 25))
	require.True(t, err == nil && len(left) == 25, "left %d: %v", len(left), err)
}

func TestAFolderGivesNothingFromOutside(t *testing.T) {
	folder := batch.Folder{Dir: t.TempDir()}
	for _, id := range []string{"", "../x", "a/b", ".hidden"} {
		_, err := folder.Get(t.Context(), id)
		assert.True(t, fault.Is(err, fault.Internal), "%q: %v", id, err)
	}
	_, err := folder.Get(t.Context(), "absent")
	assert.True(t, fault.Is(err, fault.NotFound), "absent: %v", err)
}

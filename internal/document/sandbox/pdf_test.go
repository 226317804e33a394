package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// Children that start at once with an empty folder compile once, and leave the code to this user alone.
func TestCompiledCodeIsKeptForTheNextChild(t *testing.T) {
	base := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", base)
	folder := filepath.Join(base, "unweaver", "wasm")
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // it is to be mended
		t.Fatal(err)
	}
	pool := newPool(t, 3, limits())
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			_, text, err := parseDocument(t.Context(), pool, "a.pdf", documenttest.PDF("good"))
			assert.True(t, err == nil && strings.Contains(text, "good"), "%q, %v", text, err)
		})
	}
	all.Wait()
	info, err := os.Stat(folder)
	assert.True(t, err == nil && info.Mode().Perm() == 0o700, "%v, %v", info, err)
	kept, _ := filepath.Glob(filepath.Join(folder, "wazero-*", "*"))
	require.True(t, len(kept) == 1, "kept: %v", kept)
	whole := must(os.Stat(kept[0]))
	if err := os.Truncate(kept[0], whole.Size()/2); err != nil { // as a loss of power may leave it
		t.Fatal(err)
	}
	again := newPool(t, 1, limits())
	_, text, err := parseDocument(t.Context(), again, "a.pdf", documenttest.PDF("good"))
	assert.True(t, err == nil && strings.Contains(text, "good"), "%q, %v", text, err)
	now, err := os.Stat(kept[0])
	assert.True(t, err == nil && now.Size() == whole.Size(), "%v, %v: it is not mended", now, err)
}

// Where no folder can be used, children compile for themselves.
func TestWithoutAFolderForCompiledCodeAChildCompiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("XDG_CACHE_HOME", file)
	t.Setenv("TMPDIR", file)
	pool := newPool(t, 1, limits())
	for range 2 { // the second in the same child
		_, text, err := parseDocument(t.Context(), pool, "a.pdf", documenttest.PDF("good"))
		assert.True(t, err == nil && strings.Contains(text, "good"), "%q, %v", text, err)
	}
	pids := pool.PIDs()
	assert.True(t, len(pids) == 1, "children: %v", pids)
	_, _, err := parseDocument(t.Context(), pool, "forms.pdf", documenttest.Deadly()["forms.pdf"])
	assert.True(t, err != nil && strings.Contains(err.Error(), "memory"), "a document that takes too much: %v", err)
}

// A child that reads no PDF compiles nothing; one that does reads everything.
func TestAChildForPDFsTakesThePlaceOfAnother(t *testing.T) {
	pool := newPool(t, 1, limits())
	seen := map[int]bool{}
	for _, name := range []string{"a.html", "a.pdf", "b.html", "b.pdf"} {
		content := "<p>good</p>"
		if strings.HasSuffix(name, ".pdf") {
			content = documenttest.PDF("good")
		}
		_, text, err := parseDocument(t.Context(), pool, name, content)
		assert.True(t, err == nil && strings.Contains(text, "good"), "%q, %v", text, err)
		pids := pool.PIDs()
		assert.True(t, len(pids) == 1, "children: %v", pids)
		seen[pids[0]] = true
	}
	assert.True(t, len(seen) == 2, "%d children", len(seen))
}

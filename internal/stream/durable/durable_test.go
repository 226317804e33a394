package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/stream/durable"
)

func TestAFileIsReplacedWholeAndNothingIsLeftBeside(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	for range 2 { // the second finds it there
		require.NoError(t, durable.MkdirAll(folder, 0o700))
	}
	path := filepath.Join(folder, "f")
	for _, content := range []string{"a longer one", "short"} {
		require.NoError(t, durable.WriteFile(path, []byte(content), 0o600))
		raw, err := os.ReadFile(path)
		assert.True(t, err == nil && string(raw) == content, "%q, %v", raw, err)
	}
	entries, err := os.ReadDir(folder)
	assert.True(t, err == nil && len(entries) == 1, "%v, %v", entries, err)
}

func TestAWriteThatCannotBeMadeKeepsTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, durable.WriteFile(path, []byte("old"), 0o600))
	require.NoError(t, os.Mkdir(path+".tmp", 0o700))
	assert.Error(t, durable.WriteFile(path, []byte("new"), 0o600), "it was written")
	raw, err := os.ReadFile(path)
	assert.True(t, err == nil && string(raw) == "old", "%q, %v", raw, err)
}

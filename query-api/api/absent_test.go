package api_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/query-api/api"
)

// A client takes an empty list for true and a 404 for final, and drops what it has: while the store is missing, neither
// is an answer.
func TestAMissingStoreIsNotAnEmptyOne(t *testing.T) {
	root := filepath.Join(t.TempDir(), "artifacts")
	f := serve(t, func(f *fixture, config *api.Config) {
		store, err := dir.Open(root)
		require.NoError(t, err)
		for info, err := range f.stores.Blobs.List(t.Context(), "", "") {
			require.NoError(t, err)
			require.NoError(t, blob.Copy(t.Context(), store, info.Key, f.stores.Blobs, info.Key))
		}
		config.Artifacts = store
	})
	f.ask(fram)
	question := map[string]any{"query": "Oslo"}
	requests := []struct {
		method, path string
		body         any
	}{
		{"GET", "/v1/indexes", nil},
		{"GET", "/v1/models", nil},
		{"GET", "/v1/models/unweaver/sample", nil},
		{"GET", "/v1/indexes/sample", nil},
		{"GET", "/v1/indexes/sample/generations", nil},
		{"GET", "/v1/indexes/sample/generations/g1", nil},
		{"GET", "/v1/indexes/sample/runs", nil},
		{"GET", "/v1/indexes/sample/runs/g1", nil},
		{"GET", "/v1/indexes/sample/trends", nil},
		{"GET", "/v1/indexes/other/documents", nil},
		{"POST", "/v1/indexes/other/query", question},
		{"POST", completions, norway(map[string]any{"model": "unweaver/other"})},
	}
	for name, put := range map[string]func() error{
		"moved away":   func() error { return nil },
		"an empty one": func() error { return os.Mkdir(root, 0o700) }, // as a mount point is
	} {
		require.NoError(t, os.Rename(root, root+".away"))
		require.NoError(t, put())
		for _, one := range requests {
			status, out, header := f.do(one.method, one.path, one.body)
			if inner, ok := out["error"].(map[string]any); ok {
				out = inner
			}
			assert.True(t, status == http.StatusServiceUnavailable && out["code"] == "store_unavailable" &&
				header.Get("Retry-After") != "", "%s: %s %s: %d %v", name, one.method, one.path, status, out)
		}
		status, out, _ := f.do("POST", "/v1/indexes/sample/query", question) // it is open: what it has is right
		assert.True(t, status == http.StatusOK || out["code"] == "store_unavailable", "%s: %d %v", name, status, out)
		status, _, _ = f.do("GET", "/readyz", nil)
		assert.Equal(t, http.StatusServiceUnavailable, status, "%s", name)
		if err := os.Remove(root); name == "an empty one" {
			require.NoError(t, err, "something was written into it")
		} else {
			require.ErrorIs(t, err, os.ErrNotExist, "it was made again")
		}
		require.NoError(t, os.Rename(root+".away", root))
		f.get("/readyz")
		f.ask(question)
	}
}

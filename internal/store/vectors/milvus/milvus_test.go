package milvus_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/store/vectors/milvus"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

// conformance runs the suite against the server that an environment variable names.
func conformance(t *testing.T, variable, index string, lacks ...string) {
	url := os.Getenv(variable)
	if url == "" {
		t.Skip(variable + " names no server: make test-servers starts one")
	}
	vectorstest.Run(t, func(t *testing.T) vectors.Store {
		for _, name := range lacks {
			if strings.HasSuffix(t.Name(), name) {
				t.Skip("this server does not have it")
			}
		}
		store, err := milvus.Open(t.Context(), milvus.Config{URL: url, Index: index})
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		require.NoError(t, store.Drop(t.Context(), vectorstest.Collection))
		return store
	})
}

func TestConformance(t *testing.T)        { conformance(t, "UNWEAVER_TEST_MILVUS", "hnsw") }
func TestConformanceWithIVF(t *testing.T) { conformance(t, "UNWEAVER_TEST_MILVUS", "ivf") }

// The small server gives every collection the same identity, so one that was made again cannot be noticed.
func TestConformanceWithMilvusLite(t *testing.T) {
	conformance(t, "UNWEAVER_TEST_MILVUS_LITE", "hnsw", "/a_collection_that_was_made_again_has_another_identity")
}

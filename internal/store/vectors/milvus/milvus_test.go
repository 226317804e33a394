package milvus_test

import (
	"os"
	"testing"

	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/store/vectors/milvus"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

func server(t *testing.T) string {
	t.Helper()
	u := os.Getenv("UNWEAVER_TEST_MILVUS")
	if u == "" {
		t.Skip("no Milvus: make test-servers has one")
	}
	return u
}

func conformance(t *testing.T, index string) {
	url := server(t)
	vectorstest.Run(t, func(t *testing.T) vectors.Store {
		store, err := milvus.Open(t.Context(), milvus.Config{URL: url, Index: index})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		if err := store.Drop(t.Context(), vectorstest.Collection); err != nil {
			t.Fatal(err)
		}
		return store
	})
}

func TestConformance(t *testing.T)        { conformance(t, "hnsw") }
func TestConformanceWithIVF(t *testing.T) { conformance(t, "ivf") }

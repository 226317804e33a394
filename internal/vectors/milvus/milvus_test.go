package milvus_test

import (
	"os"
	"testing"

	"github.com/unweaver/unweaver/internal/vectors"
	"github.com/unweaver/unweaver/internal/vectors/milvus"
	"github.com/unweaver/unweaver/internal/vectors/vectorstest"
)

func server(t *testing.T) string {
	t.Helper()
	u := os.Getenv("UNWEAVER_TEST_MILVUS")
	if u == "" {
		t.Skip("no Milvus: run make servers, then make test")
	}
	return u
}

func conformance(t *testing.T, index string) {
	vectorstest.Run(t, func(t *testing.T) vectors.Store {
		s, err := milvus.Open(t.Context(), milvus.Config{URL: server(t), Index: index})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if err := s.Drop(t.Context(), vectorstest.Collection); err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestConformance(t *testing.T)        { conformance(t, "hnsw") }
func TestConformanceWithIVF(t *testing.T) { conformance(t, "ivf") }

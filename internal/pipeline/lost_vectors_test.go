package pipeline_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
	"github.com/unweaver/unweaver/internal/store/vectors/milvus"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
)

// A file of vectors that is gone, and a description of a collection with another bit, are found by the next night. It
// fills the collection from the artifacts: it asks no model, and no search gives other rows meanwhile.
// Promises: 85.
func TestANightFillsACollectionOfWhichAFileIsLost(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	for name, damage := range map[string]func(t *testing.T, collection string){
		"part gone": func(t *testing.T, collection string) {
			t.Helper()
			parts, err := filepath.Glob(filepath.Join(collection, "*.part"))
			if err != nil || len(parts) == 0 {
				t.Fatal(parts, err)
			}
			if err := os.Remove(parts[0]); err != nil {
				t.Fatal(err)
			}
		},
		"another dimension": func(t *testing.T, collection string) {
			t.Helper()
			path := filepath.Join(collection, "meta.json")
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.Index(raw, []byte(`"dim":`)) + len(`"dim":`)
			raw[at] ^= 2
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPaidSite(t, 8, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
			folder := s.onDisk(t)
			first := s.night(t)
			rows := func(collection string) int64 {
				n, err := s.Vectors.Count(t.Context(), collection)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			for _, collection := range []string{first.manifest.Collections.Classes, first.manifest.Collections.Chunks} {
				want := rows(collection)
				if err := s.Vectors.Close(); err != nil {
					t.Fatal(err)
				}
				damage(t, filepath.Join(folder, "vectors", collection))
				dense, err := files.Open(filepath.Join(folder, "vectors"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = dense.Close() })
				s.Vectors = dense
				before := s.server.Stats()
				if night := s.night(t); night.planned.Repair == 0 {
					t.Errorf("%s: the night does not look: %+v", collection, night.planned)
				}
				if got := rows(collection); got != want {
					t.Errorf("%s has %d rows, and had %d", collection, got, want)
				}
				if after := s.server.Stats(); after.Chat != before.Chat || after.Texts != before.Texts {
					t.Errorf("models were asked: %+v, before %+v", after, before)
				}
				if again := s.night(t); again.planned.Repair != 0 {
					t.Errorf("%s: the night after looks again", collection)
				}
			}
		})
	}
}

// A collection that has another dimension than its name says is damaged, whatever the configuration is: it is made
// again and filled from the artifacts, without a model call.
// Promises: 85.
func TestANightFillsACollectionOfAnotherForm(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	stores := map[string]func(*testing.T) vectors.Store{
		"in memory": func(*testing.T) vectors.Store { return vectorsmemory.New() },
		"milvus-lite": func(t *testing.T) vectors.Store {
			t.Helper()
			url := os.Getenv("UNWEAVER_TEST_MILVUS_LITE")
			if url == "" {
				t.Skip("UNWEAVER_TEST_MILVUS_LITE names no server: make test-servers starts one")
			}
			store, err := milvus.Open(t.Context(), milvus.Config{URL: url, Index: "hnsw"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			return store
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			s := newPaidSite(t, 8, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
			s.Vectors = store
			first := s.night(t)
			for _, collection := range []string{first.manifest.Collections.Classes, first.manifest.Collections.Chunks} {
				t.Cleanup(func() { _ = store.Drop(context.Background(), collection) })
				want, err := store.Count(t.Context(), collection)
				if err != nil || want == 0 {
					t.Fatal(want, err)
				}
				if err := store.Create(t.Context(), collection, 7); err != nil {
					t.Fatal(err)
				}
				if _, err := store.Search(t.Context(), collection, make([]float32, 1024), 1); err == nil {
					t.Error("a damaged collection answers")
				}
				before := s.server.Stats()
				if night := s.night(t); night.planned.Repair == 0 {
					t.Errorf("%s: the night does not look: %+v", collection, night.planned)
				}
				if got, err := store.Count(t.Context(), collection); err != nil || got != want {
					t.Errorf("%s has %d rows, and had %d, %v", collection, got, want, err)
				}
				if after := s.server.Stats(); after.Chat != before.Chat || after.Texts != before.Texts {
					t.Errorf("models were asked: %+v, before %+v", after, before)
				}
			}
		})
	}
}

package pipeline_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
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

// Damage to open files of vectors is found by an audit, and mended by its repair, a restore and a night that looks for
// every row: the next process finds the collections whole, and this one searches them.
// Promises: 50, 85.
func TestDamageToOpenVectorsIsFoundAndMended(t *testing.T) {
	for name, mend := range map[string]func(t *testing.T, s *site, folder string) error{
		"repair": func(t *testing.T, s *site, _ string) error {
			t.Helper()
			found, err := s.audit(t, core.Everything, false)
			require.True(t, fault.Is(err, fault.Drift), "an audit finds nothing: %+v, %v", found, err)
			_, err = s.audit(t, core.Sample{Part: 1, Of: 2}, true)
			require.True(t, fault.Is(err, fault.Drift), "half of a lost collection was filled: %v", err)
			_, err = s.audit(t, core.Everything, true)
			return err
		},
		"restore": func(t *testing.T, s *site, _ string) error { t.Helper(); return s.restore(t) },
		"night": func(t *testing.T, s *site, folder string) error {
			t.Helper()
			for _, path := range matching(t, folder, "identity") { // a question met a damaged row
				require.NoError(t, os.Remove(path))
			}
			assert.NotZero(t, s.night(t).planned.Repair)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, folder := newSite(t, sample(8)), t.TempDir()
			open := func() *files.Store {
				dense, err := files.Open(folder)
				require.NoError(t, err)
				t.Cleanup(func() { _ = dense.Close() })
				return dense
			}
			s.Vectors = open()
			first := s.night(t).manifest
			parts := matching(t, folder, "*.part")
			for _, path := range parts {
				raw, err := os.ReadFile(path)
				require.NoError(t, err)
				raw[len(raw)/6] ^= 0xff // of the codes, which are checked when the file is opened
				require.NoError(t, os.WriteFile(path, raw, 0o600))
			}
			require.NoError(t, mend(t, s, folder))
			require.True(t, len(parts) > 1 && len(matching(t, folder, "*.part")) > 1, "%v", parts)
			question := make([]float32, first.Class.Dimension)
			question[0] = 1
			for _, collection := range []string{first.Collections.Classes, first.Collections.Chunks} {
				hits, err := s.Vectors.Search(t.Context(), collection, question, 1)
				assert.True(t, err == nil && len(hits) == 1, "%s: %v, %v", collection, hits, err)
			}
			require.NoError(t, s.Vectors.Close())
			s.Vectors = open()
			found, err := s.audit(t, core.Everything, false)
			assert.NoError(t, err, "%+v", found)
		})
	}
}

// matching lists the files of collections of a name.
func matching(t *testing.T, folder, name string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*[0-9]", name))
	require.True(t, err == nil && len(paths) > 0, "%v, %v", paths, err)
	return paths
}

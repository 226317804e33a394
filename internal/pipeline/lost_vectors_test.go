package pipeline_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/vectors/files"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
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
			require.True(t, err == nil && len(parts) != 0, "%v %v", parts, err)
			require.NoError(t, os.Remove(parts[0]))
		},
		"another dimension": func(t *testing.T, collection string) {
			t.Helper()
			path := filepath.Join(collection, "meta.json")
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			at := bytes.Index(raw, []byte(`"dim":`)) + len(`"dim":`)
			raw[at] ^= 2
			require.NoError(t, os.WriteFile(path, raw, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPaidSite(t, 8, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
			folder := s.onDisk(t)
			first := s.night(t)
			rows := func(collection string) int64 {
				n, err := s.Vectors.Count(t.Context(), collection)
				require.NoError(t, err)
				return n
			}
			for _, collection := range []string{first.manifest.Collections.Classes, first.manifest.Collections.Chunks} {
				want := rows(collection)
				require.NoError(t, s.Vectors.Close())
				damage(t, filepath.Join(folder, "vectors", collection))
				dense, err := files.Open(filepath.Join(folder, "vectors"))
				require.NoError(t, err)
				t.Cleanup(func() { _ = dense.Close() })
				s.Vectors = dense
				before := s.server.Stats()
				if night := s.night(t); night.planned.Repair == 0 {
					t.Errorf("%s: the night does not look: %+v", collection, night.planned)
				}
				assert.Equal(t, want, rows(collection), "%s", collection)
				if after := s.server.Stats(); after.Chat != before.Chat || after.Texts != before.Texts {
					t.Errorf("models were asked: %+v, before %+v", after, before)
				}
				assert.Zero(t, s.night(t).planned.Repair, "%s: the night after looks again", collection)
			}
		})
	}
}

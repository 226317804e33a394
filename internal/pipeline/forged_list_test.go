package pipeline_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Segments that have the bytes of their names, which are no documents all the same: no hash sees them.
// Promises: 84.
func TestAForgedListOfDocumentsHasEverythingMadeAgain(t *testing.T) {
	first := newSite(t, sample(12))
	want := first.night(t)
	replace := func(manifest *core.Manifest, other core.Segment) {
		other.Part = manifest.Segments.Documents[0].Part
		manifest.Segments.Documents[0] = other
	}
	forgeries := map[string]func(*testing.T, *site, *core.Manifest){
		"bytes of no format": func(t *testing.T, s *site, manifest *core.Manifest) {
			raw := []byte(strings.Repeat("no documents at all ", 100))
			sum := sha256.Sum256(raw)
			forged := core.Segment{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(raw))}
			key := s.index().SegmentKey(forged.SHA256)
			_, err := blob.Write(t.Context(), s.Artifacts, key, raw, blob.Cond{})
			require.NoError(t, err)
			replace(manifest, forged)
		},
		"rows of another kind": func(_ *testing.T, _ *site, manifest *core.Manifest) {
			replace(manifest, manifest.Segments.Mentions[0])
		},
		"fewer than the manifest says": func(_ *testing.T, _ *site, manifest *core.Manifest) {
			manifest.Segments.Splits[0].Documents++
		},
	}
	for name, forge := range forgeries {
		for _, rebuild := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := first.copied(t)
				s.forge(t, func(manifest *core.Manifest) { forge(t, s, manifest) })
				night, err := s.try(t, &how{rebuild: rebuild})
				require.NoError(t, err)
				assert.True(t, !night.planned.Unchanged && night.manifest.Hashes == want.manifest.Hashes,
					"unchanged %v, hashes %+v, want %+v", night.planned.Unchanged, night.manifest.Hashes, want.manifest.Hashes)
				reported := strings.Join(s.report(t).Reasons, "\n")
				assert.Contains(t, reported, "is no list of documents: everything is rebuilt", "reasons")
				s.whole(t)
			})
		}
	}
}

package pipeline_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// What a night reads of its parent to take documents out and to merge may be damaged since plan looked: the same run
// makes everything again.
func TestDamageThatAMergeMeetsMendsItselfInTheSameRun(t *testing.T) {
	first := newSite(t, sample(12))
	want := first.night(t)
	edits := map[string]string{}
	for i := range 4 {
		name := fmt.Sprintf("place-%03d.md", i)
		edits[name] = sample(12)[name] + "\n\nMore salt of Tolmin goes to Port Alma.\n"
	}
	first.write(t, edits)
	sound := first.copied(t).night(t)
	require.True(t, len(sound.manifest.Segments.Tombs) == 0, "nothing was merged: %+v", sound.manifest.Segments.Tombs)
	for _, list := range want.manifest.Segments.Kinds() {
		for damage, do := range damages {
			if len(list.Segments) == 0 || list.Name == "idf" {
				continue
			}
			t.Run(list.Name+" "+damage, func(t *testing.T) {
				s := first.copied(t)
				for _, stage := range []string{"chunk", "segment"} {
					done, sha := false, list.Segments[0].SHA256
					s := s.copied(t)
					s.Cache.Drop(sha)
					s.before = func(at string) {
						if at == stage && !done {
							done = true
							do(t, s.Artifacts, s.index().SegmentKey(sha))
							s.Cache.Drop(sha)
						}
					}
					way := &how{}
					night, err := s.try(t, way)
					if err != nil || night.published.Status != core.StatusCompleted {
						t.Errorf("before %s: %+v, %v", stage, night.published, err)
						continue
					}
					s.before = nil
					assert.True(t, night.manifest.Hashes == sound.manifest.Hashes,
						"before %s: the hashes are not those of an undamaged run", stage)
					assert.True(t, done, "before %s: nothing was damaged", stage)
				}
			})
		}
	}
}

// A segment whose content is that of its name, and does not fit the others of its split, is damage too.
func TestASegmentThatDoesNotFitItsSplitMendsItselfInTheSameRun(t *testing.T) {
	first := newSite(t, sample(12))
	first.night(t)
	other := newSite(t, sample(40))
	strange := other.night(t).manifest.Segments.Mentions[0] // by chunks that the split does not have
	raw := contentOf(t, other.Artifacts, other.index().SegmentKey(strange.SHA256))
	key := first.index().SegmentKey(strange.SHA256)
	_, err := first.Artifacts.Put(t.Context(), key, bytes.NewReader(raw), int64(len(raw)), blob.Cond{})
	require.NoError(t, err)
	first.forge(t, func(manifest *core.Manifest) { manifest.Segments.Mentions[0] = strange })
	for i := range 4 {
		name := fmt.Sprintf("place-%03d.md", i)
		first.write(t, map[string]string{name: sample(12)[name] + "\n\nMore salt of Tolmin goes to Port Alma.\n"})
	}
	way := &how{}
	night, err := first.try(t, way)
	require.True(t, err == nil && night.published.Status == core.StatusCompleted && way.restarted,
		"%+v, restarted %v, %v", night.published, way.restarted, err)
	first.whole(t)
}

func contentOf(t *testing.T, store blob.Store, key string) []byte {
	t.Helper()
	body, _, err := store.Get(t.Context(), key, blob.All)
	require.NoError(t, err)
	raw, err := io.ReadAll(body)
	require.NoError(t, errors.Join(err, body.Close()))
	return raw
}

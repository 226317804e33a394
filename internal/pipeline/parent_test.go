package pipeline_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
)

// A mount that broke takes documents and artifacts at once: the gate must see it without the parent's list.
func TestAMassDeletionIsHeldAlsoWhereTheListOfDocumentsIsLost(t *testing.T) {
	for damage, do := range damages {
		s := newSite(t, sample(10))
		first := s.night(t)
		do(t, s.Artifacts, s.index().SegmentKey(first.manifest.Segments.Documents[0].SHA256))
		for i := range 5 {
			require.NoError(t, os.Remove(filepath.Join(s.corpus, fmt.Sprintf("place-%03d.md", i))))
		}
		if night := s.night(t); night.planned.Held != "mass_deletion" {
			t.Errorf("%s: %+v", damage, night.planned)
		}
	}
}

func TestARebuildReplacesADamagedManifestAlsoWhereTheStoresWereLost(t *testing.T) {
	s := newSite(t, sample(10))
	s.night(t)
	s.write(t, map[string]string{"more.md": "# More\n\nMore salt of Tolmin goes to Port Alma 3.\n"})
	want := s.night(t).manifest.Hashes
	pointer, _, err := s.index().ReadPointer(t.Context())
	require.NoError(t, err)
	damages["flipped"](t, s.Artifacts, s.index().SegmentKey(pointer.Manifest))
	s.Records = recordsmemory.New()
	night, steps := s.heal(t)
	assert.True(t, night.manifest.Hashes == want && len(steps) == 1 && strings.Contains(steps[0], "--rebuild"),
		"same hashes %v, steps %q", night.manifest.Hashes == want, steps)
}

func TestAParentThatNamesNoSplitIsMadeAgain(t *testing.T) {
	s := newSite(t, sample(10))
	want := s.night(t).manifest.Hashes
	s.forge(t, func(manifest *core.Manifest) {
		segments := &manifest.Segments
		segments.Splits, segments.Runs, segments.Tombs, segments.DeadStats = nil, nil, nil, nil
	})
	_, err := s.try(t, &how{})
	require.True(t, fault.Is(err, fault.SegmentDamage) && strings.Contains(err.Error(), "names no split"), "%v", err)
	night, steps := s.heal(t)
	s.whole(t)
	assert.True(t, night.manifest.Hashes == want && len(steps) == 1 && strings.Contains(steps[0], "--rebuild"),
		"same hashes %v, steps %q", night.manifest.Hashes == want, steps)
}

// What a configuration comes back to was written by a generation before its parent, which nothing looked after.
func TestASegmentOfAnOlderGenerationIsReadBeforeItIsServedAgain(t *testing.T) {
	s := newSite(t, sample(10))
	first := s.night(t)
	s.spec.Retrieval.Language = "de"
	if second := s.night(t); second.manifest.Segments.Splits[0].SHA256 == first.manifest.Segments.Splits[0].SHA256 {
		t.Fatal("words of another language are the same")
	}
	s.spec.Retrieval.Language = "en"
	damages["flipped"](t, s.Artifacts, s.index().SegmentKey(first.manifest.Segments.Splits[0].SHA256))
	night, _ := s.heal(t)
	s.whole(t)
	assert.True(t, night.manifest.Hashes == first.manifest.Hashes, "the hashes are other ones")
}

// overtaken is a store in which another generation is published right after a reference was written.
type overtaken struct {
	blob.Store
	reference, pointer string
}

func (o *overtaken) Put(
	ctx context.Context, key string, body io.Reader, size int64, cond blob.Cond,
) (blob.Info, error) {
	info, err := o.Store.Put(ctx, key, body, size, cond)
	if err != nil || key != o.reference {
		return info, err
	}
	o.reference = ""
	var pointer core.Pointer
	if _, err := blob.ReadJSON(ctx, o.Store, o.pointer, &pointer); err != nil {
		return info, err
	}
	pointer.Epoch++
	_, err = blob.WriteJSON(ctx, o.Store, o.pointer, pointer, blob.Cond{})
	return info, err
}

func TestAGenerationThatWasOvertakenDoesNotPassForAPublishedOne(t *testing.T) {
	s := newSite(t, sample(5))
	s.night(t)
	s.Artifacts = &overtaken{
		Store: s.Artifacts, reference: s.index().GenerationKey("g002", "manifest.json"), pointer: s.index().CurrentKey(),
	}
	s.write(t, map[string]string{"more.md": "# More\n\nMore salt of Tolmin goes to Port Alma 3.\n"})
	if night := s.night(t); night.published.Status != core.StatusHeld || night.published.Reason != "pointer_moved" {
		t.Fatalf("%+v", night.published)
	}
	if ref, err := s.index().GenerationRef(t.Context(), "g002"); err != nil || ref.State != "held" {
		t.Errorf("%+v, %v", ref, err)
	}
}

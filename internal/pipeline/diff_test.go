package pipeline_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

func (s *site) difference(t *testing.T, from, to string) core.Difference {
	t.Helper()
	cache, err := localfile.New(t.TempDir(), 0)
	require.NoError(t, err)
	out, err := release.CompareGenerations(t.Context(), cache, s.index(), from, to)
	require.NoError(t, err)
	return out
}

func listed(changes []core.Change, kind string) (out []string) {
	for _, change := range changes {
		if change.Change == kind {
			out = append(out, strings.TrimSuffix(change.Object+" < "+change.From, " < "))
		}
	}
	return out
}

// Promises: 37.
func TestADifferenceNamesWhatChanged(t *testing.T) {
	s := newSite(t, sample(20))
	s.write(t, map[string]string{"empty.md": "", "gone.md": ""}) // these are no documents
	first := s.night(t).manifest
	require.NoError(t, os.Remove(filepath.Join(s.corpus, "gone.md")))
	for i := range 2 { // moved
		old := filepath.Join(s.corpus, fmt.Sprintf("place-%03d.md", i))
		require.NoError(t, os.Rename(old, filepath.Join(s.corpus, fmt.Sprintf("moved-%03d.md", i))))
	}
	require.NoError(t, os.Remove(filepath.Join(s.corpus, "place-002.md")))
	s.write(t, map[string]string{
		"place-003.md": "# Harbour 3\n\nThe harbour of Port Alma 3 was closed by Ivo Kralj.\n",
		"new.md":       "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n",
	})
	second := s.night(t).manifest
	_, err := blob.WriteJSON(t.Context(), s.Artifacts, s.index().GenerationKey("g002", "report.json"), core.Report{
		Status: core.StatusCompleted, Tokens: core.Tokens{Embedding: 284}, Cost: 0.25, // probes, behind the manifest
	}, blob.Cond{})
	require.NoError(t, err)
	got := s.difference(t, "", "")
	assert.Equal(t, 0.25, got.To.Cost)
	assert.EqualValues(t, 284, got.To.Tokens.Sum())
	if got.From.Generation != "g001" || got.To.Generation != "g002" || got.To.State != "current" ||
		got.To.Counts != second.Counts {
		t.Fatalf("%+v", got)
	}
	d := got.Documents
	assert.True(t, d.Added == 1 && d.Changed == 1 && d.Moved == 2 && d.Removed == 1, "documents: %+v", d)
	for kind, want := range map[string]string{
		"added": "new.md", "changed": "place-003.md", "removed": "place-002.md",
		"moved": "moved-000.md < place-000.md,moved-001.md < place-001.md",
	} {
		assert.Equal(t, want, strings.Join(listed(d.Listed, kind), ","), "%s", kind)
	}
	if got.Chunks.Added-got.Chunks.Removed != second.Counts.Chunks-first.Counts.Chunks || got.Chunks.Added != 4 {
		t.Errorf("chunks: %+v", got.Chunks)
	}
	c := got.Classes
	if c.Born == 0 || c.Died == 0 || c.Changed == 0 || c.Born-c.Died != second.Counts.Classes-first.Counts.Classes {
		t.Errorf("classes: %+v", c)
	}
	if !slices.Contains(listed(c.Listed, "born"), "Tolmin") {
		t.Errorf("born: %v", listed(c.Listed, "born"))
	}
	back := s.difference(t, "g002", "g001")
	if back.Documents.Added != 1 || back.Documents.Removed != 1 || back.Classes.Born != c.Died ||
		back.Classes.Changed != c.Changed {
		t.Errorf("backwards: %+v", back)
	}
	if same := s.difference(t, "g002", "g002"); same.Documents.Added+same.Documents.Changed+same.Documents.Removed+
		same.Classes.Born+same.Classes.Changed+same.Classes.Died+same.Chunks.Added+same.Chunks.Removed != 0 {
		t.Errorf("with itself: %+v", same)
	}
}

// Whatever nights did to the files, splits and runs that were merged among it, the difference is that of the corpora;
// and what both have is not read.
// Promises: 37.
func TestADifferenceOverNightsIsThatOfTheCorpora(t *testing.T) {
	s := newSite(t, sample(40))
	s.spec.Keep = 99
	s.night(t)
	for night := range 12 {
		s.write(t, map[string]string{
			fmt.Sprintf("place-%03d.md", night): fmt.Sprintf("# Harbour %d\n\nPort Alma %d trades tin.\n", night, night),
		})
		out := s.night(t)
		require.True(t, out.published.Status == core.StatusCompleted, "%+v", out.published)
	}
	if d := s.difference(t, "g001", "").Documents; d.Changed != 12 || d.Added+d.Removed+d.Moved != 0 {
		t.Errorf("of twelve nights: %+v", d)
	}
	for night := 2; night <= 13; night++ {
		from, to := fmt.Sprintf("g%03d", night-1), fmt.Sprintf("g%03d", night)
		if d := s.difference(t, from, to); d.Documents.Changed != 1 || d.Documents.Added+d.Documents.Removed != 0 ||
			d.Chunks.Added != 1 || d.Chunks.Removed != 1 {
			t.Errorf("%s to %s: %+v, %+v", from, to, d.Documents, d.Chunks)
		}
	}
	refs := s.references(t)
	one, err := s.index().Manifest(t.Context(), refs["g012"].Manifest)
	require.NoError(t, err)
	other, err := s.index().Manifest(t.Context(), refs["g013"].Manifest)
	require.NoError(t, err)
	apart := segments.DiffSegments(other.Segments, one.Segments)
	assert.True(t, len(apart.Splits) < len(other.Segments.Splits) || len(other.Segments.Splits) <= 2,
		"%d of %d splits are opened", len(apart.Splits), len(other.Segments.Splits))
	// Documents segments of splits that both have can be gone: they are not read.
	parts := map[string]bool{}
	for _, split := range apart.Splits {
		for _, segment := range other.Segments.Documents {
			parts[segment.SHA256] = parts[segment.SHA256] || segment.Part >= split.Text && segment.Part < split.Text+split.Texts
		}
	}
	removed := 0
	for sha, needed := range parts {
		if needed {
			continue
		}
		removed++
		require.NoError(t, s.Artifacts.(*blobmemory.Store).Delete(t.Context(), s.index().SegmentKey(sha)))
	}
	assert.True(t, removed != 0, "the two share no split: this shows nothing")
	if d := s.difference(t, "g012", "g013"); d.Documents.Changed != 1 {
		t.Errorf("%+v", d.Documents)
	}
}

func TestADifferenceWithWhatIsNotThere(t *testing.T) {
	s := newSite(t, sample(4))
	cache, err := localfile.New(t.TempDir(), 0)
	require.NoError(t, err)
	ask := func(from, to string) error {
		_, err := release.CompareGenerations(t.Context(), cache, s.index(), from, to)
		return err
	}
	if err := ask("", ""); !fault.Is(err, fault.UnknownGen) {
		t.Errorf("of nothing: %v", err)
	}
	s.night(t)
	if err := ask("", ""); !fault.Is(err, fault.UnknownGen) || !strings.Contains(err.Error(), "no parent to compare") {
		t.Errorf("of the first: %v", err)
	}
	if err := ask("g001", "g077"); !fault.Is(err, fault.UnknownGen) || !strings.Contains(err.Error(), "g077") {
		t.Errorf("of one that never was: %v", err)
	}
	held := s.held(t)
	if got := s.difference(t, "", held); got.From.Generation != "g001" || got.To.State != core.GenerationHeld ||
		got.To.Counts.Failed != 20 {
		t.Errorf("a held one: %+v", got)
	}
}

func TestAFirstGenerationHasNothingToBeComparedWith(t *testing.T) {
	s := newSite(t, sample(3))
	s.night(t)
	cache, err := localfile.New(t.TempDir(), 0)
	require.NoError(t, err)
	_, err = release.CompareGenerations(t.Context(), cache, s.index(), "", "")
	assert.True(t, fault.Is(err, fault.UnknownGen) && strings.Contains(err.Error(), "it has no parent"), "%v", err)
}

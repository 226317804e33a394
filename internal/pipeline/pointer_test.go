package pipeline_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// A pointer that still tells a part of what it told is as damaged as one that tells nothing.
func TestARestoreWritesADamagedPointerAgain(t *testing.T) {
	s := newSite(t, sample(4))
	s.night(t)
	key := s.index().CurrentKey()
	before, _, err := s.index().Current(t.Context())
	require.NoError(t, err)
	renamed, renumbered := before, before
	renamed.Generation = before.Generation[:len(before.Generation)-1] + "x"
	renumbered.Seq += 8
	for _, content := range []string{
		"", "{}", `{"generation":"g0`, `{"manifest":"` + before.Manifest + `"}`, asJSON(t, renamed), asJSON(t, renumbered),
	} {
		_, err := blob.Write(t.Context(), s.Artifacts, key, []byte(content), blob.Cond{})
		require.NoError(t, err)
		require.NoError(t, s.restore(t), "%q", content)
		after, _, err := s.index().Current(t.Context())
		assert.True(t, err == nil && after.Manifest == before.Manifest && after.Epoch > before.Epoch,
			"%q: %+v, %v; it was %+v", content, after, err, before)
	}
	for generation := range s.references(t) {
		damages["removed"](t, s.Artifacts, s.index().GenerationKey(generation, "manifest.json"))
	}
	_, err = blob.Write(t.Context(), s.Artifacts, key, []byte("{"), blob.Cond{})
	require.NoError(t, err)
	if err := s.restore(t); !fault.Is(err, fault.SegmentDamage) || !strings.Contains(err.Error(), "from a backup") {
		t.Errorf("where nothing tells what was published: %v", err)
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	require.NoError(t, err)
	return string(raw)
}

// A pointer that is cut, empty or gone, or of which a bit flipped so that it names one generation by the manifest of
// another, is written again by the night, which builds upon what was published last and records that it did.
// Promises: 86.
func TestANightWritesADamagedPointerAgain(t *testing.T) {
	s := newSite(t, sample(4))
	s.night(t)
	before, _, err := s.index().Current(t.Context())
	require.NoError(t, err)
	another := before
	another.Generation = "another"
	for n, content := range []string{"", `{"generation":"g0`, asJSON(t, another)} {
		_, err := blob.Write(t.Context(), s.Artifacts, s.index().CurrentKey(), []byte(content), blob.Cond{})
		require.NoError(t, err)
		night, err := s.try(t, &how{})
		assert.True(t, err == nil && night.planned.Unchanged, "%q: %+v, %v", content, night.planned, err)
		after, _, err := s.index().Current(t.Context())
		assert.True(t, err == nil && after.Manifest == before.Manifest && after.Epoch > before.Epoch,
			"%q: %+v, %v; it was %+v", content, after, err, before)
		trail, err := release.Operations(t.Context(), s.index(), 0)
		assert.True(t, err == nil && len(trail) == n+1 && trail[0].Action == core.ActionRestore && trail[0].Outcome != nil,
			"%q: recorded %+v, %v", content, trail, err)
	}
}

// Where an operator went back to an earlier generation, a pointer that is lost then is not written with what was left;
// once a night published again, it is that night's.
func TestALostPointerDoesNotUndoARollback(t *testing.T) {
	s := newSite(t, sample(4))
	s.night(t)
	s.changed(t)
	_, err := s.act(t, core.ActionRollback, "")
	require.NoError(t, err)
	for _, situation := range []string{"after a rollback", "after a night"} {
		before := s.pointer(t)
		require.NoError(t, s.Artifacts.Delete(t.Context(), s.index().CurrentKey()))
		require.NoError(t, s.restore(t))
		if after := s.pointer(t); after.Generation != before.Generation || after.Epoch <= before.Epoch {
			t.Errorf("%s: %+v; it was %+v", situation, after, before)
		}
		s.changed(t)
	}
}

func (s *site) references(t *testing.T) map[string]core.GenerationRef {
	t.Helper()
	refs, _, err := s.index().ReadableRefs(t.Context())
	require.NoError(t, err)
	return refs
}

// A branch that was deleted keeps its references, and is not published again by them.
func TestADeletedBranchGetsNoPointerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a branch settles for a second and a half
		s := branchSite(t)
		s.night(t)
		_, err := s.branch(t, "large", map[string]string{"shortening.threshold": "60"})
		require.NoError(t, err)
		mend := func() core.Pointer {
			work := s.Bare(run.Job{Index: "large", Generation: "mending"}, "restore", upkeep.RestoreFolder)
			defer work.Close()
			require.NoError(t, work.MendPointer(t.Context()))
			pointer, _, err := work.Index.Current(t.Context())
			require.NoError(t, err)
			return pointer
		}
		large := artifact.Index{Store: s.Artifacts, Name: "large"}
		require.NoError(t, s.Artifacts.Delete(t.Context(), large.CurrentKey()))
		if pointer := mend(); pointer.Manifest == "" {
			t.Error("the pointer of a branch that is open is lost")
		}
		s.unbranch(t, "large")
		assert.Empty(t, mend().Manifest, "a deleted branch serves")
	})
}

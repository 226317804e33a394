package pipeline_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// A pointer that still has a part of what it had is as damaged as an empty one.
func TestARestoreWritesADamagedPointerAgain(t *testing.T) {
	s := builtSite(t, sample(4))
	key := s.index().CurrentKey()
	before, _ := must2(s.index().ReadPointer(t.Context()))(t)
	renamed, renumbered := before, before
	renamed.Generation = before.Generation[:len(before.Generation)-1] + "x"
	renumbered.Seq += 8
	for _, content := range []string{
		"", "{}", `{"generation":"g0`, `{"manifest":"` + before.Manifest + `"}`, asJSON(t, renamed), asJSON(t, renumbered),
	} {
		must(blob.Write(t.Context(), s.Artifacts, key, []byte(content), blob.Cond{}))(t)
		err := s.restore(t)
		require.True(t, err == nil, "%q: %v", content, err)
		after, _, err := s.index().ReadPointer(t.Context())
		assert.True(t, err == nil && after.Manifest == before.Manifest && after.Epoch > before.Epoch,
			"%q: %+v, %v; it was %+v", content, after, err, before)
	}
	for generation := range s.references(t) {
		damages["removed"](t, s.Artifacts, s.index().GenerationKey(generation, "manifest.json"))
	}
	must(blob.Write(t.Context(), s.Artifacts, key, []byte("{"), blob.Cond{}))(t)
	if err := s.restore(t); !fault.Is(err, fault.SegmentDamage) || !strings.Contains(err.Error(), "from a backup") {
		t.Errorf("where nothing says what was published: %v", err)
	}
}

func asJSON(t *testing.T, value any) string {
	raw := must(json.Marshal(value))(t)
	return string(raw)
}

// A pointer that is cut, empty or gone, or of which a bit flipped so that it names one generation by the manifest of
// another, is written again by the night, which builds upon what was published last and records that it did.
// Promises: 86.
func TestANightWritesADamagedPointerAgain(t *testing.T) {
	s := builtSite(t, sample(4))
	before, _ := must2(s.index().ReadPointer(t.Context()))(t)
	another := before
	another.Generation = "another"
	require.NoError(t, run.KeepSchedule(t.Context(), s.index(), run.Scheduled{Spec: core.Spec{Index: s.index().Name}}))
	for n, content := range []string{"", `{"generation":"g0`, asJSON(t, another)} {
		must(blob.Write(t.Context(), s.Artifacts, s.index().CurrentKey(), []byte(content), blob.Cond{}))(t)
		_, err := run.OpenSchedule(t.Context(), s.index())
		assert.True(t, err == nil, "%q: a night that the clock begins: %v", content, err)
		night, err := s.try(t, &how{})
		assert.True(t, err == nil && night.planned.Unchanged, "%q: %+v, %v", content, night.planned, err)
		after, _, err := s.index().ReadPointer(t.Context())
		assert.True(t, err == nil && after.Manifest == before.Manifest && after.Epoch > before.Epoch,
			"%q: %+v, %v; it was %+v", content, after, err, before)
		trail, err := release.ListOperations(t.Context(), s.index(), 0)
		assert.True(t, err == nil && len(trail) == n+1 && trail[0].Action == core.ActionRestore && trail[0].Outcome != nil,
			"%q: recorded %+v, %v", content, trail, err)
	}
	must(blob.Write(t.Context(), s.Artifacts, s.index().ScheduleKey(), []byte("{"), blob.Cond{}))(t)
	if _, err := run.OpenSchedule(t.Context(), s.index()); err == nil || !strings.Contains(err.Error(), "schedule apply") {
		t.Errorf("a damaged configuration of nights: %v", err)
	}
}

// Where an operator went back to an earlier generation, a pointer that is lost then is not written with what was left;
// once a night published again, it is that night's.
func TestALostPointerDoesNotUndoARollback(t *testing.T) {
	s := builtSite(t, sample(4))
	s.changed(t)
	must(s.act(t, core.ActionRollback, ""))(t)
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
	refs, _ := must2(s.index().ReadableRefs(t.Context()))(t)
	return refs
}

// A branch that was deleted keeps its references, and is not published again by them.
func TestADeletedBranchGetsNoPointerAgain(t *testing.T) {
	withBranches(t, func(t *testing.T, s *site) {
		s.night(t)
		must(s.branch(t, "large", map[string]string{"shortening.threshold": "60"}))(t)
		mend := func() core.Pointer {
			work := s.Bare(run.Job{Index: "large", Generation: "mending"}, "restore", upkeep.RestoreFolder)
			defer work.Close()
			require.NoError(t, work.MendPointer(t.Context()))
			pointer, _ := must2(work.Index.ReadPointer(t.Context()))(t)
			return pointer
		}
		large := artifact.Index{Store: s.Artifacts, Name: "large"}
		require.NoError(t, s.Artifacts.Delete(t.Context(), large.CurrentKey()))
		pointer := mend()
		assert.True(t, pointer.Manifest != "", "the pointer of a branch that is open is lost")
		s.unbranch(t, "large")
		pointer = mend()
		assert.True(t, pointer.Manifest == "", "a deleted branch serves %+v", pointer)
	})
}

func TestARebuildReplacesADamagedManifestAlsoWhereTheStoresWereLost(t *testing.T) {
	s := builtSite(t, sample(10))
	s.write(t, map[string]string{"more.md": "# More\n\nMore salt of Tolmin goes to Port Alma 3.\n"})
	want := s.night(t).manifest.Hashes
	pointer, _ := must2(s.index().ReadPointer(t.Context()))(t)
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
	refused(s.try(t, &how{}))(t, fault.SegmentDamage, "names no split", "")
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

func TestAGenerationThatWasOvertakenDoesNotPassForAPublishedOne(t *testing.T) {
	s := builtSite(t, sample(5))
	store, reference := s.Artifacts, s.index().GenerationKey("g002", "manifest.json")
	s.Artifacts = &stagetest.Tampered{Store: store, AfterPut: func(key string) error {
		if key != reference {
			return nil
		}
		reference = "" // another generation is published right after it was written
		pointer := s.pointer(t)
		pointer.Epoch++
		_, err := blob.WriteJSON(t.Context(), store, s.index().CurrentKey(), pointer, blob.Cond{})
		return err
	}}
	s.write(t, map[string]string{"more.md": "# More\n\nMore salt of Tolmin goes to Port Alma 3.\n"})
	if night := s.night(t); night.published.Status != core.StatusHeld || night.published.Reason != "pointer_moved" {
		t.Fatalf("%+v", night.published)
	}
	ref, err := s.index().GenerationRef(t.Context(), "g002")
	assert.True(t, err == nil && ref.State == "held", "%+v, %v", ref, err)
}

package pipeline_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// A pointer that still has a part of what it had is as damaged as an empty one.
func TestARestoreWritesADamagedPointerAgain(t *testing.T) {
	s := newSite(t, sample(4))
	s.night(t)
	key := s.index().CurrentKey()
	before, _, err := s.index().ReadPointer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	renamed, renumbered := before, before
	renamed.Generation = before.Generation[:len(before.Generation)-1] + "x"
	renumbered.Seq += 8
	for _, content := range []string{
		"", "{}", `{"generation":"g0`, `{"manifest":"` + before.Manifest + `"}`, asJSON(t, renamed), asJSON(t, renumbered),
	} {
		if _, err := blob.Write(t.Context(), s.Artifacts, key, []byte(content), blob.Cond{}); err != nil {
			t.Fatal(err)
		}
		if err := s.restore(t); err != nil {
			t.Fatalf("%q: %v", content, err)
		}
		after, _, err := s.index().ReadPointer(t.Context())
		if err != nil || after.Manifest != before.Manifest || after.Epoch <= before.Epoch {
			t.Errorf("%q: %+v, %v; it was %+v", content, after, err, before)
		}
	}
	for generation := range s.references(t) {
		damages["removed"](t, s.Artifacts, s.index().GenerationKey(generation, "manifest.json"))
	}
	if _, err := blob.Write(t.Context(), s.Artifacts, key, []byte("{"), blob.Cond{}); err != nil {
		t.Fatal(err)
	}
	if err := s.restore(t); !fault.Is(err, fault.SegmentDamage) || !strings.Contains(err.Error(), "from a backup") {
		t.Errorf("where nothing says what was published: %v", err)
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A pointer that is cut, empty or gone, or of which a bit flipped so that it names one generation by the manifest of
// another, is written again by the night, which builds upon what was published last and records that it did.
// Promises: 86.
func TestANightWritesADamagedPointerAgain(t *testing.T) {
	s := newSite(t, sample(4))
	s.night(t)
	before, _, err := s.index().ReadPointer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	another := before
	another.Generation = "another"
	if err := run.KeepSchedule(t.Context(), s.index(), run.Scheduled{Spec: core.Spec{Index: s.index().Name}}); err != nil {
		t.Fatal(err)
	}
	for n, content := range []string{"", `{"generation":"g0`, asJSON(t, another)} {
		if _, err := blob.Write(t.Context(), s.Artifacts, s.index().CurrentKey(), []byte(content), blob.Cond{}); err != nil {
			t.Fatal(err)
		}
		if _, err := run.OpenSchedule(t.Context(), s.index()); err != nil {
			t.Errorf("%q: a night that the clock begins: %v", content, err)
		}
		if night, err := s.try(t, &how{}); err != nil || !night.planned.Unchanged {
			t.Errorf("%q: %+v, %v", content, night.planned, err)
		}
		after, _, err := s.index().ReadPointer(t.Context())
		if err != nil || after.Manifest != before.Manifest || after.Epoch <= before.Epoch {
			t.Errorf("%q: %+v, %v; it was %+v", content, after, err, before)
		}
		trail, err := release.ListOperations(t.Context(), s.index(), 0)
		if err != nil || len(trail) != n+1 || trail[0].Action != core.ActionRestore || trail[0].Outcome == nil {
			t.Errorf("%q: recorded %+v, %v", content, trail, err)
		}
	}
	if _, err := blob.Write(t.Context(), s.Artifacts, s.index().ScheduleKey(), []byte("{"), blob.Cond{}); err != nil {
		t.Fatal(err)
	}
	if _, err := run.OpenSchedule(t.Context(), s.index()); err == nil || !strings.Contains(err.Error(), "schedule apply") {
		t.Errorf("a damaged configuration of nights: %v", err)
	}
}

// Where an operator went back to an earlier generation, a pointer that is lost then is not written with what was left;
// once a night published again, it is that night's.
func TestALostPointerDoesNotUndoARollback(t *testing.T) {
	s := newSite(t, sample(4))
	s.night(t)
	s.changed(t)
	if _, err := s.act(t, core.ActionRollback, ""); err != nil {
		t.Fatal(err)
	}
	for _, situation := range []string{"after a rollback", "after a night"} {
		before := s.pointer(t)
		if err := s.Artifacts.Delete(t.Context(), s.index().CurrentKey()); err != nil {
			t.Fatal(err)
		}
		if err := s.restore(t); err != nil {
			t.Fatal(err)
		}
		if after := s.pointer(t); after.Generation != before.Generation || after.Epoch <= before.Epoch {
			t.Errorf("%s: %+v; it was %+v", situation, after, before)
		}
		s.changed(t)
	}
}

func (s *site) references(t *testing.T) map[string]core.GenerationRef {
	t.Helper()
	refs, _, err := s.index().ReadableRefs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return refs
}

// A branch that was deleted keeps its references, and is not published again by them.
func TestADeletedBranchGetsNoPointerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a branch settles for a second and a half
		s := branchSite(t)
		s.night(t)
		if _, err := s.branch(t, "large", map[string]string{"shortening.threshold": "60"}); err != nil {
			t.Fatal(err)
		}
		mend := func() core.Pointer {
			work := s.Bare(run.Job{Index: "large", Generation: "mending"}, "restore", upkeep.RestoreFolder)
			defer work.Close()
			if err := work.MendPointer(t.Context()); err != nil {
				t.Fatal(err)
			}
			pointer, _, err := work.Index.ReadPointer(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return pointer
		}
		large := artifact.Index{Store: s.Artifacts, Name: "large"}
		if err := s.Artifacts.Delete(t.Context(), large.CurrentKey()); err != nil {
			t.Fatal(err)
		}
		if pointer := mend(); pointer.Manifest == "" {
			t.Error("the pointer of a branch that is open is lost")
		}
		s.unbranch(t, "large")
		if pointer := mend(); pointer.Manifest != "" {
			t.Errorf("a deleted branch serves %+v", pointer)
		}
	})
}

package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
)

// desk returns a desk a moment later than before, also in a time that stands still: operations are ordered by their
// times.
func (s *site) desk() *release.Desk {
	time.Sleep(time.Millisecond)
	return &release.Desk{Artifacts: s.Artifacts, Mirror: s.Coordination, Records: s.Records, Vectors: s.Vectors}
}

func (s *site) act(t testing.TB, action, generation string) (core.Move, error) {
	return s.desk().Do(t.Context(), release.Request{
		Action: action, Index: "docs", Generation: generation, Name: "kept",
		Operator: core.Operator{By: "ada@desk", Reason: "because"},
	})
}

func (s *site) operations(t testing.TB) []core.Operation {
	return must(release.ListOperations(t.Context(), s.index(), 0))(t)
}

func (s *site) pointer(t testing.TB) core.Pointer {
	pointer, _ := must2(s.index().ReadPointer(t.Context()))(t)
	return pointer
}

// changed adds a document and builds a night.
func (s *site) changed(t testing.TB) outcome {
	name := fmt.Sprintf("new-%d.md", s.runs)
	s.write(t, map[string]string{name: "# " + name + "\n\nThe ferry " + name + " goes to Tolmin.\n"})
	return s.night(t)
}

// held builds a night that the failure gate holds once it is built, and returns its generation.
func (s *site) held(t testing.TB) string {
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("rubbish-%02d.pdf", i)] = "%PDF-1.4\nrubbish"
	}
	s.write(t, files)
	out := s.changed(t)
	require.True(t, out.published.Status == core.StatusHeld, "it is not held: %+v", out.published)
	return fmt.Sprintf("g%03d", s.runs)
}

func TestARollbackFlipsThePointerAndIsRecorded(t *testing.T) {
	s := builtSite(t, sample(6))
	s.changed(t)
	s.changed(t)
	before := s.pointer(t)
	move, err := s.act(t, core.ActionRollback, "")
	require.True(t, err == nil && move.From == "g003" && move.To == "g002" && !move.Unchanged &&
		move.Release == before.Epoch+1, "%+v, %v", move, err)
	after := s.pointer(t)
	assert.True(t, after.Generation == "g002" && after.Epoch == before.Epoch+1 && after.Seq == 2, "%+v", after)
	mirrored, err := s.Coordination.ReadMirror(t.Context(), "docs")
	assert.True(t, err == nil && strings.Contains(string(mirrored), `"g002"`), "the mirror says %s, %v", mirrored, err)
	move, err = s.act(t, core.ActionRollback, "g002")
	assert.True(t, err == nil && move.Unchanged && move.Operation == "", "to itself: %+v, %v", move, err)
	move, err = s.act(t, core.ActionRollback, "g003")
	assert.True(t, err == nil && move.To == "g003", "forward again: %+v, %v", move, err)
	operations := s.operations(t)
	require.True(t, len(operations) == 2 && operations[0].To == "g003" && operations[1].To == "g002" &&
		operations[1].By == "ada@desk" && operations[1].Reason == "because" && operations[1].From == "g003",
		"%+v", operations)
	for _, op := range operations {
		assert.True(t, op.Outcome != nil && op.Outcome.Result == core.OperationDone && op.Outcome.Release != 0, "%+v", op)
	}
	limited := musttest.Get(release.ListOperations(t.Context(), s.index(), 1))(t)
	assert.True(t, len(limited) == 1 && limited[0].ID == operations[0].ID, "the last one: %+v", limited)
}

// The next nights go on from what is served, number their generations above all others, and collect none of what is
// served, kept or tagged.
// Promises: 36.
func TestNightsAfterARollbackNumberAndKeepOn(t *testing.T) {
	s := newSite(t, sample(12))
	s.spec.Keep = 2
	s.night(t)
	must(s.act(t, core.ActionTag, "g001"))(t)
	s.changed(t)
	s.changed(t)
	must(s.act(t, core.ActionRollback, "g002"))(t)
	parent := s.pointer(t).Manifest
	s.spec.Chunking.MaxTokens = 900
	night := s.night(t)
	require.True(t, night.manifest.Generation == "g004" && night.manifest.Seq == 4 && night.manifest.Parent == parent,
		"%s, number %d", night.manifest.Generation, night.manifest.Seq)
	for range 6 {
		s.changed(t)
	}
	var left, tagged []string
	generations := must(s.index().ListGenerations(t.Context()))(t)
	for _, generation := range generations {
		if !generation.Collected {
			left = append(left, generation.Generation)
		}
		tagged = append(tagged, generation.Tags...)
	}
	assert.True(t, slices.Equal(left, []string{"g010", "g009", "g001"}) && slices.Equal(tagged, []string{"kept"}),
		"left are %v, tags %v", left, tagged)
	assert.NoError(t, musttest.Err(s.act(t, core.ActionRollback, "g001")), "back to the tagged one")
	refused(s.act(t, core.ActionRollback, "g005"))(t, fault.GenCollected, "", "back to a collected one")
	refused(s.act(t, core.ActionRollback, "g077"))(t, fault.UnknownGen, "", "back to one that never was")
	must(s.act(t, core.ActionUntag, "g001"))(t)
	refused(s.act(t, core.ActionUntag, "g001"))(t, fault.NotFound, "", "untagged twice")
}

// A build that began before a rollback must not be published over it, and what it built can be approved.
// Promises: 35.
func TestABuildThatEndsAfterARollbackIsHeld(t *testing.T) {
	s := builtSite(t, sample(6))
	s.changed(t)
	s.before = func(stage string) {
		if stage == "publish" {
			assert.NoError(t, musttest.Err(s.act(t, core.ActionRollback, "g001")))
		}
	}
	night := s.changed(t)
	s.before = nil
	require.True(t, night.published.Status == core.StatusHeld && night.published.Reason == string(fault.PointerMoved) &&
		s.pointer(t).Generation == "g001", "%+v, %s is served", night.published, s.pointer(t).Generation)
	if detail := s.report(t).Detail; !strings.Contains(detail, "g001") || !strings.Contains(detail, "publish docs g003") {
		t.Errorf("the report says %q", detail)
	}
	assert.Equal(t, core.GenerationHeld, s.references(t)["g003"].State)
	_, err := s.act(t, core.ActionPublish, "g003")
	assert.True(t, fault.Is(err, fault.Usage) &&
		strings.Contains(err.Error(), "from generation g002, and g001 is served now"), "without force: %v", err)
	move, err := s.desk().Do(t.Context(), release.Request{
		Action: core.ActionPublish, Index: "docs", Generation: "g003", Force: true,
	})
	assert.True(t, err == nil && move.To == "g003" && s.pointer(t).Generation == "g003", "with force: %+v, %v", move, err)
	assert.Equal(t, core.GenerationPublished, s.references(t)["g003"].State)
}

func TestAHeldGenerationIsApprovedOrDiscarded(t *testing.T) {
	s := builtSite(t, sample(4))
	held := s.held(t)
	refused(s.act(t, core.ActionRollback, held))(t, fault.Usage, "unweaver publish docs "+held, "a rollback to it")
	calls := s.report(t).Calls
	move := musttest.Get(s.act(t, core.ActionPublish, held))(t)
	require.True(t, move.From == "g001" && s.pointer(t).Generation == held && s.report(t).Calls == calls, "%+v", move)
	move, err := s.act(t, core.ActionPublish, held)
	assert.True(t, err == nil && move.Unchanged, "once more: %+v, %v", move, err)
	refused(s.act(t, core.ActionPublish, "g001"))(t, fault.Usage, "unweaver rollback docs g001", "one that was published")
	refused(s.act(t, core.ActionDiscard, held))(t, fault.Usage, "", "discard what is served")
	refused(s.act(t, core.ActionDiscard, "g001"))(t, fault.Usage, "", "discard what was published")

	s = newSite(t, sample(4))
	s.night(t)
	held = s.held(t)
	must(s.act(t, core.ActionTag, held))(t)
	refused(s.act(t, core.ActionDiscard, held))(t, fault.Usage, "untag", "discard a tagged one")
	must(s.act(t, core.ActionUntag, held))(t)
	must(s.act(t, core.ActionDiscard, held))(t)
	move, err = s.act(t, core.ActionDiscard, held)
	assert.True(t, err == nil && move.Unchanged, "once more: %+v, %v", move, err)
	refused(s.act(t, core.ActionPublish, held))(t, fault.Usage, "", "publish it after all")
	s.spec.Failures.Count, s.spec.Chunking.MaxTokens = 100, 900
	s.changed(t) // marks it
	s.changed(t) // and deletes it
	ref, there := s.references(t)[held]
	assert.False(t, there, "it is left: %+v", ref)
}

// Whatever is missing of a generation is found before it is served, and nothing is recorded as done.
// Promises: 39.
func TestWhatIsNotCompleteIsNotServed(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(*testing.T, *site)
		code fault.Code
		says string
	}{
		"a file": {func(t *testing.T, s *site) {
			manifest := must(s.index().Manifest(t.Context(), s.references(t)["g001"].Manifest))(t)
			damages["removed"](t, s.Artifacts, s.index().SegmentKey(manifest.Segments.Classes[0].SHA256))
		}, fault.SegmentDamage, "missing"},
		"the manifest": {func(t *testing.T, s *site) {
			damages["removed"](t, s.Artifacts, s.index().SegmentKey(s.references(t)["g001"].Manifest))
		}, fault.SegmentDamage, "manifest"},
		"a collection": {func(_ *testing.T, s *site) {
			_ = s.Vectors.Drop(context.Background(), collections(s).Chunks)
		}, fault.GenCollected, "unweaver restore"},
		"the records": {func(_ *testing.T, s *site) { s.Records = recordsmemory.New() },
			fault.GenCollected, "unweaver restore"},
		"all vectors": {func(_ *testing.T, s *site) { s.Vectors = vectorsmemory.New() },
			fault.GenCollected, "unweaver restore"},
		"the mark": {func(t *testing.T, s *site) {
			must(blob.Write(t.Context(), s.Artifacts, s.index().CollectedKey("g001"), []byte("{}"), blob.Cond{}))(t)
		}, fault.GenCollected, "being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := builtSite(t, sample(4))
			s.spec.Chunking.MaxTokens = 900
			s.changed(t)
			before := s.pointer(t)
			c.lose(t, s)
			_, err := s.act(t, core.ActionRollback, "g001")
			assert.True(t, fault.Is(err, c.code) && strings.Contains(err.Error(), c.says), "%v (%s)", err, fault.CodeOf(err))
			assert.True(t, s.pointer(t) == before && len(s.operations(t)) == 0, "%+v, %+v", s.pointer(t), s.operations(t))
		})
	}
}

// What cannot be recorded does not take effect, and what did not take effect is recorded as failed, or without an
// outcome.
// Promises: 40.
func TestTheTrailIsWrittenBeforeAndAfter(t *testing.T) {
	for name, c := range map[string]struct {
		refuses string
		moved   bool
		records int
		result  string
	}{
		"no record":    {"Z-", false, 0, ""},
		"no outcome":   {".outcome.json", true, 1, ""},
		"not the flip": {"docs/current.json", false, 1, core.OperationFailed},
	} {
		t.Run(name, func(t *testing.T) {
			s := builtSite(t, sample(4))
			s.changed(t)
			desk := s.desk()
			refuses := strings.ToLower(c.refuses)
			desk.Artifacts = &stagetest.Tampered{Store: s.Artifacts, OnPut: func(key string) error {
				if strings.Contains(key, refuses) {
					return fault.StoreFull.At("write", key).Because("no space left")
				}
				return nil
			}}
			_, err := desk.Do(t.Context(), release.Request{Action: core.ActionRollback, Index: "docs"})
			assert.True(t, fault.Is(err, fault.StoreFull) && (s.pointer(t).Generation == "g001") == c.moved,
				"%v; %s is served", err, s.pointer(t).Generation)
			operations := s.operations(t)
			require.Len(t, operations, c.records, "%+v", operations)
			for _, op := range operations {
				assert.True(t, (op.Outcome == nil) == (c.result == "") && (op.Outcome == nil || op.Outcome.Result == c.result),
					"%+v", op)
			}
		})
	}
}

// Of operators who move the pointer at once from the same point, one wins, and the others get an error.
// Promises: 40.
func TestOperatorsWhoMoveAtOnce(t *testing.T) {
	s := builtSite(t, sample(4))
	s.changed(t)
	s.changed(t)
	var wait sync.WaitGroup
	failures := make([]error, 8)
	for i := range failures {
		wait.Go(func() { _, failures[i] = s.act(t, core.ActionRollback, []string{"g001", "g002"}[i%2]) })
	}
	wait.Wait()
	err := errors.Join(failures...)
	assert.True(t, err == nil || fault.Is(err, fault.PointerMoved), "%v", err)
	done, last := int64(0), ""
	for _, op := range s.operations(t) {
		if op.Outcome == nil {
			t.Errorf("without an outcome: %+v", op)
		} else if op.Outcome.Result == core.OperationDone && op.Outcome.Release > done {
			done, last = op.Outcome.Release, op.To
		}
	}
	if pointer := s.pointer(t); pointer.Epoch != done || pointer.Generation != last {
		t.Errorf("%+v is served; the last that was done is %s, release %d", pointer, last, done)
	}
}

// A record that was overwritten is reported, and hides no other.
func TestADamagedRecordIsTold(t *testing.T) {
	s := builtSite(t, sample(4))
	s.changed(t)
	for range 2 {
		must(s.act(t, core.ActionRollback, ""))(t)
		must(s.act(t, core.ActionRollback, "g002"))(t)
	}
	key := "docs/operations/" + s.operations(t)[1].ID + ".json"
	must(blob.Write(t.Context(), s.Artifacts, key, []byte("{"), blob.Cond{}))(t)
	operations := s.operations(t)
	assert.True(t, len(operations) == 4 && operations[1].Action == "unreadable" && operations[1].Outcome != nil &&
		operations[2].Action == core.ActionRollback, "%+v", operations)
}

// A process that dies at any write of an approval, or cannot write the pointer, leaves what the same command finishes.
func TestAnApprovalThatDiedAtAnyWriteIsFinishedByTheSameCommand(t *testing.T) {
	for at := int64(0); ; at++ {
		s := builtSite(t, sample(4))
		held := s.held(t)
		desk := s.desk()
		desk.Artifacts = newDying(s.Artifacts, at)
		_, err := desk.Do(t.Context(), release.Request{Action: core.ActionPublish, Index: "docs", Generation: held})
		require.True(t, err == nil || errors.Is(err, errDied), "at write %d: %v", at, err)
		if _, again := s.act(t, core.ActionPublish, held); again != nil || s.pointer(t).Generation != held {
			t.Errorf("again after write %d: %v; %s is served", at, again, s.pointer(t).Generation)
		}
		if err == nil {
			require.True(t, at >= 3, "it takes %d writes only", at)
			break
		}
	}
}

// A generation that was promoted before and gone back from stays one to go back to where a second promote of it loses.
func TestAPromoteThatIsOvertakenTakesNothingFromTheBase(t *testing.T) {
	s := branchSite(t)
	first := s.pointer(t).Generation
	s.on("docs", 4000)
	s.changed(t)
	must(s.branch(t, "exp", nil))(t)
	s.on("exp", 200)
	s.night(t)
	must(s.promote(t, "exp"))(t)
	s.on("docs", 4000)
	promoted := s.pointer(t).Generation
	must(s.act(t, core.ActionRollback, ""))(t)
	s.on("exp", 200)
	out := s.night(t)
	require.True(t, out.planned.Unchanged, "%+v", out.planned)
	whole := s.Artifacts
	var once sync.Once
	other := func() { // somebody else moves the pointer at the moment in which it is written
		desk := s.desk()
		desk.Artifacts = whole
		must(desk.Do(t.Context(), release.Request{Action: core.ActionRollback, Index: "docs", Generation: first}))(t)
	}
	s.Artifacts = &stagetest.Tampered{Store: whole, OnPut: func(key string) error {
		if key == "docs/current.json" {
			once.Do(other)
		}
		return nil
	}}
	_, err := s.promote(t, "exp")
	s.Artifacts = whole
	s.on("docs", 4000)
	assert.True(t, fault.Is(err, fault.PointerMoved) && s.pointer(t).Generation == first,
		"%v; %s is served", err, s.pointer(t).Generation)
	refs, err := artifact.New(s.Artifacts, "docs").ListRefs(t.Context())
	assert.True(t, err == nil && refs[promoted].State == core.GenerationPublished,
		"the base does not know %s any more: %+v, %v", promoted, refs, err)
	assert.NoError(t, musttest.Err(s.act(t, core.ActionRollback, promoted)), "it cannot be gone back to")
}

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

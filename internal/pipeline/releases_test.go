package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
)

// desk returns a desk a moment later than before, also in a time that stands still: operations are ordered by their
// times.
func (s *site) desk() *release.Desk {
	time.Sleep(time.Millisecond)
	return &release.Desk{Artifacts: s.Artifacts, Mirror: s.Coordination, Records: s.Records, Vectors: s.Vectors}
}

func (s *site) act(t testing.TB, action, generation string) (core.Move, error) {
	t.Helper()
	return s.desk().Do(t.Context(), release.Request{
		Action: action, Index: "docs", Generation: generation, Name: "kept",
		Operator: core.Operator{By: "ada@desk", Reason: "because"},
	})
}

func (s *site) operations(t testing.TB) []core.Operation {
	t.Helper()
	operations, err := release.ListOperations(t.Context(), s.index(), 0)
	require.NoError(t, err)
	return operations
}

func (s *site) pointer(t testing.TB) core.Pointer {
	t.Helper()
	pointer, _, err := s.index().ReadPointer(t.Context())
	require.NoError(t, err)
	return pointer
}

// changed adds a document and builds a night.
func (s *site) changed(t testing.TB) outcome {
	t.Helper()
	name := fmt.Sprintf("new-%d.md", s.runs)
	s.write(t, map[string]string{name: "# " + name + "\n\nThe ferry " + name + " goes to Tolmin.\n"})
	return s.night(t)
}

// held builds a night that the failure gate holds once it is built, and returns its generation.
func (s *site) held(t testing.TB) string {
	t.Helper()
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("rubbish-%02d.pdf", i)] = "%PDF-1.4\nrubbish"
	}
	s.write(t, files)
	if out := s.changed(t); out.published.Status != core.StatusHeld {
		t.Fatalf("it is not held: %+v", out.published)
	}
	return fmt.Sprintf("g%03d", s.runs)
}

func TestARollbackFlipsThePointerAndIsRecorded(t *testing.T) {
	s := newSite(t, sample(6))
	s.night(t)
	s.changed(t)
	s.changed(t)
	before := s.pointer(t)
	move, err := s.act(t, core.ActionRollback, "")
	if err != nil || move.From != "g003" || move.To != "g002" || move.Unchanged || move.Release != before.Epoch+1 {
		t.Fatalf("%+v, %v", move, err)
	}
	after := s.pointer(t)
	assert.True(t, after.Generation == "g002" && after.Epoch == before.Epoch+1 && after.Seq == 2, "%+v", after)
	if mirrored, err := s.Coordination.ReadMirror(t.Context(), "docs"); err != nil ||
		!strings.Contains(string(mirrored), `"g002"`) {
		t.Errorf("the mirror says %s, %v", mirrored, err)
	}
	move, err = s.act(t, core.ActionRollback, "g002")
	assert.True(t, err == nil && move.Unchanged && move.Operation == "", "to itself: %+v, %v", move, err)
	move, err = s.act(t, core.ActionRollback, "g003")
	assert.True(t, err == nil && move.To == "g003", "forward again: %+v, %v", move, err)
	operations := s.operations(t)
	if len(operations) != 2 || operations[0].To != "g003" || operations[1].To != "g002" ||
		operations[1].By != "ada@desk" || operations[1].Reason != "because" || operations[1].From != "g003" {
		t.Fatalf("%+v", operations)
	}
	for _, op := range operations {
		assert.True(t, op.Outcome != nil && op.Outcome.Result == core.OperationDone && op.Outcome.Release != 0, "%+v", op)
	}
	if limited, err := release.ListOperations(t.Context(), s.index(), 1); err != nil || len(limited) != 1 ||
		limited[0].ID != operations[0].ID {
		t.Errorf("the last one: %+v, %v", limited, err)
	}
}

// The next nights go on from what is served, number their generations above all others, and collect none of what is
// served, kept or tagged.
// Promises: 36.
func TestNightsAfterARollbackNumberAndKeepOn(t *testing.T) {
	s := newSite(t, sample(12))
	s.spec.Keep = 2
	s.night(t)
	_, err := s.act(t, core.ActionTag, "g001")
	require.NoError(t, err)
	s.changed(t)
	s.changed(t)
	_, err = s.act(t, core.ActionRollback, "g002")
	require.NoError(t, err)
	parent := s.pointer(t).Manifest
	s.spec.Chunking.MaxTokens = 900
	night := s.night(t)
	require.True(t, night.manifest.Generation == "g004" && night.manifest.Seq == 4 && night.manifest.Parent == parent,
		"%s, number %d", night.manifest.Generation, night.manifest.Seq)
	for range 6 {
		s.changed(t)
	}
	var left, tagged []string
	generations, err := s.index().ListGenerations(t.Context())
	require.NoError(t, err)
	for _, generation := range generations {
		if !generation.Collected {
			left = append(left, generation.Generation)
		}
		tagged = append(tagged, generation.Tags...)
	}
	assert.True(t, slices.Equal(left, []string{"g010", "g009", "g001"}) && slices.Equal(tagged, []string{"kept"}),
		"left are %v, tags %v", left, tagged)
	_, err = s.act(t, core.ActionRollback, "g001")
	assert.NoError(t, err, "back to the tagged one")
	if _, err := s.act(t, core.ActionRollback, "g005"); !fault.Is(err, fault.GenCollected) {
		t.Errorf("back to a collected one: %v", err)
	}
	if _, err := s.act(t, core.ActionRollback, "g077"); !fault.Is(err, fault.UnknownGen) {
		t.Errorf("back to one that never was: %v", err)
	}
	_, err = s.act(t, core.ActionUntag, "g001")
	require.NoError(t, err)
	if _, err := s.act(t, core.ActionUntag, "g001"); !fault.Is(err, fault.NotFound) {
		t.Errorf("untagged twice: %v", err)
	}
}

// A build that began before a rollback must not be published over it, and what it built can be approved.
// Promises: 35.
func TestABuildThatEndsAfterARollbackIsHeld(t *testing.T) {
	s := newSite(t, sample(6))
	s.night(t)
	s.changed(t)
	s.before = func(stage string) {
		if stage == "publish" {
			_, err := s.act(t, core.ActionRollback, "g001")
			assert.NoError(t, err)
		}
	}
	night := s.changed(t)
	s.before = nil
	if night.published.Status != core.StatusHeld || night.published.Reason != string(fault.PointerMoved) ||
		s.pointer(t).Generation != "g001" {
		t.Fatalf("%+v, %s is served", night.published, s.pointer(t).Generation)
	}
	if detail := s.report(t).Detail; !strings.Contains(detail, "g001") || !strings.Contains(detail, "publish docs g003") {
		t.Errorf("the report says %q", detail)
	}
	assert.Equal(t, core.GenerationHeld, s.references(t)["g003"].State)
	_, err := s.act(t, core.ActionPublish, "g003")
	if !fault.Is(err, fault.Usage) || !strings.Contains(err.Error(), "from generation g002, and g001 is served now") {
		t.Errorf("without force: %v", err)
	}
	move, err := s.desk().Do(t.Context(), release.Request{
		Action: core.ActionPublish, Index: "docs", Generation: "g003", Force: true,
	})
	assert.True(t, err == nil && move.To == "g003" && s.pointer(t).Generation == "g003", "with force: %+v, %v", move, err)
	assert.Equal(t, core.GenerationPublished, s.references(t)["g003"].State)
}

func TestAHeldGenerationIsApprovedOrDiscarded(t *testing.T) {
	s := newSite(t, sample(4))
	s.night(t)
	held := s.held(t)
	if _, err := s.act(t, core.ActionRollback, held); !fault.Is(err, fault.Usage) ||
		!strings.Contains(err.Error(), "unweaver publish docs "+held) {
		t.Errorf("a rollback to it: %v", err)
	}
	calls := s.report(t).Calls
	move, err := s.act(t, core.ActionPublish, held)
	require.True(t, err == nil && move.From == "g001" && s.pointer(t).Generation == held && s.report(t).Calls == calls,
		"%+v, %v", move, err)
	if move, err := s.act(t, core.ActionPublish, held); err != nil || !move.Unchanged {
		t.Errorf("once more: %+v, %v", move, err)
	}
	if _, err := s.act(t, core.ActionPublish, "g001"); !fault.Is(err, fault.Usage) ||
		!strings.Contains(err.Error(), "unweaver rollback docs g001") {
		t.Errorf("one that was published: %v", err)
	}
	if _, err := s.act(t, core.ActionDiscard, held); !fault.Is(err, fault.Usage) {
		t.Errorf("discard what is served: %v", err)
	}
	if _, err := s.act(t, core.ActionDiscard, "g001"); !fault.Is(err, fault.Usage) {
		t.Errorf("discard what was published: %v", err)
	}

	s = newSite(t, sample(4))
	s.night(t)
	held = s.held(t)
	_, err = s.act(t, core.ActionTag, held)
	require.NoError(t, err)
	if _, err := s.act(t, core.ActionDiscard, held); !fault.Is(err, fault.Usage) ||
		!strings.Contains(err.Error(), "untag") {
		t.Errorf("discard a tagged one: %v", err)
	}
	_, err = s.act(t, core.ActionUntag, held)
	require.NoError(t, err)
	_, err = s.act(t, core.ActionDiscard, held)
	require.NoError(t, err)
	if move, err := s.act(t, core.ActionDiscard, held); err != nil || !move.Unchanged {
		t.Errorf("once more: %+v, %v", move, err)
	}
	if _, err := s.act(t, core.ActionPublish, held); !fault.Is(err, fault.Usage) {
		t.Errorf("publish it after all: %v", err)
	}
	s.spec.Failures.Count, s.spec.Chunking.MaxTokens = 100, 900
	s.changed(t) // marks it
	s.changed(t) // and deletes it
	if ref, there := s.references(t)[held]; there {
		t.Errorf("it is left: %+v", ref)
	}
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
			manifest, err := s.index().Manifest(t.Context(), s.references(t)["g001"].Manifest)
			require.NoError(t, err)
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
			_, err := blob.Write(t.Context(), s.Artifacts, s.index().CollectedKey("g001"), []byte("{}"), blob.Cond{})
			require.NoError(t, err)
		}, fault.GenCollected, "being collected"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, sample(4))
			s.night(t)
			s.spec.Chunking.MaxTokens = 900
			s.changed(t)
			before := s.pointer(t)
			c.lose(t, s)
			if _, err := s.act(t, core.ActionRollback, "g001"); !fault.Is(err, c.code) ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("%v (%s)", err, fault.CodeOf(err))
			}
			if s.pointer(t) != before || len(s.operations(t)) != 0 {
				t.Errorf("%+v, %+v", s.pointer(t), s.operations(t))
			}
		})
	}
}

func TestWhatWasServedAtATime(t *testing.T) {
	s := newSite(t, sample(4))
	s.night(t)
	s.changed(t)
	s.changed(t)
	at := func(generation string) time.Time {
		info, err := s.Artifacts.Stat(t.Context(), s.index().GenerationKey(generation, "manifest.json"))
		require.NoError(t, err)
		return info.Modified
	}
	if !at("g001").Before(at("g002")) || !at("g002").Before(at("g003")) {
		t.Skip("the clock of this machine is too coarse to tell nights apart")
	}
	to := func(when time.Time) (core.Move, error) {
		return s.desk().Do(t.Context(), release.Request{Action: core.ActionRollback, Index: "docs", To: when})
	}
	if _, err := to(at("g001").Add(-time.Second)); !fault.Is(err, fault.GenCollected) {
		t.Errorf("before the first: %v", err)
	}
	moved, err := to(at("g002"))
	assert.True(t, err == nil && moved.To == "g002", "as the second was published: %+v, %v", moved, err)
	later := s.operations(t)[0].Outcome.At
	_, err = s.act(t, core.ActionRollback, "g003")
	require.NoError(t, err)
	if moved, err := to(later); err != nil || moved.To != "g002" {
		t.Errorf("after the rollback: %+v, %v", moved, err)
	}
	damages["removed"](t, s.Artifacts, s.index().GenerationKey("g002", "manifest.json"))
	if _, err := to(at("g003").Add(-time.Microsecond)); !fault.Is(err, fault.GenCollected) {
		t.Errorf("where one between them is gone: %v", err)
	}
}

// stubborn is a store that takes no write of some key.
type stubborn struct {
	blob.Store
	refuses func(key string) bool
}

func (s *stubborn) Put(
	ctx context.Context, key string, body io.Reader, size int64, cond blob.Cond,
) (blob.Info, error) {
	if s.refuses(key) {
		return blob.Info{}, fault.StoreFull.At("write", key).Because("no space left")
	}
	return s.Store.Put(ctx, key, body, size, cond)
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
			s := newSite(t, sample(4))
			s.night(t)
			s.changed(t)
			desk := s.desk()
			refuses := strings.ToLower(c.refuses)
			desk.Artifacts = &stubborn{s.Artifacts, func(key string) bool { return strings.Contains(key, refuses) }}
			_, err := desk.Do(t.Context(), release.Request{Action: core.ActionRollback, Index: "docs"})
			if !fault.Is(err, fault.StoreFull) || (s.pointer(t).Generation == "g001") != c.moved {
				t.Errorf("%v; %s is served", err, s.pointer(t).Generation)
			}
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
	s := newSite(t, sample(4))
	s.night(t)
	s.changed(t)
	s.changed(t)
	var wait sync.WaitGroup
	failures := make([]error, 8)
	for i := range failures {
		wait.Go(func() { _, failures[i] = s.act(t, core.ActionRollback, []string{"g001", "g002"}[i%2]) })
	}
	wait.Wait()
	if err := errors.Join(failures...); err != nil && !fault.Is(err, fault.PointerMoved) {
		t.Error(err)
	}
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
	s := newSite(t, sample(4))
	s.night(t)
	s.changed(t)
	for range 2 {
		_, err := s.act(t, core.ActionRollback, "")
		require.NoError(t, err)
		_, err = s.act(t, core.ActionRollback, "g002")
		require.NoError(t, err)
	}
	key := "docs/operations/" + s.operations(t)[1].ID + ".json"
	_, err := blob.Write(t.Context(), s.Artifacts, key, []byte("{"), blob.Cond{})
	require.NoError(t, err)
	operations := s.operations(t)
	if len(operations) != 4 || operations[1].Action != "unreadable" || operations[1].Outcome == nil ||
		operations[2].Action != core.ActionRollback {
		t.Errorf("%+v", operations)
	}
}

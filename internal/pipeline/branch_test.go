package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// branchSite returns an installation as its stores are wired, with an index of two generations.
func branchSite(t *testing.T) *site {
	s := newSite(t, sample(40))
	s.Artifacts = artifact.NewBranched(s.Artifacts)
	s.night(t)
	s.changed(t)
	return s
}

// withBranches tests a branchSite in a time of its own: a branch settles for a second and a half.
func withBranches(t *testing.T, test func(t *testing.T, s *site)) {
	synctest.Test(t, func(t *testing.T) { test(t, branchSite(t)) })
}

func (s *site) branch(t testing.TB, name string, set map[string]string) (core.Branch, error) {
	return s.desk().MakeBranch(t.Context(), release.Branching{
		Base: "docs", Name: name, Set: set, Operator: core.Operator{By: "ada@desk", Reason: "to compare"},
	})
}

// on has the next nights build an index.
func (s *site) on(index string, threshold int) {
	s.spec.Index, s.spec.Overlay = index, nil
	s.spec.Shortening.Threshold = threshold
	if threshold != 4000 {
		s.spec.Overlay = map[string]string{"shortening.threshold": fmt.Sprint(threshold)}
	}
}

func (s *site) promote(t testing.TB, name string) (core.Move, error) {
	return s.desk().Do(t.Context(), release.Request{
		Action: core.ActionPromote, Index: name, Operator: core.Operator{By: "ada@desk", Reason: "it is better"},
	})
}

// entire reads every record and row that the served generation of an index lists, and asks it a question.
func (s *site) entire(t testing.TB, name string) {
	index := artifact.New(s.Artifacts, name)
	pointer, _, err := index.ReadPointer(t.Context())
	require.True(t, err == nil && pointer.Manifest != "", "%s serves %+v, %v", name, pointer, err)
	manifest := must(index.ManifestOf(t.Context(), pointer))(t)
	for _, segment := range manifest.Segments.All() {
		intact, err := index.IsIntact(t.Context(), segment.SHA256, nil)
		assert.True(t, err == nil && intact, "%s: segment %s: intact %t, %v", name, segment.SHA256, intact, err)
	}
	generation, err := retrieve.Opening{
		Artifacts: s.Artifacts, Cache: s.Cache, Vectors: s.Vectors, Index: name, Manifest: pointer.Manifest,
	}.Open(t.Context())
	require.NoError(t, err, "%s", name)
	defer generation.Close()
	assert.Empty(t, s.missing(t, manifest), "%s lost records and rows", name)
}

// missing returns the records and rows that a generation lists and the stores do not have.
func (s *site) missing(t testing.TB, manifest *core.Manifest) []string {
	var out []string
	for _, key := range s.recordKeys(t, manifest) {
		found := must(s.Records.GetRecords(t.Context(), []string{key}))(t)
		if len(found) == 0 || found[0] == nil {
			out = append(out, key)
		}
	}
	for collection, want := range map[string]int64{
		manifest.Collections.Classes: manifest.Counts.Classes, manifest.Collections.Chunks: manifest.Counts.Windows,
	} {
		count, err := s.Vectors.Count(t.Context(), collection)
		if err != nil || count < want {
			out = append(out, fmt.Sprintf("%s has %d of %d rows (%v)", collection, count, want, err))
		}
	}
	return out
}

func (s *site) recordKeys(t testing.TB, manifest *core.Manifest) []string {
	table := must(segments.OpenTable(t.Context(), s.Cache, artifact.New(s.Artifacts, "docs"), manifest))(t)
	defer table.Release()
	var keys []string
	for class := range table.ClassesLeft(nil) {
		keys = append(keys, core.RecordKey(manifest.Store, manifest.StoredIndex(), class.ID, class.Record))
	}
	return keys
}

// Promises: 41.
func TestABranchBeginsWithWhatItsBaseServesAndCopiesNoSegment(t *testing.T) {
	withBranches(t, func(t *testing.T, s *site) {
		before := segmentsIn(t, s)
		branch, err := s.branch(t, "exp", map[string]string{"shortening.threshold": "200"})
		require.True(t, err == nil && branch.Generation == "g002" && branch.Op != "", "%+v, %v", branch, err)
		assert.Equal(t, before, segmentsIn(t, s), "segments were written")
		s.entire(t, "exp")
		overlay, uri, err := release.OverlayOf(t.Context(), artifact.New(s.Artifacts, "exp"))
		assert.True(t, err == nil && overlay.Base == "docs" && overlay.Set["shortening.threshold"] == "200" && uri == s.corpus,
			"overlay %+v of corpus %q, %v", overlay, uri, err)
		s.on("exp", 4000)
		if out := s.night(t); !out.planned.Unchanged {
			t.Errorf("a night of a branch without other settings and documents builds: %+v", out.planned)
		}
		s.on("docs", 4000)
		operations := s.operations(t)
		assert.True(t, operations[0].Action == core.ActionBranch && operations[0].By == "ada@desk" &&
			operations[0].Name == "exp" && operations[0].Outcome.Result == core.OperationDone, "recorded is %+v", operations[0])
	})
}

func segmentsIn(t testing.TB, s *site) []string {
	var out []string
	for info := range musttest.All(t, s.Artifacts.List(t.Context(), "", "")) {
		if strings.Contains(info.Key, "/segments/") {
			out = append(out, info.Key)
		}
	}
	return out
}

// Each index is built, changed and collected in turn, with no grace and one generation kept, so that everything goes
// that may: what the other one lists must stay.
// Promises: 41.
func TestNightsOfABranchAndItsBaseDeleteNothingOfEachOther(t *testing.T) {
	withBranches(t, func(t *testing.T, s *site) {
		s.spec.Keep, s.spec.Grace = 1, 0
		must(s.branch(t, "exp", map[string]string{"shortening.threshold": "200"}))(t)
		for range 4 {
			s.on("docs", 4000)
			s.changed(t)
			s.entire(t, "exp")
			s.entire(t, "docs")
			s.on("exp", 200)
			s.changed(t)
			s.entire(t, "exp")
			s.entire(t, "docs")
		}
		s.on("docs", 4000)
		for range 3 { // what the first generations alone had is gone
			s.changed(t)
		}
		s.entire(t, "exp")
		for _, key := range segmentsIn(t, s) {
			assert.True(t, strings.HasPrefix(key, "docs/"), "%s is not below the base", key)
		}
	})
}

// Promises: 42.
func TestAPromotedBranchIsServedByItsBaseAndRolledBack(t *testing.T) {
	withBranches(t, func(t *testing.T, s *site) {
		must(s.branch(t, "exp", map[string]string{"shortening.threshold": "200"}))(t)
		refused(s.promote(t, "exp"))(t, fault.Usage, "", "a branch without a generation of its own is promoted")
		s.on("exp", 200)
		out := s.night(t)
		require.False(t, out.planned.Unchanged, "the setting changes nothing")
		s.on("docs", 4000)
		s.changed(t)
		refused(s.promote(t, "exp"))(t, fault.PointerMoved, "", "a branch whose base moved is promoted")
		s.on("exp", 200)
		s.night(t)
		s.on("docs", 200)
		was := s.pointer(t)
		move, err := s.promote(t, "exp")
		require.True(t, err == nil && move.From == was.Generation && move.Set["shortening.threshold"] == "200" &&
			move.Name == "exp", "%+v, %v", move, err)
		s.entire(t, "docs")
		overlay, _, err := release.OverlayOf(t.Context(), s.index())
		assert.True(t, err == nil && overlay.Set["shortening.threshold"] == "200",
			"the base's overlay is %+v, %v", overlay, err)
		other := release.Request{Action: core.ActionPromote, Index: "exp", Base: "other"}
		musttest.Refuse(s.desk().Do(t.Context(), other))(t, fault.NotFound, "a branch of another index than other")
		again, err := s.promote(t, "exp")
		assert.True(t, err == nil && again.Unchanged, "a second promote: %+v, %v", again, err)
		s.spec.Keep, s.spec.Grace = 1, 0
		s.on("docs", 200)
		out = s.night(t)
		assert.True(t, out.planned.Unchanged, "the night after a promotion makes things again: %+v", out.planned)
		back, err := s.act(t, core.ActionRollback, "")
		require.True(t, err == nil && back.To == was.Generation, "rollback to %+v, %v", back, err)
		s.entire(t, "docs")
		overlay, _, err = release.OverlayOf(t.Context(), s.index())
		assert.True(t, err == nil && len(overlay.Set) <= 0, "after the rollback the base's overlay is %+v, %v", overlay, err)
		if operations := s.operations(t); operations[1].Action != core.ActionPromote || operations[1].Reason != "it is better" {
			t.Errorf("recorded is %+v", operations[1])
		}
	})
}

// Promises: 43.
func TestADeletedBranchFreesWhatItAloneUsed(t *testing.T) {
	withBranches(t, func(t *testing.T, s *site) {
		s.spec.Keep, s.spec.Grace = 1, 0
		for range 3 {
			s.night(t)
			s.changed(t)
		}
		must(s.branch(t, "exp", map[string]string{"shortening.threshold": "60"}))(t)
		s.on("exp", 60)
		s.night(t)
		none := func(context.Context, artifact.Index) (string, error) { return "", nil }
		must(s.desk().DeleteBranch(t.Context(), release.Branching{Base: "docs", Name: "exp"}, none))(t)
		s.on("docs", 4000)
		for range 5 {
			s.changed(t)
			s.entire(t, "docs")
		}
		for range 3 { // a mark, its grace, what was condemned, its grace
			s.night(t)
		}
		s.onlyNamed(t)
		for info, err := range s.Artifacts.List(t.Context(), "exp/", "") {
			assert.True(t, err == nil && strings.Contains(info.Key, "/collected"), "%s stayed (%v)", info.Key, err)
		}
		assert.NoError(t, musttest.Err(s.branch(t, "exp", nil)), "the name cannot be used again")
		s.entire(t, "exp")
	})
}

// onlyNamed looks that the stores hold nothing that no generation of docs lists.
func (s *site) onlyNamed(t testing.TB) {
	refs := must(s.index().ListByName(t.Context()))(t)
	named := map[string]bool{}
	for _, ref := range refs {
		manifest := must(s.index().Manifest(t.Context(), ref.Manifest))(t)
		named[s.index().SegmentKey(ref.Manifest)] = true
		for _, segment := range manifest.Segments.All() {
			named[s.index().SegmentKey(segment.SHA256)] = true
		}
		for _, key := range append(s.recordKeys(t, manifest), manifest.Collections.Classes, manifest.Collections.Chunks) {
			named[key] = true
		}
	}
	var condemned struct {
		Since map[string]any `json:"since"`
	}
	_, err := blob.ReadJSON(t.Context(), s.Artifacts, "docs/condemned.json", &condemned)
	require.True(t, err == nil || fault.Is(err, fault.NotFound), "%v", err)
	for name := range condemned.Since { // the next night that publishes deletes it
		_, content, _ := strings.Cut(name, ":")
		named[content], named[s.index().SegmentKey(content)] = true, true
	}
	there := segmentsIn(t, s)
	collections := must(s.Vectors.List(t.Context(), "uw_"))(t)
	there = append(there, collections...)
	require.NoError(t, s.Records.ScanRecords(t.Context(), "", func(keys []string) error {
		there = append(there, keys...)
		return nil
	}))
	for _, key := range there {
		assert.True(t, named[key], "%s stayed, and no generation lists it", key)
	}
}

func TestBadBranches(t *testing.T) {
	withBranches(t, func(t *testing.T, s *site) {
		must(s.branch(t, "exp", nil))(t)
		s.on("other", 4000)
		s.night(t)
		s.on("docs", 4000)
		for name, code := range map[string]fault.Code{
			"exp": fault.Usage, "other": fault.Usage, "docs": fault.Usage, "Exp": fault.InvalidParam, "ledger": fault.InvalidParam,
		} {
			musttest.Code(t, musttest.Err(s.branch(t, name, nil)), code, "branch as %s", name)
		}
		for _, asked := range []release.Branching{
			{Base: "exp", Name: "second"}, {Base: "nothing", Name: "second"}, {Base: "docs", Name: "second", Generation: "never"},
		} {
			assert.Error(t, musttest.Err(s.desk().MakeBranch(t.Context(), asked)), "%+v is made", asked)
		}
		refused(s.promote(t, "docs"))(t, fault.Usage, "", "what is no branch is promoted")
		earlier := s.current(t).Generation
		s.spec.Documents = &core.Documents{Labels: core.Labels{Rules: []string{"**=public"}}}
		s.night(t)
		assert.Contains(t, fmt.Sprint(s.report(t).Problems), "{labels_off exp ")
		asked := release.Branching{Base: "docs", Name: "second", Generation: earlier}
		err := musttest.Err(s.desk().MakeBranch(t.Context(), asked))
		assert.ErrorContains(t, err, "was hidden since")
		back := release.Request{Action: core.ActionRollback, Index: "docs", Generation: earlier, KeepLabels: true}
		assert.True(t, fault.Is(musttest.Err(s.desk().Do(t.Context(), back)), fault.Forbidden))
		back.KeepLabels = false
		assert.NoError(t, musttest.Err(s.desk().Do(t.Context(), back)))
	})
}

// Of a branch that is being made and a deletion of its base, one is refused.
func TestABranchAndADeletionOfItsBase(t *testing.T) {
	withBranches(t, func(t *testing.T, s *site) {
		branch := func(name string, meanwhile func()) error {
			made := make(chan error)
			go func() {
				_, err := s.branch(t, name, nil)
				made <- err
			}()
			time.Sleep(time.Second)
			meanwhile()
			return <-made
		}
		require.NoError(t, branch("exp", func() { refused(s.delete(t, &mortal{}, false))(t, fault.Usage, "", "") }))
		s.entire(t, "exp")
		holder := run.Holder{Workflow: "build/docs/" + run.DeletionGeneration + "1", Run: "r"}
		closed := func(context.Context, run.Holder) (run.Standing, error) { return run.StandingClosed, nil }
		musttest.Fail(t, branch("second", func() {
			must(run.TakeLease(t.Context(), artifact.New(s.Artifacts, "docs"), holder, closed))(t)
		}), fault.LeaseHeld)
		refused(s.branch(t, "third", nil))(t, fault.LeaseHeld, "", "")
		for _, name := range []string{"second", "third"} {
			current, _, err := artifact.New(s.Artifacts, name).ReadPointer(t.Context())
			require.True(t, err == nil && current.Manifest == "", "%s serves %+v, %v", name, current, err)
		}
	})
}

// Promises: 42.
func TestOfTwoPromotesAtOnceOneIsServed(t *testing.T) {
	withBranches(t, func(t *testing.T, s *site) {
		for i, name := range []string{"one", "two"} {
			must(s.branch(t, name, nil))(t)
			s.on(name, 200+100*i)
			s.night(t)
		}
		var errs [2]error
		var wait sync.WaitGroup
		for i, name := range []string{"one", "two"} {
			wait.Go(func() { _, errs[i] = s.promote(t, name) })
		}
		wait.Wait()
		require.True(t, (errs[0] == nil) != (errs[1] == nil), "errors %v", errs)
		for _, err := range errs {
			assert.True(t, err == nil || fault.Is(err, fault.PointerMoved), "%v", err)
		}
		s.entire(t, "docs")
		assert.Len(t, musttest.Get(artifact.New(s.Artifacts, "docs").ListRefs(t.Context()))(t), 3, "generations")
	})
}

// dying is a store whose process dies at a write: that one, and all after it, do not happen.
type dying struct {
	artifacttest.Around
	left atomic.Int64
}

func newDying(store blob.Store, left int64) *dying {
	d := &dying{}
	d.left.Store(left)
	d.Around = artifacttest.Around{Store: store, Do: func(
		_ context.Context, op artifacttest.Op, _ string, call func() error,
	) error {
		if (op == artifacttest.Put || op == artifacttest.Delete) && d.left.Add(-1) < 0 {
			return errDied
		}
		return call()
	}}
	return d
}

var errDied = errors.New("the process died")

// A process dies at each write of a command in turn; then nights of both indexes collect all that they may, and the
// same command is given again.
// Promises: 43.
func TestABranchOrAPromoteThatDiedAtAnyWriteIsFinishedByTheSameCommand(t *testing.T) {
	for _, action := range []string{core.ActionBranch, core.ActionPromote} {
		t.Run(action, func(t *testing.T) {
			writes := func(t *testing.T, at int64) (made int64) {
				s := branchSite(t)
				s.spec.Keep, s.spec.Grace = 1, 0
				whole := s.Artifacts
				if action == core.ActionPromote {
					must(s.branch(t, "exp", nil))(t)
					s.on("exp", 200)
					s.night(t)
				}
				died := newDying(whole, at)
				s.Artifacts = artifact.NewBranched(died)
				do := func() error {
					if action == core.ActionBranch {
						return musttest.Err(s.branch(t, "exp", nil))
					}
					return musttest.Err(s.promote(t, "exp"))
				}
				failed := do()
				s.Artifacts = artifact.NewBranched(whole)
				again := failed
				if failed != nil {
					require.ErrorIs(t, failed, errDied, "at write %d", at)
					s.on("docs", 4000)
					if action == core.ActionPromote {
						s.on("exp", 200) // a night of the base would have the branch build again
					}
					s.night(t)
					again = do()
				}
				if fault.Is(again, fault.Usage) { // the last write says how it ended: the branch is there already
					again = nil
				}
				require.NoError(t, again, "again after write %d", at)
				s.entire(t, "exp")
				s.entire(t, "docs")
				branches, err := release.ListBranches(t.Context(), artifact.New(s.Artifacts, "docs"))
				assert.True(t, err == nil && len(branches) == 1 && branches[0].State == core.BranchOpen,
					"at write %d: branches %+v, %v", at, branches, err)
				return at - died.left.Load()
			}
			var all int64
			synctest.Test(t, func(t *testing.T) { all = writes(t, 1<<20) })
			require.True(t, all >= 4, "it takes %d writes only", all)
			for at := range all {
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { writes(t, at) })
				})
			}
		})
	}
}

package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
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
)

// branchSite returns an installation as its stores are wired, with an index of two generations.
func branchSite(t *testing.T) *site {
	s := newSite(t, sample(40))
	s.Artifacts = artifact.NewBranched(s.Artifacts)
	s.night(t)
	s.changed(t)
	return s
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
	generation, err := retrieve.Open(t.Context(), s.Artifacts, s.Cache, s.Vectors, name, pointer.Manifest, 0)
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
	for class := range table.ClassesLeft(0, nil) {
		keys = append(keys, core.RecordKey(manifest.Store, manifest.StoredIndex(), class.ID, class.Record))
	}
	return keys
}

// Promises: 41.
func TestABranchBeginsWithWhatItsBaseServesAndCopiesNoSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a branch settles for a second and a half
		s := branchSite(t)
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
	for info, err := range s.Artifacts.List(t.Context(), "", "") {
		require.NoError(t, err)
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
	synctest.Test(t, func(t *testing.T) { // a branch settles for a second and a half
		s := branchSite(t)
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
	synctest.Test(t, func(t *testing.T) { // a branch settles for a second and a half
		s := branchSite(t)
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
	synctest.Test(t, func(t *testing.T) { // a branch settles for a second and a half
		s := branchSite(t)
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
		_, err := s.branch(t, "exp", nil)
		assert.NoError(t, err, "the name cannot be used again")
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
	synctest.Test(t, func(t *testing.T) { // a branch settles for a second and a half
		s := branchSite(t)
		must(s.branch(t, "exp", nil))(t)
		s.on("other", 4000)
		s.night(t)
		s.on("docs", 4000)
		for name, code := range map[string]fault.Code{
			"exp": fault.Usage, "other": fault.Usage, "docs": fault.Usage, "Exp": fault.InvalidParam, "ledger": fault.InvalidParam,
		} {
			_, err := s.branch(t, name, nil)
			assert.True(t, fault.Is(err, code), "branch as %s: %v", name, err)
		}
		for _, asked := range []release.Branching{
			{Base: "exp", Name: "second"}, {Base: "nothing", Name: "second"}, {Base: "docs", Name: "second", Generation: "never"},
		} {
			_, err := s.desk().MakeBranch(t.Context(), asked)
			assert.Error(t, err, "%+v is made", asked)
		}
		refused(s.promote(t, "docs"))(t, fault.Usage, "", "what is no branch is promoted")
	})
}

// Of a branch that is being made and a deletion of its base, one is refused.
func TestABranchAndADeletionOfItsBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a branch settles for a second and a half
		s := branchSite(t)
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
		require.NoError(t, branch("exp", func() {
			refused(s.delete(t, &mortal{}, false))(t, fault.Usage, "", "")
		}))
		s.entire(t, "exp")
		holder := run.Holder{Workflow: "build/docs/" + run.DeletionGeneration + "1", Run: "r"}
		closed := func(context.Context, run.Holder) (run.Standing, error) { return run.StandingClosed, nil }
		err := branch("second", func() {
			must(run.TakeLease(t.Context(), artifact.New(s.Artifacts, "docs"), holder, closed))(t)
		})
		require.True(t, fault.Is(err, fault.LeaseHeld), "%v", err)
		refused(s.branch(t, "third", nil))(t, fault.LeaseHeld, "", "")
		for _, name := range []string{"second", "third"} {
			current, _, err := artifact.New(s.Artifacts, name).ReadPointer(t.Context())
			require.True(t, err == nil && current.Manifest == "", "%s serves %+v, %v", name, current, err)
		}
	})
}

// Promises: 42.
func TestOfTwoPromotesAtOnceOneIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a branch settles for a second and a half
		s := branchSite(t)
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
		refs, err := artifact.New(s.Artifacts, "docs").ListRefs(t.Context())
		assert.True(t, err == nil && len(refs) == 3, "generations %v, %v", refs, err)
	})
}

// dying is a store whose process dies at a write: that one, and all after it, do not happen.
type dying struct {
	blob.Store
	left atomic.Int64
}

var errDied = errors.New("the process died")

func (d *dying) Put(ctx context.Context, key string, body io.Reader, n int64, c blob.Cond) (blob.Info, error) {
	if d.left.Add(-1) < 0 {
		return blob.Info{}, errDied
	}
	return d.Store.Put(ctx, key, body, n, c)
}

func (d *dying) Delete(ctx context.Context, key string) error {
	if d.left.Add(-1) < 0 {
		return errDied
	}
	return d.Store.Delete(ctx, key)
}

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
				died := &dying{Store: whole}
				died.left.Store(at)
				s.Artifacts = artifact.NewBranched(died)
				do := func() error {
					if action == core.ActionBranch {
						_, err := s.branch(t, "exp", nil)
						return err
					}
					_, err := s.promote(t, "exp")
					return err
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

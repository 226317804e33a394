package pipeline_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// deletable returns an installation with two indexes: docs, which has two generations and what is left of a branch, and
// docs-2.
func deletable(t *testing.T) (*site, *shop) {
	s, sold := newSite(t, sample(40)), &shop{sold: map[string]int{}}
	s.Models = sold.models
	stored := s.Artifacts
	s.Artifacts = artifact.NewBranched(stored)
	s.night(t)
	s.changed(t)
	must(s.act(t, core.ActionTag, fmt.Sprintf("g%03d", s.runs)))(t)
	must(s.branch(t, "exp", nil))(t)
	idle := func(context.Context, artifact.Index) (string, error) { return "", nil }
	must(s.desk().DeleteBranch(t.Context(), release.Branching{Base: "docs", Name: "exp"}, idle))(t)
	// A record that was begun says docs-2; the name went to another index.
	key := artifact.New(stored, "docs").BranchKey("docs-2")
	_, err := blob.WriteJSON(t.Context(), stored, key, core.Branch{Base: "docs", Name: "docs-2", State: core.BranchOpen}, blob.Cond{})
	require.NoError(t, err)
	s.spec.Index = "docs-2"
	s.night(t)
	must(s.desk().DeleteBranch(t.Context(), release.Branching{Base: "docs", Name: "docs-2"}, idle))(t)
	s.entire(t, "docs-2")
	s.spec.Index = "docs"
	s.Artifacts = stored
	return s, sold
}

// delete deletes docs by a process of its own, which dies at a write.
func (s *site) delete(t *testing.T, died *mortal, dry bool) (core.Deletion, error) {
	desk := &release.Desk{
		Artifacts: artifact.NewBranched(died.blobs(s.Artifacts, died.write)), Mirror: s.Coordination,
		Records: mortalRecords{s.Records, died}, Vectors: mortalVectors{s.Vectors, died},
	}
	return desk.DeleteIndex(t.Context(), release.Deleting{
		Index: "docs", DryRun: dry, Operator: core.Operator{By: "ada@desk", Reason: "moved"}, StoreID: s.StoreID,
		Standings:  func(context.Context, run.Holder) (run.Standing, error) { return run.StandingUnknown, nil },
		Unschedule: func(context.Context) error { return died.write(func(float64) error { return nil }) },
		Forget: func(ctx context.Context, index string) error {
			return died.write(func(float64) error { return s.Coordination.ForgetIndex(ctx, index) })
		},
	})
}

// stored returns everything that the stores have, by store and key, and the coordination's mirror.
func (s *site) stored(t *testing.T) map[string]string {
	out := map[string]string{}
	for info := range musttest.All(t, s.Artifacts.List(t.Context(), "", "")) {
		raw, _ := must2(blob.Read(t.Context(), s.Artifacts, info.Key))(t)
		out["object "+info.Key] = core.Sum(string(raw)).String()
	}
	require.NoError(t, s.Records.ScanRecords(t.Context(), "", func(keys []string) error {
		for _, key := range keys {
			out["record "+key] = ""
		}
		return nil
	}))
	collections := must(s.Vectors.List(t.Context(), ""))(t)
	for _, collection := range collections {
		rows := must(s.Vectors.Count(t.Context(), collection))(t)
		out["collection "+collection] = fmt.Sprint(rows)
	}
	_, mirrors := must2(s.Coordination.ReadMirrors(t.Context(), ""))(t)
	for index, pointer := range mirrors {
		out["mirror "+index] = string(pointer)
	}
	return out
}

// A process dies at each write of a deletion in turn. Meanwhile the index is whole, or there is none; the same command
// ends it, and nothing is left but what other indexes have, byte for byte, and the record of who deleted it.
// Promises: 142.
func TestADeletionThatDiedAnywhereIsFinishedByTheSameCommand(t *testing.T) {
	whole, _ := deletable(t)
	before := whole.stored(t)
	dies := func(t *testing.T, at int) (writes int) {
		s := whole.copied(t)
		died := &mortal{left: at, share: 0.5 * float64(at%2)} // the write is done, or not
		_, failed := s.delete(t, died, false)
		if failed != nil {
			require.ErrorIs(t, failed, errKilled, "at write %d", at)
			current, _ := must2(artifact.New(s.Artifacts, "docs").ReadPointer(t.Context()))(t)
			if current.Manifest != "" {
				s.entire(t, "docs")
			}
			_, left := s.stored(t)["object docs/lease.json"]
			if lease, _, err := run.ReadLease(t.Context(), artifact.New(s.Artifacts, "docs")); err == nil && lease.Run != "" {
				require.NoError(t, uuid.Validate(lease.Run), "the engine is asked about the run of a lease")
			}
			done, err := s.delete(t, &mortal{}, false)
			if !left { // it died after all was gone but the record of that
				require.True(t, fault.Is(err, fault.UnknownIndex), "again after write %d: %v", at, err)
			} else {
				require.NoError(t, err, "again after write %d", at)
			}
			assert.True(t, err != nil || done.Begun, "write %d: it goes on with an earlier one: %v", at, done.Begun)
		}
		after := s.stored(t)
		trail := must(release.ListOperations(t.Context(), artifact.New(s.Artifacts, "docs"), 0))(t)
		assert.True(t, len(trail) > 0 && trail[0].Action == core.ActionDelete && trail[0].By == "ada@desk", "%+v", trail)
		maps.DeleteFunc(after, func(key, _ string) bool { return strings.HasPrefix(key, "object _deleted/docs/") })
		assert.Equal(t, expectedAfterDeletion(s, before), after, "at write %d", at)
		return at - died.left
	}
	var all int
	synctest.Test(t, func(t *testing.T) { all = dies(t, 1<<20) })
	require.Greater(t, all, 20)
	for at := 1; at <= all; at++ {
		synctest.Test(t, func(t *testing.T) { dies(t, at) })
	}
}

// expectedAfterDeletion returns what was stored, without what was of docs or of its deleted branch.
func expectedAfterDeletion(s *site, before map[string]string) map[string]string {
	out := maps.Clone(before)
	for _, prefix := range []string{
		"object docs/", "object exp/", "object _branches/exp.json", "record " + core.RecordPrefix(s.StoreID, "docs"),
		"collection " + core.CollectionPrefix(s.StoreID, "docs"),
	} {
		maps.DeleteFunc(out, func(key, _ string) bool { return strings.HasPrefix(key, prefix) })
	}
	maps.DeleteFunc(out, func(key, _ string) bool { return strings.HasPrefix(key, "mirror ") }) // a copy begins without
	return out
}

// A name that was deleted is built again from what was paid for, and has its earlier hashes.
// Promises: 142.
func TestADeletedIndexIsBuiltAgainForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sold := deletable(t)
		index := artifact.New(s.Artifacts, "docs")
		current, _ := must2(index.ReadPointer(t.Context()))(t)
		first := must(index.Manifest(t.Context(), current.Manifest))(t)
		wish := "docs/purges/20260101t000000z.json"
		must(blob.Write(t.Context(), s.Artifacts, wish, []byte("{}"), blob.Cond{}))(t)
		must(blob.Write(t.Context(), s.Artifacts, index.ScheduleKey(), []byte("{}"), blob.Cond{}))(t)
		plan := must(s.delete(t, &mortal{}, true))(t)
		assert.Equal(t, 1, plan.Purges)
		assert.True(t, plan.Schedule)
		assert.True(t, plan.Generations >= 2 && plan.Serves == current.Generation && slices.Equal(plan.Tags, []string{"kept"}) &&
			slices.Equal(plan.Branches, []string{"exp"}) && len(plan.Collections) == 2, "%+v", plan)
		s.entire(t, "docs") // a dry run deletes nothing
		gone := must(s.delete(t, &mortal{}, false))(t)
		assert.True(t, gone.Objects == plan.Objects && gone.Records > 0 && gone.Records == plan.Records && gone.Operation != "", "%+v", gone)
		_, paid := sold.twice()
		again := s.night(t)
		twice, now := sold.twice()
		assert.True(t, twice == 0 && now == paid, "%d answers are paid for again, %d more are", twice, now-paid)
		assert.Equal(t, first.Hashes, again.manifest.Hashes)
		assert.Equal(t, int64(1), again.manifest.Seq)
		s.entire(t, "docs")
		s.entire(t, "docs-2")
	})
}

// A deletion is refused while a run or a branch has the index, and no run takes its lease while it is deleted.
func TestADeletionIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := deletable(t)
		stored := s.Artifacts.(*blobmemory.Store)
		refused := func(code fault.Code, way string) {
			refused(s.delete(t, &mortal{}, false))(t, code, way, "")
			s.Artifacts = artifact.NewBranched(stored)
			s.entire(t, "docs")
			s.Artifacts = stored
		}
		job, holder := s.leased(t)
		refused(fault.LeaseHeld, "unweaver cancel "+job.Name())
		require.NoError(t, run.GiveLease(t.Context(), artifact.New(stored, "docs"), holder))
		s.Artifacts = artifact.NewBranched(stored)
		must(s.branch(t, "twin", nil))(t)
		s.Artifacts = stored
		refused(fault.Usage, "unweaver branch docs --delete twin")
		idle := func(context.Context, artifact.Index) (string, error) { return "", nil }
		must(s.desk().DeleteBranch(t.Context(), release.Branching{Base: "docs", Name: "twin"}, idle))(t)
		_, err := s.delete(t, &mortal{left: 12}, false)
		require.ErrorIs(t, err, errKilled)
		_, err = run.TakeLease(t.Context(), artifact.New(stored, "docs"), holder, nil)
		assert.True(t, fault.Is(err, fault.LeaseHeld) && strings.Contains(err.Error(), "unweaver delete docs"), "%v", err)
	})
}

// unlisted is a bucket whose objects may not be listed.
type unlisted struct{ blob.Store }

func (u unlisted) List(context.Context, string, string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		yield(blob.Info{}, fault.StoreDenied.At("list", "bucket").Because("no such right"))
	}
}

// Promises: 121.
func TestTheNextRunDeletesTheCopiesOfOneThatWasCancelled(t *testing.T) {
	s := newSite(t, sample(8))
	job, holder := s.leased(t) // cancelled while it imported
	require.NoError(t, s.finish(t.Context(), job, holder, run.Ending{Status: core.StatusCancelled}))
	bucket := blobmemory.New()
	s.Staging = bucket
	copies := core.ImportPrefix(s.StoreID)
	running := copies + "notes/runs/g001/1/classes-0/ab.parquet" // of another index, whose fences count for it alone
	for _, key := range []string{copies + "docs/runs/g001/1/classes-0/ab.parquet", running} {
		must(blob.Write(t.Context(), bucket, key, []byte("rows"), blob.Cond{}))(t)
	}
	s.Staging = unlisted{bucket}
	night := s.night(t)
	require.True(t, night.published.Status == core.StatusCompleted, "%+v", night.published)
	var reported []core.Problem
	for _, problem := range s.report(t).Problems {
		if strings.Contains(problem.Detail, "let the worker's credentials list and delete") {
			reported = append(reported, problem)
		}
	}
	assert.True(t, len(reported) == 1 && reported[0].Code == string(fault.StoreDenied) &&
		len(keysBelow(t, bucket, "")) == 2, "reported %+v, left %q", reported, keysBelow(t, bucket, ""))
	s.Staging = bucket
	s.buildFiles(t, map[string]string{"new.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
	if left := keysBelow(t, bucket, ""); !slices.Equal(left, []string{running}) || len(s.report(t).Problems) != 0 {
		t.Errorf("left %q, reported %+v", left, s.report(t).Problems)
	}
}

package pipeline_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

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
	err := s.unit(t.Context(), job, "end", func(ctx context.Context, work *upkeep.Run) error {
		return work.End(ctx, holder, run.Ending{Status: core.StatusCancelled})
	})
	require.NoError(t, err)
	bucket := blobmemory.New()
	s.Staging = bucket
	copies := core.ImportPrefix(s.StoreID)
	running := copies + "notes/runs/g001/1/classes-0/ab.parquet" // of another index, whose fences count for it alone
	for _, key := range []string{copies + "docs/runs/g001/1/classes-0/ab.parquet", running} {
		_, err := blob.Write(t.Context(), bucket, key, []byte("rows"), blob.Cond{})
		require.NoError(t, err)
	}
	s.Staging = unlisted{bucket}
	if night := s.night(t); night.published.Status != core.StatusCompleted {
		t.Fatalf("%+v", night.published)
	}
	var reported []core.Problem
	for _, problem := range s.report(t).Problems {
		if strings.Contains(problem.Detail, "let the worker's credentials list and delete") {
			reported = append(reported, problem)
		}
	}
	if len(reported) != 1 || reported[0].Code != string(fault.StoreDenied) || len(keysBelow(t, bucket, "")) != 2 {
		t.Errorf("reported %+v, left %q", reported, keysBelow(t, bucket, ""))
	}
	s.Staging = bucket
	s.write(t, map[string]string{"new.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
	s.night(t)
	if left := keysBelow(t, bucket, ""); !slices.Equal(left, []string{running}) || len(s.report(t).Problems) != 0 {
		t.Errorf("left %q, reported %+v", left, s.report(t).Problems)
	}
}

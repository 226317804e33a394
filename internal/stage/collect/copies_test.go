package collect_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
)

// copiesOf is where this installation's copies for bulk import lie.
var copiesOf = core.ImportPrefix(storeID)

// stage puts copies into the bucket of a vector store, and gives what collects them with a lease of a fence.
func stage(w *world, fence int64, keys ...string) (bucket *artifacttest.Memory, in collect.In) {
	w.t.Helper()
	bucket = artifacttest.New()
	for _, key := range keys {
		_, err := blob.Write(context.Background(), bucket, key, []byte("rows"), blob.Cond{})
		w.check(err)
	}
	in = w.in()
	in.Staging, in.Copies, in.Fence = bucket, copiesOf, fence
	return bucket, in
}

// Promises: 121.
func TestCopiesOfImportsThatAreOverGoAndNoOthers(t *testing.T) {
	w := newWorld(t)
	w.publish("g1", first)
	over := []string{
		copiesOf + "docs/runs/g0/3/classes-0/ab.parquet",     // a run that was cancelled
		copiesOf + "docs/runs/g0/3/anew/chunks-2/ab.parquet", // in its second attempt
		copiesOf + "docs/runs/g1/5/chunks-0/cd-1.parquet",    // an attempt of the collecting run that was frozen
	}
	stays := []string{
		copiesOf + "docs/runs/g2/6/classes-0/ab.parquet",                               // a run that goes on
		copiesOf + "docs/runs/g2/10/classes-0/ab.parquet",                              // numbers, not letters, are compared
		copiesOf + "docs/runs/g0/notes/ab.parquet",                                     // no copy of this program's
		copiesOf + "docs2/runs/g0/3/classes-0/ab.parquet",                              // another index
		copiesOf + "a/docs/runs/g0/3/classes-0/ab.parquet",                             // and one more
		core.ImportPrefix("76543210") + "docs/runs/g0/3/classes-0/ab.parquet",          // another installation
		"unweaver-import/docs/runs/g0/3/classes-0/ab.parquet",                          // no installation's
		"files/insert_log/docs/runs/g0/3/1",                                            // the vector store's own
		strings.TrimSuffix(copiesOf, "/") + "0/docs/runs/g0/3/classes-0/ab.parquet",    // a longer id
		"x" + copiesOf + "docs/runs/g0/3/classes-0/ab.parquet",                         // behind something
		copiesOf + "docs/generations/g0/3/ab.parquet",                                  // not of a run
		copiesOf + "docs/runs/3/ab.parquet",                                            // of no generation
		copiesOf + "docs/runs/g0/03x/ab.parquet",                                       // of no fence
		copiesOf + "docs/runs/g0/9223372036854775808/classes-0/beyond-a-fence.parquet", // nor this
	}
	bucket, in := stage(w, 5, append(slices.Clone(over), stays...)...)
	res, err := collect.Run(t.Context(), in)
	assert.True(t, err == nil && res.Copies == int64(len(over)) && len(res.Problems) == 0, "%+v, %v", res, err)
	slices.Sort(stays)
	left := bucket.Keys("")
	assert.True(t, slices.Equal(left, stays), "left are %q\nwant %q", left, stays)
}

func TestWithoutImportsNoBucketIsAsked(t *testing.T) {
	w := newWorld(t)
	w.publish("g1", first)
	in := w.in()
	in.Copies = copiesOf
	res, err := collect.Run(t.Context(), in)
	assert.True(t, err == nil && res.Copies == 0 && res.Problems == nil, "%+v, %v", res, err)
}

// Promises: 121.
func TestABucketThatRefusesItsCopiesIsToldAndEverythingElseIsCollected(t *testing.T) {
	denied := fault.StoreDenied.At("ask", "bucket").Because("no such right").Advise("all that it holds")
	for _, c := range []struct {
		op     artifacttest.Op
		err    error
		code   fault.Code
		advice string
	}{
		{artifacttest.List, denied, fault.StoreDenied, "list and delete below " + copiesOf},
		{artifacttest.Delete, denied, fault.StoreDenied, "list and delete below " + copiesOf},
		{artifacttest.List, fault.StoreDown.At("ask", "bucket").Because("no such right"), fault.StoreDown, "the next run"},
	} {
		w := newWorld(t)
		w.publish("g1", first)
		w.publish("g2", second)
		w.collect(0)
		w.now = day(1)
		copied := copiesOf + "docs/runs/g0/3/classes-0/ab.parquet"
		bucket, in := stage(w, 5, copied)
		bucket.Fail = func(op artifacttest.Op, _ string) error {
			if op == c.op {
				return c.err
			}
			return nil
		}
		res, err := collect.Run(t.Context(), in)
		require.True(t, err == nil && res.Generations == 1 && res.Copies == 0 && len(res.Problems) == 1,
			"%s: %+v, %v", c.op, res, err)
		problem := res.Problems[0]
		if problem.Code != string(c.code) || !strings.Contains(problem.Object, copiesOf+"docs/runs/") ||
			!strings.Contains(problem.Detail, c.advice) || !strings.Contains(problem.Detail, "no such right") ||
			strings.Contains(problem.Detail, "all that it holds") {
			t.Errorf("%s: %+v", c.op, problem)
		}
		w.alone("g2", second)
		bucket.Fail = nil
		if res, err := collect.Run(t.Context(), in); err != nil || res.Copies != 1 || len(bucket.Keys("")) != 0 {
			t.Errorf("%s, with the right: %+v, %v", c.op, res, err)
		}
	}
}

// A run that lost the lease while it collects deletes no copies, and that is no matter of the bucket.
// Promises: 121.
func TestCopiesAreLeftToWhoHasTheLease(t *testing.T) {
	w := newWorld(t)
	w.publish("g1", first)
	bucket, in := stage(w, 5, copiesOf+"docs/runs/g0/3/classes-0/ab.parquet")
	var listed atomic.Bool
	bucket.Fail = func(op artifacttest.Op, _ string) error {
		if op == artifacttest.List {
			listed.Store(true)
		}
		return nil
	}
	in.Guard = func(context.Context) error {
		if listed.Load() {
			return fault.LeaseLost.At("work on", "docs/g1")
		}
		return nil
	}
	res, err := collect.Run(t.Context(), in)
	assert.True(t, fault.Is(err, fault.LeaseLost) && res.Problems == nil && len(bucket.Keys("")) == 1,
		"%+v, %v, left %q", res, err, bucket.Keys(""))
}

// A look at the lease holds for a while: of many copies none is deleted after it.
func TestManyCopiesAreDeletedUnderALookAtTheLeaseEach(t *testing.T) {
	w := newWorld(t)
	w.publish("g1", first)
	var keys []string
	for i := range 4500 {
		keys = append(keys, fmt.Sprintf("%sdocs/runs/g0/3/classes-0/%04d.parquet", copiesOf, i))
	}
	bucket, in := stage(w, 5, keys...)
	var looks atomic.Int32
	var listed atomic.Bool
	bucket.Fail = func(op artifacttest.Op, _ string) error {
		if op == artifacttest.List {
			listed.Store(true)
		}
		return nil
	}
	in.Permit = time.Hour
	in.Guard = func(context.Context) error {
		if listed.Load() {
			looks.Add(1)
		}
		return nil
	}
	res, err := collect.Run(t.Context(), in)
	if err != nil || res.Copies != 4500 || len(bucket.Keys("")) != 0 || bucket.Calls(artifacttest.Delete) != 5 ||
		looks.Load() != 2 { // 4,000 and 500
		t.Errorf("%d looks, %d requests: %+v, %v", looks.Load(), bucket.Calls(artifacttest.Delete), res, err)
	}
}

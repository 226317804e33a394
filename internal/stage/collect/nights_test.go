package collect_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// oneByOne deletes as a folder does: object by object, as long as it is permitted.
type oneByOne struct {
	*artifacttest.Memory
	before func() // each delete
}

func (o oneByOne) DeleteAll(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if err := blob.CheckContext(ctx); err != nil {
			return err
		}
		o.before()
		if err := o.Delete(context.WithoutCancel(ctx), key); err != nil {
			return err
		}
	}
	return nil
}

// whenFrozen runs a collector that stands still for half a minute in the middle of a batch of deletes, as its process
// does in a machine that is suspended, while another does what it does. It gives what the collector ended with.
func whenFrozen(w *world, batch []string, meanwhile func()) error {
	w.abandon(batch...)
	w.collect(0)
	w.now = day(1)
	var lost, deletes atomic.Int32
	slow := oneByOne{Memory: w.store, before: func() {
		if deletes.Add(1) == 3 {
			time.Sleep(30 * time.Second)
		}
	}}
	in := w.in()
	in.Artifacts.Store = slow
	in.Guard = func(context.Context) error {
		if lost.Load() > 0 {
			return fault.LeaseLost.At("work on", "docs/a")
		}
		return nil
	}
	ended := make(chan error)
	go func() {
		_, err := collect.Run(context.Background(), in)
		ended <- err
	}()
	time.Sleep(10 * time.Second)
	lost.Store(1) // the lease passes: another run has it now
	meanwhile()
	return <-ended
}

// Promises: 30, 124.
func TestACollectorThatWakesUpDeletesNothingOfTheRunThatFollowedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := worldOf(t, first)
		musttest.Code(t, whenFrozen(w, []string{"s1", "s2", "s3", "s4", "s5", "s6"}, func() {
			w.check(collect.Settle(t.Context(), w.index, w.vectors, collect.Permit{}))
			w.abandon("s4", "s5") // the next build writes them again, and names them
			w.nameSegments("g2", "s4", "s5")
		}), fault.LeaseLost, "the collector ended with")
		for _, name := range []string{"s4", "s5"} {
			assert.True(t, w.has(name), "segment %s of the published generation is gone", name)
		}
	})
}

// nameSegments publishes a generation that names segments besides those of the one before it.
func (w *world) nameSegments(gen string, names ...string) {
	w.t.Helper()
	manifest := stagetest.Must(w.index.Manifest(context.Background(), w.manifest["g1"]))
	for _, name := range names {
		manifest.Segments.Text = append(manifest.Segments.Text, core.Segment{SHA256: name})
	}
	w.seq++
	manifest.Generation, manifest.Seq = gen, w.seq
	sha := stagetest.Must(w.index.PutManifest(context.Background(), manifest))
	w.manifest[gen] = sha
	ref := core.GenerationRef{Manifest: sha, Seq: w.seq, State: "published"}
	_, err := blob.WriteJSON(context.Background(), w.store, w.index.GenerationKey(gen, "manifest.json"), ref, blob.Cond{})
	w.check(err)
	w.point(gen, w.seq)
}

func TestTheLeaseIsLookedAtBeforeEveryDelete(t *testing.T) {
	w := worldOf(t, first, second)
	w.abandon("s1")
	w.check(w.vectors.Create(t.Context(), collPrefix+"classes_7", 2))
	w.collect(0) // marks g1, condemns
	for _, key := range []string{w.index.RunKey("g1", "0", "build.json"), w.index.GenerationKey("gone", "report.json")} {
		stagetest.Must(blob.Write(t.Context(), w.store, key, []byte("{}"), blob.Cond{}))
	}
	looked := false
	var deletes int
	w.guard = func(context.Context) error { looked = true; return nil }
	w.fail = func(op string) error {
		if strings.HasPrefix(op, "delete") || strings.HasPrefix(op, "drop") || strings.HasSuffix(op, "/collected") {
			deletes++
			assert.True(t, looked, "no check came before: %s", op)
			looked = false
		}
		return nil
	}
	w.collect(30)
	if w.fail = nil; deletes < 7 { // scratch, report, records, rows of two kinds, folder, reference, segments, collection
		t.Errorf("only %d deletes", deletes)
	}
}

// The pointer is the authority: its generation's reference may be missing, or name another manifest.
func TestWhatThePointerNamesStaysWhateverItsReferenceSays(t *testing.T) {
	for name, spoil := range map[string]func(w *world, key string) error{
		"the reference is missing": func(w *world, key string) error { return w.store.Delete(context.Background(), key) },
		"it names another manifest": func(w *world, key string) error {
			return musttest.Err(blob.WriteJSON(context.Background(), w.store, key,
				core.GenerationRef{Manifest: w.manifest["g0"], Seq: 9, State: "held"}, blob.Cond{}))
		},
		"it is damaged": func(w *world, key string) error {
			return musttest.Err(blob.Write(context.Background(), w.store, key, []byte("{"), blob.Cond{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.publish("g0", second)
			w.publish("g1", first)
			w.check(spoil(w, w.index.GenerationKey("g1", "manifest.json")))
			for _, on := range []int{0, 3, 6} {
				w.collect(on)
			}
			assert.Empty(t, w.missing("g1", first), "gone")
			refs, err := w.index.ListByName(t.Context())
			assert.True(t, err == nil && refs["g1"].Manifest == w.manifest["g1"], "named are %+v, %v", refs, err)
		})
	}
}

// copiesOf is where this installation's copies for bulk import lie.
var copiesOf = core.ImportPrefix(storeID)

// stage puts copies into the bucket of a vector store, and gives what collects them with a lease of a fence.
func stage(w *world, fence int64, keys ...string) (bucket *artifacttest.Memory, in collect.In) {
	bucket = artifacttest.New()
	for _, key := range keys {
		stagetest.Must(blob.Write(context.Background(), bucket, key, []byte("rows"), blob.Cond{}))
	}
	in = w.in()
	in.Staging, in.Copies, in.Fence = bucket, copiesOf, fence
	return bucket, in
}

// Promises: 121.
func TestCopiesOfImportsThatAreOverGoAndNoOthers(t *testing.T) {
	w := worldOf(t, first)
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
	assert.Equal(t, stays, bucket.Keys(""), "left are")
}

func TestWithoutImportsNoBucketIsAsked(t *testing.T) {
	w := worldOf(t, first)
	in := w.in()
	in.Copies = copiesOf
	res, err := collect.Run(t.Context(), in)
	assert.True(t, err == nil && res.Copies == 0 && res.Problems == nil, "%+v, %v", res, err)
}

// guardListed has a run look at its lease by a function once its bucket was listed.
func guardListed(bucket *artifacttest.Memory, in *collect.In, look func() error) {
	var listed atomic.Bool
	bucket.Fail = func(op artifacttest.Op, _ string) error {
		if op == artifacttest.List {
			listed.Store(true)
		}
		return nil
	}
	in.Guard = func(context.Context) error {
		if listed.Load() {
			return look()
		}
		return nil
	}
}

// A run that lost the lease while it collects deletes no copies, and that is no matter of the bucket.
// Promises: 121.
func TestCopiesAreLeftToWhoHasTheLease(t *testing.T) {
	bucket, in := stage(worldOf(t, first), 5, copiesOf+"docs/runs/g0/3/classes-0/ab.parquet")
	guardListed(bucket, &in, func() error { return fault.LeaseLost.At("work on", "docs/g1") })
	res, err := collect.Run(t.Context(), in)
	assert.True(t, fault.Is(err, fault.LeaseLost) && res.Problems == nil && len(bucket.Keys("")) == 1,
		"%+v, %v, left %q", res, err, bucket.Keys(""))
}

func TestManyCopiesAreDeletedUnderALookAtTheLeaseEach(t *testing.T) {
	w := worldOf(t, first)
	var keys []string
	for i := range 4500 {
		keys = append(keys, fmt.Sprintf("%sdocs/runs/g0/3/classes-0/%04d.parquet", copiesOf, i))
	}
	bucket, in := stage(w, 5, keys...)
	var looks atomic.Int32
	in.Permit = time.Hour
	guardListed(bucket, &in, func() error { looks.Add(1); return nil })
	res, err := collect.Run(t.Context(), in)
	if err != nil || res.Copies != 4500 || len(bucket.Keys("")) != 0 || bucket.Calls(artifacttest.Delete) != 5 ||
		looks.Load() != 2 { // 4,000 and 500
		t.Errorf("%d looks, %d requests: %+v, %v", looks.Load(), bucket.Calls(artifacttest.Delete), res, err)
	}
}

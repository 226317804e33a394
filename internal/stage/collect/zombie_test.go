package collect_test

import (
	"context"
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
		w := newWorld(t)
		w.publish("g1", first)
		err := whenFrozen(w, []string{"s1", "s2", "s3", "s4", "s5", "s6"}, func() {
			w.check(collect.Settle(t.Context(), w.index, w.vectors, collect.Permit{}))
			w.abandon("s4", "s5") // the next build writes them again, and names them
			w.nameSegments("g2", "s4", "s5")
		})
		assert.True(t, fault.Is(err, fault.LeaseLost), "the collector ended with %v", err)
		for _, name := range []string{"s4", "s5"} {
			assert.True(t, w.has(name), "segment %s of the published generation is gone", name)
		}
	})
}

// nameSegments publishes a generation that names segments besides those of the one before it.
func (w *world) nameSegments(gen string, names ...string) {
	w.t.Helper()
	manifest, err := w.index.Manifest(context.Background(), w.manifest["g1"])
	w.check(err)
	for _, name := range names {
		manifest.Segments.Text = append(manifest.Segments.Text, core.Segment{SHA256: name})
	}
	w.seq++
	manifest.Generation, manifest.Seq = gen, w.seq
	sha, err := w.index.PutManifest(context.Background(), manifest)
	w.check(err)
	w.manifest[gen] = sha
	ref := core.GenerationRef{Manifest: sha, Seq: w.seq, State: "published"}
	_, err = blob.WriteJSON(context.Background(), w.store, w.index.GenerationKey(gen, "manifest.json"), ref, blob.Cond{})
	w.check(err)
	w.point(gen, w.seq)
}

func TestTheLeaseIsLookedAtBeforeEveryDelete(t *testing.T) {
	w := newWorld(t)
	w.publish("g1", first)
	w.publish("g2", second)
	w.abandon("s1")
	w.check(w.vectors.Create(t.Context(), collPrefix+"classes_7", 2))
	w.collect(0) // marks g1, condemns
	for _, key := range []string{w.index.RunKey("g1", "0", "build.json"), w.index.GenerationKey("gone", "report.json")} {
		_, err := blob.Write(t.Context(), w.store, key, []byte("{}"), blob.Cond{})
		w.check(err)
	}
	looked := false
	var deletes int
	w.guard = func(context.Context) error { looked = true; return nil }
	w.fail = func(op string) error {
		if strings.HasPrefix(op, "delete") || strings.HasPrefix(op, "drop") || strings.HasSuffix(op, "/collected") {
			if deletes++; !looked {
				t.Errorf("no check came before: %s", op)
			}
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
			_, err := blob.WriteJSON(context.Background(), w.store, key,
				core.GenerationRef{Manifest: w.manifest["g0"], Seq: 9, State: "held"}, blob.Cond{})
			return err
		},
		"it is damaged": func(w *world, key string) error {
			_, err := blob.Write(context.Background(), w.store, key, []byte("{"), blob.Cond{})
			return err
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
			missing := w.missing("g1", first)
			assert.True(t, len(missing) <= 0, "gone: %q", missing)
			refs, err := w.index.ListByName(t.Context())
			assert.True(t, err == nil && refs["g1"].Manifest == w.manifest["g1"], "named are %+v, %v", refs, err)
		})
	}
}

func TestScratchOfNewerFencesAndOfRestoresIsNotTouched(t *testing.T) {
	w := newWorld(t)
	w.publish("g1", first)
	w.fence = 5
	for _, run := range []artifactRun{{"a", "4"}, {"b", "5"}, {"c", "6"}, {"restore-1", "restore"}} {
		_, err := blob.Write(t.Context(), w.store, w.index.RunKey(run.gen, run.folder, "x.json"), []byte("{}"), blob.Cond{})
		w.check(err)
	}
	w.collect(3) // longer than the grace
	want := []string{w.index.RunKey("c", "6", "x.json"), w.index.RunKey("restore-1", "restore", "x.json")}
	got := w.store.Keys(w.index.RunKey(""))
	assert.True(t, len(got) == 2 && got[0] == want[0] && got[1] == want[1], "left are %q", got)
}

type artifactRun struct{ gen, folder string }

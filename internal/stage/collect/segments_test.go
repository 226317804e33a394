package collect_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// abandon leaves segments that no manifest names, as a build that ended early does.
func (w *world) abandon(names ...string) {
	for _, name := range names {
		stagetest.Must(blob.Write(context.Background(), w.store, w.index.SegmentKey(name), []byte(name), blob.Cond{}))
	}
}

func (w *world) has(name string) bool { return len(w.store.Keys(w.index.SegmentKey(name))) == 1 }

// A build that finds a condemned segment there, and re-uses it, takes it off the list before it names it.
func TestWhatABuildReclaimsStays(t *testing.T) {
	w := worldOf(t, first)
	w.abandon("s1", "s2")
	w.check(w.vectors.Create(t.Context(), collPrefix+"classes_7", 2))
	w.collect(0)
	missing, err := collect.Reclaim(t.Context(), w.index, []string{"s1", "never"}, collPrefix+"classes_7")
	require.True(t, err == nil && len(missing) == 0, "%v %v", missing, err)
	if res := w.collect(1); !w.has("s1") || w.has("s2") || res.Deleted != 1 || res.Condemned != 2 {
		t.Errorf("it was deleted before its grace began again: %+v", res)
	}
	if w.collect(2); w.has("s1") { // the build did not name it after all
		t.Error("a segment that was reclaimed and never named stays for ever")
	}
}

// The collector writes down what it is going to delete before it does. A build that comes in between sees it.
func TestAReclaimSeesWhatIsBeingDeleted(t *testing.T) {
	w := worldOf(t, first)
	killedInTheBatch(w)
	w.check(w.store.Delete(t.Context(), w.index.SegmentKey("s1"))) // it came as far as this
	for range 2 {
		missing, err := collect.Reclaim(t.Context(), w.index, []string{"s1", "s3"})
		assert.True(t, err == nil && slices.Equal(missing, []string{"s1"}), "missing %v, %v", missing, err)
	}
	// The next build ends what the dead collector began: from then on what it finds is there to stay.
	err := collect.Settle(t.Context(), w.index, w.vectors, collect.Permit{})
	assert.True(t, err == nil && !w.has("s1") && !w.has("s2"), "after settling: %v", err)
	w.abandon("s1") // it writes it again
	assert.Empty(t, stagetest.Must(collect.Reclaim(t.Context(), w.index, []string{"s1"})), "missing")
	res := w.collect(1)
	assert.True(t, w.has("s1") && res.Deleted == 0, "the new segment was deleted: %+v", res)
}

// Settling must not take away what was named since, though a collector had it in its batch.
func TestSettlingAndTheNextRunSpareWhatIsNamedNow(t *testing.T) {
	for _, settle := range []bool{true, false} {
		w := worldOf(t, first)
		manifest := stagetest.Must(w.index.Manifest(t.Context(), w.manifest["g1"]))
		sha := manifest.Segments.Splits[0].SHA256
		list := map[string]any{
			"format": 1, "since": map[string]time.Time{}, "deleting": []string{"segment:" + sha, "segment:s1"},
		}
		stagetest.Must(blob.WriteJSON(t.Context(), w.store, "docs/condemned.json", list, blob.Cond{}))
		w.abandon("s1")
		if settle {
			w.check(collect.Settle(t.Context(), w.index, w.vectors, collect.Permit{}))
		} else {
			w.collect(0)
		}
		assert.True(t, w.has(sha) && !w.has("s1"), "settle %v: named %v, dead %v", settle, w.has(sha), w.has("s1"))
		raw, _, err := blob.Read(t.Context(), w.store, "docs/condemned.json")
		assert.True(t, err == nil && !strings.Contains(string(raw), "deleting"),
			"settle %v: the batch is not cleared: %s %v", settle, raw, err)
	}
}

func TestACollectorGivesWayToABuildThatChangedTheList(t *testing.T) {
	w := worldOf(t, first)
	w.abandon("s1")
	w.collect(0)
	w.now = day(1)
	reclaimed := false
	w.store.Fail = func(op artifacttest.Op, key string) error {
		if op == artifacttest.List && key == "docs/segments/" && !reclaimed { // it has read the list of the condemned
			reclaimed = true
			return musttest.Err(collect.Reclaim(context.Background(), w.index, []string{"s1"}))
		}
		return nil
	}
	_, err := collect.Run(t.Context(), w.in())
	assert.True(t, fault.Is(err, fault.GenBusy) && fault.KindOf(err) == fault.Transient, "%v", err)
	assert.True(t, w.has("s1") && reclaimed, "it deleted what the build reclaimed")
}

func TestAListThatCannotBeReadBeginsAnew(t *testing.T) {
	w := worldOf(t, first)
	w.abandon("s1")
	w.collect(0)
	w.store.Change("docs/condemned.json", cut)
	w.collect(1)
	assert.True(t, w.has("s1"), "deleted though it is unknown since when it waits")
	w.collect(2)
	assert.True(t, !w.has("s1"), "it stays for ever")
}

func listedKeys(t *testing.T, w *world, task string) (map[core.Digest]bool, error) {
	got := map[core.Digest]bool{}
	for key, err := range collect.ListKeys(t.Context(), []artifact.Index{w.index}, task) {
		if err != nil {
			return nil, err
		}
		got[key] = true
	}
	return got, nil
}

func TestEveryLedgerKeyOfEveryGenerationIsListed(t *testing.T) {
	w := worldOf(t, first, second)
	want := map[string]map[core.Digest]bool{ledger.Extract: {}, ledger.Shorten: {}}
	for _, c := range []content{first, second} {
		for name, text := range c.chunks {
			want[ledger.Extract][extractKey(name, text)] = true
		}
		for name, text := range c.classes {
			want[ledger.Shorten][shortenKey(name, text)] = true
		}
	}
	check := func(situation string) {
		for task := range want { // of embeddings: internal/pipeline
			got, err := listedKeys(t, w, task)
			assert.True(t, err == nil && len(got) == len(want[task]),
				"%s: %s: %d keys, want %d, %v", situation, task, len(got), len(want[task]), err)
			for key := range want[task] {
				assert.True(t, got[key], "%s: %s: a key is missing", situation, task)
			}
		}
	}
	check("two generations")
	w.check(w.store.Delete(t.Context(), w.index.GenerationKey("g2", "manifest.json")))
	check("the current one without its reference")
}

// A key that is left out is dropped and paid again: what cannot be read must be an error.
func TestListingFailsWhereAnythingIsDamaged(t *testing.T) {
	for situation, object := range map[string]func(w *world) string{
		"a manifest":  func(w *world) string { return w.index.SegmentKey(w.manifest["g1"]) },
		"a reference": func(w *world) string { return w.index.GenerationKey("g1", "manifest.json") },
		"a segment": func(w *world) string {
			manifest := stagetest.Must(w.index.Manifest(context.Background(), w.manifest["g1"]))
			return w.index.SegmentKey(manifest.Segments.Extract[0].SHA256)
		},
	} {
		w := worldOf(t, first, second)
		w.store.Change(object(w), cut)
		musttest.Code(t, musttest.Err(listedKeys(t, w, ledger.Extract)), fault.SegmentDamage, situation)
	}
}

// killedInTheBatch leaves segments s1 and s2 in a batch of deletes that ended before the first of them.
func killedInTheBatch(w *world) {
	w.abandon("s1", "s2")
	w.collect(0)
	killed := errors.New("killed")
	w.fail = func(op string) error {
		if strings.HasPrefix(op, "delete docs/segments") {
			return killed
		}
		return nil
	}
	w.now = day(1)
	_, err := collect.Run(w.t.Context(), w.in())
	require.ErrorIs(w.t, err, killed)
	w.fail = nil
}

func (w *world) condemned() string {
	raw, _, err := blob.Read(w.t.Context(), w.store, "docs/condemned.json")
	w.check(err)
	return string(raw)
}

// What a generation that cannot be read names is not known: what a dead collector was deleting stays, and the build
// that makes it again must be able to name it.
func TestADamagedGenerationKeepsABatchAndBlocksNoBuild(t *testing.T) {
	for name, object := range map[string]func(w *world) string{
		"reference": func(w *world) string { return w.index.GenerationKey("g1", "manifest.json") },
		"manifest":  func(w *world) string { return w.index.SegmentKey(w.manifest["g1"]) },
	} {
		w := worldOf(t, first, second)
		w.keep = 2
		killedInTheBatch(w)
		w.store.Change(object(w), cut)
		w.check(collect.Settle(t.Context(), w.index, w.vectors, collect.Permit{}))
		if list := w.condemned(); !w.has("s1") || !w.has("s2") || strings.Contains(list, "deleting") {
			t.Errorf("%s: settled: s1 %v, s2 %v, %s", name, w.has("s1"), w.has("s2"), list)
		}
		assert.Empty(t, musttest.Get(collect.Reclaim(t.Context(), w.index, []string{"s1"}))(t), "%s: missing", name)
	}
}

// A collector that lost its lease may still write the list, and a build that settled before holds the lease.
func TestAReclaimTakesOutOfABatchWhatIsStillThere(t *testing.T) {
	w := worldOf(t, first)
	killedInTheBatch(w)
	missing, err := collect.Reclaim(t.Context(), w.index, []string{"s1"})
	assert.True(t, err == nil && len(missing) <= 0, "missing %v, %v", missing, err)
	list := w.condemned()
	assert.True(t, !strings.Contains(list, "segment:s1") && strings.Contains(list, "segment:s2"), "the list: %s", list)
	w.check(collect.Settle(t.Context(), w.index, w.vectors, collect.Permit{}))
	assert.True(t, w.has("s1") && !w.has("s2"), "settled: s1 %v, s2 %v", w.has("s1"), w.has("s2"))
}

func TestADamagedReferenceGoesAfterItsGraceAndCollectionGoesOn(t *testing.T) {
	w := worldOf(t, first, second, first)
	w.keep = 2
	w.abandon("s1")
	reference := w.index.GenerationKey("g2", "manifest.json")
	w.store.Change(reference, cut)
	w.leases["g2"] = true
	for night := range 4 {
		res := w.collect(night)
		reported := len(res.Problems) == 1 && res.Problems[0].Object == reference &&
			res.Problems[0].Code == string(fault.SegmentDamage) && res.Problems[0].Detail != ""
		assert.True(t, reported && slices.Equal(res.Damaged, []string{"g2"}), "night %d: reported %+v", night, res)
		assert.True(t, res.Deleted+res.Records+res.Rows <= 0 && w.missing("g2", second) == nil,
			"night %d: what it may need went: %+v", night, res)
		assert.Equal(t, night < 3, len(w.store.Keys(reference)) == 1, "night %d: its reference is there", night)
		if night == 2 { // a reader held it until now
			delete(w.leases, "g2")
		}
	}
	assert.NoError(t, musttest.Err(listedKeys(t, w, ledger.Extract)), "the ledger")
	res := w.collect(4)
	assert.True(t, res.Damaged == nil && res.Problems == nil, "it is reported for ever: %+v", res)
	w.publish("g4", content{classes: map[string]string{"e": "1"}})
	w.publish("g5", content{classes: map[string]string{"f": "1"}})
	w.collectNights(5, 9)
	assert.True(t, !w.has("s1") && !w.has(w.manifest["g2"]) && slices.Equal(generations(w), []string{"g4", "g5"}),
		"collection does not go on: %v, %v", generations(w), w.store.Keys("docs/segments/"))
}

func TestAReferenceThatIsPutBackKeepsItsGeneration(t *testing.T) {
	w := worldOf(t, first, second)
	w.keep = 2
	reference := w.index.GenerationKey("g1", "manifest.json")
	w.store.Change(reference, cut)
	w.collect(0)
	marked := len(w.store.Keys(collect.MarkKey(w.index, "g1"))) == 1
	ref := core.GenerationRef{Manifest: w.manifest["g1"], Seq: 1, State: "published"}
	stagetest.Must(blob.WriteJSON(t.Context(), w.store, reference, ref, blob.Cond{}))
	w.collect(5)
	missing := w.missing("g1", first)
	assert.True(t, marked && missing == nil && len(w.store.Keys(collect.MarkKey(w.index, "g1"))) <= 0 &&
		len(generations(w)) == 2, "marked %v, then it lost %v, generations %v", marked, missing, generations(w))
}

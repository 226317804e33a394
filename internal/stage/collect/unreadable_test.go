package collect_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// killedInTheBatch leaves segments s1 and s2 in a batch of deletes that ended before the first of them.
func killedInTheBatch(w *world) {
	w.t.Helper()
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
	require.True(w.t, errors.Is(err, killed), "%v", err)
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
		w := newWorld(t)
		w.keep = 2
		w.publish("g1", first)
		w.publish("g2", second)
		killedInTheBatch(w)
		w.store.Change(object(w), cut)
		w.check(collect.Settle(t.Context(), w.index, w.vectors, collect.Permit{}))
		if list := w.condemned(); !w.has("s1") || !w.has("s2") || strings.Contains(list, "deleting") {
			t.Errorf("%s: settled: s1 %v, s2 %v, %s", name, w.has("s1"), w.has("s2"), list)
		}
		missing, err := collect.Reclaim(t.Context(), w.index, []string{"s1"})
		assert.True(t, err == nil && len(missing) == 0, "%s: missing %v, %v", name, missing, err)
	}
}

// A collector that lost its lease may still write the list, and a build that settled before holds the lease.
func TestAReclaimTakesOutOfABatchWhatIsStillThere(t *testing.T) {
	w := newWorld(t)
	w.publish("g1", first)
	killedInTheBatch(w)
	missing, err := collect.Reclaim(t.Context(), w.index, []string{"s1"})
	assert.True(t, err == nil && len(missing) <= 0, "missing %v, %v", missing, err)
	list := w.condemned()
	assert.True(t, !strings.Contains(list, "segment:s1") && strings.Contains(list, "segment:s2"), "the list: %s", list)
	w.check(collect.Settle(t.Context(), w.index, w.vectors, collect.Permit{}))
	assert.True(t, w.has("s1") && !w.has("s2"), "settled: s1 %v, s2 %v", w.has("s1"), w.has("s2"))
}

func TestADamagedReferenceGoesAfterItsGraceAndCollectionGoesOn(t *testing.T) {
	w := newWorld(t)
	w.keep = 2
	w.publish("g1", first)
	w.publish("g2", second)
	w.publish("g3", first)
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
	_, err := listedKeys(t, w, ledger.Extract)
	assert.NoError(t, err, "the ledger")
	res := w.collect(4)
	assert.True(t, res.Damaged == nil && res.Problems == nil, "it is reported for ever: %+v", res)
	w.publish("g4", content{classes: map[string]string{"e": "1"}})
	w.publish("g5", content{classes: map[string]string{"f": "1"}})
	for night := 5; night < 9; night++ {
		w.collect(night)
	}
	if w.has("s1") || w.has(w.manifest["g2"]) || !slices.Equal(generations(w), []string{"g4", "g5"}) {
		t.Errorf("collection does not go on: %v, %v", generations(w), w.store.Keys("docs/segments/"))
	}
}

// A reference that is put back within the grace is that of a generation that rules keep.
func TestAReferenceThatIsPutBackKeepsItsGeneration(t *testing.T) {
	w := newWorld(t)
	w.keep = 2
	w.publish("g1", first)
	w.publish("g2", second)
	reference := w.index.GenerationKey("g1", "manifest.json")
	w.store.Change(reference, cut)
	w.collect(0)
	marked := len(w.store.Keys(collect.MarkKey(w.index, "g1"))) == 1
	ref := core.GenerationRef{Manifest: w.manifest["g1"], Seq: 1, State: "published"}
	_, err := blob.WriteJSON(t.Context(), w.store, reference, ref, blob.Cond{})
	w.check(err)
	w.collect(5)
	if missing := w.missing("g1", first); !marked || missing != nil ||
		len(w.store.Keys(collect.MarkKey(w.index, "g1"))) > 0 || len(generations(w)) != 2 {
		t.Errorf("marked %v, then it lost %v, generations %v", marked, missing, generations(w))
	}
}

package collect_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/bolt"
	recordsbolt "github.com/unweaver/unweaver/internal/store/records/bolt"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// Sixty nights of one per cent of changes must not make the stores grow: records and rows, artifacts and ledger, by
// what the kept generations need.
func TestSixtyNightsLeaveTheStoresAboutAsLargeAsWhatIsLive(t *testing.T) {
	w := newWorld(t)
	simulate(w, 60, claimsOf(t), func() (records, rows int) {
		for _, keys := range w.vectors.(*memoryVectors).rows {
			rows += len(keys)
		}
		return len(w.records.(*memoryRecords).keys), rows
	})
}

// The same holds of the stores that are embedded, which are slower.
func TestNightsOnTheEmbeddedStores(t *testing.T) {
	w := newWorld(t)
	store, err := recordsbolt.Open(filepath.Join(t.TempDir(), "records"))
	w.check(err)
	defer func() { _ = store.Close() }()
	rowStore, err := files.Open(t.TempDir())
	w.check(err)
	defer func() { _ = rowStore.Close() }()
	w.records, w.vectors = store, rowStore
	simulate(w, 7, claimsOf(t), func() (records, rows int) {
		w.check(store.ScanRecords(t.Context(), storeID[:8]+":c:docs:", func(keys []string) error {
			records += len(keys)
			return nil
		}))
		for _, collection := range []string{"classes_0", "chunks_0"} {
			n, err := rowStore.Count(t.Context(), collPrefix+collection)
			w.check(err)
			rows += int(n)
		}
		return records, rows
	})
}

func claimsOf(t *testing.T) *bolt.Store {
	t.Helper()
	store := stagetest.Must(bolt.Open(filepath.Join(t.TempDir(), "classes")))
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// simulate builds and collects night by night, and compares what the stores hold with what the kept generations need.
func simulate(w *world, nights int, claims coordination.Claims, stored func() (records, rows int)) {
	const chunks, classes, keep = 300, 600, 3
	t := w.t
	t.Helper()
	w.keep = keep
	book := ledger.New(w.store, claims)
	now := content{classes: map[string]string{}, chunks: map[string]string{}}
	pay := func(task string, keys ...core.Digest) {
		for _, key := range keys {
			_, err := book.Put(t.Context(), task, key, 0, ledger.Result{Value: []byte("paid")})
			w.check(err)
		}
		if task == ledger.Extract {
			_, err := book.Pack(t.Context(), task, keys)
			w.check(err)
		}
	}
	var recent []content
	for night := range nights {
		w.now = day(night)
		var extracted, shortened []core.Digest
		for i := range chunks {
			if name := fmt.Sprint("chunk ", i); night == 0 || i%100 == night%100 {
				now.chunks[name] = fmt.Sprint("night ", night)
				extracted = append(extracted, extractKey(name, now.chunks[name]))
			}
		}
		for i := range classes {
			if name := fmt.Sprint("class ", i); night == 0 || i%100 == night%100 {
				now.classes[name] = fmt.Sprint("night ", night)
				shortened = append(shortened, shortenKey(name, now.classes[name]))
			}
		}
		pay(ledger.Extract, extracted...)
		pay(ledger.Shorten, shortened...)
		pay(ledger.Embed, core.Sum("batch", fmt.Sprint(night)))
		w.publish(fmt.Sprintf("g%02d", night), now)
		if recent = append(recent, clone(now)); len(recent) > keep {
			recent = recent[1:]
		}
		w.collect(night)
		for _, task := range ledger.Tasks() {
			book = ledger.New(w.store, claims) // another worker
			_, err := book.RunUpkeep(t.Context(), task, collect.ListKeys(t.Context(), []artifact.Index{w.index}, task), w.now)
			w.check(err)
		}
	}
	records, rows := stored()
	liveRecords, liveRows := w.listed(recent)
	t.Logf("%d records of %d live, %d rows of %d live, %d files of the index, %d of the ledger, after %d nights",
		records, liveRecords, rows, liveRows, len(w.store.Keys("docs/")), len(w.store.Keys("ledger/")), nights)
	assert.False(t, float64(records) > 1.3*float64(liveRecords) || float64(rows) > 1.3*float64(liveRows),
		"%d records of %d live, %d rows of %d live", records, liveRecords, rows, liveRows)
	assert.True(t, records >= liveRecords && rows >= liveRows,
		"live ones went: %d records of %d, %d rows of %d", records, liveRecords, rows, liveRows)
	segments := len(w.store.Keys("docs/segments/"))
	assert.True(t, segments <= 2*4*keep, "%d segments, the kept generations have %d", segments, 4*keep)
	// Of up to 1,491 paid results: loose ones of the last nights, embeddings of the last 15, and few packs.
	if n := len(w.store.Keys("ledger/")); n > 120 {
		t.Errorf("%d objects of the ledger: %v", n, w.store.Keys("ledger/"))
	}
	w.wantPaid(ledger.New(w.store, claims), now)
}

func clone(c content) content {
	out := content{classes: map[string]string{}, chunks: map[string]string{}}
	for name, text := range c.classes {
		out.classes[name] = text
	}
	for name, text := range c.chunks {
		out.chunks[name] = text
	}
	return out
}

// listed counts the records and rows that any of these generations lists.
func (w *world) listed(all []content) (records, rows int) {
	seen := map[string]bool{}
	for _, c := range all {
		for name, text := range c.classes {
			seen["class "+name+text] = true
		}
		for name, text := range c.chunks {
			seen["chunk "+name+text] = true
		}
	}
	for key := range seen {
		if key[:5] == "class" {
			records++
		}
	}
	return records, len(seen)
}

// wantPaid checks that nothing that a generation lists would be paid for again.
func (w *world) wantPaid(book *ledger.Ledger, c content) {
	w.t.Helper()
	for name, text := range c.chunks {
		e, err := book.Get(context.Background(), ledger.Extract, extractKey(name, text), 0)
		require.True(w.t, err == nil && e != nil, "the extraction of %s is lost: %v", name, err)
	}
	for name, text := range c.classes {
		e, err := book.Get(context.Background(), ledger.Shorten, shortenKey(name, text), 0)
		require.True(w.t, err == nil && e != nil, "the shortened text of %s is lost: %v", name, err)
	}
}

package collect_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/classes/bolt"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
)

// Sixty nights of one per cent of changes must not make the stores grow: the embedded stores of records and rows, the
// artifacts and the ledger, by what the kept generations need.
func TestSixtyNightsLeaveTheStoresAboutAsLargeAsWhatIsLive(t *testing.T) {
	const chunks, classes, nights, keep = 1000, 2000, 60, 3
	w := newWorld(t)
	store, err := bolt.Open(filepath.Join(t.TempDir(), "classes"))
	w.check(err)
	defer func() { _ = store.Close() }()
	rowStore, err := files.Open(t.TempDir())
	w.check(err)
	defer func() { _ = rowStore.Close() }()
	w.records, w.vectors, w.keep = store, rowStore, keep
	book := ledger.New(w.store, store)
	now := content{classes: map[string]string{}, chunks: map[string]string{}}
	pay := func(task string, keys ...corpus.Digest) {
		for _, key := range keys {
			_, err := book.Put(t.Context(), task, key, 0, ledger.Result{Value: []byte("paid")})
			w.check(err)
		}
		if task == ledger.Extract {
			_, err = book.Pack(t.Context(), task, keys)
			w.check(err)
		}
	}
	var recent []content
	most := 0
	for night := range nights {
		w.now = day(night)
		var extracted, shortened []corpus.Digest
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
		pay(ledger.Embed, corpus.Sum("batch", fmt.Sprint(night)))
		w.publish(fmt.Sprintf("g%02d", night), now)
		if recent = append(recent, clone(now)); len(recent) > keep {
			recent = recent[1:]
		}
		w.collect(night)
		for _, task := range ledger.Tasks() {
			book = ledger.New(w.store, store) // another worker
			_, err := book.Upkeep(t.Context(), task, collect.Listed(t.Context(), []artifact.Index{w.index}, task), w.now)
			w.check(err)
		}
		most = max(most, len(w.store.Keys("docs/")))
	}
	records, rows := 0, int64(0)
	w.check(store.ScanRecords(t.Context(), storeID[:8]+":c:docs:", func(keys []string) error {
		records += len(keys)
		return nil
	}))
	for _, collection := range []string{"classes_0", "chunks_0"} {
		n, err := rowStore.Count(t.Context(), collPrefix+collection)
		w.check(err)
		rows += n
	}
	liveRecords, liveRows := w.live(recent)
	t.Logf("%d records of %d live, %d rows of %d live, %d files of the index, %d of the ledger, after %d nights",
		records, liveRecords, rows, liveRows, len(w.store.Keys("docs/")), len(w.store.Keys("ledger/")), nights)
	if float64(records) > 1.3*float64(liveRecords) || float64(rows) > 1.3*float64(liveRows) {
		t.Errorf("%d records of %d live, %d rows of %d live", records, liveRecords, rows, liveRows)
	}
	if records < liveRecords || rows < int64(liveRows) {
		t.Errorf("live ones went: %d records of %d, %d rows of %d", records, liveRecords, rows, liveRows)
	}
	if segments := len(w.store.Keys("docs/segments/")); segments > 2*4*keep {
		t.Errorf("%d segments, the kept generations have %d", segments, 4*keep)
	}
	if n := len(w.store.Keys("ledger/")); n > 60 {
		t.Errorf("%d objects of the ledger", n)
	}
	w.wantPaid(ledger.New(w.store, store), now)
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

// live counts the records and rows that any of these generations lists.
func (w *world) live(all []content) (records, rows int) {
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
		if e, err := book.Get(context.Background(), ledger.Extract, extractKey(name, text), 0); err != nil || e == nil {
			w.t.Fatalf("the extraction of %s is lost: %v", name, err)
		}
	}
	for name, text := range c.classes {
		if e, err := book.Get(context.Background(), ledger.Shorten, shortenKey(name, text), 0); err != nil || e == nil {
			w.t.Fatalf("the shortened text of %s is lost: %v", name, err)
		}
	}
}

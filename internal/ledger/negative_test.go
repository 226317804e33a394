package ledger_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/memory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
)

func looseName(i int) string {
	name := key(i).String()
	return "ledger/extract/loose/" + name[:2] + "/" + name
}

// pays gives a result and counts.
func pays(paid *int, result ledger.Result) func(context.Context) (ledger.Result, error) {
	return func(context.Context) (ledger.Result, error) { *paid++; return result, nil }
}

func TestAMissCostsOneLookAndItsResultOneWrite(t *testing.T) {
	near := memory.New()
	requests := distance.New(0)
	l := ledger.New(distance.Blob(near, requests), newClaims())
	paid := 0
	for i := range 101 {
		if i == 1 {
			requests.Take() // what a process asks once
		}
		result := ledger.Result{Value: []byte("v"), Negative: i%2 == 0}
		if _, _, err := l.Do(t.Context(), ledger.Extract, key(i), 0, pays(&paid, result)); err != nil {
			t.Fatal(err)
		}
	}
	if counted := requests.Take(); paid != 101 || counted.Of("", distance.Get) != 100 || counted.Of("") != 200 {
		t.Errorf("paid %d times\n%s", paid, counted)
	}
	next := ledger.New(distance.Blob(near, requests), newClaims())
	for i := range 101 {
		entry, _, err := next.Do(t.Context(), ledger.Extract, key(i), 0, pays(&paid, ledger.Result{}))
		if err != nil || entry.Negative != (i%2 == 0) || string(entry.Value) != "v" {
			t.Fatal(i, entry, err)
		}
	}
	if paid != 101 {
		t.Errorf("%d were paid for again", paid-101)
	}
}

func TestNegativeEntriesOfReleasesBeforeAreNotPaidForAgain(t *testing.T) {
	near := memory.New()
	for i := range 3 {
		name := fmt.Sprintf("%s.neg-%d", looseName(i), i)
		if _, err := blob.Write(t.Context(), near, name, []byte("why"), blob.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	paid := 0
	for process := range 2 {
		l := ledger.New(near, newClaims())
		for i := range 3 {
			entry, _, err := l.Do(t.Context(), ledger.Extract, key(i), i, pays(&paid, ledger.Result{Value: []byte("new")}))
			if err != nil || !entry.Negative || string(entry.Value) != "why" {
				t.Errorf("process %d, entry %d: %v %v", process, i, entry, err)
			}
		}
	}
	if paid != 0 {
		t.Errorf("paid %d times", paid)
	}
	// A round that they are not of asks, and what it gets counts from then on.
	l := ledger.New(near, newClaims())
	for range 2 {
		entry, _, err := l.Do(t.Context(), ledger.Extract, key(0), 1, pays(&paid, ledger.Result{Value: []byte("good")}))
		if err != nil || entry.Negative || string(entry.Value) != "good" || paid != 1 {
			t.Errorf("%v, paid %d times, %v", entry, paid, err)
		}
	}
	if entry, err := l.Get(t.Context(), ledger.Extract, key(0), 0); err != nil || entry == nil || entry.Negative {
		t.Errorf("a positive entry does not win: %v %v", entry, err)
	}
}

// Releases before write negative entries under names of their own, also while, and after, this one does.
func TestNegativeEntriesOfAReleaseBesideAreFoundADayLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near := memory.New()
		l, paid := ledger.New(near, newClaims()), 0
		asked := func(l *ledger.Ledger, i, want int) {
			t.Helper()
			result := ledger.Result{Value: []byte("new")}
			if _, _, err := l.Do(t.Context(), ledger.Extract, key(i), 0, pays(&paid, result)); err != nil || paid != want {
				t.Errorf("entry %d: paid %d times, want %d, %v", i, paid, want, err)
			}
		}
		asked(l, 1, 1) // none has a former name, which is written down
		if _, err := blob.Write(t.Context(), near, looseName(2)+".neg-0", []byte("why"), blob.Cond{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Hour)
		asked(l, 2, 1)
		asked(ledger.New(near, newClaims()), 2, 1)
	})
}

// A release before takes a negative entry for a result, and packs it.
func TestANegativeEntryInAPackIsNone(t *testing.T) {
	b := newBook(t)
	bad := ledger.Result{Value: []byte("bad"), Negative: true}
	if _, err := b.Put(t.Context(), ledger.Extract, key(1), 0, bad); err != nil {
		t.Fatal(err)
	}
	raw, _, err := blob.Read(t.Context(), b.store, looseName(1))
	if err != nil {
		t.Fatal(err)
	}
	entries := []ledger.Stored{{Key: key(1), Value: raw}, {Key: key(2), Value: []byte("good")}}
	slices.SortFunc(entries, func(a, b ledger.Stored) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	if _, err := b.PackEntries(t.Context(), ledger.Extract, func(yield func(ledger.Stored, error) bool) {
		for _, entry := range entries {
			if !yield(entry, nil) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	for days := range 4 { // the pack is swept, and merged with others
		b.now = day(1 + days)
		b.reopen()
		entry, err := b.Get(t.Context(), ledger.Extract, key(1), 0)
		if err != nil || entry == nil || !entry.Negative || string(entry.Value) != "bad" {
			t.Fatalf("day %d: %v %v", days, entry, err)
		}
		if entry, err := b.Get(t.Context(), ledger.Extract, key(2), 0); err != nil || entry == nil || entry.Negative {
			t.Fatalf("day %d: %v %v", days, entry, err)
		}
		b.upkeep(t, ledger.Extract, nil)
	}
}

func TestALaterRoundTakesThePlaceOfANegativeEntryAndNoEarlierOneDoes(t *testing.T) {
	near := memory.New()
	l := ledger.New(near, newClaims())
	put := func(attempt int, result ledger.Result, want string) {
		t.Helper()
		if _, err := l.Put(t.Context(), ledger.Extract, key(1), attempt, result); err != nil {
			t.Fatal(err)
		}
		entry, err := ledger.New(near, newClaims()).Get(t.Context(), ledger.Extract, key(1), 0)
		if err != nil || entry == nil || string(entry.Value) != want {
			t.Errorf("%v %v, want %s", entry, err, want)
		}
	}
	put(1, ledger.Result{Value: []byte("one"), Negative: true}, "one")
	put(0, ledger.Result{Value: []byte("none"), Negative: true}, "one")
	put(2, ledger.Result{Value: []byte("two"), Negative: true}, "two")
	if entry, err := l.Get(t.Context(), ledger.Extract, key(1), 3); entry != nil || err != nil {
		t.Errorf("the third round got %v %v", entry, err)
	}
	put(0, ledger.Result{Value: []byte("good")}, "good")
	put(3, ledger.Result{Value: []byte("bad"), Negative: true}, "good")
	put(3, ledger.Result{Value: []byte("better")}, "good")
}

func TestNegativeEntriesAreNeverPacked(t *testing.T) {
	b := newBook(t)
	for i := range 6 {
		result := ledger.Result{Value: []byte(value(i)), Negative: i > 2}
		if _, err := b.Put(t.Context(), ledger.Extract, key(i), 0, result); err != nil {
			t.Fatal(err)
		}
	}
	b.now = day(2)
	if kept := b.upkeep(t, ledger.Extract, nil); kept.Gathered != 3 {
		t.Errorf("%+v", kept)
	}
	b.now = day(4)
	b.upkeep(t, ledger.Extract, nil)
	b.reopen()
	for i := range 6 {
		entry, err := b.Get(t.Context(), ledger.Extract, key(i), 0)
		if err != nil || entry == nil || entry.Negative != (i > 2) || string(entry.Value) != value(i) {
			t.Errorf("entry %d: %v %v", i, entry, err)
		}
	}
}

package ledger_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
)

// pays gives a result and counts.
func pays(paid *int, result ledger.Result) func(context.Context) (ledger.Result, error) {
	return func(context.Context) (ledger.Result, error) { *paid++; return result, nil }
}

func TestAMissCostsOneLookAndItsResultOneWrite(t *testing.T) {
	near := blobmemory.New()
	requests := distance.New(0)
	l := ledger.New(distance.Blob(near, requests), newClaims())
	paid := 0
	for i := range 101 {
		if i == 1 {
			requests.Take() // what a process asks once
		}
		result := ledger.Result{Value: []byte("v"), Negative: i%2 == 0}
		_, _, err := l.Do(t.Context(), ledger.Extract, key(i), 0, pays(&paid, result))
		require.NoError(t, err)
	}
	if counted := requests.Take(); paid != 101 || counted.Of("", distance.Get) != 100 || counted.Of("") != 200 {
		t.Errorf("paid %d times\n%s", paid, counted)
	}
	next := ledger.New(distance.Blob(near, requests), newClaims())
	for i := range 101 {
		entry, _, err := next.Do(t.Context(), ledger.Extract, key(i), 0, pays(&paid, ledger.Result{}))
		require.True(t, err == nil && entry.Negative == (i%2 == 0) && string(entry.Value) == "v", "%v %v %v", i, entry, err)
	}
	assert.True(t, paid == 101, "%d were paid for again", paid-101)
}

func TestALaterRoundTakesThePlaceOfANegativeEntryAndNoEarlierOneDoes(t *testing.T) {
	near := blobmemory.New()
	l := ledger.New(near, newClaims())
	put := func(attempt int, result ledger.Result, want string) {
		t.Helper()
		must(l.Put(t.Context(), ledger.Extract, key(1), attempt, result))
		entry, err := ledger.New(near, newClaims()).Get(t.Context(), ledger.Extract, key(1), 0)
		assert.True(t, err == nil && entry != nil && string(entry.Value) == want, "%v %v, want %s", entry, err, want)
	}
	put(1, ledger.Result{Value: []byte("one"), Negative: true}, "one")
	put(0, ledger.Result{Value: []byte("none"), Negative: true}, "one")
	put(2, ledger.Result{Value: []byte("two"), Negative: true}, "two")
	entry, err := l.Get(t.Context(), ledger.Extract, key(1), 3)
	assert.True(t, entry == nil && err == nil, "the third round got %v %v", entry, err)
	put(0, ledger.Result{Value: []byte("good")}, "good")
	put(3, ledger.Result{Value: []byte("bad"), Negative: true}, "good")
	put(3, ledger.Result{Value: []byte("better")}, "good")
}

func TestNegativeEntriesAreNeverPacked(t *testing.T) {
	b := newBook(t)
	for i := range 6 {
		result := ledger.Result{Value: []byte(value(i)), Negative: i > 2}
		must(b.Put(t.Context(), ledger.Extract, key(i), 0, result))
	}
	b.now = day(2)
	assert.Equal(t, int64(3), b.upkeep(t, ledger.Extract, nil).Gathered)
	b.now = day(4)
	b.upkeep(t, ledger.Extract, nil)
	b.reopen()
	for i := range 6 {
		entry, err := b.Get(t.Context(), ledger.Extract, key(i), 0)
		assert.True(t, err == nil && entry != nil && entry.Negative == (i > 2) && string(entry.Value) == value(i),
			"entry %d: %v %v", i, entry, err)
	}
}

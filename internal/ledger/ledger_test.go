package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/coordination/bolt"
)

func stores(t *testing.T) (blob.Store, *bolt.Store) {
	t.Helper()
	store := must(dir.Open(t.TempDir()))
	c := must(bolt.Open(filepath.Join(t.TempDir(), "c")))
	t.Cleanup(func() { _ = c.Close() })
	return store, c
}

func key(i int) core.Digest {
	return ledger.Key(ledger.Extract, "p", "m", "", "s", fmt.Sprint("input ", i))
}

// Promises: 2.
func TestEqualKeysInFlightArePaidOnce(t *testing.T) {
	store, c := stores(t)
	var paid atomic.Int64
	var wg sync.WaitGroup
	for w := range 4 { // four workers, each with a ledger of its own
		l := ledger.New(store, c)
		for range 8 {
			wg.Go(func() {
				entry, _, err := l.Do(
					t.Context(),
					ledger.Extract,
					key(1),
					0,
					func(context.Context) (ledger.Result, error) {
						paid.Add(1)
						time.Sleep(20 * time.Millisecond)
						return ledger.Result{Value: []byte(fmt.Sprint("by ", w))}, nil
					},
				)
				assert.True(t, err == nil && len(entry.Value) != 0, "%v %v", entry, err)
			})
		}
	}
	wg.Wait()
	assert.Equal(t, int64(1), paid.Load(), "paid")
}

func TestAFailedPaymentStoresNothingAndGivesItsClaimBack(t *testing.T) {
	store, c := stores(t)
	l := ledger.New(store, c)
	boom := errors.New("boom")
	fails := func(context.Context) (ledger.Result, error) { return ledger.Result{}, boom }
	if _, _, err := l.Do(t.Context(), ledger.Extract, key(1), 0, fails); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	pays := func(context.Context) (ledger.Result, error) { return ledger.Result{Value: []byte("v")}, nil }
	e, paid, err := ledger.New(store, c).Do(t.Context(), ledger.Extract, key(1), 0, pays)
	assert.True(t, err == nil && paid && string(e.Value) == "v", "%v %v %v", e, paid, err)
}

func TestANegativeEntryIsNotPaidAgainUntilItIsRetried(t *testing.T) {
	s, c := stores(t)
	l := ledger.New(s, c)
	n := 0
	pay := func(r ledger.Result) func(context.Context) (ledger.Result, error) {
		return func(context.Context) (ledger.Result, error) { n++; return r, nil }
	}
	for range 2 {
		e, _, err := l.Do(t.Context(), ledger.Extract, key(1), 0, pay(ledger.Result{Value: []byte("why"), Negative: true}))
		require.True(t, err == nil && e.Negative && string(e.Value) == "why", "%v %v", e, err)
	}
	assert.Equal(t, 1, n, "paid")
	entry, _, err := l.Do(t.Context(), ledger.Extract, key(1), 1, pay(ledger.Result{Value: []byte("good")}))
	require.True(t, err == nil && !entry.Negative, "%v %v", entry, err)
	entry, _ = l.Get(t.Context(), ledger.Extract, key(1), 0)
	assert.True(t, entry != nil && !entry.Negative, "a positive entry does not win")
}

func TestALoserAdoptsTheFirstEntry(t *testing.T) {
	s, c := stores(t)
	l := ledger.New(s, c)
	for _, v := range []string{"first", "second"} {
		e, err := l.Put(t.Context(), ledger.Extract, key(1), 0, ledger.Result{Value: []byte(v)})
		assert.True(t, err == nil && string(e.Value) == "first", "%s: %v %v", v, e, err)
	}
}

func TestPackedEntriesAreFoundAndTheirLooseOnesSwept(t *testing.T) {
	store, c := stores(t)
	l := ledger.New(store, c)
	var keys []core.Digest
	for i := range 500 {
		result := ledger.Result{Value: []byte(fmt.Sprint("v", i))}
		must(l.Put(t.Context(), ledger.Extract, key(i), 0, result))
		keys = append(keys, key(i))
	}
	keys = append(keys, key(9999)) // never paid
	for range 2 {
		require.Equal(t, 500, must(l.Pack(t.Context(), ledger.Extract, keys)))
	}
	assert.Equal(t, 0, must(l.Sweep(t.Context(), ledger.Extract, time.Now())), "swept at once")
	if n, err := l.Sweep(t.Context(), ledger.Extract, time.Now().Add(25*time.Hour)); err != nil || n != 500 {
		t.Errorf("swept %d after a day, %v", n, err)
	}
	fresh := ledger.New(store, c)
	for i := range 500 {
		e, err := fresh.Get(t.Context(), ledger.Extract, key(i), 0)
		require.True(t, err == nil && e != nil && string(e.Value) == fmt.Sprint("v", i), "entry %d: %v %v", i, e, err)
	}
	if e, err := fresh.Get(t.Context(), ledger.Extract, key(9999), 0); e != nil || err != nil {
		t.Errorf("an absent entry: %v %v", e, err)
	}
}

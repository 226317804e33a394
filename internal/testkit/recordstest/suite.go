// Package recordstest is the conformance suite of the records port; every adapter passes it.
package recordstest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// Run proves the contract of a store; open gives an empty one each time.
func Run(t *testing.T, open func(t *testing.T) records.Store) {
	for name, prove := range map[string]func(*testing.T, records.Store){
		"records are read back in the order of their keys, twice written or not": written,
		"a scan gives each key with the prefix at least once":                    scan,
		"a scan ends with the error of its caller":                               scanStops,
		"absent keys are deleted without an error, and many at once":             remove,
		"a sweep that scans, deletes and stops can be taken up again":            sweep,
		"values are the caller's own, and an empty one is there":                 values,
		"many write, read and delete at once":                                    concurrent,
		"another owner is refused":                                               owner,
	} {
		t.Run(name, func(t *testing.T) { prove(t, open(t)) })
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	require.NoError(t, err)
}

func some(n int) []records.Record {
	rs := make([]records.Record, n)
	for i := range rs {
		rs[i] = records.Record{Key: fmt.Sprintf("ab:c:i:%05d", i), Value: []byte(fmt.Sprint("value ", i))}
	}
	return rs
}

func written(t *testing.T, store records.Store) {
	rs := some(4500)
	for range 2 {
		ok(t, store.PutRecords(t.Context(), rs))
	}
	ok(t, store.PutRecords(t.Context(), nil))
	got := musttest.Get(store.GetRecords(t.Context(), []string{rs[4321].Key, "ab:c:i:absent", rs[7].Key}))(t)
	assert.True(t, string(got[0]) == "value 4321" && got[1] == nil && string(got[2]) == "value 7", "got %q", got)
	ok(t, store.DeleteRecords(t.Context(), []string{rs[7].Key, "ab:c:i:absent"}))
	got = musttest.Get(store.GetRecords(t.Context(), []string{rs[7].Key}))(t)
	assert.True(t, got[0] == nil, "a deleted record is still there")
}

func scan(t *testing.T, store records.Store) {
	rs := some(4500)
	ok(t, store.PutRecords(t.Context(), rs))
	ok(t, store.PutRecords(t.Context(), []records.Record{{Key: "zz:c:other:1", Value: []byte("x")}}))
	seen := map[string]bool{}
	ok(t, store.ScanRecords(t.Context(), "ab:c:i:", func(keys []string) error {
		for _, k := range keys {
			seen[k] = true
		}
		return nil
	}))
	assert.True(t, len(seen) == len(rs) && !seen["zz:c:other:1"], "saw %d of %d keys", len(seen), len(rs))
}

func keysOf(rs []records.Record) []string {
	keys := make([]string, len(rs))
	for i, record := range rs {
		keys[i] = record.Key
	}
	return keys
}

// left counts the keys that a scan still finds.
func left(t *testing.T, store records.Store) int {
	t.Helper()
	seen := map[string]bool{}
	ok(t, store.ScanRecords(t.Context(), "ab:c:i:", func(keys []string) error {
		for _, key := range keys {
			seen[key] = true
		}
		return nil
	}))
	return len(seen)
}

func scanStops(t *testing.T, store records.Store) {
	ok(t, store.PutRecords(t.Context(), some(3000)))
	enough := errors.New("enough")
	calls := 0
	err := store.ScanRecords(t.Context(), "ab:", func([]string) error { calls++; return enough })
	assert.True(t, errors.Is(err, enough) && calls == 1, "%d calls, %v", calls, err)
	ok(t, store.ScanRecords(t.Context(), "ab:c:i:*", func(keys []string) error {
		t.Errorf("a prefix is no pattern, but found %d keys", len(keys))
		return nil
	}))
}

func remove(t *testing.T, store records.Store) {
	rs := some(4500)
	ok(t, store.DeleteRecords(t.Context(), keysOf(rs)))
	ok(t, store.PutRecords(t.Context(), rs))
	for range 2 {
		ok(t, store.DeleteRecords(t.Context(), keysOf(rs[:4000])))
	}
	ok(t, store.DeleteRecords(t.Context(), nil))
	assert.Equal(t, 500, left(t, store), "records are left")
	got := musttest.Get(store.GetRecords(t.Context(), []string{rs[3999].Key, rs[4000].Key}))(t)
	assert.True(t, got[0] == nil && string(got[1]) == "value 4000", "got %q", got)
}

// sweep deletes what a scan finds while it goes on, as a sweep does: the scan must still meet every other key.
func sweep(t *testing.T, store records.Store) {
	rs := some(6000)
	ok(t, store.PutRecords(t.Context(), rs))
	dead := func(key string) bool { return key[len(key)-1]%2 == 0 }
	stopped := errors.New("the process ended")
	run := func(batches int) error {
		return store.ScanRecords(t.Context(), "ab:c:i:", func(keys []string) error {
			if batches--; batches < 0 {
				return stopped
			}
			var doomed []string
			for _, key := range keys {
				if dead(key) {
					doomed = append(doomed, key)
				}
			}
			return store.DeleteRecords(t.Context(), doomed)
		})
	}
	if err := run(1); !errors.Is(err, stopped) {
		t.Fatalf("got %v", err)
	}
	if n := left(t, store); n <= 3000 || n >= 6000 {
		t.Fatalf("%d records are left after one batch", n)
	}
	ok(t, run(1000))
	assert.Equal(t, 3000, left(t, store), "records are left")
}

func values(t *testing.T, store records.Store) {
	value := []byte("abc")
	ok(t, store.PutRecords(t.Context(), []records.Record{{Key: "ab:v", Value: value}, {Key: "ab:e", Value: []byte{}}}))
	value[0] = 'X'
	for range 2 {
		got := musttest.Get(store.GetRecords(t.Context(), []string{"ab:v", "ab:e"}))(t)
		require.True(t, string(got[0]) == "abc" && got[1] != nil && len(got[1]) == 0, "got %q", got)
		got[0][1] = 'Y'
	}
}

func concurrent(t *testing.T, store records.Store) {
	rs := some(800)
	var wg sync.WaitGroup
	for w := range 8 {
		part := rs[100*w : 100*w+100]
		wg.Go(func() {
			for range 3 {
				assert.NoError(t, store.PutRecords(t.Context(), part))
				assert.NoError(t, musttest.Err(store.GetRecords(t.Context(), keysOf(rs))))
				assert.NoError(t, store.DeleteRecords(t.Context(), keysOf(part[:50])))
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 400, left(t, store), "records are left")
}

func owner(t *testing.T, store records.Store) {
	a, b := "0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdee"
	for range 2 {
		ok(t, store.RecordOwner(t.Context(), a))
	}
	musttest.Code(t, store.RecordOwner(t.Context(), b), fault.StoreOwned, "another owner")
	x := musttest.Get(store.Identity(t.Context()))(t)
	if y, _ := store.Identity(t.Context()); x == "" || x != y {
		t.Errorf("identity %q, then %q", x, y)
	}
}

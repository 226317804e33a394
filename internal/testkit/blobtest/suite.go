// Package blobtest is the conformance suite of the blob port; every adapter passes it.
package blobtest

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// Run proves the contract of a store; open gives an empty one each time.
func Run(t *testing.T, open func(t *testing.T) blob.Store) {
	t.Run("what is put is read back, whole and by range", func(t *testing.T) { readBack(t, open(t)) })
	t.Run("an absent object is not found and may be deleted", func(t *testing.T) { absent(t, open(t)) })
	t.Run("If-None-Match lets one of many writers win", func(t *testing.T) { ifAbsent(t, open(t)) })
	t.Run("If-Match lets one of many writers win", func(t *testing.T) { ifMatch(t, open(t)) })
	t.Run("a failed condition leaves the object as it was", func(t *testing.T) { unchanged(t, open(t)) })
	t.Run("List is in byte order, by prefix, after a key", func(t *testing.T) { list(t, open(t)) })
	t.Run("ranges together are the listing", func(t *testing.T) { ranges(t, open(t)) })
	t.Run("Folders are each named once", func(t *testing.T) { folders(t, open(t)) })
	t.Run("a read refuses another version", func(t *testing.T) { matchRead(t, open(t)) })
	t.Run("a body that fails leaves nothing", func(t *testing.T) { brokenBody(t, open(t)) })
	t.Run("many objects are deleted at once, absent ones too", func(t *testing.T) { deleteAll(t, open(t)) })
	t.Run("objects may be deleted while they are listed", func(t *testing.T) { deleteListed(t, open(t)) })
	t.Run("a key that leads out of the store is refused", func(t *testing.T) { outside(t, open(t)) })
}

// Holds fails a test unless a key of a store has the content.
func Holds(t testing.TB, store blob.Store, key, content string) {
	t.Helper()
	if raw, _, err := blob.Read(t.Context(), store, key); err != nil || string(raw) != content {
		t.Errorf("%s holds %.200q, want %.200q, %v", key, raw, content, err)
	}
}

func folders(t *testing.T, store blob.Store) {
	if names, err := store.ListFolders(t.Context()); len(names) != 0 || err != nil {
		t.Errorf("of an empty store: %q %v", names, err)
	}
	var want []string
	for i := range 25 {
		name := fmt.Sprintf("index-%02d", i)
		want = append(want, name)
		must(t, store, name+"/current.json", "{}")
		must(t, store, name+"/a/deep/er", "x")
		must(t, store, name+".json", "a file beside it")
	}
	must(t, store, "a b+c/d", "x")
	must(t, store, "zz", "x")
	want = append([]string{"a b+c"}, want...)
	if names, err := store.ListFolders(t.Context()); !slices.Equal(names, want) || err != nil {
		t.Errorf("%q, want %q: %v", names, want, err)
	}
}

func outside(t *testing.T, store blob.Store) {
	must(t, store, "a/b", "x")
	for _, key := range []string{
		"", "..", "../a", "a/../b", "a/../../b", "/a", "/etc/passwd", "a/..", "./a", "a/./b", "a\x00b",
	} {
		if _, err := put(t, store, key, "x", blob.Cond{}); !fault.Is(err, fault.InvalidParam) {
			t.Errorf("%q is written: %v", key, err)
		}
		if _, _, err := store.Get(t.Context(), key, blob.All); fault.KindOf(err) == fault.Transient || err == nil {
			t.Errorf("%q is read: %v", key, err)
		}
		if _, err := store.Stat(t.Context(), key); fault.KindOf(err) == fault.Transient || err == nil {
			t.Errorf("%q is looked at: %v", key, err)
		}
		if err := store.Delete(t.Context(), key); !fault.Is(err, fault.InvalidParam) {
			t.Errorf("%q is deleted: %v", key, err)
		}
		if err := store.DeleteAll(t.Context(), []string{key}); err == nil {
			t.Errorf("%q is deleted among others", key)
		}
	}
	if got := keysOf(t, store, ""); len(got) != 1 {
		t.Errorf("the store holds %v", got)
	}
}

func put(t *testing.T, s blob.Store, key, v string, c blob.Cond) (blob.Info, error) {
	t.Helper()
	return blob.Write(t.Context(), s, key, []byte(v), c)
}

func must(t *testing.T, s blob.Store, key, v string) blob.Info {
	t.Helper()
	in := musttest.Get(put(t, s, key, v, blob.Cond{}))(t)
	return in
}

func get(t *testing.T, s blob.Store, key string, r blob.Range) string {
	t.Helper()
	rc, _, err := s.Get(t.Context(), key, r)
	require.NoError(t, err)
	defer func() { _ = rc.Close() }()
	raw := musttest.Get(io.ReadAll(rc))(t)
	return string(raw)
}

func readBack(t *testing.T, store blob.Store) {
	big := make([]byte, 3<<20+17)
	for i := range big {
		big[i] = byte(rand.IntN(256))
	}
	require.NoError(t, musttest.Err(store.Put(t.Context(), "a/b/big", bytes.NewReader(big), int64(len(big)), blob.Cond{})))
	if got := get(t, store, "a/b/big", blob.All); got != string(big) {
		t.Error("the whole object differs")
	}
	if got := get(t, store, "a/b/big", blob.Range{Offset: 1 << 20, Length: 1000}); got != string(
		big[1<<20:1<<20+1000],
	) {
		t.Error("a range differs")
	}
	if got := get(t, store, "a/b/big", blob.Range{Offset: int64(len(big)) - 5, Length: -1}); got != string(
		big[len(big)-5:],
	) {
		t.Error("the tail differs")
	}
	must(t, store, "empty", "")
	if got := get(t, store, "empty", blob.All); got != "" {
		t.Errorf("an empty object reads %q", got)
	}
	must(t, store, "a/b/big", "small")
	in, err := store.Stat(t.Context(), "a/b/big")
	assert.True(t, err == nil && in.Size == 5 && in.ETag != "" && !in.Modified.IsZero(), "stat gives %+v, %v", in, err)
}

func absent(t *testing.T, store blob.Store) {
	musttest.Code(t, musttest.Err2(store.Get(t.Context(), "no/such", blob.All)), fault.NotFound, "get")
	musttest.Code(t, musttest.Err(store.Stat(t.Context(), "no/such")), fault.NotFound, "stat")
	assert.NoError(t, store.Delete(t.Context(), "no/such"), "delete")
	must(t, store, "x", "1")
	for range 2 {
		assert.NoError(t, store.Delete(t.Context(), "x"), "delete")
	}
	musttest.Code(t, musttest.Err(store.Stat(t.Context(), "x")), fault.NotFound, "stat after delete")
}

// race runs n conditional writers and gives how many won; losers must see Precondition.
func race(t *testing.T, store blob.Store, n int, cond blob.Cond) int {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	wins := 0
	for i := range n {
		wg.Go(func() {
			_, err := blob.Write(t.Context(), store, "race/key", []byte(fmt.Sprint("writer ", i)), cond)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				wins++
			} else if !fault.Is(err, fault.Precondition) {
				t.Errorf("a loser saw %v", err)
			}
		})
	}
	wg.Wait()
	return wins
}

func ifAbsent(t *testing.T, s blob.Store) {
	assert.Equal(t, 1, race(t, s, 16, blob.Cond{Absent: true}), "writers won")
}

func ifMatch(t *testing.T, s blob.Store) {
	for range 5 {
		in := must(t, s, "race/key", "start")
		assert.Equal(t, 1, race(t, s, 16, blob.Cond{Match: in.ETag}), "writers won")
	}
}

func unchanged(t *testing.T, store blob.Store) {
	first := must(t, store, "k", "one")
	must(t, store, "k", "two")
	if _, err := put(t, store, "k", "three", blob.Cond{Match: first.ETag}); !fault.Is(err, fault.Precondition) {
		t.Errorf("stale If-Match: %v", err)
	}
	if _, err := put(t, store, "k", "four", blob.Cond{Absent: true}); !fault.Is(err, fault.Precondition) {
		t.Errorf("If-None-Match on an existing key: %v", err)
	}
	if _, err := put(t, store, "other", "five", blob.Cond{Match: first.ETag}); !fault.Is(err, fault.Precondition) &&
		!fault.Is(err, fault.NotFound) {
		t.Errorf("If-Match on an absent key: %v", err)
	}
	assert.Equal(t, "two", get(t, store, "k", blob.All), "the object reads")
}

func list(t *testing.T, store blob.Store) {
	keys := []string{"p-1", "p/a", "p/a-b/c", "p/ab", "p/b/c/d", "p/é", "p0", "q/z"} // in byte order
	for _, i := range rand.Perm(len(keys)) {
		must(t, store, keys[i], keys[i])
	}
	collect := func(prefix, after string) []string {
		var out []string
		for in, err := range store.List(t.Context(), prefix, after) {
			require.NoError(t, err)
			out = append(out, in.Key)
		}
		return out
	}
	check := func(name string, got, want []string) {
		assert.True(t, fmt.Sprint(got) == fmt.Sprint(want), "%s: got %q, want %q", name, got, want)
	}
	check("all", collect("", ""), keys)
	check("folder", collect("p/", ""), keys[1:6])
	check("prefix inside a name", collect("p/a", ""), keys[1:4])
	check("after", collect("", "p/ab"), keys[4:])
	check("after an absent key", collect("p/", "p/aa"), keys[3:6])
	check("nothing", collect("zz", ""), nil)
	n := 0
	for _, err := range store.List(t.Context(), "", "") {
		require.NoError(t, err)
		if n++; n == 2 {
			break // a caller may stop
		}
	}
}

// ranges cuts the listing at every key, and between keys, in parts of two and of many that are listed side by side.
func ranges(t *testing.T, store blob.Store) {
	keys := []string{
		"a", "b-1", "b/a", "b/a b+c", "b/a%20b", "b/a%2520b", "b/c#1", "b/c/d", "b/c/e/f", "b0", "b\u00e9", "c/\u65e5\u672c",
	}
	for _, key := range keys {
		must(t, store, key, key)
	}
	collect := func(prefix, after, until string) (out []string) {
		for info, err := range store.ListRange(t.Context(), prefix, after, until) {
			if err != nil {
				t.Error(err)
				return out
			}
			out = append(out, info.Key)
		}
		return out
	}
	cuts := slices.Clone(keys)
	for _, key := range keys {
		cuts = append(cuts, key+"!", key[:len(key)-1]+"\x01", key+"/")
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	for _, prefix := range []string{"", "b", "b/", "b/c"} {
		all := keysOf(t, store, prefix)
		for _, cut := range cuts {
			low, high := collect(prefix, "", cut), collect(prefix, cut, "")
			assert.True(t, slices.Equal(append(low, high...), all),
				"%q cut at %q: %q and %q, of %q", prefix, cut, low, high, all)
		}
		parts := make([][]string, len(cuts)+1)
		var side sync.WaitGroup
		for i := range parts {
			after, until := "", ""
			if i > 0 {
				after = cuts[i-1]
			}
			if i < len(cuts) {
				until = cuts[i]
			}
			side.Go(func() { parts[i] = collect(prefix, after, until) })
		}
		side.Wait()
		if got := slices.Concat(parts...); !slices.Equal(got, all) {
			t.Errorf("%q in %d parts: %q, want %q", prefix, len(parts), got, all)
		}
	}
	if got := collect("", "b/c/d", "b/a"); len(got) > 0 {
		t.Errorf("a range that ends before it begins gives %q", got)
	}
}

func matchRead(t *testing.T, s blob.Store) {
	a := must(t, s, "k", "one")
	must(t, s, "k", "two!")
	if _, _, err := s.Get(t.Context(), "k", blob.Range{Length: -1, Match: a.ETag}); !fault.Is(
		err,
		fault.Precondition,
	) {
		t.Errorf("got %v", err)
	}
}

type breaks struct{ n int }

func (b *breaks) Read(raw []byte) (int, error) {
	if b.n--; b.n < 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return len(raw), nil
}

func brokenBody(t *testing.T, store blob.Store) {
	must(t, store, "k", "old")
	for _, size := range []int64{1 << 20, -1} {
		if _, err := store.Put(t.Context(), "k", &breaks{2}, size, blob.Cond{}); err == nil {
			t.Errorf("a broken body of size %d was stored", size)
		}
	}
	assert.Equal(t, "old", get(t, store, "k", blob.All), "the object reads")
}

// keysOf lists the keys below a prefix.
func keysOf(t *testing.T, store blob.Store, prefix string) []string {
	t.Helper()
	var keys []string
	for in, err := range store.List(t.Context(), prefix, "") {
		require.NoError(t, err)
		keys = append(keys, in.Key)
	}
	return keys
}

func deleteAll(t *testing.T, store blob.Store) {
	keys := []string{"d/with space", "d/ü&<\"'>", "d/a+b%20c"}
	for _, key := range keys {
		must(t, store, key, "x")
	}
	must(t, store, "d/kept", "x")
	for i := range 1100 { // more than one request of S3 takes; they were never there
		keys = append(keys, fmt.Sprintf("d/absent/%04d", i))
	}
	for range 2 {
		require.NoError(t, store.DeleteAll(t.Context(), keys))
		if got := keysOf(t, store, "d/"); len(got) != 1 || got[0] != "d/kept" {
			t.Errorf("%q are left", got)
		}
	}
	assert.NoError(t, store.DeleteAll(t.Context(), nil), "nothing to delete")
}

func deleteListed(t *testing.T, store blob.Store) {
	for i := range 30 {
		must(t, store, fmt.Sprintf("d/%d/%02d", i%3, i), "x")
	}
	seen := 0
	for in, err := range store.List(t.Context(), "d/", "") {
		require.NoError(t, err)
		seen++
		require.NoError(t, store.DeleteAll(t.Context(), []string{in.Key}))
	}
	if left := keysOf(t, store, "d/"); seen != 30 || len(left) != 0 {
		t.Errorf("saw %d of 30 objects, and %q are left", seen, left)
	}
}

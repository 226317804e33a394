package blobcache_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/blobcache"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/blobtest"
)

func TestAStoreWithAMemoryBeforeItIsAStore(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blob.Store { return blobcache.WithMemory(blobmemory.New(), new(blobcache.Memory)) })
}

func named(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func read(t *testing.T, store blob.Store, key string, part blob.Range) []byte {
	body, _, err := store.Get(t.Context(), key, part)
	require.True(t, err == nil, "%v %v", key, err)
	raw, err := io.ReadAll(body)
	require.True(t, err == nil, "%v %v", key, err)
	return raw
}

func write(t *testing.T, store blob.Store, key string, raw []byte, cond blob.Cond) {
	_, err := blob.Write(t.Context(), store, key, raw, cond)
	require.NoError(t, err, "%v %v", key, err)
}

// Promises: 17.
func TestWhatNeverChangesIsAskedForOnce(t *testing.T) {
	raw := []byte("what is in it")
	for name, wrote := range map[string]bool{"written here": true, "written elsewhere": false} {
		for what, key := range map[string]string{
			"a segment":           "docs/segments/" + named(raw),
			"the file of a unit":  "docs/runs/g1/7/chunks-00000-" + named(raw)[:32] + ".rows",
			"the state of a unit": "docs/runs/g1/7/chunk-00000.json",
		} {
			beneath := artifacttest.New()
			store := blobcache.WithMemory(beneath, new(blobcache.Memory))
			to := blob.Store(beneath)
			if wrote {
				to = store
			}
			write(t, to, key, raw, blob.Cond{Absent: true})
			for range 3 {
				got := read(t, store, key, blob.All)
				require.True(t, bytes.Equal(got, raw), "%s, %s: %q", what, name, got)
				got = read(t, store, key, blob.Range{Offset: 5, Length: 2})
				require.True(t, string(got) == "is", "%s, %s: %q", what, name, got)
			}
			want := 0
			switch {
			case wrote:
			case what == "the state of a unit": // its writer may write it again
				want = 6
			default:
				want = 1
			}
			assert.Equal(t, want, beneath.Calls(artifacttest.Get), "%s, %s: the store was asked", what, name)
		}
	}
}

// Promises: 17.
func TestWhatMayChangeIsAlwaysAskedFor(t *testing.T) {
	first, second := []byte("one"), []byte("two")
	for what, do := range map[string]struct {
		key  string
		cond blob.Cond
	}{
		"the pointer":                     {"docs/current.json", blob.Cond{Absent: true}},
		"a lease":                         {"docs/lease.json", blob.Cond{Absent: true}},
		"what a run writes again":         {"docs/runs/g1/7/trust.json", blob.Cond{}},
		"bytes that are not what is said": {"docs/segments/" + named(second), blob.Cond{Absent: true}},
	} {
		beneath := blobmemory.New()
		store := blobcache.WithMemory(beneath, new(blobcache.Memory))
		write(t, store, do.key, first, do.cond)
		read(t, store, do.key, blob.All)
		write(t, beneath, do.key, second, blob.Cond{})
		got := read(t, store, do.key, blob.All)
		assert.True(t, bytes.Equal(got, second), "%s: %q", what, got)
	}
}

func TestWhatIsDeletedIsForgotten(t *testing.T) {
	raw := []byte("x")
	key := "docs/segments/" + named(raw)
	for what, remove := range map[string]func(store blob.Store) error{
		"one":  func(store blob.Store) error { return store.Delete(t.Context(), key) },
		"many": func(store blob.Store) error { return store.DeleteAll(t.Context(), []string{key}) },
	} {
		store := blobcache.WithMemory(blobmemory.New(), new(blobcache.Memory))
		write(t, store, key, raw, blob.Cond{})
		err := remove(store)
		require.True(t, err == nil, "%v %v", what, err)
		_, _, err = store.Get(t.Context(), key, blob.All)
		assert.True(t, fault.Is(err, fault.NotFound), "%s: %v", what, err)
	}
}

func TestTheStoreItselfIsAskedWhereItsBytesMatter(t *testing.T) {
	raw := []byte("x")
	key := "docs/segments/" + named(raw)
	beneath := blobmemory.New()
	store := blobcache.WithMemory(beneath, new(blobcache.Memory))
	write(t, store, key, raw, blob.Cond{})
	write(t, beneath, key, []byte("y"), blob.Cond{})
	got := read(t, blobcache.UnwrapMemory(store), key, blob.All)
	assert.True(t, string(got) == "y", "the store has %q", got)
	memory := new(blobcache.Memory)
	doubting := blobcache.WithWriteMemory(beneath, memory)
	write(t, doubting, key, raw, blob.Cond{})
	write(t, beneath, key, []byte("y"), blob.Cond{})
	got = read(t, doubting, key, blob.All)
	assert.True(t, string(got) == "y", "who doubts reads %q", got)
	got = read(t, blobcache.WithMemory(beneath, memory), key, blob.All)
	assert.True(t, string(got) == "x", "what was written is not kept for others: %q", got)
	assert.True(t,
		blobcache.UnwrapMemory(beneath) == blob.Store(beneath) && blobcache.UnwrapMemory(store) == blob.Store(beneath),
		"another store is beneath")
}

// What is kept is bounded: what was asked for longest ago is asked for again.
func TestMemoryIsBounded(t *testing.T) {
	beneath := artifacttest.New()
	store := blobcache.WithMemory(beneath, new(blobcache.Memory))
	const each, most = 100 << 10, 32 << 20
	var keys []string
	for i := range 2 * most / each {
		raw := bytes.Repeat(fmt.Appendf(nil, "%010d", i), each/10)
		keys = append(keys, "docs/segments/"+named(raw))
		write(t, store, keys[i], raw, blob.Cond{})
	}
	large := bytes.Repeat([]byte("l"), 1<<20)
	write(t, store, "docs/segments/"+named(large), large, blob.Cond{})
	for _, key := range keys {
		read(t, store, key, blob.Range{Length: 10})
	}
	assert.True(t, beneath.Calls(artifacttest.Get) >= len(keys)/2,
		"the store was asked for %d of %d, so that twice the room is held", beneath.Calls(artifacttest.Get), len(keys))
	beneath.Reset()
	read(t, store, keys[len(keys)-1], blob.All)
	read(t, store, "docs/segments/"+named(large), blob.All)
	read(t, store, "docs/segments/"+named(large), blob.All)
	assert.True(t, beneath.Calls(artifacttest.Get) <= 3, "asked %d times", beneath.Calls(artifacttest.Get))
}

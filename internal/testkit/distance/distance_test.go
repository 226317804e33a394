package distance_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/blobtest"
	"github.com/unweaver/unweaver/internal/testkit/distance"
)

func TestADistantStoreIsAStore(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blob.Store { return distance.Blob(blobmemory.New(), distance.New(0)) })
}

func TestRequestsSideBySideAreNoChainAndOnesThatFollowAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 15 * time.Millisecond
		requests := distance.New(wait)
		store := distance.Blob(blobmemory.New(), requests)
		begin := time.Now()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				key := fmt.Sprintf("docs/runs/g1/1/extract-00001-%05d.rows", i)
				_, err := blob.Write(t.Context(), store, key, []byte("x"), blob.Cond{})
				assert.NoError(t, err)
			})
		}
		all.Wait()
		if counted := requests.Take(); counted.Chain != 1 || counted.Of("index/runs/extract", distance.Put) != 20 {
			t.Errorf("side by side:\n%s", counted)
		}
		for range 3 {
			_, _, err := blob.Read(t.Context(), store, "docs/runs/g1/1/extract-00001-00000.rows")
			require.NoError(t, err)
		}
		if counted := requests.Take(); counted.Chain != 3 || counted.Of("", distance.Get) != 3 {
			t.Errorf("one after another:\n%s", counted)
		}
		assert.Equal(t, 4*wait, time.Since(begin))
	})
}

func TestListingsAndDeletionsCountByTheThousand(t *testing.T) {
	requests := distance.New(0)
	near := blobmemory.New()
	store := distance.Blob(near, requests)
	var keys []string
	for i := range 2001 {
		key := fmt.Sprintf("ledger/extract/loose/ab/%04d", i)
		_, err := blob.Write(t.Context(), near, key, nil, blob.Cond{})
		require.NoError(t, err)
		keys = append(keys, key)
	}
	for _, err := range store.List(t.Context(), "ledger/extract/loose/", "") {
		require.NoError(t, err)
	}
	require.NoError(t, store.DeleteAll(t.Context(), keys))
	counted := requests.Take()
	place := "ledger/extract/loose"
	if counted.Of(place, distance.List) != 3 || counted.Of(place, distance.DeleteAll) != 3 || counted.Of("") != 6 {
		t.Errorf("\n%s", counted)
	}
}

func TestWhoeverGivesUpDoesNotWait(t *testing.T) {
	store := distance.Blob(blobmemory.New(), distance.New(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := store.Stat(ctx, "a")
	assert.Error(t, err, "it waited")
}

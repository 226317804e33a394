package ledger_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
)

// All who pay side by side see that the index lacks enough texts for a pack. One of them writes it; the others must not
// wait and then write packs of the few texts that came meanwhile, each of which every look-up would ask.
func TestThoseWhoPaySideBySideWriteFullPacksOfTheIndex(t *testing.T) {
	const requests, perRequest, packTexts = 300, 256, 32_768
	store := artifacttest.New()
	l := ledger.New(store, memory.NewClaims())
	vectors := make([][]float32, perRequest)
	for i := range vectors {
		vectors[i] = []float32{1}
	}
	require.NoError(t, parallel.Each(t.Context(), requests, 32, func(ctx context.Context, i int) error {
		return l.PutVectors(ctx, texts(i*perRequest, (i+1)*perRequest), vectors)
	}))
	packs := 0
	for _, key := range store.Keys("ledger/texts/packs/") {
		if !strings.HasSuffix(key, ".swept") {
			packs++
		}
	}
	assert.True(t, packs != 0 && packs <= requests*perRequest/packTexts,
		"%d packs for %d texts", packs, requests*perRequest)
}

// A first build looks up as many texts as it writes, and each look-up asks every run of the index: while it runs, runs
// are merged, and every text is still found.
func TestABuildMergesTheIndexWhileItRuns(t *testing.T) {
	const most, perPack, packs = 10, 512, 60
	defer ledger.SetMostRuns(most, perPack)()
	store := artifacttest.New()
	l := ledger.New(store, memory.NewClaims())
	vectors := make([][]float32, perPack)
	for i := range vectors {
		vectors[i] = []float32{1}
	}
	for n := range packs {
		require.NoError(t, l.PutVectors(t.Context(), texts(n*perPack, (n+1)*perPack), vectors))
		if _, err := l.FindTexts(t.Context(), texts(packs*perPack, packs*perPack+1)); err != nil { // a new one asks all
			t.Fatal(err)
		}
		runs := l.Runs()
		require.True(t, runs <= most+1, "%d runs after %d packs", runs, n+1)
	}
	merges := len(store.Keys("ledger/texts/merges/"))
	assert.True(t, merges != 0 && merges <= packs/2, "%d merges of %d packs", merges, packs)
	fresh := ledger.New(store, memory.NewClaims())
	for n := range packs {
		objects := must(fresh.FindTexts(t.Context(), texts(n*perPack, n*perPack+100)))
		for i, object := range objects {
			require.False(t, object.IsZero(), "text %d of pack %d is not found", i, n)
		}
	}
}

// A merge takes in the rows of answers that were lost beside those of the answers that were paid for in their place.
// Promises: 59.
func TestTextsPaidForAfterDamageAreFoundAfterAMerge(t *testing.T) {
	const packs = 12
	b := newBook(t)
	seller := &shop{sold: map[core.Digest]int{}}
	store := func(from, to int) {
		b.now = b.now.Add(time.Minute)
		require.NoError(t, seller.buy(t.Context(), b.Ledger, texts(from, to)))
		require.NoError(t, b.SealTexts(t.Context()))
	}
	for n := range packs {
		store(100*n, 100*n+100)
	}
	for _, object := range b.store.Keys("ledger/embed/loose/") { // their vectors: the texts still read
		b.store.Change(object, func(raw []byte) []byte { raw[len(raw)-1] ^= 1; return raw })
	}
	b.reopen()
	has(t, b.Ledger, texts(0, 100*packs), func(int) bool { return false })
	for from := 0; from < 100*packs; from += 60 { // in other requests than before
		store(from, from+60)
	}
	require.Equal(t, 100*packs, seller.twice())
	for range 2 {
		kept := b.upkeep(t, ledger.Embed, listing(texts(0, 100*packs)...))
		has(t, b.Ledger, texts(0, 100*packs), all1)
		b.now = b.now.Add(25 * time.Hour)
		require.True(t, b.now.Day() > 2 || kept.Merged > 0, "%+v", kept)
	}
}

package extract_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/blob"
	coordmemory "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// A shard of a test, in batches of 16 chunks.
const (
	shardBatches = 40
	batchChunks  = 16
)

// extractShard extracts a shard near its store.
func extractShard(t *testing.T, near blob.Store, into string) {
	t.Helper()
	art := artifact.Index{Store: near, Name: "i"}
	text := stagetest.Chunks(t, art, into, 0, stagetest.Numbered(shardBatches*batchChunks, "Text %d.")...)
	book := ledger.New(near, coordmemory.NewClaims())
	for batch := range shardBatches {
		stagetest.Must(extract.Run(t.Context(), extract.In{
			Spec: core.Spec{Index: "i"}, Artifacts: art, Scratch: into, Gen: "g", Text: text,
			Shard: extract.Shard{To: shardBatches * batchChunks}, Batch: batch, From: batch * batchChunks,
			To: (batch + 1) * batchChunks, Chat: &stagetest.Chat{Answer: stagetest.Says(entities("Crane"))}, Ledger: book,
		}))
	}
}

// sealShard seals a shard of a store, whose batches are listed near it.
func sealShard(t *testing.T, store, near blob.Store, from string) extract.SealResult {
	t.Helper()
	results := stored(t, near, from)
	result := stagetest.Must(extract.Seal(t.Context(), extract.SealIn{
		Spec: core.Spec{Index: "i"}, Artifacts: artifact.Index{Store: store, Name: "i"}, Scratch: from,
		Batches: shardBatches, Batch: results, Paid: true, Ledger: ledger.New(store, coordmemory.NewClaims()),
	}))
	return result
}

func keysBelow(t *testing.T, store blob.Store, prefix string) []string {
	t.Helper()
	var keys []string
	for info, err := range store.List(t.Context(), prefix, "") {
		stagetest.Ok(t, err)
		keys = append(keys, info.Key)
	}
	return keys
}

func TestSealingADistantShardReadsNoLedgerEntryAgainAndTakesNoSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near := blobmemory.New()
		extractShard(t, near, scratch)
		requests := distance.New(15 * time.Millisecond)
		begin := time.Now()
		result := sealShard(t, distance.Blob(near, requests), near, scratch)
		passed, counted := time.Since(begin), requests.Take()
		t.Logf("%d chunks in %d batches: %s\n%s", result.Chunks, shardBatches, passed, counted)
		assert.Zero(t, counted.Of("ledger/extract/loose"), "it read entries one by one")
		all := counted.Of("")
		assert.True(t, all <= 2*shardBatches+10, "%d requests", all)
		if counted.Chain > 12 || passed > time.Second { // of the clock of the test
			t.Errorf("a chain of %d requests", counted.Chain)
		}
		// The next night finds all of it in packs, and packs nothing again.
		stagetest.Ok(t, near.DeleteAll(t.Context(), keysBelow(t, near, "ledger/extract/loose/")))
		extractShard(t, near, scratch+"-next")
		assert.Equal(t, result.Extract.SHA256, sealShard(t, near, near, scratch+"-next").Extract.SHA256, "another extraction")
		packs, loose := keysBelow(t, near, "ledger/extract/packs/"), keysBelow(t, near, "ledger/extract/loose/")
		assert.True(t, len(packs) == 1 && len(loose) == 0, "packs %v, loose %v", packs, loose)
	})
}

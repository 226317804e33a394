package extract_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/memory"
	coordmemory "github.com/unweaver/unweaver/internal/store/coordination/memory"
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
	art := artifact.Index{Store: near, Name: "i", OneName: true}
	text := stagetest.Chunks(t, art, into, 0, stagetest.Numbered(shardBatches*batchChunks, "Text %d.")...)
	book := ledger.New(near, coordmemory.NewClaims())
	for batch := range shardBatches {
		_, err := extract.Run(t.Context(), extract.In{
			Spec: core.Spec{Index: "i"}, Artifacts: art, Scratch: into, Gen: "g", Text: text,
			Shard: extract.Shard{To: shardBatches * batchChunks}, Batch: batch, From: batch * batchChunks,
			To: (batch + 1) * batchChunks, Chat: &stagetest.Chat{Answer: stagetest.Says(entities("Crane"))}, Ledger: book,
		})
		stagetest.Ok(t, err)
	}
}

func sealShard(t *testing.T, store blob.Store, from string) extract.SealResult {
	t.Helper()
	result, err := extract.Seal(t.Context(), extract.SealIn{
		Spec: core.Spec{Index: "i"}, Artifacts: artifact.Index{Store: store, Name: "i", OneName: true}, Scratch: from,
		Batches: shardBatches, Paid: true, Ledger: ledger.New(store, coordmemory.NewClaims()),
	})
	stagetest.Ok(t, err)
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
		near := memory.New()
		extractShard(t, near, scratch)
		requests := distance.New(15 * time.Millisecond)
		begin := time.Now()
		result := sealShard(t, distance.Blob(near, requests), scratch)
		passed, counted := time.Since(begin), requests.Take()
		t.Logf("%d chunks in %d batches: %s\n%s", result.Chunks, shardBatches, passed, counted)
		if counted.Of("ledger/extract/loose") != 0 {
			t.Error("it read entries one by one")
		}
		if all := counted.Of(""); all > 2*shardBatches+10 {
			t.Errorf("%d requests", all)
		}
		if counted.Chain > 12 || passed > time.Second { // of the clock of the test
			t.Errorf("a chain of %d requests", counted.Chain)
		}
		// The pack is the one that reading the entries makes.
		packs := keysBelow(t, near, "ledger/extract/packs/")
		if len(packs) != 1 {
			t.Fatal(packs)
		}
		made, _, err := blob.Read(t.Context(), near, packs[0])
		stagetest.Ok(t, err)
		stagetest.Ok(t, near.Delete(t.Context(), packs[0]))
		for batch := range shardBatches { // as by a release that wrote no entries beside its batches
			stagetest.Ok(t, near.Delete(t.Context(), extract.PaidKey(scratch, 0, batch)))
		}
		sealShard(t, near, scratch)
		read, _, err := blob.Read(t.Context(), near, packs[0])
		if err != nil || !bytes.Equal(read, made) {
			t.Errorf("another pack: %v, %d and %d bytes", err, len(read), len(made))
		}
		// The next night finds all of it in packs, and packs nothing again.
		stagetest.Ok(t, near.DeleteAll(t.Context(), keysBelow(t, near, "ledger/extract/loose/")))
		extractShard(t, near, scratch+"-next")
		if again := sealShard(t, near, scratch+"-next"); again.Extract.SHA256 != result.Extract.SHA256 {
			t.Error("another extraction")
		}
		packs, loose := keysBelow(t, near, "ledger/extract/packs/"), keysBelow(t, near, "ledger/extract/loose/")
		if len(packs) != 1 || len(loose) != 0 {
			t.Errorf("packs %v, loose %v", packs, loose)
		}
	})
}

func TestAShardOfWhichSomeBatchesAreOfTheReleaseBeforeIsPackedWhole(t *testing.T) {
	near := memory.New()
	extractShard(t, near, scratch)
	for batch := 0; batch < shardBatches; batch += 2 {
		stagetest.Ok(t, near.Delete(t.Context(), extract.PaidKey(scratch, 0, batch)))
	}
	loose := keysBelow(t, near, "ledger/extract/loose/")
	sealShard(t, near, scratch)
	stagetest.Ok(t, near.DeleteAll(t.Context(), loose))
	book := ledger.New(near, coordmemory.NewClaims())
	for _, object := range loose {
		var key core.Digest
		stagetest.Ok(t, key.UnmarshalText([]byte(object[len(object)-64:])))
		if entry, err := book.Get(t.Context(), ledger.Extract, key, 0); err != nil || entry == nil || !entry.Packed {
			t.Fatalf("%s: %v %v", object, entry, err)
		}
	}
}

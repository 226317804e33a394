package ledger_test

import (
	"context"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/artifact/artifacttest"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/stream/par"
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
	err := par.Each(t.Context(), requests, 32, func(ctx context.Context, i int) error {
		return l.PutVectors(ctx, texts(i*perRequest, (i+1)*perRequest), vectors)
	})
	if err != nil {
		t.Fatal(err)
	}
	packs := 0
	for _, key := range store.Keys("ledger/texts/packs/") {
		if !strings.HasSuffix(key, ".swept") {
			packs++
		}
	}
	if packs == 0 || packs > requests*perRequest/packTexts {
		t.Errorf("%d packs for %d texts", packs, requests*perRequest)
	}
}

package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	coordmemory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// However many loose entries there are, and wherever the listing goes side by side, each is given once, by key.
func TestLooseEntriesAreListedOnceEach(t *testing.T) {
	was := looseListed
	t.Cleanup(func() { looseListed = was })
	store := blobmemory.New()
	const entries = 700
	for n := range entries {
		key := looseKey(Extract, core.Sum("entry", fmt.Sprint(n)))
		musttest.Get(blob.Write(t.Context(), store, key, []byte("{}"), blob.Cond{}))(t)
	}
	l := New(store, coordmemory.New())
	for _, looseListed = range []int64{1, 2, 3, 350, entries - 1, entries, entries + 1, 100_000} {
		var last core.Digest
		given := 0
		for entry := range musttest.All(t, l.looseObjects(t.Context(), Extract)) {
			if given++; entry.key.String() <= last.String() && given > 1 {
				t.Fatalf("side by side from %d on: %s comes behind %s", looseListed, entry.key, last)
			}
			last = entry.key
		}
		assert.Equal(t, entries, given, "side by side from %d on", looseListed)
	}
}

func TestTheEntriesOfAnEnrichmentAreForgotten(t *testing.T) {
	l := New(blobmemory.New(), coordmemory.New())
	key := core.Sum("a chunk")
	for _, task := range []string{Triples, Questions, Pairs, Extract} {
		for _, one := range []core.Digest{key, core.Sum("another chunk")} {
			musttest.Get(l.Put(t.Context(), task, one, 0, Result{Value: []byte("{}")}))(t)
		}
	}
	kept, err := l.RunUpkeep(t.Context(), Triples, nil, time.Now().Add(2*LooseGrace)) // what is packed goes, too
	require.True(t, kept.Gathered == 2 && err == nil, "%+v, %v: nothing is packed", kept, err)
	for _, task := range OfEnrichments() {
		assert.EqualValues(t, 2, musttest.Get(l.Forget(t.Context(), task, time.Now()))(t), task)
		entry, err := l.Get(t.Context(), task, key, 0)
		assert.True(t, entry == nil && err == nil, "%s: %v, %v", task, entry, err)
	}
	entry, err := l.Get(t.Context(), Extract, key, 0)
	assert.True(t, entry != nil && err == nil, "an extraction went, too: %v", err)
}

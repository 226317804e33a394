package ledger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	coordmemory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

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

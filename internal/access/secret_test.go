package access

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestTheIdOfAKeyWithAnotherSecretIsNone(t *testing.T) {
	store := blobmemory.New()
	made := musttest.Get(Book{Store: store}.CreateKey(t.Context(), Request{Scope: Admin}))(t)
	ring := NewRing(store, slog.New(slog.DiscardHandler), nil)
	require.NoError(t, ring.Refresh(t.Context()))
	for _, id := range []string{made.Key.ID, drawLetters(idLength)} {
		forged := drawKey(id)
		key, err := ring.Check(t.Context(), forged)
		assert.True(t, WellFormed(forged) && fault.Is(err, fault.Unauthorized), "it is key %+v, %v", key, err)
	}
	key, err := ring.Check(t.Context(), made.Text)
	assert.True(t, err == nil && key.ID == made.Key.ID, "%+v, %v", key, err)
}

package blobmemory_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/blobtest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestConformance(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blob.Store { return blobmemory.New() })
}

func TestWhatIsStoredIsTheStoresOwn(t *testing.T) {
	store := blobmemory.New()
	raw := []byte("abc")
	musttest.Get(blob.Write(t.Context(), store, "k", raw, blob.Cond{}))(t)
	raw[0] = 'X'
	for range 2 {
		got, _, err := blob.Read(t.Context(), store, "k")
		require.True(t, err == nil && string(got) == "abc", "got %q, %v", got, err)
		got[1] = 'Y'
	}
}

func TestACallThatWasCancelledWritesNothing(t *testing.T) {
	store := blobmemory.New()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := store.Put(ctx, "k", bytes.NewReader([]byte("x")), 1, blob.Cond{})
	assert.True(t, errors.Is(err, context.Canceled), "put: %v", err)
	_, err = store.Stat(t.Context(), "k")
	assert.Error(t, err, "it was written")
}

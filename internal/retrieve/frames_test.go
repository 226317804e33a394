package retrieve_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// counted counts reads of a store, and can hold or fail them.
type counted struct {
	blob.Store
	mu    sync.Mutex
	reads int
	hold  chan struct{} // nil: none is held
	fail  error         // of the next read
}

func (c *counted) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	c.mu.Lock()
	c.reads++
	hold, fail := c.hold, c.fail
	c.fail = nil
	c.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, blob.Info{}, ctx.Err()
		}
	}
	if fail != nil {
		return nil, blob.Info{}, fail
	}
	return c.Store.Get(ctx, key, part)
}

// since gives the reads since it was asked last.
func (c *counted) since() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.reads
	c.reads = 0
	return n
}

// set says what becomes of the reads that follow.
func (c *counted) set(hold chan struct{}, fail error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold, c.fail = hold, fail
}

func openCounted(t *testing.T) (*retrieve.Generation, *counted) {
	t.Helper()
	stores := retrievetest.NewStores(t)
	built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{})
	store := &counted{Store: stores.Blobs}
	generation, err := retrieve.Open(t.Context(), store, stores.Cache, stores.Vectors, "sample", built.SHA, 1)
	require.NoError(t, err)
	store.since()
	return generation, store
}

func TestWhatWasReadIsNotReadAgainUntilTheGenerationCloses(t *testing.T) {
	before := retrieve.KeptFrameBytes()
	generation, store := openCounted(t)
	chunk := generation.Live.ByNumber(0)
	for round, want := range []int{3, 0, 0} { // a frame of documents, one of text, one of extractions
		_, err := generation.ReadDocument(t.Context(), int(chunk.Document))
		require.True(t, err == nil, "%v", err)
		text, err := generation.ReadText(t.Context(), chunk)
		require.True(t, err == nil && text != "", "%v %v", text, err)
		_, err = generation.ReadExtraction(t.Context(), chunk)
		require.True(t, err == nil, "%v", err)
		assert.Equal(t, want, store.since(), "%d", round)
	}
	assert.True(t, retrieve.KeptFrameBytes() > before, "nothing is kept")
	if generation.Close(); retrieve.KeptFrameBytes() != before {
		t.Errorf("%d bytes are kept of a closed generation", retrieve.KeptFrameBytes()-before)
	}
}

func TestAFrameThatManyWantIsReadOnce(t *testing.T) {
	generation, store := openCounted(t)
	defer generation.Close()
	hold := make(chan struct{})
	store.set(hold, nil)
	chunk := generation.Live.ByNumber(0)
	var beside sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		beside.Go(func() { _, errs[i] = generation.ReadText(t.Context(), chunk) })
	}
	for retrieve.FramesUnderWay() == 0 { // a later caller waits for it, or finds it read
		time.Sleep(time.Millisecond)
	}
	close(hold)
	beside.Wait()
	require.NoError(t, errors.Join(errs...))
	assert.Equal(t, 1, store.since(), "it was read")
}

func TestAReadThatFailsIsTriedAgainByTheNext(t *testing.T) {
	generation, store := openCounted(t)
	defer generation.Close()
	failure := errors.New("the store is away")
	store.set(nil, failure)
	chunk := generation.Live.ByNumber(0)
	_, err := generation.ReadText(t.Context(), chunk)
	assert.True(t, errors.Is(err, failure), "got %v", err)
	text, err := generation.ReadText(t.Context(), chunk)
	assert.True(t, err == nil && text != "", "%q %v", text, err)
}

func TestWhoLosesPatienceTakesTheFrameFromNobody(t *testing.T) {
	generation, store := openCounted(t)
	defer generation.Close()
	hold := make(chan struct{})
	store.set(hold, nil)
	chunk := generation.Live.ByNumber(0)
	first, cancel := context.WithCancel(t.Context())
	gone, stayed := make(chan error, 1), make(chan error, 1)
	go func() { _, err := generation.ReadText(first, chunk); gone <- err }()
	for retrieve.FramesUnderWay() == 0 {
		time.Sleep(time.Millisecond)
	}
	go func() { _, err := generation.ReadText(t.Context(), chunk); stayed <- err }()
	cancel()
	assert.ErrorIs(t, <-gone, context.Canceled)
	close(hold)
	assert.NoError(t, <-stayed, "the other one got")
}

func TestTheCacheOfFramesKeepsItsBound(t *testing.T) {
	readAll := func() {
		generation, _ := openCounted(t)
		t.Cleanup(generation.Close)
		for i := range generation.Manifest.Counts.Chunks {
			chunk := generation.Live.ByNumber(int(i))
			text, err := generation.ReadText(t.Context(), chunk)
			require.True(t, err == nil && text != "", "%v %v", text, err)
			_, err = generation.ReadExtraction(t.Context(), chunk)
			require.True(t, err == nil, "%v", err)
		}
	}
	before := retrieve.KeptFrameBytes()
	readAll()
	one := retrieve.KeptFrameBytes() - before
	limit := before + 4*one
	t.Cleanup(retrieve.KeepFrames(limit))
	for range 6 {
		readAll()
		got := retrieve.KeptFrameBytes()
		require.True(t, got <= limit && got > before, "%d bytes are kept, of %d", got, limit)
	}
}

package answer

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// A call that panics, as on a damaged file, is an error of all who wait for it, and is asked again.
func TestAVectorThatPanicsKeepsNobodyWaiting(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	cache, begun, release := newEmbedCache(), make(chan struct{}), make(chan struct{})
	first := make(chan error)
	go func() {
		_, _, _, err := cache.get(ctx, "question", func(context.Context) ([]float32, int64, error) {
			close(begun)
			<-release
			panic("damaged")
		})
		first <- err
	}()
	<-begun
	second := make(chan error)
	go func() {
		vector, _, cached, err := cache.get(ctx, "question", func(context.Context) ([]float32, int64, error) {
			return []float32{1}, 0, nil
		})
		assert.True(t, len(vector) == 1 && !cached, "%v, %t", vector, cached)
		second <- err
	}()
	close(release)
	assert.True(t, fault.Is(<-first, fault.Internal))
	assert.NoError(t, <-second)
	vector, _, _, err := cache.get(ctx, "question", func(context.Context) ([]float32, int64, error) {
		return []float32{1}, 0, nil
	})
	assert.True(t, err == nil && len(vector) == 1, "%v, %v", vector, err)
}

// An image may say that its vectors are weighed as those of another index: what weighs them counts.
func TestVectorsAreSharedByWhatWeighsThem(t *testing.T) {
	generation := retrievetest.Open(t, retrievetest.Sample(), retrievetest.Options{}).Generation
	made := generation.Manifest.Class
	own := generation.NameWeights(made)
	require.NotEmpty(t, own)
	made.IDF = "another"
	assert.Equal(t, own, generation.NameWeights(made))
	made.IDF = ""
	assert.Empty(t, generation.NameWeights(made))
}

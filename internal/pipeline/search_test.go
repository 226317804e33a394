package pipeline_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// searched is a store that notes how many rows it was asked for at most.
type searched struct {
	vectors.Store
	most int
}

func (s *searched) Search(ctx context.Context, name string, question []float32, n int) ([]vectors.Hit, error) {
	s.most = max(s.most, n)
	return s.Store.Search(ctx, name, question, n)
}

// A question to what is left of a large index does not read the rows that only earlier generations have.
func TestTheRestOfALargeIndexIsAskedAlone(t *testing.T) {
	h := newHistory(t, rand.New(rand.NewPCG(3, 40)), 150)
	h.night(t)
	for _, key := range h.keys()[1:] {
		h.remove(t, key)
	}
	require.EqualValues(t, 1, h.night(t).manifest.Counts.Documents)
	alone := h.freshSite(t)
	alone.night(t)
	found := &searched{Store: h.Vectors}
	h.Vectors = found
	generation, other := openGeneration(t, h.site), openGeneration(t, alone)
	defer generation.Close()
	defer other.Close()
	for _, method := range []string{"vector", "hybrid", "unweaver"} {
		want := answerOf(t, alone, other, method, "salt of Tolmin")
		require.NotEmpty(t, want, method)
		assert.Equal(t, want, answerOf(t, h.site, generation, method, "salt of Tolmin"), method)
	}
	stored, err := found.Count(t.Context(), generation.Manifest.Collections.Chunks)
	require.NoError(t, err)
	assert.Less(t, int64(found.most), stored/2, "of %d rows", stored)
}

// A filter that leaves few passages reads their rows and no others, and ranks them as a search of all does.
func TestAFewPassagesAreReadWithoutASearch(t *testing.T) {
	h := newHistory(t, rand.New(rand.NewPCG(4, 40)), 60)
	h.night(t)
	found := &searched{Store: h.Vectors}
	generation := openGeneration(t, h.site)
	defer generation.Close()
	key := h.keys()[7]
	for _, top := range []int{3, 10_000} {
		query := retrieve.Query{
			Text: "salt of Tolmin", Method: "vector", TopChunks: top, MinSim: -1,
			ChunkVector: stagetest.Vector("salt of Tolmin", generation.Manifest.Class.Dimension),
		}
		run := func() (out []retrieve.Chunk) {
			searcher := retrieve.Searcher{Vectors: found, Records: h.Records, Methods: methods.Registry()}
			return must(searcher.Run(t.Context(), generation, query))(t).Chunks
		}
		query.TopChunks = 10_000
		want := slices.DeleteFunc(run(), func(chunk retrieve.Chunk) bool {
			return generation.Live.Key(int(chunk.Live.Document)) != key
		})
		found.most, query.TopChunks, query.Filter.Prefix = 0, top, key
		assert.Equal(t, want[:min(top, len(want))], run())
		assert.Zero(t, found.most)
		query.Filter.Prefix = "nothing"
		assert.Empty(t, run())
		assert.Zero(t, found.most)
		query.Filter.Prefix = ""
	}
}

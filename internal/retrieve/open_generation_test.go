package retrieve_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// Files that are mapped come beside each other but for the first, and of one that is read by range the end comes in one
// request.
func TestAnOpeningIsAShortChainOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 15 * time.Millisecond
		stores := retrievetest.NewStores(t)
		built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{})
		requests := distance.New(wait)
		far := distance.Blob(stores.Blobs, requests)
		began := time.Now()
		generation, err := retrieve.Open(t.Context(), far, stores.Cache, stores.Vectors, "sample", built.SHA, 1)
		require.NoError(t, err)
		defer generation.Close()
		took, counted := time.Since(began), requests.Take()
		t.Logf("%s\n%s", took, counted)
		if took > 4*wait { // manifest, settings, splits and class runs, all others
			t.Errorf("%s for an opening at %s a request", took, wait)
		}
		assert.Equal(t, 0, counted.Of("", distance.Head), "the size of")
	})
}

// The extractions of eight chunks lie in eight frames, which one voter under parity needs.
func TestUnderParityTheChunksOfABallotAreReadSideBySide(t *testing.T) {
	var documents []retrievetest.Document
	for i := range 8 {
		names := []string{"kvarn", strings.Repeat(fmt.Sprint(i), 70<<10)}
		chunk := retrievetest.Chunk{Text: fmt.Sprintf("text %d. ", i), Entities: names}
		documents = append(documents, retrievetest.Document{Key: fmt.Sprint(i), Chunks: []retrievetest.Chunk{chunk}})
	}
	synctest.Test(t, func(t *testing.T) {
		stores := retrievetest.NewStores(t)
		parity := retrievetest.Options{Spec: func(spec *core.Spec) { spec.Parity = true }}
		built := retrievetest.Build(t, stores, "sample", documents, parity)
		requests := distance.New(15 * time.Millisecond)
		stores.Blobs = distance.Blob(stores.Blobs, requests)
		generation, err := openBuilt(t.Context(), stores, built)
		require.NoError(t, err)
		defer generation.Close()
		o := opened{stores, built, generation}
		requests.Take()
		query := o.query(t, "unweaver", "kvarn")
		query.TopEntities = 1
		o.run(t, query)
		counted := requests.Take()
		assert.GreaterOrEqual(t, counted.Of(""), int64(8), "%s", counted)
		assert.Less(t, counted.Chain, 4, "%s", counted)
	})
}

package api_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/answer/bisect"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

// A search for a night pays for its question once.
func TestANightIsFoundForOneEmbedding(t *testing.T) {
	var calls atomic.Int64
	f := serve(t, func(f *fixture, config *api.Config) {
		for i, documents := range [][]retrievetest.Document{retrievetest.Sample(), retrievetest.Sample()[1:]} {
			built := retrievetest.Build(f.t, f.stores, "docs", documents, retrievetest.Options{
				Generation: []string{"n1", "n2"}[i], Seq: int64(i + 1), Unasked: true,
				Edit: func(m *core.Manifest) { m.Class.IDF, m.Chunk.IDF = "", "" }, // as by a server
			})
			retrievetest.Publish(f.t, built, int64(i+1))
		}
		config.Models = models{embedder: func(inner model.Embedder) model.Embedder {
			return counted{sellingEmbedder{inner}, &calls}
		}}
	})
	expect := retrievetest.Sample()[0].Key
	var got bisect.Found
	f.asked("/v1/indexes/docs/bisect", object{"query": "What is Bergen?", "expect": expect, "top_chunks": 100}, &got)
	assert.True(t, got.Bad.Generation == "n2" && got.Causes[0].Confirmed && got.Tokens == 5, "%+v", got)
	assert.EqualValues(t, 1, calls.Load())
	for index, status := range map[string]int{"docs": 422, "none": 404} {
		f.refuse(status, "", "POST", "/v1/indexes/"+index+"/bisect", object{"query": "?", "expect": expect, "from": "n2"})
	}
}

package retrievetest

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// Opened is a generation that is built and open.
type Opened struct {
	Stores     Stores
	Built      Built
	Generation *retrieve.Generation
}

// Open builds documents in stores of their own, and opens them until the test ends.
func Open(t testing.TB, documents []Document, options Options) Opened {
	t.Helper()
	return OpenIn(t, NewStores(t), "sample", documents, options)
}

// OpenIn builds documents in stores, and opens them until the test ends.
func OpenIn(t testing.TB, stores Stores, name string, documents []Document, options Options) Opened {
	t.Helper()
	built := Build(t, stores, name, documents, options)
	generation, err := OpenBuilt(t.Context(), stores, built)
	require.NoError(t, err)
	t.Cleanup(generation.Close)
	return Opened{stores, built, generation}
}

// OpenBuilt opens what was built.
func OpenBuilt(ctx context.Context, stores Stores, built Built) (*retrieve.Generation, error) {
	return retrieve.Opening{
		Artifacts: stores.Blobs, Cache: stores.Cache, Vectors: stores.Vectors, Index: built.Index.Name,
		Manifest: built.SHA, Release: 1,
	}.Open(ctx)
}

// CacheIn returns a cache of local files in a folder of its own.
func CacheIn(t testing.TB) (cache *localfile.Cache, folder string) {
	t.Helper()
	folder = t.TempDir()
	cache, err := localfile.New(folder, 0)
	require.NoError(t, err)
	return cache, folder
}

// CountMappings counts the files of a folder that this process has mapped.
func CountMappings(t testing.TB, folder string) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip("no /proc here")
	}
	return strings.Count(string(raw), folder)
}

// Embedder returns the embedder of the generation.
func (o Opened) Embedder() builtin.Embedder { return builtin.Embedder{IDF: o.Generation.IDF.Weight} }

// Searcher returns a searcher by every method.
func (o Opened) Searcher() retrieve.Searcher {
	return retrieve.Searcher{Vectors: o.Stores.Vectors, Records: o.Stores.Records, Methods: methods.Registry()}
}

// Query returns a question with the vectors and defaults that the API gives it.
func (o Opened) Query(t testing.TB, method, question string) retrieve.Query {
	t.Helper()
	m, err := methods.Registry().Method(method)
	require.NoError(t, err)
	spec := m.Spec()
	vector := o.Embedder().Vector(question)
	query := retrieve.Query{
		Text: question, Method: method, TopEntities: spec.Entities, TopChunks: 4, MinSim: 0.05, Explain: true,
	}
	switch spec.Needs.Embedding {
	case retrieve.ByClassEmbedder:
		query.Vector = vector
	case retrieve.ByChunkEmbedder:
		query.ChunkVector = vector
	}
	if len(spec.Rules) > 0 {
		query.Rule = "weighted"
	}
	if spec.Reader != nil {
		query.Vector, query.Reading = vector, spec.Reader.ByRules(o.Generation, question)
		for _, text := range query.Reading.Texts {
			query.Reading.Rows = append(query.Reading.Rows, o.Embedder().Vector(text))
		}
	}
	return query
}

// Run answers a query.
func (o Opened) Run(t testing.TB, query retrieve.Query) retrieve.Result {
	t.Helper()
	result, err := o.Searcher().Run(t.Context(), o.Generation, query)
	require.NoError(t, err)
	return result
}

// Keys returns the documents of the chunks that a result has.
func (o Opened) Keys(result retrieve.Result) []string {
	var out []string
	for _, chunk := range result.Chunks {
		out = append(out, o.Generation.Live.Key(int(chunk.Live.Document)))
	}
	return out
}

// ListPlain returns the names of the methods that any generation answers: that need no enrichment.
func ListPlain() (names []string) {
	for _, method := range methods.Registry().All() {
		if spec := method.Spec(); spec.Needs.Enriched == "" {
			names = append(names, spec.Name)
		}
	}
	return names
}

package retrieve_test

import (
	"context"
	"fmt"

	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// A generation is opened by the digest of its manifest, and asked by one of the methods. Chunk and document are
// numbers of the generation; texts and titles are read for what is shown.
func ExampleSearcher_Run() {
	example := new(retrievetest.Example)
	defer example.Close()
	stores := retrievetest.NewStores(example)
	built := retrievetest.Build(example, stores, "norway", retrievetest.Sample(), retrievetest.Options{})

	ctx := context.Background()
	generation, err := retrieve.Open(ctx, stores.Blobs, stores.Cache, stores.Vectors, "norway", built.SHA, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer generation.Close()

	searcher := retrieve.Searcher{Vectors: stores.Vectors, Records: stores.Records, Methods: methods.Registry()}
	result, err := searcher.Run(ctx, generation,
		retrieve.Query{Text: "Who composed in Bergen?", Method: retrieve.BM25, TopEntities: 10, TopChunks: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, found := range result.Chunks {
		passage, err := generation.ReadText(ctx, found.Live)
		fmt.Println(generation.Live.Key(int(found.Live.Document)), passage, err)
	}
	// Output: people/grieg.txt Edvard Grieg composed in Bergen, Norway.  <nil>
}

// The context of an answer numbers the passages, and leaves out what the budget of tokens has no room for.
func ExampleContext() {
	passages := []retrieve.Passage{
		{ID: "c1", Title: "Edvard Grieg", Text: "Edvard Grieg composed in Bergen, Norway."},
		{ID: "c2", Title: "Bergen", Text: "Bergen is a port on the west coast of Norway."},
	}
	text, used := retrieve.PackContext(passages, 1000)
	fmt.Println(text)
	fmt.Println(used)
	// Output:
	// [1] (Edvard Grieg)
	// Edvard Grieg composed in Bergen, Norway.
	//
	// [2] (Bergen)
	// Bergen is a port on the west coast of Norway.
	// [true true]
}

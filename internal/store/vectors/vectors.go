// Package vectors is the port to a vector store: collections of (key, unit vector), searched by inner product. Its
// contract is proven by vectorstest. Rows are content-addressed: equal keys are equal vectors, so every write may be
// repeated and a row never changes.
package vectors

import (
	"context"
	"fmt"
	"math"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Row is one vector under its key.
type Row struct {
	Key    string
	Vector []float32
}

// Hit is one result; Score is the inner product with the question (cosine for unit vectors).
type Hit struct {
	Key   string
	Score float32
}

// Store is the port. Methods may be called concurrently and repeated. A collection that does not exist is
// fault.NotFound; a row of another dimension, NaN or length zero is fault.BadVector or DimensionChanged. A stored row
// that turns out to be damaged counts as missing for Has and Upsert; Fetch and Search fail with fault.SegmentDamage.
type Store interface {
	// Create makes a collection; one that exists with this dimension is no error. One of another dimension or form is
	// damaged, as the name of a collection is that of one embedder (core.Fingerprint): it is made again, empty.
	Create(ctx context.Context, collection string, dim int) error
	// Upsert writes rows; when it returns they are durable, and searchable once Load returned after it.
	Upsert(ctx context.Context, collection string, rows []Row) error
	// Has says for each key whether its row is stored.
	Has(ctx context.Context, collection string, keys []string) ([]bool, error)
	// Fetch gives the vectors of keys, in their order; nil for an absent one.
	Fetch(ctx context.Context, collection string, keys []string) ([][]float32, error)
	// Count is how many rows are live: each once, without those that were deleted.
	Count(ctx context.Context, collection string) (int64, error)
	// Identity changes when a collection was dropped and made again, or the store lost its memory; a build that sees it
	// change verifies every row.
	Identity(ctx context.Context, collection string) (string, error)
	// Load makes a collection ready to be searched, with everything written before.
	Load(ctx context.Context, collection string) error
	// Search gives the n best rows by decreasing score, ties by key. Fewer come back only when there are fewer rows.
	Search(ctx context.Context, collection string, question []float32, n int) ([]Hit, error)
	// Delete removes rows, in batches of the store's size; absent keys are no error. When it returns they are gone for
	// good, and no search that begins after the next Load gives them; after an error some are gone, and it may be
	// repeated. Rows that are written again are there again.
	Delete(ctx context.Context, collection string, keys []string) error
	// List names the collections that start with prefix.
	List(ctx context.Context, prefix string) ([]string, error)
	// Drop removes a collection; an absent one is no error.
	Drop(ctx context.Context, collection string) error
	Ping(ctx context.Context) error
	Close() error
}

// Check refuses vectors that would poison a search: a wrong dimension, NaN or infinity, length zero.
func Check(vector []float32, dim int, object string) error {
	if len(vector) != dim {
		return fault.DimensionChanged.At("check vector", object).Because(
			errDim{len(vector), dim}).Advise(
			"set models.embedding.dimension, or build another index: the embedding model's dimension changed")
	}
	var n float64
	for _, x := range vector {
		n += float64(x) * float64(x)
	}
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return fault.BadVector.At("check vector", object).
			Because("it contains NaN or infinity").
			Advise("check the model and precision of the embedding server")
	}
	if n == 0 {
		return fault.BadVector.At("check vector", object).
			Because("its length is zero").
			Advise("check the model of the embedding server: it returned a zero vector")
	}
	return nil
}

type errDim [2]int // got, want

func (e errDim) Error() string { return fmt.Sprintf("got %d dimensions, want %d", e[0], e[1]) }

// Normalise scales a vector to unit length in place.
func Normalise(vector []float32) {
	var n float64
	for _, x := range vector {
		n += float64(x) * float64(x)
	}
	if n == 0 {
		return
	}
	f := 1 / math.Sqrt(n)
	for i := range vector {
		vector[i] = float32(float64(vector[i]) * f)
	}
}

// As finds an optional capability of a store such as Importer, Sealer or Aliaser, as core.FindBelow does.
func As[T any](store Store) (T, bool) { return core.FindBelow[T](store) }

// Sealer is a store that writes rows into a log first: Seal moves them to where they get an index. Called once a build.
type Sealer interface {
	Seal(ctx context.Context, collection string) error
}

// Reopener is a store that checks its files when it opens them and not when it uses them. Reopen opens those of a
// collection again: damage that the next process would find is found now, and the collection counts as missing.
type Reopener interface {
	Reopen(ctx context.Context, collection string) error
}

// Aliaser is a store whose collections other programs read under a name that does not change.
type Aliaser interface {
	Alias(ctx context.Context, alias, collection string) error
}

// ImportState is what became of an import job.
type ImportState struct {
	Done    bool
	Failed  string // why; empty while it has not failed
	Unknown bool   // the store has forgotten the job
	Rows    int64
}

// Importer is a store that reads Parquet files (columns key, vector) from a bucket of its own. It does not look at
// keys: a file that is imported twice doubles its rows, so a job is asked for once and found again by its path.
type Importer interface {
	// Import asks for a file to be imported and gives the job. It is sent once; after an error it may have been taken.
	Import(ctx context.Context, collection, path string) (job string, err error)
	// ListImports gives the jobs of a collection that the store remembers, by path.
	ListImports(ctx context.Context, collection string) (map[string][]string, error)
	ImportState(ctx context.Context, job string) (ImportState, error)
}

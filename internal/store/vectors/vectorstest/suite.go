// Package vectorstest is the conformance suite of the vectors port; every adapter passes it.
package vectorstest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Dim of the suite's vectors.
const Dim = 64

// Collection of the suite.
const Collection = "uw_test_classes_00000000_0"

// Run proves the contract of a store; open gives an empty one each time.
func Run(t *testing.T, open func(t *testing.T) vectors.Store) {
	t.Run("a search finds what exact search finds", func(t *testing.T) { search(t, open(t)) })
	t.Run("rows written twice are there once", func(t *testing.T) { twice(t, open(t)) })
	t.Run("bad vectors are refused and store nothing", func(t *testing.T) { bad(t, open(t)) })
	t.Run("a collection of another dimension is refused", func(t *testing.T) { dimension(t, open(t)) })
	t.Run("an absent collection is not found", func(t *testing.T) { absent(t, open(t)) })
	t.Run("deleted rows are gone", func(t *testing.T) { remove(t, open(t)) })
	t.Run("collections are listed and dropped", func(t *testing.T) { drop(t, open(t)) })
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Rows gives n clustered unit vectors from a seed.
func Rows(n, dim int, seed uint64) []vectors.Row {
	r := rand.New(rand.NewPCG(seed, 7))
	centres := make([][]float32, 40)
	for i := range centres {
		centres[i] = make([]float32, dim)
		for j := range centres[i] {
			centres[i][j] = float32(r.NormFloat64())
		}
	}
	rs := make([]vectors.Row, n)
	for i := range rs {
		vector := make([]float32, dim)
		c := centres[r.IntN(len(centres))]
		for j := range vector {
			vector[j] = c[j] + 0.6*float32(r.NormFloat64())
		}
		vectors.Normalise(vector)
		rs[i] = vectors.Row{Key: fmt.Sprintf("%032x-%016x", r.Uint64(), i), Vector: vector}
	}
	return rs
}

// Exact gives the n best rows by brute force.
func Exact(rs []vectors.Row, vector []float32, n int) []vectors.Hit {
	hits := make([]vectors.Hit, len(rs))
	for i, row := range rs {
		var s float64
		for j := range vector {
			s += float64(vector[j]) * float64(row.Vector[j])
		}
		hits[i] = vectors.Hit{Key: row.Key, Score: float32(s)}
	}
	sort.Slice(hits, func(i, j int) bool {
		return hits[i].Score > hits[j].Score || (hits[i].Score == hits[j].Score && hits[i].Key < hits[j].Key)
	})
	return hits[:min(n, len(hits))]
}

func fill(t *testing.T, store vectors.Store, rs []vectors.Row) {
	t.Helper()
	ok(t, store.Create(t.Context(), Collection, Dim))
	for at := 0; at < len(rs); at += 500 {
		ok(t, store.Upsert(t.Context(), Collection, rs[at:min(at+500, len(rs))]))
	}
	ok(t, store.Load(t.Context(), Collection))
}

func search(t *testing.T, store vectors.Store) {
	rs := Rows(3000, Dim, 1)
	fill(t, store, rs)
	found, want := 0, 0
	for i, q := range Rows(50, Dim, 1) {
		got, err := store.Search(t.Context(), Collection, q.Vector, 10)
		ok(t, err)
		exact := Exact(rs, q.Vector, 10)
		keys := map[string]float32{}
		for j, h := range got {
			keys[h.Key] = h.Score
			if j > 0 && h.Score > got[j-1].Score+1e-6 {
				t.Fatalf("question %d: hits are not in order", i)
			}
		}
		for _, hit := range exact {
			want++
			if sc, ok := keys[hit.Key]; ok {
				found++
				if math.Abs(float64(sc-hit.Score)) > 1e-4 {
					t.Errorf("question %d: score %g, exact %g", i, sc, hit.Score)
				}
			}
		}
	}
	if recall := float64(found) / float64(want); recall < 0.99 {
		t.Errorf("recall@10 %.4f, want at least 0.99", recall)
	}
	all, err := store.Search(t.Context(), Collection, rs[0].Vector, 4000)
	ok(t, err)
	if len(all) != len(rs) {
		t.Errorf("asked for more than there is: got %d of %d", len(all), len(rs))
	}
}

func twice(t *testing.T, store vectors.Store) {
	rs := Rows(700, Dim, 2)
	fill(t, store, rs)
	fill(t, store, rs[300:])
	n, err := store.Count(t.Context(), Collection)
	ok(t, err)
	if n != int64(len(rs)) {
		t.Errorf("%d rows, want %d", n, len(rs))
	}
	has, err := store.Has(t.Context(), Collection, []string{rs[5].Key, "absent", rs[699].Key})
	ok(t, err)
	if !has[0] || has[1] || !has[2] {
		t.Errorf("has %v", has)
	}
	vs, err := store.Fetch(t.Context(), Collection, []string{rs[699].Key, "absent", rs[5].Key})
	ok(t, err)
	if len(vs) != 3 || vs[1] != nil || !slices.Equal(vs[0], rs[699].Vector) || !slices.Equal(vs[2], rs[5].Vector) {
		t.Errorf("fetched %d vectors, or others than were written", len(vs))
	}
	hits, err := store.Search(t.Context(), Collection, rs[400].Vector, 2)
	ok(t, err)
	if len(hits) != 2 || hits[0].Key != rs[400].Key || hits[1].Key == rs[400].Key {
		t.Errorf("hits %v", hits)
	}
}

func bad(t *testing.T, store vectors.Store) {
	ok(t, store.Create(t.Context(), Collection, Dim))
	nan := make([]float32, Dim)
	nan[3] = float32(math.NaN())
	good := Rows(1, Dim, 3)[0]
	for name, c := range map[string]struct {
		v    []float32
		want fault.Code
	}{"NaN": {nan, fault.BadVector}, "zero": {make([]float32, Dim), fault.BadVector}, "dimension": {make([]float32, Dim+1), fault.DimensionChanged}} {
		if err := store.Upsert(t.Context(), Collection, []vectors.Row{good, {Key: "bad", Vector: c.v}}); !fault.Is(
			err,
			c.want,
		) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n, err := store.Count(t.Context(), Collection); err != nil || n != 0 {
		t.Errorf("%d rows were stored, %v", n, err)
	}
}

func dimension(t *testing.T, store vectors.Store) {
	for range 2 {
		ok(t, store.Create(t.Context(), Collection, Dim))
	}
	if err := store.Create(t.Context(), Collection, 2*Dim); !fault.Is(err, fault.DimensionChanged) {
		t.Errorf("got %v", err)
	}
}

func absent(t *testing.T, store vectors.Store) {
	if _, err := store.Search(t.Context(), "uw_none", make([]float32, Dim), 1); !fault.Is(err, fault.NotFound) {
		t.Errorf("search: %v", err)
	}
	if err := store.Upsert(t.Context(), "uw_none", Rows(1, Dim, 4)); !fault.Is(err, fault.NotFound) {
		t.Errorf("upsert: %v", err)
	}
	ok(t, store.Drop(t.Context(), "uw_none"))
}

func remove(t *testing.T, store vectors.Store) {
	rs := Rows(600, Dim, 5)
	fill(t, store, rs)
	ok(t, store.Delete(t.Context(), Collection, []string{rs[0].Key, rs[550].Key, "absent"}))
	ok(t, store.Load(t.Context(), Collection))
	has, err := store.Has(t.Context(), Collection, []string{rs[0].Key, rs[1].Key, rs[550].Key})
	ok(t, err)
	if has[0] || !has[1] || has[2] {
		t.Errorf("has %v", has)
	}
	hits, err := store.Search(t.Context(), Collection, rs[0].Vector, 1)
	ok(t, err)
	if len(hits) != 1 || hits[0].Key == rs[0].Key {
		t.Errorf("hits %v", hits)
	}
}

func drop(t *testing.T, store vectors.Store) {
	fill(t, store, Rows(10, Dim, 6))
	names, err := store.List(t.Context(), "uw_test_")
	ok(t, err)
	if len(names) != 1 || names[0] != Collection {
		t.Errorf("list %v", names)
	}
	ok(t, store.Drop(t.Context(), Collection))
	if names, _ = store.List(t.Context(), "uw_test_"); len(names) != 0 {
		t.Errorf("list after drop %v", names)
	}
	ok(t, store.Create(t.Context(), Collection, 2*Dim))
}

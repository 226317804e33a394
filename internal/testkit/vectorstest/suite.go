// Package vectorstest is the conformance suite of the vectors port; every adapter passes it.
package vectorstest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
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
	t.Run("a collection of another dimension is made again, empty", func(t *testing.T) { dimension(t, open(t)) })
	t.Run("an absent collection is not found", func(t *testing.T) { absent(t, open(t)) })
	t.Run("deleted rows are gone", func(t *testing.T) { remove(t, open(t)) })
	t.Run("absent rows are deleted without an error", func(t *testing.T) { removeAbsent(t, open(t)) })
	t.Run("a deletion that stopped is taken up again", func(t *testing.T) { removeAgain(t, open(t)) })
	t.Run("rows are deleted while others are searched", func(t *testing.T) { removeSearched(t, open(t)) })
	t.Run("deleted rows may be written again", func(t *testing.T) { removeWritten(t, open(t)) })
	t.Run("a collection that was made again has another identity", func(t *testing.T) { identity(t, open(t)) })
	t.Run("collections are listed and dropped", func(t *testing.T) { drop(t, open(t)) })
}

func ok(t *testing.T, err error) {
	t.Helper()
	require.NoError(t, err)
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
	ok(t, store.Create(t.Context(), Collection, len(rs[0].Vector)))
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
		got := musttest.Get(store.Search(t.Context(), Collection, q.Vector, 10))(t)
		exact := Exact(rs, q.Vector, 10)
		keys := map[string]float32{}
		for j, h := range got {
			keys[h.Key] = h.Score
			require.True(t, j <= 0 || h.Score <= got[j-1].Score+1e-6, "question %d: hits are not in order", i)
		}
		for _, hit := range exact {
			want++
			if sc, ok := keys[hit.Key]; ok {
				found++
				assert.True(t, math.Abs(float64(sc-hit.Score)) <= 1e-4,
					"question %d: score %g, exact %g", i, sc, hit.Score)
			}
		}
	}
	if recall := float64(found) / float64(want); recall < 0.99 {
		t.Errorf("recall@10 %.4f, want at least 0.99", recall)
	}
	all := musttest.Get(store.Search(t.Context(), Collection, rs[0].Vector, 4000))(t)
	assert.True(t, len(all) == len(rs), "asked for more than there is: got %d of %d", len(all), len(rs))
}

func twice(t *testing.T, store vectors.Store) {
	rs := Rows(700, Dim, 2)
	fill(t, store, rs)
	fill(t, store, rs[300:])
	n := musttest.Get(store.Count(t.Context(), Collection))(t)
	assert.True(t, n == int64(len(rs)), "%d rows, want %d", n, len(rs))
	has := musttest.Get(store.Has(t.Context(), Collection, []string{rs[5].Key, "absent", rs[699].Key}))(t)
	assert.True(t, has[0] && !has[1] && has[2], "has %v", has)
	vs := musttest.Get(store.Fetch(t.Context(), Collection, []string{rs[699].Key, "absent", rs[5].Key}))(t)
	assert.True(t, len(vs) == 3 && vs[1] == nil && slices.Equal(vs[0], rs[699].Vector) &&
		slices.Equal(vs[2], rs[5].Vector), "fetched %d vectors, or others than were written", len(vs))
	hits := musttest.Get(store.Search(t.Context(), Collection, rs[400].Vector, 2))(t)
	assert.True(t, len(hits) == 2 && hits[0].Key == rs[400].Key && hits[1].Key != rs[400].Key, "hits %v", hits)
}

func bad(t *testing.T, store vectors.Store) {
	ok(t, store.Create(t.Context(), Collection, Dim))
	nan := make([]float32, Dim)
	nan[3] = float32(math.NaN())
	good := Rows(1, Dim, 3)[0]
	for name, c := range map[string]struct {
		v    []float32
		want fault.Code
	}{
		"NaN":       {nan, fault.BadVector},
		"zero":      {make([]float32, Dim), fault.BadVector},
		"dimension": {make([]float32, Dim+1), fault.DimensionChanged},
	} {
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
	fill(t, store, Rows(10, 2*Dim, 3))
	before := musttest.Get(store.Identity(t.Context(), Collection))(t)
	for range 2 {
		ok(t, store.Create(t.Context(), Collection, Dim))
		counts(t, store, 0)
	}
	if now, err := store.Identity(t.Context(), Collection); err != nil || now == before {
		t.Errorf("it was %q and is %q, %v", before, now, err)
	}
	fill(t, store, Rows(10, Dim, 3))
	counts(t, store, 10)
}

func absent(t *testing.T, store vectors.Store) {
	musttest.Code(t, musttest.Err(store.Search(t.Context(), "uw_none", make([]float32, Dim), 1)), fault.NotFound, "search")
	musttest.Code(t, store.Upsert(t.Context(), "uw_none", Rows(1, Dim, 4)), fault.NotFound, "upsert")
	ok(t, store.Drop(t.Context(), "uw_none"))
}

func remove(t *testing.T, store vectors.Store) {
	rs := Rows(600, Dim, 5)
	fill(t, store, rs)
	ok(t, store.Delete(t.Context(), Collection, []string{rs[0].Key, rs[550].Key, "absent"}))
	ok(t, store.Load(t.Context(), Collection))
	has := musttest.Get(store.Has(t.Context(), Collection, []string{rs[0].Key, rs[1].Key, rs[550].Key}))(t)
	assert.True(t, !has[0] && has[1] && !has[2], "has %v", has)
	hits := musttest.Get(store.Search(t.Context(), Collection, rs[0].Vector, 1))(t)
	assert.True(t, len(hits) == 1 && hits[0].Key != rs[0].Key, "hits %v", hits)
}

func keysOf(rs []vectors.Row) []string {
	keys := make([]string, len(rs))
	for i, row := range rs {
		keys[i] = row.Key
	}
	return keys
}

func counts(t *testing.T, store vectors.Store, want int) {
	t.Helper()
	n := musttest.Get(store.Count(t.Context(), Collection))(t)
	assert.True(t, n == int64(want), "%d rows, want %d", n, want)
}

func removeAbsent(t *testing.T, store vectors.Store) {
	absent := []string{"absent", `quoted"\`, "with space"}
	musttest.Code(t, store.Delete(t.Context(), "uw_none", absent), fault.NotFound, "of an absent collection")
	ok(t, store.Create(t.Context(), Collection, Dim))
	ok(t, store.Delete(t.Context(), Collection, absent)) // an empty one
	rs := Rows(50, Dim, 21)
	fill(t, store, rs)
	ok(t, store.Delete(t.Context(), Collection, absent))
	ok(t, store.Delete(t.Context(), Collection, nil))
	counts(t, store, len(rs))
}

// removeAgain deletes by batches that overlap, as a sweep does that was killed and began again.
func removeAgain(t *testing.T, store vectors.Store) {
	rs := Rows(2500, Dim, 22)
	fill(t, store, rs)
	dead := keysOf(rs[:2400])
	ok(t, store.Delete(t.Context(), Collection, dead[:700]))
	for at := 0; at < len(dead); at += 900 {
		ok(t, store.Delete(t.Context(), Collection, dead[at:min(at+900, len(dead))]))
	}
	ok(t, store.Load(t.Context(), Collection))
	counts(t, store, 100)
	hits := musttest.Get(store.Search(t.Context(), Collection, rs[0].Vector, 200))(t)
	want := Exact(rs[2400:], rs[0].Vector, 200)
	require.True(t, len(hits) == len(want), "%d hits, want the %d rows that live", len(hits), len(want))
	for i, hit := range hits {
		require.True(t, !slices.Contains(dead, hit.Key) && math.Abs(float64(hit.Score-want[i].Score)) <= 1e-4,
			"hit %d is %v, want %v", i, hit, want[i])
	}
	vs := musttest.Get(store.Fetch(t.Context(), Collection, []string{dead[0], rs[2450].Key}))(t)
	assert.True(t, vs[0] == nil && slices.Equal(vs[1], rs[2450].Vector),
		"a deleted row was fetched, or a live one was not")
}

// removeSearched searches for rows that stay while others are deleted: they must be found all the time.
func removeSearched(t *testing.T, store vectors.Store) {
	rs := Rows(1500, Dim, 23)
	fill(t, store, rs)
	stay := rs[1400:]
	done := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := w; ; i = (i + 1) % len(stay) {
				select {
				case <-done:
					return
				default:
				}
				hits, err := store.Search(t.Context(), Collection, stay[i].Vector, 1)
				if err != nil || len(hits) != 1 || hits[0].Key != stay[i].Key {
					t.Errorf("row %d: %v, %v", i, hits, err)
					return
				}
			}
		})
	}
	for at := 0; at < 1400; at += 100 {
		assert.NoError(t, store.Delete(t.Context(), Collection, keysOf(rs[at:at+100])))
	}
	close(done)
	wg.Wait()
	ok(t, store.Load(t.Context(), Collection))
	counts(t, store, len(stay))
}

func removeWritten(t *testing.T, store vectors.Store) {
	rs := Rows(400, Dim, 24)
	fill(t, store, rs)
	ok(t, store.Delete(t.Context(), Collection, keysOf(rs[:300])))
	fill(t, store, rs[:10])
	counts(t, store, 110)
	hits := musttest.Get(store.Search(t.Context(), Collection, rs[3].Vector, 1))(t)
	assert.True(t, len(hits) == 1 && hits[0].Key == rs[3].Key, "hits %v", hits)
	ok(t, store.Delete(t.Context(), Collection, keysOf(rs[:5])))
	ok(t, store.Load(t.Context(), Collection))
	counts(t, store, 105)
}

func identity(t *testing.T, store vectors.Store) {
	musttest.Code(t, musttest.Err(store.Identity(t.Context(), Collection)), fault.NotFound, "of an absent collection")
	fill(t, store, Rows(10, Dim, 25))
	before := musttest.Get(store.Identity(t.Context(), Collection))(t)
	fill(t, store, Rows(10, Dim, 26))
	ok(t, store.Create(t.Context(), Collection, Dim))
	if again, err := store.Identity(t.Context(), Collection); err != nil || again != before || before == "" {
		t.Errorf("it was %q and is %q, %v", before, again, err)
	}
	ok(t, store.Drop(t.Context(), Collection))
	ok(t, store.Create(t.Context(), Collection, Dim))
	if after, err := store.Identity(t.Context(), Collection); err != nil || after == before {
		t.Errorf("after it was made again it is still %q, %v", after, err)
	}
}

func drop(t *testing.T, store vectors.Store) {
	fill(t, store, Rows(10, Dim, 6))
	names := musttest.Get(store.List(t.Context(), "uw_test_"))(t)
	assert.True(t, len(names) == 1 && names[0] == Collection, "list %v", names)
	ok(t, store.Drop(t.Context(), Collection))
	if names, _ = store.List(t.Context(), "uw_test_"); len(names) != 0 {
		t.Errorf("list after drop %v", names)
	}
	ok(t, store.Create(t.Context(), Collection, 2*Dim))
}

package milvus_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/milvus-io/milvus-proto/go-api/v2/commonpb"
	"github.com/milvus-io/milvus-proto/go-api/v2/milvuspb"
	"github.com/milvus-io/milvus-proto/go-api/v2/schemapb"
	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

func (f *fake) Search(_ context.Context, r *milvuspb.SearchRequest) (*milvuspb.SearchResults, error) {
	f.count("search")
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, param := range r.GetSearchParams() {
		if param.GetKey() == "topk" {
			f.asked = param.GetValue()
		}
	}
	if len(f.searched) == 0 {
		return &milvuspb.SearchResults{Status: &commonpb.Status{}, Results: &schemapb.SearchResultData{}}, nil
	}
	answer := f.searched[0]
	if len(f.searched) > 1 {
		f.searched = f.searched[1:]
	}
	return answer, nil
}

// hits returns an answer with these rows.
func hits(rows ...vectors.Hit) *milvuspb.SearchResults {
	keys, scores := make([]string, len(rows)), make([]float32, len(rows))
	for i, row := range rows {
		keys[i], scores[i] = row.Key, row.Score
	}
	return &milvuspb.SearchResults{Status: &commonpb.Status{}, Results: &schemapb.SearchResultData{NumQueries: 1,
		TopK: int64(len(rows)), Topks: []int64{int64(len(rows))}, Scores: scores,
		Ids: &schemapb.IDs{IdField: &schemapb.IDs_StrId{StrId: &schemapb.StringArray{Data: keys}}}}}
}

func found(t *testing.T, f *fake, n int) ([]vectors.Hit, error) {
	t.Helper()
	f.state = commonpb.LoadState_LoadStateLoaded
	return connect(t, f).Search(t.Context(), "uw_c", one[0].Vector, n)
}

// An import beside an upsert leaves a row twice: it must not take two places.
func TestARowThatIsThereTwiceIsFoundOnce(t *testing.T) {
	f := &fake{searched: []*milvuspb.SearchResults{hits(vectors.Hit{Key: "a", Score: 0.9},
		vectors.Hit{Key: "a", Score: 0.9}, vectors.Hit{Key: "b", Score: 0.5})}}
	got, err := found(t, f, 3)
	assert.True(t, err == nil && fmt.Sprint(got) == "[{a 0.9} {b 0.5}]", "got %v, %v", got, err)
}

func TestHitsAreOrderedByScoreThenKey(t *testing.T) {
	f := &fake{searched: []*milvuspb.SearchResults{hits(vectors.Hit{Key: "z", Score: 0.5},
		vectors.Hit{Key: "c", Score: 0.9}, vectors.Hit{Key: "a", Score: 0.5})}}
	got, err := found(t, f, 3)
	assert.True(t, err == nil && fmt.Sprint(got) == "[{c 0.9} {a 0.5} {z 0.5}]", "got %v, %v", got, err)
}

func TestNothingFoundIsNoError(t *testing.T) {
	got, err := found(t, &fake{}, 3)
	assert.True(t, err == nil && len(got) == 0, "got %v, %v", got, err)
}

func TestMoreThanMilvusAnswersIsNotAskedFor(t *testing.T) {
	f := &fake{}
	_, err := found(t, f, 1_000_000)
	assert.True(t, err == nil && f.asked == "16384", "asked for %s, %v", f.asked, err)
}

// After a restart of Milvus its collections are not loaded: the question that finds it so loads and asks again.
func TestASearchLoadsACollectionThatIsNotLoaded(t *testing.T) {
	unloaded := &milvuspb.SearchResults{Status: &commonpb.Status{Code: 101, Reason: "collection not loaded"}}
	f := &fake{searched: []*milvuspb.SearchResults{unloaded, hits(vectors.Hit{Key: "a", Score: 1})}}
	got, err := found(t, f, 1)
	assert.True(t, err == nil && len(got) == 1 && f.n("load") == 1 && f.n("search") == 2,
		"got %v after %d loads and %d searches, %v", got, f.n("load"), f.n("search"), err)
}

func TestACollectionThatIsGoneIsNotAskedForAgain(t *testing.T) {
	gone := &milvuspb.SearchResults{Status: &commonpb.Status{Code: 100, Reason: "collection not found"}}
	f := &fake{searched: []*milvuspb.SearchResults{gone}}
	_, err := found(t, f, 1)
	wants(t, err, fault.NotFound, "unweaver restore")
	assert.Equal(t, 1, f.n("search"))
}

func TestRowsThatMilvusWouldTakeAndPoisonASearchAreRefused(t *testing.T) {
	f := &fake{}
	store := connect(t, f)
	nan := []float32{float32(math.NaN()), 0, 0, 0}
	for name, c := range map[string]struct {
		row  vectors.Row
		want fault.Code
	}{
		"NaN":            {vectors.Row{Key: "k", Vector: nan}, fault.BadVector},
		"zero":           {vectors.Row{Key: "k", Vector: make([]float32, 4)}, fault.BadVector},
		"dimension":      {vectors.Row{Key: "k", Vector: make([]float32, 5)}, fault.DimensionChanged},
		"a key too long": {vectors.Row{Key: fmt.Sprintf("%0129d", 1), Vector: one[0].Vector}, fault.Internal},
	} {
		err := store.Upsert(t.Context(), "uw_c", []vectors.Row{one[0], c.row})
		assert.True(t, fault.Is(err, c.want), "%s: %v", name, err)
	}
	assert.Zero(t, f.n("upsert"))
}

// The name of a collection is that of one embedder, so that another form of it is damage: nothing is read of it, and
// Create makes it again.
// Promises: 85.
func TestACollectionOfAnotherFormIsDamaged(t *testing.T) {
	text := func(field *schemapb.FieldSchema) { field.DataType = schemapb.DataType_VarChar }
	for name, c := range map[string]struct {
		dim    int
		change func(fields []*schemapb.FieldSchema) []*schemapb.FieldSchema
		reads  bool // what it holds is of a form that can be read
	}{
		"another dimension": {8, nil, true},
		"vectors that are text": {4, func(fields []*schemapb.FieldSchema) []*schemapb.FieldSchema {
			text(fields[1])
			return fields
		}, false},
		"no vectors": {4, func(fields []*schemapb.FieldSchema) []*schemapb.FieldSchema { return fields[:1] }, false},
		"a field too many": {4, func(fields []*schemapb.FieldSchema) []*schemapb.FieldSchema {
			return append(fields, &schemapb.FieldSchema{Name: "other"})
		}, false},
		"keys that Milvus makes": {4, func(fields []*schemapb.FieldSchema) []*schemapb.FieldSchema {
			fields[0].AutoID = true
			return fields
		}, false},
		"a partition by key": {4, func(fields []*schemapb.FieldSchema) []*schemapb.FieldSchema {
			fields[0].IsPartitionKey = true
			return fields
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{form: c.change}
			store := connect(t, f)
			_, err := store.Identity(t.Context(), "uw_c")
			assert.True(t, c.reads == (err == nil), "its identity: %v", err)
			if err := store.Load(t.Context(), "uw_c"); !c.reads {
				wants(t, err, fault.NotFound, "unweaver restore")
			}
			if err := store.Create(t.Context(), "uw_c", c.dim); err != nil || f.n("drop") != 1 || f.n("create") != 1 {
				t.Errorf("%v, dropped %d times and made %d times", err, f.n("drop"), f.n("create"))
			}
		})
	}
	f := &fake{searched: []*milvuspb.SearchResults{{Status: &commonpb.Status{Code: 65535, Reason: "dimension mismatch"}}}}
	_, err := connect(t, f).Search(t.Context(), "uw_c", make([]float32, 8), 1)
	wants(t, err, fault.NotFound, "unweaver restore")
}

func TestWritesAreCutByBytes(t *testing.T) {
	f := &fake{}
	store := connect(t, f, grpc.MaxRecvMsgSize(64<<20)) // what Milvus takes
	rows := make([]vectors.Row, 120_000)                // more than 16 MiB
	for i := range rows {
		rows[i] = vectors.Row{Key: fmt.Sprintf("%0128d", i), Vector: one[0].Vector}
	}
	err := store.Upsert(t.Context(), "uw_c", rows)
	assert.True(t, err == nil && f.n("upsert") == 2, "%d writes, %v", f.n("upsert"), err)
}

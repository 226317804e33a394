package milvus_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/milvus-io/milvus-proto/go-api/v2/commonpb"
	"github.com/milvus-io/milvus-proto/go-api/v2/milvuspb"
	"github.com/milvus-io/milvus-proto/go-api/v2/schemapb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/store/vectors/milvus"
)

// A server that took a call and is silent must not hold its caller, whose own deadline may be hours away.
func TestACallThatIsNeverAnsweredFailsTransiently(t *testing.T) {
	for _, c := range []struct {
		hangs string
		call  func(ctx context.Context, store *milvus.Store) error
	}{
		{"DescribeCollection", func(ctx context.Context, s *milvus.Store) error { return s.Create(ctx, "uw_c", 4) }},
		{"Upsert", func(ctx context.Context, s *milvus.Store) error { return s.Upsert(ctx, "uw_c", one) }},
		{"Delete", func(ctx context.Context, s *milvus.Store) error { return s.Delete(ctx, "uw_c", []string{"k"}) }},
		{"LoadCollection", func(ctx context.Context, s *milvus.Store) error { return s.Load(ctx, "uw_c") }},
		{"GetLoadState", func(ctx context.Context, s *milvus.Store) error { return s.Load(ctx, "uw_c") }},
		{"Flush", func(ctx context.Context, s *milvus.Store) error { return s.Seal(ctx, "uw_c") }},
		{"DropCollection", func(ctx context.Context, s *milvus.Store) error { return s.Drop(ctx, "uw_c") }},
		{"CheckHealth", func(ctx context.Context, s *milvus.Store) error { return s.Ping(ctx) }},
		{"Import", func(ctx context.Context, s *milvus.Store) error { return second(s.Import(ctx, "uw_c", "f.parquet")) }},
		{"Query", func(ctx context.Context, s *milvus.Store) error { return second(s.Count(ctx, "uw_c")) }},
		{"Search", func(ctx context.Context, s *milvus.Store) error {
			return second(s.Search(ctx, "uw_c", one[0].Vector, 1))
		}},
	} {
		t.Run(c.hangs, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			var err error
			// On a busy machine a call before it may take longer than the shortest of these times.
			for _, timeout := range []time.Duration{50 * time.Millisecond, 2 * time.Second, 30 * time.Second} {
				err = c.call(ctx, connectWithin(t, &fake{hangs: c.hangs}, timeout))
				if fault.Is(err, fault.StoreDown) && strings.Contains(err.Error(), "did not answer "+c.hangs) {
					return
				}
			}
			t.Errorf("got %v", err)
		})
	}
}

func TestTheCallersOwnDeadlineIsItsOwnError(t *testing.T) {
	store := connect(t, &fake{hangs: "Upsert"})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, store.Upsert(ctx, "uw_c", one), context.DeadlineExceeded)
}

func TestIdentityIsTheCollectionsNumberAndTime(t *testing.T) {
	f := &fake{number: 7, made: 100}
	store := connect(t, f)
	seen := map[string]bool{}
	for _, c := range [][2]uint64{{7, 100}, {8, 100}, {8, 101}} { // made again, or by a server that lost its counter
		f.number, f.made = int64(c[0]), c[1]
		var first string
		for range 2 {
			id, err := store.Identity(t.Context(), "uw_c")
			require.True(t, err == nil && (first == "" || id == first), "%v %v", id, err)
			first = id
		}
		assert.False(t, seen[first], "%v has the identity of another", c)
		seen[first] = true
	}
	_, err := store.Identity(t.Context(), "absent")
	wants(t, err, fault.NotFound, "does not exist")
}

func TestManyRowsAreDeletedInBatches(t *testing.T) {
	f := &fake{}
	store := connect(t, f)
	keys := make([]string, 2500)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%04d", i)
	}
	require.NoError(t, store.Delete(t.Context(), "uw_c", keys))
	if len(f.exprs) != 3 || strings.Count(f.exprs[0], "key-") != 1000 || strings.Count(f.exprs[2], "key-") != 500 {
		t.Errorf("%d expressions", len(f.exprs))
	}
	assert.Contains(t, f.exprs[2], `"key-2499"`, "the last expression")
}

func TestWhatBecameOfAnImportIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		state commonpb.ImportState
		rows  int64
		why   string
		want  vectors.ImportState
	}{
		"running":          {commonpb.ImportState_ImportStarted, 0, "", vectors.ImportState{}},
		"not searchable":   {commonpb.ImportState_ImportPersisted, 5, "", vectors.ImportState{Rows: 5}},
		"done":             {commonpb.ImportState_ImportCompleted, 5, "", vectors.ImportState{Done: true, Rows: 5}},
		"failed":           {commonpb.ImportState_ImportFailed, 0, "no such file", vectors.ImportState{Failed: "no such file"}},
		"without a reason": {commonpb.ImportState_ImportFailedAndCleaned, 0, "", vectors.ImportState{Failed: "failed"}},
	} {
		job := &milvuspb.GetImportStateResponse{Status: &commonpb.Status{}, State: c.state, RowCount: c.rows}
		if c.why != "" {
			job.Infos = []*commonpb.KeyValuePair{{Key: "failed_reason", Value: c.why}}
		}
		got, err := connect(t, &fake{job: job}).ImportState(t.Context(), "7")
		assert.True(t, err == nil && got == c.want, "%s: %+v, %v", name, got, err)
	}
	gone := &milvuspb.GetImportStateResponse{Status: &commonpb.Status{Code: 1, Reason: "failed to get import task 7"}}
	got, err := connect(t, &fake{job: gone}).ImportState(t.Context(), "7")
	assert.True(t, err == nil && got == vectors.ImportState{Unknown: true}, "forgotten: %+v, %v", got, err)
	_, err = connect(t, &fake{}).ImportState(t.Context(), "seven")
	wants(t, err, fault.Internal, "seven")
}

// loaded returns a fake whose load is done; rows are what every query finds.
func loaded(keys ...string) *fake {
	found := &milvuspb.QueryResults{Status: &commonpb.Status{}, OutputFields: []string{"key"}}
	found.FieldsData = []*schemapb.FieldData{{
		Type: schemapb.DataType_VarChar, FieldName: "key", FieldId: 100,
		Field: &schemapb.FieldData_Scalars{Scalars: &schemapb.ScalarField{
			Data: &schemapb.ScalarField_StringData{StringData: &schemapb.StringArray{Data: keys}},
		}},
	}}
	return &fake{state: commonpb.LoadState_LoadStateLoaded, found: found}
}

func TestKeysThatAreThereAreTold(t *testing.T) {
	store := connect(t, loaded("b"))
	has, err := store.Has(t.Context(), "uw_c", []string{"a", "b", "c", "b"})
	assert.True(t, err == nil && fmt.Sprint(has) == "[false true false true]", "got %v, %v", has, err)
}

// Another program, or a restart, may have released a collection: it is loaded again, once.
func TestACollectionThatIsNotLoadedIsLoadedAndReadAgain(t *testing.T) {
	f := loaded()
	f.found = &milvuspb.QueryResults{Status: &commonpb.Status{Code: 101, Reason: "collection not loaded"}}
	store := connect(t, f)
	_, err := store.Has(t.Context(), "uw_c", []string{"a"})
	wants(t, err, fault.StoreDown, "not loaded")
	assert.True(t, f.n("Query") == 2 && f.n("LoadCollection") == 1, "%d queries and %d loads", f.n("Query"), f.n("LoadCollection"))
}

func TestAServerThatIsUnwellSaysWhy(t *testing.T) {
	wants(t, connect(t, &fake{}).Ping(t.Context()), fault.StoreDown, "a node is down")
}

func TestWhatIsAbsentMayBeDroppedAndReleased(t *testing.T) {
	gone := &commonpb.Status{Code: 100, Reason: "collection not found"}
	f := &fake{status: gone}
	store := connect(t, f)
	for name, err := range map[string]error{
		"never there":          store.Drop(t.Context(), "absent"),
		"dropped by another":   store.Drop(t.Context(), "uw_c"),
		"released when absent": store.Release(t.Context(), "uw_c"),
	} {
		assert.NoError(t, err, "%s", name)
	}
}

// Milvus limits flushes; rows that are not sealed yet are durable and searched already.
func TestAFlushThatIsTooSoonIsNoError(t *testing.T) {
	store := connect(t, &fake{status: &commonpb.Status{Code: 8, Reason: "request is rejected by rate limiter"}})
	assert.NoError(t, store.Seal(t.Context(), "uw_c"))
	store = connect(t, &fake{status: &commonpb.Status{Code: 1, Reason: "the disk is gone"}})
	wants(t, store.Seal(t.Context(), "uw_c"), fault.StoreDown, "the disk is gone")
}

func TestRefusalsNameTheWayOut(t *testing.T) {
	for _, c := range []struct {
		status *commonpb.Status
		code   fault.Code
		says   string
	}{
		{&commonpb.Status{Code: 100}, fault.NotFound, "unweaver restore"},
		{&commonpb.Status{ErrorCode: commonpb.ErrorCode_CollectionNotExists}, fault.NotFound, "unweaver restore"},
		{&commonpb.Status{ErrorCode: commonpb.ErrorCode_OutOfMemory}, fault.StoreFull, "memory or disk"},
		{&commonpb.Status{Code: 9, Reason: "quota exceeded"}, fault.StoreFull, "memory or disk"},
		{&commonpb.Status{Code: 11, Reason: "disk"}, fault.StoreFull, "memory or disk"},
		{&commonpb.Status{ErrorCode: commonpb.ErrorCode_PermissionDenied}, fault.StoreDenied, "stores.vectors"},
		{&commonpb.Status{Code: 1, Reason: "auth check failure"}, fault.StoreDenied, "user and password"},
		{&commonpb.Status{Code: 800, Reason: "database not found"}, fault.BadConfig, "create that database"},
		{&commonpb.Status{ErrorCode: commonpb.ErrorCode_UnexpectedError}, fault.StoreDown, "UnexpectedError"},
	} {
		wants(t, connect(t, &fake{status: c.status}).Upsert(t.Context(), "uw_c", one), c.code, c.says)
	}
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

// An import beside an upsert leaves a row twice: it must not take two places. Milvus answers no more than it can.
func TestHitsAreFoundOnceInTheirOrder(t *testing.T) {
	for want, c := range map[string]struct {
		rows []vectors.Hit
		n    int
	}{
		"[{a 0.9} {b 0.5}] 3":         {[]vectors.Hit{{Key: "a", Score: 0.9}, {Key: "a", Score: 0.9}, {Key: "b", Score: 0.5}}, 3},
		"[{c 0.9} {a 0.5} {z 0.5}] 3": {[]vectors.Hit{{Key: "z", Score: 0.5}, {Key: "c", Score: 0.9}, {Key: "a", Score: 0.5}}, 3},
		"[] 16384":                    {nil, 1_000_000},
	} {
		f := &fake{searched: []*milvuspb.SearchResults{hits(c.rows...)}}
		got, err := found(t, f, c.n)
		assert.True(t, err == nil && fmt.Sprint(got, " ", f.asked) == want, "got %v of %s, %v", got, f.asked, err)
	}
}

// After a restart of Milvus its collections are not loaded: the question that finds it so loads and asks again.
func TestASearchLoadsACollectionThatIsNotLoaded(t *testing.T) {
	unloaded := &milvuspb.SearchResults{Status: &commonpb.Status{Code: 101, Reason: "collection not loaded"}}
	f := &fake{searched: []*milvuspb.SearchResults{unloaded, hits(vectors.Hit{Key: "a", Score: 1})}}
	got, err := found(t, f, 1)
	assert.True(t, err == nil && len(got) == 1 && f.n("LoadCollection") == 1 && f.n("Search") == 2,
		"got %v after %d loads and %d searches, %v", got, f.n("LoadCollection"), f.n("Search"), err)
}

func TestACollectionThatIsGoneIsNotAskedForAgain(t *testing.T) {
	gone := &milvuspb.SearchResults{Status: &commonpb.Status{Code: 100, Reason: "collection not found"}}
	f := &fake{searched: []*milvuspb.SearchResults{gone}}
	_, err := found(t, f, 1)
	wants(t, err, fault.NotFound, "unweaver restore")
	assert.Equal(t, 1, f.n("Search"))
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
	assert.Zero(t, f.n("Upsert"))
}

// The name of a collection is that of one embedder, so that another form of it is damage: nothing is read of it, and
// Create makes it again.
// Promises: 85.
func TestACollectionOfAnotherFormIsDamaged(t *testing.T) {
	type fields = []*schemapb.FieldSchema
	for name, c := range map[string]struct {
		dim    int
		change func(all fields) fields
		reads  bool // what it holds is of a form that can be read
	}{
		"another dimension":      {8, nil, true},
		"vectors that are text":  {4, func(all fields) fields { all[1].DataType = schemapb.DataType_VarChar; return all }, false},
		"no vectors":             {4, func(all fields) fields { return all[:1] }, false},
		"a field too many":       {4, func(all fields) fields { return append(all, &schemapb.FieldSchema{Name: "other"}) }, false},
		"keys that Milvus makes": {4, func(all fields) fields { all[0].AutoID = true; return all }, false},
		"a partition by key":     {4, func(all fields) fields { all[0].IsPartitionKey = true; return all }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{form: c.change}
			store := connect(t, f)
			_, err := store.Identity(t.Context(), "uw_c")
			assert.True(t, c.reads == (err == nil), "its identity: %v", err)
			if err := store.Load(t.Context(), "uw_c"); !c.reads {
				wants(t, err, fault.NotFound, "unweaver restore")
			}
			if err := store.Create(t.Context(), "uw_c", c.dim); err != nil || f.n("DropCollection") != 1 || f.n("CreateCollection") != 1 {
				t.Errorf("%v, dropped %d times and made %d times", err, f.n("DropCollection"), f.n("CreateCollection"))
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
	assert.True(t, err == nil && f.n("Upsert") == 2, "%d writes, %v", f.n("Upsert"), err)
}

// second returns the error of a call that gives a value, too.
func second[T any](_ T, err error) error { return err }

package milvus_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/milvus-io/milvus-proto/go-api/v2/commonpb"
	"github.com/milvus-io/milvus-proto/go-api/v2/milvuspb"
	"github.com/milvus-io/milvus-proto/go-api/v2/schemapb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/store/vectors/milvus"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

// fake is a Milvus that produces on demand what a real one does not: lost replies, failures that only Status.Code
// carries, loads that never end. It stores nothing.
type fake struct {
	milvuspb.UnimplementedMilvusServiceServer
	mu     sync.Mutex
	calls  map[string]int   // by method
	exprs  []string         // of every deletion
	status *commonpb.Status // of writes; nil: success
	err    error            // of writes, after they were counted
	state  commonpb.LoadState
	alias  string // a name that DescribeCollection resolves to another collection
	tasks  []*milvuspb.GetImportStateResponse
	job    *milvuspb.GetImportStateResponse
	hangs  string // a call that is taken and never answered
	number int64  // of the collection
	made   uint64 // when it was
	found  *milvuspb.QueryResults
	form   func([]*schemapb.FieldSchema) []*schemapb.FieldSchema // changes those of the collection; nil: it does not

	searched []*milvuspb.SearchResults // answers, one after another; the last stays
	asked    string                    // how many hits the last search wanted
}

func (f *fake) n(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[name]
}

// answer gives what the fake answers to a request; nil: nothing that it knows.
func (f *fake) answer(request any) (any, error) {
	ok, written := &commonpb.Status{}, cmp.Or(f.status, &commonpb.Status{})
	switch r := request.(type) {
	case *milvuspb.ConnectRequest:
		return &milvuspb.ConnectResponse{Status: ok, ServerInfo: &commonpb.ServerInfo{}}, nil
	case *milvuspb.DescribeCollectionRequest:
		return f.describe(r.GetCollectionName()), nil
	case *milvuspb.DescribeIndexRequest:
		return &milvuspb.DescribeIndexResponse{Status: ok,
			IndexDescriptions: []*milvuspb.IndexDescription{{IndexName: "vector", FieldName: "vector"}}}, nil
	case *milvuspb.CreateCollectionRequest, *milvuspb.AlterAliasRequest, *milvuspb.CreateAliasRequest,
		*milvuspb.LoadCollectionRequest, *milvuspb.DropCollectionRequest:
		return written, f.err
	case *milvuspb.UpsertRequest:
		return &milvuspb.MutationResult{Status: written,
			IDs: &schemapb.IDs{IdField: &schemapb.IDs_StrId{StrId: &schemapb.StringArray{Data: []string{"k"}}}}}, f.err
	case *milvuspb.ImportRequest:
		return &milvuspb.ImportResponse{Status: written, Tasks: []int64{7}}, f.err
	case *milvuspb.FlushRequest:
		return &milvuspb.FlushResponse{Status: written}, f.err
	case *milvuspb.DeleteRequest:
		f.exprs = append(f.exprs, r.GetExpr())
		return &milvuspb.MutationResult{Status: ok}, nil
	case *milvuspb.GetLoadStateRequest:
		return &milvuspb.GetLoadStateResponse{Status: ok, State: f.state}, nil
	case *milvuspb.ShowCollectionsRequest:
		return &milvuspb.ShowCollectionsResponse{Status: ok, CollectionNames: []string{"uw_b", "other", "uw_a"}}, nil
	case *milvuspb.ListImportTasksRequest:
		return &milvuspb.ListImportTasksResponse{Status: ok, Tasks: f.tasks}, nil
	case *milvuspb.GetImportStateRequest:
		return f.job, nil
	case *milvuspb.QueryRequest:
		return f.found, nil
	case *milvuspb.CheckHealthRequest:
		return &milvuspb.CheckHealthResponse{Status: ok, Reasons: []string{"a node is down"}}, nil
	case *milvuspb.SearchRequest:
		return f.search(r), nil
	}
	return nil, nil
}

func (f *fake) describe(name string) *milvuspb.DescribeCollectionResponse {
	if name == "absent" {
		return &milvuspb.DescribeCollectionResponse{Status: &commonpb.Status{Code: 100, Reason: "collection not found"}}
	}
	if name == f.alias {
		name = "uw_other"
	}
	fields := []*schemapb.FieldSchema{
		{FieldID: 100, Name: "key", DataType: schemapb.DataType_VarChar, IsPrimaryKey: true,
			TypeParams: []*commonpb.KeyValuePair{{Key: "max_length", Value: "128"}}},
		{FieldID: 101, Name: "vector", DataType: schemapb.DataType_FloatVector,
			TypeParams: []*commonpb.KeyValuePair{{Key: "dim", Value: "4"}}},
	}
	if f.form != nil {
		fields = f.form(fields)
	}
	return &milvuspb.DescribeCollectionResponse{Status: &commonpb.Status{}, CollectionName: name, CollectionID: f.number,
		CreatedTimestamp: f.made, Schema: &schemapb.CollectionSchema{Name: name, Fields: fields}}
}

func (f *fake) search(r *milvuspb.SearchRequest) *milvuspb.SearchResults {
	for _, param := range r.GetSearchParams() {
		if param.GetKey() == "topk" {
			f.asked = param.GetValue()
		}
	}
	if len(f.searched) == 0 {
		return hits()
	}
	answer := f.searched[0]
	if len(f.searched) > 1 {
		f.searched = f.searched[1:]
	}
	return answer
}

// callTimeout is the store's, in these tests: long enough for a busy machine, short enough to wait for.
const callTimeout = 3 * time.Second

func connect(t *testing.T, f *fake, opts ...grpc.ServerOption) *milvus.Store {
	return musttest.Get(connectWithin(t, f, callTimeout, opts...))(t)
}

func connectWithin(t *testing.T, f *fake, timeout time.Duration, opts ...grpc.ServerOption) (*milvus.Store, error) {
	opts = append(opts, grpc.UnaryInterceptor(func(
		ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
	) (any, error) {
		method := path.Base(info.FullMethod)
		if method == f.hangs {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.calls[method]++
		if answer, err := f.answer(request); answer != nil {
			return answer, err
		}
		return handle(ctx, request)
	}))
	f.calls = map[string]int{}
	listener := musttest.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	srv := grpc.NewServer(opts...)
	milvuspb.RegisterMilvusServiceServer(srv, f)
	go func() { _ = srv.Serve(listener) }()
	t.Cleanup(srv.Stop)
	store, err := milvus.Open(t.Context(), milvus.Config{URL: "milvus://" + listener.Addr().String(), Timeout: timeout})
	if err == nil {
		t.Cleanup(func() { _ = store.Close() })
	}
	return store, err
}

var one = []vectors.Row{{Key: "k", Vector: []float32{1, 0, 0, 0}}}

// The SDK sends a write up to six times when its reply is lost.
func TestAWriteWhoseReplyIsLostIsSentOnce(t *testing.T) {
	f := &fake{err: status.Error(codes.Unavailable, "the reply was lost")}
	s := connect(t, f)
	musttest.Fail(t, s.Upsert(t.Context(), "uw_c", one), fault.StoreDown, "lost")
	musttest.Refuse(s.Import(t.Context(), "uw_c", "f.parquet"))(t, fault.StoreDown, "lost")
	assert.True(t, f.n("Upsert") == 1 && f.n("Import") == 1, "%d, %d", f.n("Upsert"), f.n("Import"))
}

// The SDK looks at ErrorCode alone, and newer servers set Code.
func TestAFailureInStatusCodeAloneIsAnError(t *testing.T) {
	store := connect(t, &fake{status: &commonpb.Status{Code: 1, Reason: "it failed"}})
	musttest.Fail(t, store.Upsert(t.Context(), "uw_c", one), fault.StoreDown, "it failed")
	musttest.Fail(t, store.Alias(t.Context(), "a", "uw_c"), fault.StoreDown, "it failed")
	musttest.Fail(t, store.Load(t.Context(), "uw_c"), fault.StoreDown, "it failed")
}

// The SDK's wait for a load that fails goes on until its context ends.
func TestALoadThatFailsEndsAtOnce(t *testing.T) {
	store := connect(t, &fake{state: commonpb.LoadState_LoadStateNotLoad})
	musttest.Fail(t, store.Load(t.Context(), "uw_c"), fault.StoreDown, "gave the load up")
	store = connect(t, &fake{state: commonpb.LoadState_LoadStateLoading})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	assert.Error(t, store.Load(ctx, "uw_c"), "a load that never ends was waited for beyond its context")
}

// received counts the upserts that arrive, also those that are too large for a handler to see.
type received struct{ upserts atomic.Int64 }

func (r *received) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if path.Base(info.FullMethodName) == "Upsert" {
		r.upserts.Add(1)
	}
	return ctx
}

func (*received) HandleRPC(context.Context, stats.RPCStats)                         {}
func (*received) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*received) HandleConn(context.Context, stats.ConnStats)                       {}

// The SDK spends 22 seconds repeating a message that is too large.
func TestAMessageThatIsTooLargeIsNotRepeated(t *testing.T) {
	f, sent := &fake{}, &received{}
	s := connect(t, f, grpc.MaxRecvMsgSize(256), grpc.StatsHandler(sent))
	rows := []vectors.Row{
		{Key: strings.Repeat("k", 120), Vector: one[0].Vector},
		{Key: strings.Repeat("l", 120), Vector: one[0].Vector},
	}
	musttest.Fail(t, s.Upsert(t.Context(), "uw_c", rows), fault.Internal, "serverMaxRecvSize")
	assert.Equal(t, int64(1), sent.upserts.Load(), "it was sent")
}

func TestKeysAreQuotedInExpressions(t *testing.T) {
	f := &fake{}
	require.NoError(t, connect(t, f).Delete(t.Context(), "uw_c", []string{`a"] or key != "`, `b\`}))
	assert.Equal(t, []string{`key in ["a\"] or key != \"","b\\"]`}, f.exprs)
}

// The SDK lists nothing when names come without ids.
func TestCollectionsWithoutIDsAreListed(t *testing.T) {
	assert.Equal(t, []string{"uw_a", "uw_b"}, musttest.Get(connect(t, &fake{}).List(t.Context(), "uw_"))(t))
}

// The SDK keeps the schema of an alias from before it was switched, and reads it at a weaker consistency.
func TestNothingGoesThroughAnAlias(t *testing.T) {
	f := &fake{alias: "uw_alias"}
	s := connect(t, f)
	musttest.Fail(t, s.Upsert(t.Context(), "uw_alias", one), fault.BadConfig, "alias of uw_other")
	musttest.Fail(t, s.Create(t.Context(), "uw_alias", 4), fault.BadConfig, "alias of uw_other")
	assert.Zero(t, f.n("Upsert")+f.n("CreateCollection"), "a write went through an alias")
}

func TestImportsAreFoundByTheirPath(t *testing.T) {
	f := &fake{}
	for id, name := range []string{"a.parquet", "b.parquet", "b.parquet"} {
		f.tasks = append(f.tasks, &milvuspb.GetImportStateResponse{Status: &commonpb.Status{}, Id: int64(id),
			Infos: []*commonpb.KeyValuePair{{Key: "files", Value: name}}})
	}
	got := musttest.Get(connect(t, f).ListImports(t.Context(), "uw_c"))(t)
	assert.Equal(t, map[string][]string{"a.parquet": {"0"}, "b.parquet": {"1", "2"}}, got)
}

func TestNoServerNamesTheSetting(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	musttest.Refuse(milvus.Open(ctx, milvus.Config{URL: "milvus://127.0.0.1:1"}))(t, fault.StoreDown, "stores.vectors")
	musttest.Refuse(milvus.Open(ctx, milvus.Config{URL: "http://127.0.0.1:1"}))(t, fault.BadConfig, "milvus://")
}

// conformance runs the suite against the server that an environment variable names.
func conformance(t *testing.T, variable, index string, lacks ...string) {
	url := os.Getenv(variable)
	if url == "" {
		t.Skip(variable + " names no server: make test-servers starts one")
	}
	vectorstest.Run(t, func(t *testing.T) vectors.Store {
		for _, name := range lacks {
			if strings.HasSuffix(t.Name(), name) {
				t.Skip("this server does not have it")
			}
		}
		store := musttest.Get(milvus.Open(t.Context(), milvus.Config{URL: url, Index: index}))(t)
		t.Cleanup(func() { _ = store.Close() })
		require.NoError(t, store.Drop(t.Context(), vectorstest.Collection))
		return store
	})
}

func TestConformance(t *testing.T)        { conformance(t, "UNWEAVER_TEST_MILVUS", "hnsw") }
func TestConformanceWithIVF(t *testing.T) { conformance(t, "UNWEAVER_TEST_MILVUS", "ivf") }

// The small server gives every collection the same identity, so one that was made again cannot be noticed.
func TestConformanceWithMilvusLite(t *testing.T) {
	conformance(t, "UNWEAVER_TEST_MILVUS_LITE", "hnsw", "/a_collection_that_was_made_again_has_another_identity")
}

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
			// On a busy machine connecting, or a call before it, may take longer than the shortest of these times.
			for _, timeout := range []time.Duration{50 * time.Millisecond, 2 * time.Second, 30 * time.Second} {
				var store *milvus.Store
				if store, err = connectWithin(t, &fake{hangs: c.hangs}, timeout); err != nil {
					continue
				}
				err = c.call(ctx, store)
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
	store, seen := connect(t, f), map[string]bool{}
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
	musttest.Refuse(store.Identity(t.Context(), "absent"))(t, fault.NotFound, "does not exist")
}

func TestManyRowsAreDeletedInBatches(t *testing.T) {
	f := &fake{}
	store, keys := connect(t, f), make([]string, 2500)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%04d", i)
	}
	require.NoError(t, store.Delete(t.Context(), "uw_c", keys))
	assert.True(t, len(f.exprs) == 3 && strings.Count(f.exprs[0], "key-") == 1000 &&
		strings.Count(f.exprs[2], "key-") == 500, "%d expressions", len(f.exprs))
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
	musttest.Refuse(connect(t, &fake{}).ImportState(t.Context(), "seven"))(t, fault.Internal, "seven")
}

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
	musttest.Refuse(store.Has(t.Context(), "uw_c", []string{"a"}))(t, fault.StoreDown, "not loaded")
	assert.True(t, f.n("Query") == 2 && f.n("LoadCollection") == 1, "%d queries and %d loads", f.n("Query"), f.n("LoadCollection"))
}

func TestAServerThatIsUnwellSaysWhy(t *testing.T) {
	musttest.Fail(t, connect(t, &fake{}).Ping(t.Context()), fault.StoreDown, "a node is down")
}

func TestWhatIsAbsentMayBeDropped(t *testing.T) {
	gone := &commonpb.Status{Code: 100, Reason: "collection not found"}
	store := connect(t, &fake{status: gone})
	for name, err := range map[string]error{
		"never there": store.Drop(t.Context(), "absent"), "dropped by another": store.Drop(t.Context(), "uw_c"),
	} {
		assert.NoError(t, err, "%s", name)
	}
}

// Milvus limits flushes; rows that are not sealed yet are durable and searched already.
func TestAFlushThatIsTooSoonIsNoError(t *testing.T) {
	store := connect(t, &fake{status: &commonpb.Status{Code: 8, Reason: "request is rejected by rate limiter"}})
	assert.NoError(t, store.Seal(t.Context(), "uw_c"))
	store = connect(t, &fake{status: &commonpb.Status{Code: 1, Reason: "the disk is gone"}})
	musttest.Fail(t, store.Seal(t.Context(), "uw_c"), fault.StoreDown, "the disk is gone")
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
		musttest.Fail(t, connect(t, &fake{status: c.status}).Upsert(t.Context(), "uw_c", one), c.code, c.says)
	}
}

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
	musttest.Refuse(found(t, f, 1))(t, fault.NotFound, "unweaver restore")
	assert.Equal(t, 1, f.n("Search"))
}

func TestRowsThatMilvusWouldTakeAndPoisonASearchAreRefused(t *testing.T) {
	f := &fake{}
	store, nan := connect(t, f), []float32{float32(math.NaN()), 0, 0, 0}
	for name, c := range map[string]struct {
		row  vectors.Row
		want fault.Code
	}{
		"NaN":            {vectors.Row{Key: "k", Vector: nan}, fault.BadVector},
		"zero":           {vectors.Row{Key: "k", Vector: make([]float32, 4)}, fault.BadVector},
		"dimension":      {vectors.Row{Key: "k", Vector: make([]float32, 5)}, fault.DimensionChanged},
		"a key too long": {vectors.Row{Key: fmt.Sprintf("%0129d", 1), Vector: one[0].Vector}, fault.Internal},
	} {
		musttest.Code(t, store.Upsert(t.Context(), "uw_c", []vectors.Row{one[0], c.row}), c.want, name)
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
				musttest.Fail(t, err, fault.NotFound, "unweaver restore")
			}
			if err := store.Create(t.Context(), "uw_c", c.dim); err != nil || f.n("DropCollection") != 1 || f.n("CreateCollection") != 1 {
				t.Errorf("%v, dropped %d times and made %d times", err, f.n("DropCollection"), f.n("CreateCollection"))
			}
		})
	}
	f := &fake{searched: []*milvuspb.SearchResults{{Status: &commonpb.Status{Code: 65535, Reason: "dimension mismatch"}}}}
	_, err := connect(t, f).Search(t.Context(), "uw_c", make([]float32, 8), 1)
	musttest.Fail(t, err, fault.NotFound, "unweaver restore")
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

func second[T any](_ T, err error) error { return err }

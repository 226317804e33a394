package milvus_test

import (
	"cmp"
	"context"
	"net"
	"os"
	"path"
	"slices"
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

// n returns how often a method was called.
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
		*milvuspb.LoadCollectionRequest, *milvuspb.DropCollectionRequest, *milvuspb.ReleaseCollectionRequest:
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
	t.Helper()
	return connectWithin(t, f, callTimeout, opts...)
}

func connectWithin(t *testing.T, f *fake, timeout time.Duration, opts ...grpc.ServerOption) *milvus.Store {
	t.Helper()
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := grpc.NewServer(opts...)
	milvuspb.RegisterMilvusServiceServer(srv, f)
	go func() { _ = srv.Serve(listener) }()
	t.Cleanup(srv.Stop)
	store, err := milvus.Open(t.Context(), milvus.Config{URL: "milvus://" + listener.Addr().String(), Timeout: timeout})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

var one = []vectors.Row{{Key: "k", Vector: []float32{1, 0, 0, 0}}}

func wants(t *testing.T, err error, code fault.Code, says string) {
	t.Helper()
	assert.True(t, fault.Is(err, code) && strings.Contains(err.Error(), says),
		"got %v, want %s saying %q", err, code, says)
}

// The SDK sends a write up to six times when its reply is lost.
func TestAWriteWhoseReplyIsLostIsSentOnce(t *testing.T) {
	f := &fake{err: status.Error(codes.Unavailable, "the reply was lost")}
	s := connect(t, f)
	wants(t, s.Upsert(t.Context(), "uw_c", one), fault.StoreDown, "lost")
	wants(t, second(s.Import(t.Context(), "uw_c", "f.parquet")), fault.StoreDown, "lost")
	assert.True(t, f.n("Upsert") == 1 && f.n("Import") == 1,
		"%d upserts and %d imports arrived", f.n("Upsert"), f.n("Import"))
}

// The SDK looks at ErrorCode alone, and newer servers set Code.
func TestAFailureInStatusCodeAloneIsAnError(t *testing.T) {
	store := connect(t, &fake{status: &commonpb.Status{Code: 1, Reason: "it failed"}})
	wants(t, store.Upsert(t.Context(), "uw_c", one), fault.StoreDown, "it failed")
	wants(t, store.Alias(t.Context(), "a", "uw_c"), fault.StoreDown, "it failed")
	wants(t, store.Load(t.Context(), "uw_c"), fault.StoreDown, "it failed")
}

// The SDK's wait for a load that fails goes on until its context ends.
func TestALoadThatFailsEndsAtOnce(t *testing.T) {
	store := connect(t, &fake{state: commonpb.LoadState_LoadStateNotLoad})
	wants(t, store.Load(t.Context(), "uw_c"), fault.StoreDown, "gave the load up")
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
	f := &fake{}
	sent := &received{}
	s := connect(t, f, grpc.MaxRecvMsgSize(256), grpc.StatsHandler(sent))
	rows := []vectors.Row{
		{Key: strings.Repeat("k", 120), Vector: one[0].Vector},
		{Key: strings.Repeat("l", 120), Vector: one[0].Vector},
	}
	wants(t, s.Upsert(t.Context(), "uw_c", rows), fault.Internal, "serverMaxRecvSize")
	assert.Equal(t, int64(1), sent.upserts.Load(), "it was sent")
}

func TestKeysAreQuotedInExpressions(t *testing.T) {
	f := &fake{}
	s := connect(t, f)
	require.NoError(t, s.Delete(t.Context(), "uw_c", []string{`a"] or key != "`, `b\`}))
	assert.Equal(t, []string{`key in ["a\"] or key != \"","b\\"]`}, f.exprs)
}

// The SDK lists nothing when names come without ids.
func TestCollectionsWithoutIDsAreListed(t *testing.T) {
	s := connect(t, &fake{})
	got, err := s.List(t.Context(), "uw_")
	assert.True(t, err == nil && slices.Equal(got, []string{"uw_a", "uw_b"}), "got %v, %v", got, err)
}

// The SDK keeps the schema of an alias from before it was switched, and reads it at a weaker consistency.
func TestNothingGoesThroughAnAlias(t *testing.T) {
	f := &fake{alias: "uw_alias"}
	s := connect(t, f)
	wants(t, s.Upsert(t.Context(), "uw_alias", one), fault.BadConfig, "alias of uw_other")
	wants(t, s.Create(t.Context(), "uw_alias", 4), fault.BadConfig, "alias of uw_other")
	assert.Zero(t, f.n("Upsert")+f.n("CreateCollection"), "a write went through an alias")
}

func TestImportsAreFoundByTheirPath(t *testing.T) {
	f := &fake{}
	for id, name := range []string{"a.parquet", "b.parquet", "b.parquet"} {
		f.tasks = append(f.tasks, &milvuspb.GetImportStateResponse{Status: &commonpb.Status{}, Id: int64(id),
			Infos: []*commonpb.KeyValuePair{{Key: "files", Value: name}}})
	}
	got, err := connect(t, f).ListImports(t.Context(), "uw_c")
	require.NoError(t, err)
	assert.Equal(t, map[string][]string{"a.parquet": {"0"}, "b.parquet": {"1", "2"}}, got)
}

func TestNoServerNamesTheSetting(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	wants(t, second(milvus.Open(ctx, milvus.Config{URL: "milvus://127.0.0.1:1"})), fault.StoreDown, "stores.vectors")
	wants(t, second(milvus.Open(ctx, milvus.Config{URL: "http://127.0.0.1:1"})), fault.BadConfig, "milvus://")
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
		store, err := milvus.Open(t.Context(), milvus.Config{URL: url, Index: index})
		require.NoError(t, err)
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

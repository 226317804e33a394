// Package milvus is the vectors adapter over Milvus through milvus-sdk-go/v2, which is archived; its faults are guarded
// against here (docs/decisions/0005), so that the newer client can replace it behind the port:
//
//   - errors that come in Status.Code alone are made errors (guard.go);
//   - the SDK's own retries, which would send a write twice or spend half a minute on a message that is too large, are
//     off;
//   - every call has a deadline, as a server that is connected and silent is waited for otherwise;
//   - loads are polled by us, with a deadline and an end at the first error;
//   - nothing is written or searched through an alias, whose schema the SDK would keep from before a switch;
//   - collections are listed without the SDK, which drops names that come without ids;
//   - keys are quoted in expressions; batches are cut by bytes.
package milvus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/milvus-io/milvus-proto/go-api/v2/commonpb"
	"github.com/milvus-io/milvus-proto/go-api/v2/milvuspb"
	"github.com/milvus-io/milvus-proto/go-api/v2/schemapb"
	"github.com/milvus-io/milvus-sdk-go/v2/client"
	"github.com/milvus-io/milvus-sdk-go/v2/entity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// The fields of a collection. The names are those of the vectors segments' columns: the files are imported as they are.
const (
	fieldKey    = "key"
	fieldVector = "vector"
	maxKey      = 128
)

// batchBytes bounds one write: Milvus refuses messages over 64 MiB, and is advised to get 20 to 40.
const batchBytes = 16 << 20

// keysPerQuery bounds the expression of a look-up by key.
const keysPerQuery = 1000

// maxTopK is what Milvus answers at most.
const maxTopK = 16384

// loadDeadline bounds the wait for a collection to be loaded.
const loadDeadline = 30 * time.Minute

// Config of a store.
type Config struct {
	URL   string // milvus://[user:password@]host:port[/db]; milvus+tls:// with TLS
	Index string // hnsw or ivf

	Timeout time.Duration // of one call; longRunning ones have ten times as long. 0 = 1 minute
}

// Store implements vectors.Store and vectors.Importer.
type Store struct {
	c     client.Client
	raw   milvuspb.MilvusServiceClient
	name  string
	index string
}

var (
	_ vectors.Store    = (*Store)(nil)
	_ vectors.Importer = (*Store)(nil)
	_ vectors.Sealer   = (*Store)(nil)
)

// Open connects, or says why not.
func Open(ctx context.Context, config Config) (*Store, error) {
	u, err := url.Parse(config.URL)
	if err != nil || u.Host == "" || (u.Scheme != "milvus" && u.Scheme != "milvus+tls") {
		return nil, fault.BadConfig.At("parse", "stores.vectors").
			Because("it does not have the form milvus://host:port/db")
	}
	host := u.Host
	if u.Port() == "" {
		host += ":19530"
	}
	store := &Store{name: u.Redacted(), index: config.Index}
	creds := insecure.NewCredentials()
	if u.Scheme == "milvus+tls" {
		creds = credentials.NewTLS(nil) // TLS 1.2 or newer, and the authorities of the system
	}
	cfg := client.Config{
		Address:        host,
		DBName:         strings.Trim(u.Path, "/"),
		RetryRateLimit: &client.RetryRateLimitOption{MaxRetry: 0},
		DialOptions: []grpc.DialOption{
			grpc.WithTransportCredentials(creds), // given last, it wins over the SDK's
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
			grpc.WithChainUnaryInterceptor(newGuard(config.Timeout)),
		},
	}
	if u.User != nil {
		cfg.Username = u.User.Username()
		cfg.Password, _ = u.User.Password()
	}
	err = retry.Do(ctx, func(ctx context.Context) error {
		cctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		var err error
		store.c, err = client.NewClient(cctx, cfg)
		return store.wrapError(ctx, "connect to", store.name, err)
	})
	if err != nil {
		return nil, err
	}
	g, ok := store.c.(*client.GrpcClient)
	if !ok {
		return nil, fault.Internal.At("connect to", store.name).Because("the SDK's client is of another type")
	}
	store.raw = g.Service
	return store, nil
}

// Close closes the connection.
func (s *Store) Close() error { return s.c.Close() }

// Ping asks for the server's health.
func (s *Store) Ping(ctx context.Context) error {
	r, err := s.raw.CheckHealth(ctx, &milvuspb.CheckHealthRequest{})
	if err == nil && !r.GetIsHealthy() {
		err = errors.New("not healthy: " + strings.Join(r.GetReasons(), ", "))
	}
	return s.wrapError(ctx, "ping", s.name, err)
}

// fetchDescription returns what Milvus says about a collection by its name, not by an alias.
func (s *Store) fetchDescription(ctx context.Context, name string) (*milvuspb.DescribeCollectionResponse, error) {
	response, err := s.raw.DescribeCollection(ctx, &milvuspb.DescribeCollectionRequest{CollectionName: name})
	if err != nil {
		return nil, s.wrapError(ctx, "describe collection", name, err)
	}
	if n := response.GetCollectionName(); n != "" && n != name {
		return nil, fault.BadConfig.At("use collection", name).
			Because("it is an alias of " + n).
			Advise("drop the alias: its name belongs to a collection of this installation")
	}
	return response, nil
}

// Identity implements vectors.Store: the number of the collection, which no other one gets, when it was made, and its
// dimension, since small servers number all of them the same.
func (s *Store) Identity(ctx context.Context, name string) (string, error) {
	response, dim, err := s.describeSchema(ctx, name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d-%d-%d", response.GetCollectionID(), response.GetCreatedTimestamp(), dim), nil
}

// describeSchema returns what Milvus says about a collection, and its dimension. One of another schema is
// fault.NotFound: no row of it can be used.
func (s *Store) describeSchema(ctx context.Context, name string) (*milvuspb.DescribeCollectionResponse, int, error) {
	response, err := s.fetchDescription(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	dim := dimensionOf(response.GetSchema().GetFields())
	if dim == 0 {
		return nil, 0, newDamageFault(name, "its schema is not that of vectors by key")
	}
	return response, dim, nil
}

// dimensionOf returns the dimension of a collection that has the fields which Create gives it, 0 of another.
func dimensionOf(fields []*schemapb.FieldSchema) (dim int) {
	for _, field := range fields {
		kind, unusual := field.GetDataType(), field.GetAutoID() || field.GetIsPartitionKey()
		switch {
		case field.GetName() == fieldKey && kind == schemapb.DataType_VarChar && field.GetIsPrimaryKey() && !unusual:
		case field.GetName() == fieldVector && kind == schemapb.DataType_FloatVector:
			for _, param := range field.GetTypeParams() {
				if param.GetKey() == "dim" {
					dim, _ = strconv.Atoi(param.GetValue()) // 0 is no dimension
				}
			}
		default:
			return 0
		}
	}
	if len(fields) != 2 {
		return 0
	}
	return dim
}

// newDamageFault returns the error of a collection that was made by something else than Create.
func newDamageFault(name, why string) error {
	return fault.NotFound.At("use collection", name).
		Because("it is damaged: " + why).
		Advise("reload it with: unweaver restore --all")
}

// Create implements vectors.Store. A crash between the collection and its index is mended by the next call.
func (s *Store) Create(ctx context.Context, name string, dim int) error {
	response, err := s.fetchDescription(ctx, name)
	if have := dimensionOf(response.GetSchema().GetFields()); err == nil && have != dim {
		slog.Warn("a damaged collection is recreated empty", "collection", name, "dimension", have, "want", dim)
		if err = s.Drop(ctx, name); err == nil {
			err = s.createCollection(ctx, name, dim)
		}
	} else if fault.Is(err, fault.NotFound) {
		err = s.createCollection(ctx, name, dim)
	}
	if err != nil {
		return err
	}
	return s.ensureIndex(ctx, name)
}

func (s *Store) createCollection(ctx context.Context, name string, dim int) error {
	key := entity.NewField().WithName(fieldKey).WithDataType(entity.FieldTypeVarChar).
		WithIsPrimaryKey(true).WithIsAutoID(false).WithMaxLength(maxKey)
	vector := entity.NewField().WithName(fieldVector).WithDataType(entity.FieldTypeFloatVector).WithDim(int64(dim))
	schema := entity.NewSchema().WithName(name).WithDescription("unweaver").WithField(key).WithField(vector)
	err := s.c.CreateCollection(ctx, schema, 1, client.WithConsistencyLevel(entity.ClBounded))
	if err = s.wrapError(ctx, "create collection", name, err); err != nil {
		if _, d, derr := s.describeSchema(ctx, name); derr == nil && d == dim { // another worker was faster
			return nil
		}
	}
	return err
}

func (s *Store) ensureIndex(ctx context.Context, name string) error {
	r, err := s.raw.DescribeIndex(ctx, &milvuspb.DescribeIndexRequest{CollectionName: name, FieldName: fieldVector})
	if err == nil && len(r.GetIndexDescriptions()) > 0 {
		return nil
	}
	var se *statusError
	if err != nil && (!errors.As(err, &se) || !se.noIndex()) {
		return s.wrapError(ctx, "describe index of", name, err)
	}
	idx, err := s.indexOf()
	if err != nil {
		return err
	}
	return s.wrapError(ctx, "create index of", name, s.c.CreateIndex(ctx, name, fieldVector, idx, true))
}

func (s *Store) indexOf() (entity.Index, error) {
	if s.index == "ivf" {
		return entity.NewIndexIvfFlat(entity.IP, 1024)
	}
	return entity.NewIndexHNSW(entity.IP, 16, 200)
}

// Upsert implements vectors.Store. Rows are sent once; a failure is the caller's to repeat, which is harmless.
func (s *Store) Upsert(ctx context.Context, name string, rows []vectors.Row) error {
	_, dim, err := s.describeSchema(ctx, name)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := vectors.Check(row.Vector, dim, row.Key); err != nil {
			return err
		}
		if len(row.Key) > maxKey {
			return fault.Internal.At("write row to", name).Because("its key is longer than " + strconv.Itoa(maxKey))
		}
	}
	for rows = dropRepeated(rows); len(rows) > 0; {
		n, size := 0, 0
		for n < len(rows) && (n == 0 || size < batchBytes) {
			size += 4*dim + len(rows[n].Key) + 16
			n++
		}
		keys, vs := make([]string, n), make([][]float32, n)
		for i, r := range rows[:n] {
			keys[i], vs[i] = r.Key, r.Vector
		}
		_, err := s.c.Upsert(
			ctx,
			name,
			"",
			entity.NewColumnVarChar(fieldKey, keys),
			entity.NewColumnFloatVector(fieldVector, dim, vs),
		)
		if err != nil {
			return s.wrapError(ctx, "write rows to", name, err)
		}
		rows = rows[n:]
	}
	return nil
}

// dropRepeated leaves out repeated keys, which are undefined within one request; the rows are equal.
func dropRepeated(rows []vectors.Row) []vectors.Row {
	seen := make(map[string]bool, len(rows))
	out := make([]vectors.Row, 0, len(rows))
	for _, r := range rows {
		if !seen[r.Key] {
			seen[r.Key] = true
			out = append(out, r)
		}
	}
	return out
}

// matchKeys returns an expression for keys. They are quoted: the SDK's own does not.
func matchKeys(keys []string) string {
	var text strings.Builder
	text.WriteString(fieldKey + " in [")
	for i, k := range keys {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(quoteKey(k))
	}
	return text.String() + "]"
}

func quoteKey(k string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(k) + `"`
}

// Load implements vectors.Store.
func (s *Store) Load(ctx context.Context, name string) error {
	if err := s.loadCollection(ctx, name); err != nil {
		return err
	}
	_, err := s.Count(ctx, name) // at consistency Strong: what was written before is searched from now on
	return err
}

// loadCollection asks for the load and polls it: the SDK's own wait ends only with its context when a load fails.
func (s *Store) loadCollection(ctx context.Context, name string) error {
	if _, _, err := s.describeSchema(ctx, name); err != nil {
		return err
	}
	if err := s.ensureIndex(ctx, name); err != nil {
		return err
	}
	if err := s.c.LoadCollection(ctx, name, true); err != nil {
		return s.wrapError(ctx, "load", name, err)
	}
	for begin, wait := time.Now(), 20*time.Millisecond; ; wait = min(2*wait, time.Second) {
		st, err := s.raw.GetLoadState(ctx, &milvuspb.GetLoadStateRequest{CollectionName: name})
		if err != nil {
			return s.wrapError(ctx, "load", name, err)
		}
		switch st.GetState() {
		case commonpb.LoadState_LoadStateLoaded:
			return nil
		case commonpb.LoadState_LoadStateNotExist, commonpb.LoadState_LoadStateNotLoad:
			return fault.StoreDown.At("load", name).
				Because("Milvus gave the load up").
				Advise("check the log of Milvus: it may be short of memory")
		}
		if time.Since(begin) > loadDeadline {
			return fault.StoreDown.At("load", name).
				Because("it did not load within " + loadDeadline.String()).
				Advise("check the log of Milvus: it may be short of memory")
		}
		if err := retry.Wait(ctx, wait); err != nil {
			return err
		}
	}
}

// Seal implements vectors.Sealer: rows leave the write-ahead log for segments that get an index. Once a build: Milvus
// limits flushes to one in ten seconds.
func (s *Store) Seal(ctx context.Context, name string) error {
	err := s.c.Flush(ctx, name, true)
	if se, ok := errors.AsType[*statusError](err); ok && se.isRateLimit() {
		return nil // it will be sealed by Milvus's own rules; rows are durable and searched already
	}
	return s.wrapError(ctx, "flush", name, err)
}

// Delete implements vectors.Store.
func (s *Store) Delete(ctx context.Context, name string, keys []string) error {
	for lo := 0; lo < len(keys); lo += keysPerQuery {
		if err := s.c.Delete(ctx, name, "", matchKeys(keys[lo:min(lo+keysPerQuery, len(keys))])); err != nil {
			return s.wrapError(ctx, "delete rows of", name, err)
		}
	}
	return nil
}

// List implements vectors.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	response, err := s.raw.ShowCollections(ctx, &milvuspb.ShowCollectionsRequest{})
	if err != nil {
		return nil, s.wrapError(ctx, "list collections of", s.name, err)
	}
	var out []string
	for _, n := range response.GetCollectionNames() {
		if strings.HasPrefix(n, prefix) {
			out = append(out, n)
		}
	}
	sort.Strings(out)
	return out, nil
}

// Drop implements vectors.Store.
func (s *Store) Drop(ctx context.Context, name string) error {
	if _, err := s.fetchDescription(ctx, name); fault.Is(err, fault.NotFound) {
		return nil
	} else if err != nil {
		return err
	}
	err := s.wrapError(ctx, "drop", name, s.c.DropCollection(ctx, name))
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// Alias points an alias, for programs that read Milvus themselves, at a collection.
func (s *Store) Alias(ctx context.Context, alias, collection string) error {
	err := s.c.AlterAlias(ctx, collection, alias)
	if _, ok := errors.AsType[*statusError](err); ok {
		err = s.c.CreateAlias(ctx, collection, alias)
	}
	return s.wrapError(ctx, "point alias", fmt.Sprintf("%s at %s", alias, collection), err)
}

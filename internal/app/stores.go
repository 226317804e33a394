// Package app wires adapters to ports: which store and which model a configuration means. Only mains and the hosts
// that they start use it.
package app

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/blob/s3"
	"github.com/unweaver/unweaver/internal/store/coordination"
	coordinationbolt "github.com/unweaver/unweaver/internal/store/coordination/bolt"
	coordinationredis "github.com/unweaver/unweaver/internal/store/coordination/redis"
	"github.com/unweaver/unweaver/internal/store/events"
	"github.com/unweaver/unweaver/internal/store/records"
	recordsbolt "github.com/unweaver/unweaver/internal/store/records/bolt"
	recordsredis "github.com/unweaver/unweaver/internal/store/records/redis"
	"github.com/unweaver/unweaver/internal/store/redisconn"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
	"github.com/unweaver/unweaver/internal/store/vectors/milvus"
	"github.com/unweaver/unweaver/internal/telemetry/observe"
)

// Stores are the open stores of an installation.
type Stores struct {
	Artifacts    blob.Store
	Records      records.Store
	Coordination coordination.Store
	Vectors      vectors.Store
	Staging      blob.Store // where the vector store imports from; nil: it does not import
	StoreID      string

	places  config.Stores
	roots   roots
	s3      config.S3
	mu      sync.Mutex
	buckets map[string]blob.Store // corpora by URI: a client is worth keeping

	observer observe.Observer // nil: none
}

// SetObserver has an observer of every operation from now on. Call it once, before the stores are used.
func (s *Stores) SetObserver(observer observe.Observer) {
	s.observer = observer
	s.Artifacts = observe.Blob(s.Artifacts, observe.Artifacts, observer)
	s.Staging = observe.Blob(s.Staging, observe.Staging, observer)
	s.Records = observe.OfRecords(s.Records, observer)
	s.Coordination = observe.OfCoordination(s.Coordination, observer)
	s.Vectors = observe.OfVectors(s.Vectors, observer)
}

// Close closes what has to be closed.
func (s *Stores) Close() error {
	var err error
	if s.Records != nil {
		err = errors.Join(err, s.Records.Close())
	}
	if s.Coordination != nil {
		err = errors.Join(err, s.Coordination.Close())
	}
	if s.Vectors != nil {
		err = errors.Join(err, s.Vectors.Close())
	}
	return err
}

// FillPaths fills in paths below a data directory for the stores that the configuration does not name.
func FillPaths(stores config.Stores, dataDir string) config.Stores {
	or := func(s *string, name string) {
		if *s == "" {
			*s = filepath.Join(dataDir, name)
		}
	}
	or(&stores.Artifacts, "artifacts")
	or(&stores.Classes, "classes.bolt")
	or(&stores.Vectors, "vectors")
	return stores
}

// ListFolders lists the folders of this machine that the stores write to.
func (s *Stores) ListFolders() []string {
	var out []string
	for _, place := range []string{s.places.Artifacts, s.places.Vectors, s.places.Classes} {
		if place != "" && IsPath(place) {
			out = append(out, place)
		}
	}
	return out
}

// IsPath reports whether a place is a path, not a URL.
func IsPath(s string) bool { return !strings.Contains(s, "://") }

// Open opens the stores and makes sure that they belong together.
func Open(ctx context.Context, c config.Stores) (*Stores, error) {
	return OpenWatched(ctx, c, func(string) func() { return func() {} })
}

// OpenWatched opens the stores, and calls watch with the key of each before it opens it, and what that returns after.
func OpenWatched(ctx context.Context, c config.Stores, watch func(key string) (opened func())) (*Stores, error) {
	stores := &Stores{places: c, s3: c.S3, buckets: map[string]blob.Store{}}
	stores.roots.configured = c.CorpusRoots
	if err := stores.openStores(ctx, c, watch); err != nil {
		return nil, errors.Join(err, stores.Close())
	}
	return stores, nil
}

// speakNot makes the secrets of stores unspeakable: passwords in their URLs, and the keys of the AWS chain.
func speakNot(stores config.Stores) {
	for _, uri := range []string{stores.Artifacts, stores.Classes, stores.Vectors} {
		_, rest, _ := strings.Cut(uri, "://")
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			_, password, _ := strings.Cut(rest[:at], ":")
			plain, err := url.PathUnescape(password)
			if err != nil {
				plain = password
			}
			redact.Register(password, plain)
		}
	}
	redact.Register(os.Getenv("AWS_SECRET_ACCESS_KEY"), os.Getenv("AWS_SESSION_TOKEN"))
}

func (s *Stores) openStores(ctx context.Context, stores config.Stores, watch func(key string) func()) error {
	speakNot(stores)
	for _, part := range []struct {
		key  string
		open func(context.Context, config.Stores) error
	}{
		{"stores.artifacts", s.openArtifacts}, {"stores.classes", s.openClasses}, {"stores.vectors", s.openVectors},
	} {
		opened := watch(part.key)
		err := part.open(ctx, stores)
		if opened(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stores) openArtifacts(ctx context.Context, stores config.Stores) (err error) {
	if s.Artifacts, err = s.openBlob(ctx, stores.Artifacts, "stores.artifacts"); err != nil {
		return err
	}
	s.Artifacts = artifact.NewBranched(s.Artifacts)
	s.StoreID, err = artifact.OpenStoreID(ctx, s.Artifacts)
	return err
}

func (s *Stores) openVectors(ctx context.Context, stores config.Stores) error {
	opened, err := openVectors(ctx, stores)
	if err != nil {
		return err
	}
	s.Vectors = opened // not before: Close would close a nil pointer
	if stores.Milvus.Load == "import" && stores.Milvus.Bucket != "" {
		s.Staging, err = s.openBlob(ctx, "s3://"+stores.Milvus.Bucket, "stores.milvus.bucket")
	}
	return err
}

func openVectors(ctx context.Context, stores config.Stores) (vectors.Store, error) {
	switch scheme, _, isURL := strings.Cut(stores.Vectors, "://"); {
	case !isURL:
		return files.Open(stores.Vectors)
	case scheme == "milvus" || scheme == "milvus+tls":
		return milvus.Open(ctx, milvus.Config{URL: stores.Vectors, Index: stores.Milvus.Index})
	default:
		return nil, unknownURL("stores.vectors", scheme, "milvus://, milvus+tls:// or a path")
	}
}

// OpenArtifacts opens the artifact store alone, for what needs nothing else.
func OpenArtifacts(ctx context.Context, c config.Stores) (blob.Store, error) {
	stores := &Stores{s3: c.S3, buckets: map[string]blob.Store{}}
	store, err := stores.openBlob(ctx, c.Artifacts, "stores.artifacts")
	if err != nil {
		return nil, err
	}
	return artifact.NewBranched(store), nil
}

// runsSuffix names the file of running builds beside that of records.
const runsSuffix = ".runs"

// openClasses opens the stores of records and of coordination, which lie in one place.
func (s *Stores) openClasses(ctx context.Context, stores config.Stores) error {
	if err := s.openRecords(ctx, stores.Classes); err != nil {
		return err
	}
	return s.Records.RecordOwner(ctx, s.StoreID)
}

func (s *Stores) openRecords(ctx context.Context, place string) error {
	switch scheme, _, isURL := strings.Cut(place, "://"); {
	case !isURL:
		records, err := recordsbolt.Open(place)
		if err != nil {
			return err
		}
		s.Records = records
		runs, err := coordinationbolt.Open(place + runsSuffix)
		if err != nil {
			return err
		}
		s.Coordination = runs
	case scheme == "redis" || scheme == "rediss" || scheme == "redis+cluster" || scheme == "rediss+cluster":
		conn, err := redisconn.Open(ctx, place)
		if err != nil {
			return err
		}
		s.Records, s.Coordination = recordsredis.New(conn), coordinationredis.New(conn)
	default:
		return unknownURL(
			"stores.classes", scheme, "redis://, rediss://, redis+cluster://, rediss+cluster:// or a path",
		)
	}
	return nil
}

func unknownURL(setting, scheme, known string) error {
	return fault.BadConfig.At("open", setting).Because(scheme + ":// names no adapter").Advise("use " + known)
}

func (s *Stores) openBlob(ctx context.Context, uri, setting string) (blob.Store, error) {
	if IsPath(uri) {
		return dir.Open(uri)
	}
	if !strings.HasPrefix(uri, "s3://") {
		scheme, _, _ := strings.Cut(uri, "://")
		return nil, unknownURL(setting, scheme, "s3://bucket/prefix or a path")
	}
	bucket, prefix, err := s3.Parse(uri)
	if err != nil {
		return nil, err
	}
	return s3.Open(
		ctx,
		s3.Config{
			Bucket:    bucket,
			Prefix:    prefix,
			Endpoint:  s.s3.Endpoint,
			Region:    s.s3.Region,
			PathStyle: s.s3.PathStyle,
			Setting:   setting,
		},
	)
}

// OpenQueue opens a queue of events by its URI.
func (s *Stores) OpenQueue(ctx context.Context, uri string) (*events.Queue, error) {
	return events.Open(ctx, uri, s.s3.Region)
}

// OpenCorpus opens a corpus by its URI; buckets are those of stores.s3.
func (s *Stores) OpenCorpus(ctx context.Context, uri string) (blob.Store, error) {
	if uri == "" {
		return nil, fault.CorpusMissing.At("open corpus", "").
			Because("no corpus is configured").
			Advise("give a folder or s3://bucket/prefix as an argument, or set indexes.<name>.corpus")
	}
	if IsPath(uri) {
		folder, err := s.roots.resolveInside(uri)
		if err != nil {
			return nil, err
		}
		store, err := dir.OpenCorpus(folder, s.ownPaths()...)
		if err != nil {
			return nil, err
		}
		return observe.Blob(store, observe.Corpus, s.observer), nil
	}
	if err := s.checkApart(uri); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.buckets[uri]; b != nil {
		return b, nil
	}
	store, err := s.openBlob(ctx, uri, "the corpus")
	if err == nil {
		store = observe.Blob(store, observe.Corpus, s.observer)
		s.buckets[uri] = store
	}
	return store, err
}

// OpenFolder makes a blob store in a folder.
func OpenFolder(path string) (blob.Store, error) { return dir.Open(path) }

// OpenRuns makes a store of the state of runs in a file.
func OpenRuns(path string) (coordination.Store, error) { return coordinationbolt.Open(path) }

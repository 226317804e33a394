// Package setup wires adapters to ports: which store and which model a configuration means. Only mains and the hosts that
// they start use it.
package setup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/blob"
	"github.com/unweaver/unweaver/internal/blob/dir"
	"github.com/unweaver/unweaver/internal/blob/s3"
	"github.com/unweaver/unweaver/internal/classes"
	"github.com/unweaver/unweaver/internal/classes/bolt"
	"github.com/unweaver/unweaver/internal/classes/redis"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/llm"
	"github.com/unweaver/unweaver/internal/llm/builtin"
	"github.com/unweaver/unweaver/internal/llm/limit"
	"github.com/unweaver/unweaver/internal/llm/openai"
	"github.com/unweaver/unweaver/internal/llm/recorded"
	"github.com/unweaver/unweaver/internal/vectors"
	"github.com/unweaver/unweaver/internal/vectors/files"
	"github.com/unweaver/unweaver/internal/vectors/milvus"
)

// Stores are the open stores of an installation.
type Stores struct {
	Artifacts blob.Store
	Classes   classes.Store
	Vectors   vectors.Store
	Staging   blob.Store // where the vector store imports from; nil: it does not import
	StoreID   string

	s3      config.S3
	mu      sync.Mutex
	buckets map[string]blob.Store // corpora by URI: a client is worth keeping
}

// Close closes what has to be closed.
func (s *Stores) Close() error {
	var err error
	if s.Classes != nil {
		err = s.Classes.Close()
	}
	if s.Vectors != nil {
		err = errors.Join(err, s.Vectors.Close())
	}
	return err
}

// Embedded fills in paths below a data directory for the stores that the configuration does not name.
func Embedded(c config.Stores, dataDir string) config.Stores {
	or := func(s *string, name string) {
		if *s == "" {
			*s = filepath.Join(dataDir, name)
		}
	}
	or(&c.Artifacts, "artifacts")
	or(&c.Classes, "classes.bolt")
	or(&c.Vectors, "vectors")
	return c
}

// IsPath tells a path store from a URL.
func IsPath(s string) bool { return !strings.Contains(s, "://") }

// Open opens the stores and makes sure that they belong together.
func Open(ctx context.Context, c config.Stores) (*Stores, error) {
	s := &Stores{s3: c.S3, buckets: map[string]blob.Store{}}
	if err := s.open(ctx, c); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Stores) open(ctx context.Context, c config.Stores) (err error) {
	if s.Artifacts, err = s.blob(ctx, c.Artifacts, "stores.artifacts"); err != nil {
		return err
	}
	if s.StoreID, err = artifact.StoreID(ctx, s.Artifacts); err != nil {
		return err
	}
	switch scheme, _, url := strings.Cut(c.Classes, "://"); {
	case !url:
		s.Classes, err = bolt.Open(c.Classes)
	case scheme == "redis" || scheme == "rediss" || scheme == "redis+cluster" || scheme == "rediss+cluster":
		s.Classes, err = redis.Open(ctx, c.Classes)
	default:
		err = unknownURL("stores.classes", scheme, "redis://, rediss://, redis+cluster://, rediss+cluster:// or a path")
	}
	if err != nil {
		return err
	}
	if err = s.Classes.Own(ctx, s.StoreID); err != nil {
		return err
	}
	switch scheme, _, url := strings.Cut(c.Vectors, "://"); {
	case !url:
		s.Vectors, err = files.Open(c.Vectors)
		return err
	case scheme == "milvus" || scheme == "milvus+tls":
		s.Vectors, err = milvus.Open(ctx, milvus.Config{URL: c.Vectors, Index: c.Milvus.Index})
	default:
		err = unknownURL("stores.vectors", scheme, "milvus://, milvus+tls:// or a path")
	}
	if err == nil && c.Milvus.Load == "import" && c.Milvus.Bucket != "" {
		s.Staging, err = s.blob(ctx, "s3://"+c.Milvus.Bucket, "stores.milvus.bucket")
	}
	return err
}

func unknownURL(setting, scheme, known string) error {
	return fault.New(fault.BadConfig, fault.Bad, "open", setting, scheme+":// names no adapter", "use "+known)
}

func (s *Stores) blob(ctx context.Context, uri, setting string) (blob.Store, error) {
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
	return s3.Open(ctx, s3.Config{Bucket: bucket, Prefix: prefix, Endpoint: s.s3.Endpoint, Region: s.s3.Region, PathStyle: s.s3.PathStyle, Setting: setting})
}

// Corpus opens a corpus by its URI; buckets are those of stores.s3.
func (s *Stores) Corpus(ctx context.Context, uri string) (blob.Store, error) {
	if uri == "" {
		return nil, fault.New(fault.CorpusMissing, fault.Bad, "open corpus", "", "none is configured", "give a folder or s3://bucket/prefix as argument, or set indexes.<name>.corpus")
	}
	if IsPath(uri) {
		return dir.OpenCorpus(uri)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.buckets[uri]; b != nil {
		return b, nil
	}
	b, err := s.blob(ctx, uri, "the corpus")
	if err == nil {
		s.buckets[uri] = b
	}
	return b, err
}

// Models makes models of configurations, with one gate an endpoint over the whole process.
type Models struct {
	shared   classes.Coordination
	mu       sync.Mutex
	gates    map[string]*limit.Gate
	recorded map[string]*recorded.Chat
}

// NewModels makes a factory over the shared limits.
func NewModels(shared classes.Coordination) *Models {
	return &Models{shared: shared, gates: map[string]*limit.Gate{}, recorded: map[string]*recorded.Chat{}}
}

func (m *Models) limits(endpoint string, l corpus.Limits) limit.Limits {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.gates[endpoint]
	if g == nil {
		g = limit.NewGate(l.Concurrency)
		m.gates[endpoint] = g
	}
	g.Resize(l.Concurrency)
	return limit.Limits{Gate: g, Shared: m.shared, PerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute}
}

// defaultURL of provider openai.
const defaultURL = "https://api.openai.com/v1"

func key(env, setting string) (string, error) {
	k := os.Getenv(env)
	if k == "" {
		return "", fault.New(fault.ModelAuth, fault.Fatal, "open model", setting, "variable "+env+" is empty", "set it for the worker and query-api, then resume")
	}
	return k, nil
}

// Chat makes the chat model of a spec.
func (m *Models) Chat(s corpus.Spec) (llm.Chat, error) {
	switch s.Chat.Provider {
	case "builtin":
		return builtin.Chat{}, nil
	case "recorded":
		m.mu.Lock()
		defer m.mu.Unlock()
		if c := m.recorded[s.Chat.File]; c != nil {
			return c, nil
		}
		c, err := recorded.Open(s.Chat.File)
		if err == nil {
			m.recorded[s.Chat.File] = c
		}
		return c, err
	}
	k, err := key(s.Chat.APIKeyEnv, "models.chat")
	if err != nil {
		return nil, err
	}
	url := s.Chat.BaseURL
	if url == "" {
		url = defaultURL
	}
	return limit.Chat{Chat: openai.New(openai.Config{BaseURL: url, APIKey: k, Model: s.Chat.Model}), Limits: m.limits("chat "+url, s.Limits)}, nil
}

// Embedder makes the embedder of a fingerprint's provider and model, with the spec's endpoint.
func (m *Models) Embedder(s corpus.Spec, provider string, dimension int) (llm.Embedder, error) {
	if provider == "builtin" {
		return builtin.Embedder{}, nil
	}
	k, err := key(s.Embedding.APIKeyEnv, "models.embedding")
	if err != nil {
		return nil, err
	}
	url := s.Embedding.BaseURL
	if url == "" {
		url = defaultURL
	}
	e := openai.NewEmbedder(openai.Config{BaseURL: url, APIKey: k, Model: s.Embedding.Model, Dimension: dimension})
	return limit.Embedder{Embedder: e, Limits: m.limits("embed "+url, s.Limits)}, nil
}

// Build makes what activities of a build need.
func (m *Models) Build(s corpus.Spec) (llm.Set, error) {
	var out llm.Set
	var err error
	if out.Chat, err = m.Chat(s); err != nil {
		return out, err
	}
	if out.Chunks, err = m.Embedder(s, s.Embedding.Provider, s.Embedding.Dimension); err != nil {
		return out, err
	}
	out.Classes = out.Chunks
	if s.Embedding.Classes == "lexical" {
		out.Classes = builtin.Embedder{}
	}
	return out, nil
}

// NoPaths refuses path stores for a program that shares its stores with others.
func NoPaths(c config.Stores, program string) error {
	for _, x := range [][2]string{{"stores.artifacts", c.Artifacts}, {"stores.classes", c.Classes}, {"stores.vectors", c.Vectors}} {
		why := x[0] + " is a path (" + x[1] + "): its files have one owner"
		if x[1] == "" {
			why = x[0] + " is not set"
		}
		if IsPath(x[1]) {
			return fault.New(fault.BadConfig, fault.Bad, "start", program, why, "use unweaver dev, which runs every part in one process, or set URLs")
		}
	}
	return nil
}

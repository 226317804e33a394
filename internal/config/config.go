// Package config reads the one configuration: a YAML file, over it variables UNWEAVER_<PATH>, over those --set
// path=value. Unknown keys are errors, keys that have no effect yet are refused, and all mistakes are reported at once
// with line and column.
//
// Types say which keys there are, keys.go says of each what it means and which values it takes. Checks, the reference
// (docs/reference/configuration.md), the file that `unweaver config init` writes and what `unweaver config show` prints
// are all made from these two.
package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/methods/aliases"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/model/batch"
	"github.com/unweaver/unweaver/internal/model/neural"
)

// Config is the whole file. What a build is computed from has the types of package core: their JSON names are the keys.
type Config struct {
	Engine   Engine           `yaml:"engine"`
	QueryAPI QueryAPI         `yaml:"query_api"`
	Worker   Worker           `yaml:"worker"`
	Notify   Notify           `yaml:"notify"`
	Stores   Stores           `yaml:"stores"`
	Models   Models           `yaml:"models"`
	Limits   Limits           `yaml:"limits"`
	Indexes  map[string]Index `yaml:"indexes"`

	Telemetry Telemetry `yaml:"telemetry"`

	places map[string]place // of every value that was given, by path
	source Source           // what it was loaded from
}

// Engine says where Temporal is.
type Engine struct {
	Address    string     `yaml:"address"`
	Namespace  string     `yaml:"namespace"`
	TaskQueue  string     `yaml:"task_queue"`
	TLS        bool       `yaml:"tls"`
	TLSCA      string     `yaml:"tls_ca"`
	TLSCert    string     `yaml:"tls_cert"`
	TLSKey     string     `yaml:"tls_key"`
	TLSServer  string     `yaml:"tls_server_name"`
	APIKeyEnv  string     `yaml:"api_key_env"`
	CodecKey   string     `yaml:"codec_key_file"` // empty: payloads are not encrypted
	Deployment Deployment `yaml:"deployment"`
}

// Deployment is the worker deployment version of Temporal that a worker reports.
type Deployment struct {
	Name      string `yaml:"name"`
	BuildID   string `yaml:"build_id"`
	Versioned bool   `yaml:"versioned"` // runs stay on the version that they began with
}

// QueryAPI says where queries are served, and to whom.
type QueryAPI struct {
	Address string      `yaml:"address"`
	Auth    string      `yaml:"auth"`   // auto, required or none
	Public  bool        `yaml:"public"` // auth none beyond loopback is meant
	Hosts   []string    `yaml:"hosts"`
	TLS     QueryTLS    `yaml:"tls"`
	Limits  QueryLimits `yaml:"limits"`
	CORS    QueryCORS   `yaml:"cors"`
	OIDC    QueryOIDC   `yaml:"oidc"`
	Indexes OpenIndexes `yaml:"indexes"`

	Control     bool  `yaml:"control"`      // build, steer and upload over /v1
	UploadBytes int64 `yaml:"upload_bytes"` // of one document

	InternalAddress string  `yaml:"internal_address"` // of probes and metrics, without a key; empty: nowhere
	Quotas          []Quota `yaml:"quotas"`           // of keys; the first that matches counts
}

// OpenIndexes bounds what query-api holds open.
type OpenIndexes struct {
	Bytes int64    `yaml:"bytes"` // 0: half of the memory
	Ahead []string `yaml:"ahead"` // opened at start; empty: the first by name
}

// QueryCORS names the web pages of other origins whose scripts may ask.
type QueryCORS struct {
	Origins []string `yaml:"origins"`
}

// QueryTLS names the files of a certificate, or an authority that issues one.
type QueryTLS struct {
	Cert string    `yaml:"cert"`
	Key  string    `yaml:"key"`
	ACME QueryACME `yaml:"acme"`
}

// QueryACME has certificates issued by an authority that speaks ACME.
type QueryACME struct {
	Domains []string `yaml:"domains"`
	Email   string   `yaml:"email"`
	Cache   string   `yaml:"cache"` // folder
}

// IsOn reports whether query-api itself speaks TLS.
func (t QueryTLS) IsOn() bool { return t.Cert != "" || len(t.ACME.Domains) > 0 }

// QueryLimits bound what one key, or one address without a key, may ask of one process. 0 is no bound.
type QueryLimits struct {
	RequestsPerSecond float64 `yaml:"requests_per_second"`
	Burst             int     `yaml:"burst"`
	Concurrency       int     `yaml:"concurrency"`
	AnswersPerMinute  float64 `yaml:"answers_per_minute"`
	AnswerMoneyPerDay float64 `yaml:"answer_money_per_day"`
	Connections       int     `yaml:"connections"` // of the process, for all callers
}

// Worker sizes one worker process.
type Worker struct {
	Role       string `yaml:"role"`        // all, io or cpu
	Slots      int    `yaml:"slots"`       // activities at once that mostly wait; see Config.Slots
	Pollers    int    `yaml:"pollers"`     // long polls a task queue
	CacheBytes int64  `yaml:"cache_bytes"` // bound of the files that are mapped from the artifact store
	CacheDir   string `yaml:"cache_dir"`
	CPU        int    `yaml:"cpu"` // computing activities at once; 0: one a processor
	Address    string `yaml:"address"`

	Workflows int `yaml:"workflow_cache"` // workflows kept between tasks; see Config.WorkflowCache
}

// Sizes of a worker that are derived from its machine and its models.
const (
	callsOfPart       = 8   // requests in flight of one activity that embeds, the least of those that call models
	partsForStores    = 8   // activities that wait for stores meanwhile
	slotsOfCore       = 32  // at most, beyond the least, as each activity reads, hashes and stores too
	workflowsOfCore   = 512 // whose state is kept
	mostKeptWorkflows = 10_000
)

// CountSlots returns how many activities one worker on a machine of so many cores runs at once, of those that mostly
// wait: worker.slots where it is given, else so many that one and a half times the models' concurrency is in flight, as
// far as the cores can feed it.
func (c *Config) CountSlots(cores int) int {
	if c.IsGiven("worker.slots") {
		return c.Worker.Slots
	}
	concurrency := c.Models.Limits.Concurrency
	for _, index := range append(slices.Collect(maps.Keys(c.Indexes)), "") {
		concurrency = max(concurrency, c.modelsOf(index).Limits.Concurrency)
		for _, role := range []string{core.RoleExtraction, core.RoleShortening} {
			concurrency = max(concurrency, c.ModelOf(index, role).Limits.Concurrency)
		}
	}
	want := (3*concurrency+2*callsOfPart-1)/(2*callsOfPart) + partsForStores
	return max(c.Worker.Slots, min(want, slotsOfCore*cores))
}

// WorkflowCache returns how many workflows one worker on a machine of so many cores keeps between their tasks.
func (c *Config) WorkflowCache(cores int) int {
	if c.Worker.Workflows > 0 {
		return c.Worker.Workflows
	}
	return min(workflowsOfCore*cores, mostKeptWorkflows)
}

// Stores are URLs; a path is the embedded adapter.
type Stores struct {
	Artifacts string `yaml:"artifacts"`
	Classes   string `yaml:"classes"`
	Vectors   string `yaml:"vectors"`
	Milvus    Milvus `yaml:"milvus"`
	S3        S3     `yaml:"s3"`

	CorpusRoots []string `yaml:"corpus_roots"`
}

// Milvus settings.
type Milvus struct {
	Load   string `yaml:"load"`
	Bucket string `yaml:"bucket"`
	Index  string `yaml:"index"`
}

// S3 settings; credentials come from the AWS default chain.
type S3 struct {
	Endpoint  string `yaml:"endpoint"`
	Region    string `yaml:"region"`
	PathStyle bool   `yaml:"path_style"`
}

// Models and their limits.
type Models struct {
	Chat      core.ChatModel   `yaml:"chat"` // of every role that sets nothing
	Embedding core.EmbedModel  `yaml:"embedding"`
	Rerank    core.RerankModel `yaml:"rerank"`

	Extraction core.ChatModel `yaml:"extraction"`
	Shortening core.ChatModel `yaml:"shortening"`
	Triples    core.ChatModel `yaml:"triples"`
	Answer     core.ChatModel `yaml:"answer"`
	Vision     core.ChatModel `yaml:"vision"`
	Judge      core.ChatModel `yaml:"judge"`

	Dir       string      `yaml:"dir"`
	Currency  string      `yaml:"currency"`
	Limits    core.Limits `yaml:"limits"`
	Endpoints []Endpoint  `yaml:"endpoints"`
}

// Index is one index. What its Models set wins over the general ones, key by key.
type Index struct {
	Corpus      string           `yaml:"corpus"`
	FollowLinks bool             `yaml:"follow_links"`
	Include     []string         `yaml:"include"`
	Enrich      []string         `yaml:"enrich"`
	Aliases     string           `yaml:"aliases"`
	Exclude     []string         `yaml:"exclude"`
	Documents   core.Documents   `yaml:"documents"`
	Chunking    core.Chunking    `yaml:"chunking"`
	Shortening  core.Shortening  `yaml:"shortening"`
	Gem         gem.Settings     `yaml:"gem"`
	Pairs       aliases.Settings `yaml:"pairs"`
	Extraction  core.Extraction  `yaml:"extraction"`
	Answer      core.Answering   `yaml:"answer"`
	Retrieval   core.Retrieval   `yaml:"retrieval"`
	Parity      bool             `yaml:"parity"`
	Keep        int              `yaml:"keep"`
	Grace       core.Duration    `yaml:"grace"`
	Budget      core.Budget      `yaml:"budget"`
	Failures    core.Failures    `yaml:"failures"`
	Gate        core.Gate        `yaml:"gate"`
	Schedule    Schedule         `yaml:"schedule"`
	Models      Models           `yaml:"models"`
	Notify      Notify           `yaml:"notify"`
	Freshness   Freshness        `yaml:"freshness"`
	Priority    Priority         `yaml:"priority"`
}

// Priority is the part of the workers that an index has of those that have work at the same time.
type Priority struct {
	Level  int     `yaml:"level"`  // 1 (first) to 5
	Weight float64 `yaml:"weight"` // among those of the same level
}

// Priority returns the priority of an index, configured or not.
func (c *Config) Priority(index string) Priority {
	if settings, ok := c.Indexes[index]; ok {
		return settings.Priority
	}
	return defaultIndex().Priority
}

// Schedule of an index: when it is built. No cron: nothing is scheduled.
type Schedule struct {
	Cron           string        `yaml:"cron"`
	Timezone       string        `yaml:"timezone"`
	Overlap        string        `yaml:"overlap"`
	Catchup        core.Duration `yaml:"catchup"`
	Jitter         core.Duration `yaml:"jitter"`
	PauseOnFailure bool          `yaml:"pause_on_failure"`
}

// Default returns the configuration without any file: everything embedded and built in.
func Default() *Config {
	return &Config{
		Engine: Engine{Address: "127.0.0.1:7233", Namespace: "default", TaskQueue: "unweaver"},
		QueryAPI: QueryAPI{Address: "127.0.0.1:8080", Auth: "auto", UploadBytes: 256 << 20,
			OIDC: QueryOIDC{
				GroupsClaim: "groups", Algorithms: []string{"RS256", "ES256"}, ClientScopes: []string{"openid"},
			},
			Limits: QueryLimits{
				RequestsPerSecond: 100, Burst: 200, Concurrency: 64, AnswersPerMinute: 120, Connections: 8192,
			}},
		Worker: Worker{Role: "all", Slots: 64, Pollers: 4, CacheBytes: 32 << 30, Address: "127.0.0.1:8081"},
		Notify: Notify{SecretEnv: "WEBHOOK_SECRET", On: []string{OnFailed, OnHeld, OnPaused, OnErrors}},
		Stores: Stores{Milvus: Milvus{Load: "import", Index: "hnsw"}, S3: S3{Region: "us-east-1"}},
		Models: Models{
			Chat: core.ChatModel{
				Provider: "builtin", APIKeyEnv: core.DefaultKeyVariable, Mode: "online",
				Timeout: core.DefaultModelTimeout,
				Batch: core.BatchMode{
					Deadline: core.Duration(20 * time.Hour), Poll: core.Duration(time.Minute),
					Requests: batch.MostRequests, Hourly: 2000, PricedAt: 0.5,
				},
			},
			Embedding: core.EmbedModel{
				Provider:       "builtin",
				APIKeyEnv:      core.DefaultKeyVariable,
				MaxInputTokens: 8192,
				Classes:        "auto",
				Timeout:        core.DefaultModelTimeout,
			},
			Rerank: core.RerankModel{Top: 30, Timeout: core.Duration(3 * time.Second)},
			Limits: core.Limits{Concurrency: 64},
		},
		Limits:  defaultLimits(),
		Indexes: map[string]Index{},
	}
}

// defaultIndex returns what an index starts from, whether the file names it or not.
func defaultIndex() Index {
	return Index{
		Documents: core.Documents{Hidden: omitHidden, Vision: core.Vision{Pages: noPages}, Parser: core.ParserServer{
			Provider: providerBuiltin, Kinds: []string{string(document.PDF)}, Timeout: core.Duration(5 * time.Minute),
		}},
		Chunking:   core.Chunking{Strategy: "text", Boundaries: "stable", MaxTokens: 1500},
		Shortening: core.Shortening{Threshold: 4000, Sample: 256},
		Gem:        gem.DefaultSettings,
		Pairs:      aliases.DefaultSettings,
		Extraction: core.Extraction{Share: 1, Language: core.LanguageAuto},
		Answer:     core.Answering{Style: core.StyleShort},
		Retrieval:  core.Retrieval{Method: "hybrid", Rule: "weighted", TopChunks: 5, Language: core.LanguageAuto},
		Keep:       3,
		Priority:   Priority{Level: 3, Weight: 1},
		Freshness:  Freshness{Debounce: core.Duration(10 * time.Second)},
		Grace:      core.Duration(24 * time.Hour),
		Failures:   core.Failures{Share: 0.01, DocumentsShare: 0.01, Floor: 5},
		Gate:       core.Gate{MaxRemoved: 0.2, MaxRecallDrop: 0.05},
		Schedule: Schedule{
			Timezone: "UTC",
			Overlap:  "skip",
			Catchup:  core.Duration(24 * time.Hour),
			Jitter:   core.Duration(5 * time.Minute),
		},
	}
}

// Spec resolves the configuration of an index: the file's, else the defaults; the index's models over the general ones.
// corpusURI wins over the configured corpus where it is not empty. Errors: fault.BadConfig of a file of examples that
// cannot be used.
func (c *Config) Spec(index, corpusURI string) (core.Spec, error) {
	settings, ok := c.Indexes[index]
	if !ok {
		settings = defaultIndex()
	}
	if corpusURI == "" {
		corpusURI = settings.Corpus
	}
	if settings.Parity {
		c.chunkLikeReference(index, &settings.Chunking)
	}
	models := c.modelsOf(index)
	if built, ok := neural.Find(models.Embedding.Model); ok && models.Embedding.Provider == providerBuiltin {
		models.Embedding.MaxInputTokens = built.FitTokens(models.Embedding.MaxInputTokens)
	}
	if models.Embedding.Classes == "auto" {
		models.Embedding.Classes = "model"
		if models.Embedding.Provider == providerBuiltin && models.Embedding.Model != "" {
			models.Embedding.Classes = "lexical"
		}
	}
	if models.Embedding.Timeout == core.DefaultModelTimeout {
		models.Embedding.Timeout = 0
	}
	if !models.Rerank.IsOn() {
		models.Rerank = core.RerankModel{}
	}
	settings.fitWriting()
	extraction, err := settings.resolveExtraction(index)
	if err != nil {
		return core.Spec{}, err
	}
	var read *core.Documents
	if settings.Documents.Hidden == omitHidden { // one spec for what reads the same
		settings.Documents.Hidden = ""
	}
	if settings.Documents.Parser.Provider != providerDocling {
		settings.Documents.Parser = core.ParserServer{}
	}
	if settings.Documents.Vision.Pages == noPages {
		settings.Documents.Vision.Pages = ""
	}
	if !strings.HasPrefix(corpusURI, "s3://") { // files have no tags
		settings.Documents.S3Tags = false
	}
	if len(settings.Documents.Encoding)+len(settings.Documents.Types) > 0 || settings.Documents.Hidden != "" ||
		settings.Documents.Attachments || settings.Documents.S3Tags || settings.Documents.Vision.Pages != "" ||
		settings.Documents.Parser.IsOn() || settings.Documents.Labels.IsOn() {
		read = &settings.Documents
	}
	spec := core.Spec{
		Documents:  read,
		Extraction: extraction,
		Answer:     settings.Answer,
		Index:      index,
		Corpus:     corpusURI,
		Chunking:   settings.Chunking,
		Shortening: settings.Shortening,
		Retrieval:  settings.Retrieval,
		Parity:     settings.Parity,
		Keep:       settings.Keep,
		Grace:      settings.Grace,
		Budget:     settings.Budget,
		Failures:   settings.Failures,
		Gate:       settings.Gate,
		Chat:       fitChat(models.Chat),
		Roles:      c.listRoles(index),
		Embedding:  models.Embedding,
		Rerank:     models.Rerank,
		Limits:     models.Limits,

		Currency:    models.Currency,
		FollowLinks: settings.FollowLinks,
		Include:     settings.Include,
		Enrich:      slices.Compact(slices.Sorted(slices.Values(settings.Enrich))),
		Aliases:     settings.Aliases,
		Exclude:     settings.Exclude,
	}
	enrich.SetSettings(&spec, gem.Name, settings.Gem, gem.DefaultSettings)
	enrich.SetSettings(&spec, aliases.Enrichment, settings.Pairs, aliases.DefaultSettings)
	return spec, nil
}

// chunkLikeReference cuts an index under parity as the reference does, except for what is configured.
func (c *Config) chunkLikeReference(index string, chunking *core.Chunking) {
	path := "indexes." + index + ".chunking."
	if !c.IsGiven(path + "strategy") {
		chunking.Strategy = "fixed"
	}
	if !c.IsGiven(path+"overlap") && chunking.Strategy == "fixed" {
		chunking.Overlap = min(128, chunking.MaxTokens-1)
	}
}

// modelsOf gives the models of an index: what the index sets, even zero, wins over the general value.
func (c *Config) modelsOf(index string) Models {
	models := c.Models
	prefix := "indexes." + index + ".models"
	c.layKeys(reflect.ValueOf(&models).Elem(), reflect.ValueOf(c.Indexes[index].Models), prefix, "")
	// A key of the general models goes to no server that the index names itself.
	for kind, of := range map[string]struct{ url, key *string }{
		".chat":      {&models.Chat.BaseURL, &models.Chat.APIKeyEnv},
		".embedding": {&models.Embedding.BaseURL, &models.Embedding.APIKeyEnv},
		".rerank":    {&models.Rerank.BaseURL, &models.Rerank.APIKeyEnv},
	} {
		if *of.url != "" && c.IsGiven(prefix+kind+".base_url") && !c.IsGiven(prefix+kind+".api_key_env") {
			*of.key = ""
		}
	}
	return models
}

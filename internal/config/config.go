// Package config reads the one configuration (DESIGN §10): a YAML file, over it variables UNWEAVER_<PATH>, over those
// --set path=value. Unknown keys are errors, and all mistakes are reported at once with line and column.
package config

import (
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
)

// Config is the whole file.
type Config struct {
	Engine   Engine           `yaml:"engine"`
	QueryAPI QueryAPI         `yaml:"query_api"`
	Stores   Stores           `yaml:"stores"`
	Models   Models           `yaml:"models"`
	Indexes  map[string]Index `yaml:"indexes"`

	places map[string]place
}

// Engine says where Temporal is.
type Engine struct {
	Address   string `yaml:"address"`
	Namespace string `yaml:"namespace"`
	TaskQueue string `yaml:"task_queue"`
	TLS       bool   `yaml:"tls"`
	APIKeyEnv string `yaml:"api_key_env"`
}

// QueryAPI says where queries are served.
type QueryAPI struct {
	Address string `yaml:"address"`
}

// Stores are URLs; a path is the embedded adapter.
type Stores struct {
	Artifacts string `yaml:"artifacts"`
	Classes   string `yaml:"classes"`
	Vectors   string `yaml:"vectors"`
	Milvus    Milvus `yaml:"milvus"`
	S3        S3     `yaml:"s3"`
}

// Milvus settings.
type Milvus struct {
	Load   string `yaml:"load"`   // import (first builds, through bucket) or insert
	Bucket string `yaml:"bucket"` // Milvus's own bucket, on the endpoint of stores.s3; empty: insert
	Index  string `yaml:"index"`  // hnsw or ivf
}

// S3 settings; credentials come from the AWS default chain.
type S3 struct {
	Endpoint  string `yaml:"endpoint"`
	Region    string `yaml:"region"`
	PathStyle bool   `yaml:"path_style"`
}

// Models and their limits.
type Models struct {
	Chat      Chat      `yaml:"chat"`
	Embedding Embedding `yaml:"embedding"`
	Limits    Limits    `yaml:"limits"`
}

// Chat model.
type Chat struct {
	Provider  string `yaml:"provider"`
	BaseURL   string `yaml:"base_url"`
	APIKeyEnv string `yaml:"api_key_env"`
	Model     string `yaml:"model"`
	Mode      string `yaml:"mode"`
	File      string `yaml:"file"`
	Price     Price  `yaml:"price"`
}

// Embedding model.
type Embedding struct {
	Provider       string `yaml:"provider"`
	BaseURL        string `yaml:"base_url"`
	APIKeyEnv      string `yaml:"api_key_env"`
	Model          string `yaml:"model"`
	Dimension      int    `yaml:"dimension"`
	MaxInputTokens int    `yaml:"max_input_tokens"`
	Classes        string `yaml:"classes"`
	Price          Price  `yaml:"price"`
}

// Price is money per million tokens.
type Price struct {
	Prompt     float64 `yaml:"prompt"`
	Completion float64 `yaml:"completion"`
}

// Limits over all workers, per endpoint; 0 = none.
type Limits struct {
	Concurrency       int `yaml:"concurrency"`
	RequestsPerMinute int `yaml:"requests_per_minute"`
	TokensPerMinute   int `yaml:"tokens_per_minute"`
}

// Index is one index; Models overrides the general ones.
type Index struct {
	Corpus     string     `yaml:"corpus"`
	Chunking   Chunking   `yaml:"chunking"`
	Shortening Shortening `yaml:"shortening"`
	Retrieval  Retrieval  `yaml:"retrieval"`
	Parity     bool       `yaml:"parity"`
	Keep       int        `yaml:"keep"`
	Grace      string     `yaml:"grace"`
	Budget     Budget     `yaml:"budget"`
	Failures   Failures   `yaml:"failures"`
	Gate       Gate       `yaml:"gate"`
	Schedule   Schedule   `yaml:"schedule"`
	Models     Models     `yaml:"models"`
}

// Chunking of an index.
type Chunking struct {
	Strategy   string `yaml:"strategy"`
	Boundaries string `yaml:"boundaries"`
	MaxTokens  int    `yaml:"max_tokens"`
	Overlap    int    `yaml:"overlap"`
}

// Shortening of an index.
type Shortening struct {
	Threshold int `yaml:"threshold"`
	Sample    int `yaml:"sample"`
}

// Retrieval defaults of an index.
type Retrieval struct {
	Method        string  `yaml:"method"`
	Rule          string  `yaml:"rule"`
	TopChunks     int     `yaml:"top_chunks"`
	Language      string  `yaml:"language"`
	MinSimilarity float64 `yaml:"min_similarity"`
}

// Budget of a run.
type Budget struct {
	Calls  int     `yaml:"calls"`
	Tokens int     `yaml:"tokens"`
	Money  float64 `yaml:"money"`
}

// Failures that a run may have and still publish.
type Failures struct {
	Share float64 `yaml:"share"`
	Count int     `yaml:"count"`
}

// Gate before publication.
type Gate struct {
	MaxRemoved    float64 `yaml:"max_removed"`
	Probes        string  `yaml:"probes"`
	MaxRecallDrop float64 `yaml:"max_recall_drop"`
}

// Schedule of an index.
type Schedule struct {
	Cron           string `yaml:"cron"`
	Timezone       string `yaml:"timezone"`
	Overlap        string `yaml:"overlap"`
	Catchup        string `yaml:"catchup"`
	Jitter         string `yaml:"jitter"`
	PauseOnFailure bool   `yaml:"pause_on_failure"`
}

// Default is the configuration without any file: everything embedded and built in.
func Default() *Config {
	return &Config{
		Engine:   Engine{Address: "127.0.0.1:7233", Namespace: "default", TaskQueue: "unweaver"},
		QueryAPI: QueryAPI{Address: "127.0.0.1:8080"},
		Stores:   Stores{Milvus: Milvus{Load: "import", Index: "hnsw"}, S3: S3{Region: "us-east-1"}},
		Models: Models{
			Chat: Chat{Provider: "builtin", APIKeyEnv: "OPENAI_API_KEY", Mode: "online"},
			Embedding: Embedding{
				Provider:       "builtin",
				APIKeyEnv:      "OPENAI_API_KEY",
				MaxInputTokens: 8192,
				Classes:        "model",
			}, Limits: Limits{Concurrency: 64},
		},
		Indexes: map[string]Index{},
	}
}

// defaultIndex is what an index that the file names starts from.
func defaultIndex() Index {
	return Index{
		Chunking:   Chunking{Strategy: "text", Boundaries: "stable", MaxTokens: 1500},
		Shortening: Shortening{Threshold: 4000, Sample: 256},
		Retrieval:  Retrieval{Method: "hybrid", Rule: "weighted", TopChunks: 5, Language: "en"},
		Keep:       3,
		Grace:      "24h",
		Failures:   Failures{Share: 0.01},
		Gate:       Gate{MaxRemoved: 0.2, MaxRecallDrop: 0.05},
		Schedule:   Schedule{Timezone: "UTC", Overlap: "skip", Catchup: "24h", Jitter: "5m"},
	}
}

// Spec resolves the configuration of an index: the file's, else the defaults; the index's models over the general ones.
// corpusURI wins over the configured corpus where it is not empty.
func (c *Config) Spec(index, corpusURI string) (corpus.Spec, error) {
	x, ok := c.Indexes[index]
	if !ok {
		x = defaultIndex()
	}
	if corpusURI == "" {
		corpusURI = x.Corpus
	}
	models := c.Models
	over(&models.Chat, x.Models.Chat)
	over(&models.Embedding, x.Models.Embedding)
	if x.Models.Limits != (Limits{}) {
		models.Limits = x.Models.Limits
	}
	grace, err := time.ParseDuration(x.Grace)
	if err != nil {
		grace = 24 * time.Hour // Validate refused it before
	}
	return corpus.Spec{
		Index:      index,
		Corpus:     corpusURI,
		Chunking:   corpus.Chunking(x.Chunking),
		Shortening: corpus.Shortening(x.Shortening),
		Retrieval:  corpus.Retrieval(x.Retrieval),
		Parity:     x.Parity,
		Keep:       x.Keep,
		Grace:      corpus.Duration(grace),
		Budget: corpus.Budget{
			Calls:  int64(x.Budget.Calls),
			Tokens: int64(x.Budget.Tokens),
			Money:  x.Budget.Money,
		},
		Failures: corpus.Failures{Share: x.Failures.Share, Count: x.Failures.Count},
		Gate:     corpus.Gate(x.Gate),
		Limits:   corpus.Limits(models.Limits),
		Chat: corpus.ChatModel{
			Provider:  models.Chat.Provider,
			BaseURL:   models.Chat.BaseURL,
			APIKeyEnv: models.Chat.APIKeyEnv,
			Model:     models.Chat.Model,
			Mode:      models.Chat.Mode,
			File:      models.Chat.File,
			Price:     corpus.Price(models.Chat.Price),
		},
		Embedding: corpus.EmbedModel{
			Provider:       models.Embedding.Provider,
			BaseURL:        models.Embedding.BaseURL,
			APIKeyEnv:      models.Embedding.APIKeyEnv,
			Model:          models.Embedding.Model,
			Dimension:      models.Embedding.Dimension,
			MaxInputTokens: models.Embedding.MaxInputTokens,
			Classes:        models.Embedding.Classes,
			Price:          corpus.Price(models.Embedding.Price),
		},
	}, nil
}

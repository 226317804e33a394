package config

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/model/batch"
	"github.com/unweaver/unweaver/internal/model/neural"
)

// Known values.
var (
	Methods     = []string{"hybrid", "unweaver", "ppr", "aligned", "vector", "bm25", "gem", "apr"}
	Rules       = []string{"weighted", "av", "sav", "pav", "seqpav", "cc", "seqcc", "phragmen", "mes"}
	Enrichments = []string{"facts", "gem", "aliases"}
	strategies  = []string{"text", "fixed", "document"}
)

// MethodEnrichments are the methods that answer from an enrichment alone, with its name.
var MethodEnrichments = map[string]string{"gem": "gem", "apr": "facts"}

// PlainMethods returns the methods that answer from every generation.
func PlainMethods() []string {
	return slices.DeleteFunc(slices.Clone(Methods), func(method string) bool { return MethodEnrichments[method] != "" })
}

// key describes what the types cannot say. Its default is that of Default, its type that of the field.
type key struct {
	path     string // * stands for the name of an index
	meaning  string
	unit     string
	example  string // a valid value other than the default; empty: true
	rebuilds string // what the next build does again after a change; empty: nothing
	rule     rule
}

// What a change of a key that the config digest covers costs. Every document is read and cut again; what is paid for is
// only what the ledger does not have.
const (
	again          = "the whole index; "
	paysChunks     = again + "pays for extraction and embedding of chunks whose text is new"
	paysLabels     = again + "pays for shortening and embedding of class texts that differ by labels, for no extraction"
	paysClasses    = again + "pays for shortening and embedding of classes whose text is new"
	paysParity     = again + "pays for extraction, shortening and embeddings with other prompts and texts"
	paysShare      = again + "pays for extraction of newly selected chunks"
	paysWriting    = again + "pays for extraction and shortening of texts that get another language"
	paysRequest    = again + "pays for extraction with another prompt, and for class texts that change"
	paysExtraction = again + "pays for extraction and shortening by the new model"
	paysEmbeddings = again + "pays for embeddings"
	paysLanguage   = again + "pays for class texts that change with the name rules"
)

const million = 1e6

var deploymentName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,200}$`)

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

var buildName = regexp.MustCompile(`^[A-Za-z0-9_.+-]{1,200}$`)

// keys lists every key once, in the order of the reference. A test holds it against the types.
var keys = slices.Concat(generalKeys, telemetryKeys, queryKeys, corsKeys, oidcKeys, quotaKeys, limitKeys, indexKeys,
	notifyKeys("indexes.*.notify.", "; empty: notify.webhook"), freshnessKeys)

var generalKeys = []key{
	{
		path:    "engine.address",
		meaning: "Temporal's frontend",
		example: "temporal:7233",
		rule:    requireAddress(false, 1),
	},
	{
		path:    "engine.namespace",
		meaning: "Temporal's namespace",
		example: "unweaver",
		rule:    notEmpty(),
	},
	{
		path:    "engine.task_queue",
		meaning: "task queue of workflows and activities; installations that share a namespace need one each",
		example: "unweaver-blue",
		rule:    notEmpty(),
	},
	{
		path:    "engine.tls",
		meaning: "connect with TLS (an API key implies it)",
	},
	{
		path:    "engine.tls_ca",
		meaning: "authorities that signed Temporal's certificate; empty: those of the system; implies tls",
		example: "/etc/unweaver/tls/ca.pem",
	},
	{
		path:    "engine.tls_cert",
		meaning: "certificate that this process presents to Temporal; requires tls_key, and implies tls",
		example: "/etc/unweaver/tls/client.pem",
	},
	{
		path:    "engine.tls_key",
		meaning: "private key of tls_cert",
		example: "/etc/unweaver/tls/client-key.pem",
	},
	{
		path:    "engine.tls_server_name",
		meaning: "host name that Temporal's certificate must have; empty: the host of address",
		example: "temporal",
	},
	{
		path:    "engine.api_key_env",
		meaning: "variable that holds the API key of Temporal Cloud",
		example: "TEMPORAL_API_KEY",
		rule:    allowEmpty(requireVariable()),
	},
	{
		path: "engine.codec_key_file",
		meaning: "key that encrypts payloads, memos, headers and failures in Temporal; anything not encrypted with it is " +
			"refused. Empty: no encryption. Every program of an installation uses the same file, mode 0600; to create it: " +
			"unweaver certs codec-key FILE. Change it only while no run is running",
		example: "/etc/unweaver/codec.key",
	},
	{
		path:    "engine.deployment.name",
		meaning: "worker deployment that this worker belongs to",
		example: "unweaver",
		rule:    allowEmpty(requireForm("letters, digits, - and _", deploymentName)),
	},
	{
		path:    "engine.deployment.build_id",
		meaning: "version of the worker within its deployment",
		example: "2026-11-22",
		rule:    allowEmpty(requireForm("letters, digits and - _ . +", buildName)),
	},
	{
		path:    "engine.deployment.versioned",
		meaning: "a run stays on the worker version that it started with; requires name and build_id",
	},
	{
		path:    "query_api.address",
		meaning: "address of query-api, also used by the command line; a URL if a proxy is in front of it",
		example: "0.0.0.0:8080",
		rule:    addressOrWeb(),
	},
	{
		path: "worker.role",
		meaning: "what a worker process takes: io: workflows, and activities that wait for models and stores; cpu: those " +
			"that fill a core (chunk, sealing of shards, reduce, segment), from the queue task_queue with -cpu behind it; " +
			"all: both. Each queue needs a worker; runs that began under older versions have the first alone",
		example: "cpu",
		rule:    oneOf("all", "io", "cpu"),
	},
	{
		path: "worker.slots",
		meaning: "concurrent activities of one worker process that wait for models and stores; by default more if " +
			"models.limits.concurrency allows it: up to 32 for each processor",
		unit:    "activities",
		example: "128",
		rule:    requireRange(1, 10000),
	},
	{
		path:    "worker.pollers",
		meaning: "concurrent long polls of one worker process for a task queue",
		unit:    "polls",
		example: "8",
		rule:    requireRange(1, 100),
	},
	{
		path:    "worker.workflow_cache",
		meaning: "workflows that one worker process keeps in memory between their steps; 0: 512 a processor, at most 10,000",
		unit:    "workflows",
		example: "2000",
		rule:    requireRange(0, 100000),
	},
	{
		path:    "worker.cache_bytes",
		meaning: "maximum size of the local cache of artifact files",
		unit:    "bytes",
		example: "8589934592",
		rule:    requireRange(64<<20, 1<<50),
	},
	{
		path: "worker.cache_dir",
		meaning: "folder of those files and of temporary ones, this user's alone; empty: unweaver/worker in the " +
			"user's folder of caches. Workers of one machine need one each",
		example: "/var/cache/unweaver",
	},
	{
		path:    "worker.cpu",
		meaning: "concurrent computing activities of one worker process; 0: one for each processor",
		unit:    "activities",
		example: "4",
		rule:    requireRange(0, 1024),
	},
	{
		path:    "stores.artifacts",
		meaning: "store of generations, and of the ledger of paid results",
		example: "s3://bucket/prefix",
		rule:    allowEmpty(requireLocation("s3")),
	},
	{
		path:    "stores.classes",
		meaning: "store of class records, and of coordination between processes",
		example: "redis://redis:6379/0",
		rule:    allowEmpty(requireLocation("redis", "rediss", "redis+cluster", "rediss+cluster")),
	},
	{
		path:    "stores.vectors",
		meaning: "vectors",
		example: "milvus://milvus:19530/default",
		rule:    allowEmpty(requireLocation("milvus", "milvus+tls")),
	},
	{
		path:    "stores.milvus.load",
		meaning: "how a first build loads vectors: import (through the bucket) or insert",
		example: "insert",
		rule:    oneOf("insert", "import"),
	},
	{
		path:    "stores.milvus.bucket",
		meaning: "bucket of Milvus, on the endpoint of stores.s3; empty: vectors are inserted",
		example: "milvus",
	},
	{
		path:    "stores.milvus.index",
		meaning: "index of new collections",
		example: "ivf",
		rule:    oneOf("hnsw", "ivf"),
	},
	{
		path:    "stores.s3.endpoint",
		meaning: "endpoint of S3 servers other than AWS; credentials come from the AWS default chain",
		example: "http://s3:8333",
		rule:    allowEmpty(requireURL()),
	},
	{
		path:    "stores.s3.region",
		meaning: "region; empty: that of the AWS default chain",
		example: "eu-central-1",
	},
	{
		path:    "stores.s3.path_style",
		meaning: "use the bucket in the path, not in the host name",
	},
	{
		path: "stores.corpus_roots",
		meaning: "directories below which corpora may lie that are paths; an installation of servers reads no other. " +
			"`unweaver dev` also reads those that its owner indexes on the command line",
		example: "[/data/docs]",
		rule:    requireDirectories(),
	},
	{
		path: "models.chat.provider",
		meaning: "who extracts, shortens, answers and judges, unless models.extraction, .shortening, .triples, .answer " +
			"or .judge, which have the same keys, name another. builtin: rules, no model; recorded: a recorded extraction " +
			"is replayed. models.vision, which has the same keys, transcribes pages and takes none of these",
		example:  "openai",
		rebuilds: paysExtraction,
		rule:     oneOf("builtin", "openai", "recorded"),
	},
	{
		path:    "models.chat.base_url",
		meaning: "an OpenAI-compatible server; empty: OpenAI's",
		example: "https://models.example/v1",
		rule:    allowEmpty(requireURL()),
	},
	{
		path: "models.chat.api_key_env",
		meaning: "variable that holds the API key; beside a base_url no key is sent where this is empty, or is " +
			"OPENAI_API_KEY and that is not set",
		example: "CHAT_API_KEY",
		rule:    allowEmpty(requireVariable()),
	},
	{
		path:     "models.chat.model",
		meaning:  "name of the model; provider openai requires it",
		example:  "gpt-4o-mini",
		rebuilds: paysExtraction,
	},
	{
		path: "models.chat.mode",
		meaning: "batch has extraction answered by the server's Batch API, within a day for less money; what is late or " +
			"refused, and all other calls, go online",
		example: "batch",
		rule:    oneOf("online", "batch"),
	},
	{
		path: "models.chat.batch.deadline",
		meaning: "time limit from the start of the build; requests without an answer by then are sent online, so that the " +
			"build ends in time. Running batches are cancelled, and their answers so far are used",
		example: "6h",
		rule:    requireDuration(time.Minute, 72*time.Hour),
	},
	{
		path:    "models.chat.batch.poll",
		meaning: "interval between status checks of running batches",
		example: "5m",
		rule:    requireDuration(100*time.Millisecond, time.Hour),
	},
	{
		path:    "models.chat.batch.tokens",
		meaning: "of prompts that may wait at the server at once, as its limit for the account says; 0: any number",
		unit:    "tokens",
		example: "2000000",
		rule:    requireRange(0, 1e12),
	},
	{
		path:    "models.chat.batch.requests",
		meaning: "maximum size of a request file",
		example: "10000",
		rule:    requireRange(1, batch.MostRequests),
	},
	{
		path:    "models.chat.batch.hourly",
		meaning: "maximum number of batches created within an hour",
		example: "500",
		rule:    requireRange(1, million),
	},
	{
		path: "models.chat.batch.folder",
		meaning: "folder in which another program answers files of requests (vllm run-batch), on the worker's machine; " +
			"empty: the Batch API of base_url",
		example: "/shared/batches",
	},
	{
		path:    "models.chat.batch.priced_at",
		meaning: "price of a batch's tokens, as a share of models.chat.price",
		example: "0.6",
		rule:    requireRange(0, 1),
	},
	{
		path:    "models.chat.file",
		meaning: "the recording; provider recorded requires it",
		example: "extractions.jsonl",
	},
	{
		path:    "models.chat.max_tokens",
		meaning: "maximum length of an answer; 0: 16384, plus two for each token of the request",
		unit:    "tokens",
		example: "8192",
		rule:    requireRange(0, million),
	},
	{
		path: "models.chat.trust_domain",
		meaning: "whose answers these are: paid results are shared within it, and a change pays for them again. " +
			"empty: base_url; none: all the same",
		example: "gateway",
	},
	modelTimeout("models.chat.timeout"),
	{
		path:    "models.chat.limits.concurrency",
		meaning: "as models.limits.concurrency, of this model's calls alone; 0: those are among the endpoint's",
		unit:    "calls",
		example: "16",
		rule:    requireRange(0, 100000),
	},
	{
		path:    "models.chat.limits.requests_per_minute",
		meaning: "as models.limits.requests_per_minute, of this model's calls; 0: the general one",
		unit:    "calls a minute",
		example: "500",
		rule:    requireRange(0, 1e9),
	},
	{
		path:    "models.chat.limits.tokens_per_minute",
		meaning: "as models.limits.tokens_per_minute, of this model's calls; 0: the general one",
		unit:    "tokens a minute",
		example: "200000",
		rule:    requireRange(0, 1e12),
	},
	newPriceKey("models.chat.price.prompt", "price of prompt tokens"),
	newPriceKey("models.chat.price.completion", "price of completion tokens"),
	{
		path:     "models.embedding.provider",
		meaning:  "who embeds classes, chunks and questions. builtin: lexical vectors, or the model inside that is named",
		example:  "openai",
		rebuilds: paysEmbeddings,
		rule:     oneOf("builtin", "openai"),
	},
	{
		path:    "models.embedding.base_url",
		meaning: "an OpenAI-compatible server; empty: OpenAI's",
		example: "https://models.example/v1",
		rule:    allowEmpty(requireURL()),
	},
	{
		path: "models.embedding.api_key_env",
		meaning: "variable that holds the API key; beside a base_url no key is sent where this is empty, or is " +
			"OPENAI_API_KEY and that is not set",
		example: "EMBEDDING_API_KEY",
		rule:    allowEmpty(requireVariable()),
	},
	{
		path: "models.embedding.model",
		meaning: "the model; provider openai needs it. Provider builtin: " + strings.Join(neural.Names(), ", ") +
			" (`unweaver models pull` fetches the weights); empty: lexical vectors",
		example:  "e5",
		rebuilds: paysEmbeddings,
	},
	{
		path:     "models.embedding.dimension",
		meaning:  "vector dimension; 0: that of the model, the only choice for built-in models",
		unit:     "numbers",
		example:  "512",
		rebuilds: paysEmbeddings,
		rule:     requireRange(0, 32768),
	},
	{
		path:     "models.embedding.max_input_tokens",
		meaning:  "longest input; longer chunks get several windows. 0: no bound; models inside have one of their own",
		unit:     "tokens",
		example:  "512",
		rebuilds: paysEmbeddings,
		rule:     requireRange(0, million),
	},
	{
		path: "models.embedding.classes",
		meaning: "who embeds classes: the model, or lexical: the built-in embedder; auto: lexical beside a model " +
			"inside, which takes minutes for what hardly finds more, else the model",
		example:  "lexical",
		rebuilds: paysEmbeddings,
		rule:     oneOf("auto", "model", "lexical"),
	},
	{
		path:    "models.embedding.trust_domain",
		meaning: "like models.chat.trust_domain, for vectors",
		example: "gateway",
	},
	modelTimeout("models.embedding.timeout"),
	newPriceKey("models.embedding.price.prompt", "price of input tokens"),
	newPriceKey("models.embedding.price.completion", "no effect: embeddings have no completion tokens"),
	{
		path: "models.dir",
		meaning: "folder with the weights of models inside, read by worker and query-api; empty: unweaver/models in the " +
			"user's folder of caches. An image may bring it",
		example: "/models",
	},
	{
		path: "models.rerank.provider",
		meaning: "who orders the best chunks of a query again, reading question and chunk together. empty: none; http: a " +
			"server of POST {base_url}/rerank, as vLLM, text-embeddings-inference, Jina and Cohere have it. Like every " +
			"key of rerank it counts from the next published generation on; a query may leave it out (`rerank: false`)",
		example: "http",
		rule:    allowEmpty(oneOf("http")),
	},
	{
		path:    "models.rerank.base_url",
		meaning: "URL of the server, without /rerank; provider http requires it",
		example: "http://reranker:8000/v1",
		rule:    allowEmpty(requireURL()),
	},
	{
		path:    "models.rerank.api_key_env",
		meaning: "variable that holds the API key; empty: no key is sent",
		example: "RERANK_API_KEY",
		rule:    allowEmpty(requireVariable()),
	},
	{
		path:    "models.rerank.model",
		meaning: "name of the model; optional if the server has only one",
		example: "BAAI/bge-reranker-v2-m3",
	},
	{
		path: "models.rerank.top",
		meaning: "the best chunks that are sent, and more where a query asks for more; text-embeddings-inference takes 32 " +
			"unless its settings say otherwise",
		unit:    "chunks",
		example: "50",
		rule:    requireRange(2, 100),
	},
	{
		path:    "models.rerank.max_input_tokens",
		meaning: "approximate maximum of each chunk that is sent; 0: no limit",
		unit:    "tokens",
		example: "400",
		rule:    requireRange(0, million),
	},
	{
		path:    "models.rerank.timeout",
		meaning: "time limit of reranking; after it the original order is kept",
		example: "1s",
		rule:    requireDuration(50*time.Millisecond, 8*time.Second),
	},
	newPriceKey("models.rerank.price.prompt", "price of question and chunks"),
	{
		path:    "models.rerank.price.call",
		meaning: "price of a request, if the server charges by request",
		unit:    "money",
		example: "0.002",
		rule:    requireRange(0, million),
	},
	{
		path:    "models.currency",
		meaning: "currency of prices, costs and money budgets; it is only a label, nothing is converted",
		example: "EUR",
		rule:    allowEmpty(requireForm("three capital letters, as in ISO 4217", currency)),
	},
	{
		path:    "models.limits.concurrency",
		meaning: "concurrent calls to an endpoint, of all workers together, and of each query-api; 0: 64",
		unit:    "calls",
		example: "16",
		rule:    requireRange(0, 100000),
	},
	{
		path:    "models.limits.requests_per_minute",
		meaning: "over all workers, for an endpoint; 0: no bound",
		unit:    "calls a minute",
		example: "3000",
		rule:    requireRange(0, 1e9),
	},
	{
		path:    "models.limits.tokens_per_minute",
		meaning: "over all workers, for an endpoint; 0: no bound",
		unit:    "tokens a minute",
		example: "1000000",
		rule:    requireRange(0, 1e12),
	},
	{
		path: "models.endpoints",
		meaning: "further model servers that indexes may use, each with the variable of its key: " +
			"worker and query-api send documents, questions and keys to no other server",
		example: `[{base_url: "http://llm:8000/v1", api_key_env: LLM_API_KEY}]`,
		rule:    requireEndpoints(),
	},
}

// modelTimeout stays below what an activity may take without a sign of life, which is twelve minutes.
func modelTimeout(path string) key {
	return key{
		path: path, meaning: "of one request, from sending to the last byte of its answer; slow models of one's own " +
			"need more", example: "10m", rule: requireDuration(time.Second, 10*time.Minute),
	}
}

// newPriceKey returns the key of a model's price, in any currency: it is multiplied, never converted.
func newPriceKey(path, meaning string) key {
	return key{
		path: path, meaning: meaning, unit: "money for a million tokens", example: "0.15",
		rule: requireRange(0, million),
	}
}

package config

import (
	"regexp"
	"slices"
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
var keys = slices.Concat(generalKeys, modelKeys, telemetryKeys, queryKeys, corsKeys, oidcKeys, quotaKeys, limitKeys,
	indexKeys, nightKeys, notifyKeys("indexes.*.notify.", "; empty: notify.webhook"), freshnessKeys)

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
}

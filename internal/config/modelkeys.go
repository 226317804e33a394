package config

import (
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/model/batch"
	"github.com/unweaver/unweaver/internal/model/neural"
)

// modelKeys are the keys of models and of what calls of them may cost.
var modelKeys = []key{
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

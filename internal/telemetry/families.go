package telemetry

import "slices"

// kind of a family of metrics.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
	snapshot  kind = "gauge, looked up" // what a poll found last, whole: see Process.Replace
)

// family of metrics. Its labels are names and codes; each has at most mostValues values.
type family struct {
	name    string
	kind    kind
	labels  []string
	help    string
	buckets []float64
}

// Names of the families.
const (
	BuildInfo = "unweaver_build_info"

	StoreSeconds = "unweaver_store_operation_seconds"
	StoreErrors  = "unweaver_store_errors_total"

	ModelRequests    = "unweaver_model_requests_total"
	ModelSeconds     = "unweaver_model_request_seconds"
	ModelInFlight    = "unweaver_model_requests_in_flight"
	ModelTokens      = "unweaver_model_tokens_total"
	ModelRateLimited = "unweaver_model_rate_limited_total"
	ModelWait        = "unweaver_model_wait_seconds"

	GenAISeconds = "gen_ai_client_operation_duration_seconds"
	GenAITokens  = "gen_ai_client_token_usage"

	IndexCalls  = "unweaver_index_calls_total"
	IndexTokens = "unweaver_index_tokens_total"
	IndexCost   = "unweaver_index_cost_total"

	ActivitySeconds  = "unweaver_activity_seconds"
	ActivityFailures = "unweaver_activity_failures_total"
	ActivityRetries  = "unweaver_activity_retries_total"
	ActivityRunning  = "unweaver_activities_running"
	ActivitySlots    = "unweaver_activity_slots"
	QueueDepth       = "unweaver_task_queue_backlog"

	RunsEnded  = "unweaver_runs_ended_total"
	RunSeconds = "unweaver_run_seconds"
	Notices    = "unweaver_notices_total"

	HintSeconds = "unweaver_hint_to_publish_seconds"

	Audits     = "unweaver_audits_total"
	AuditDrift = "unweaver_audit_drift_total"

	LastSuccess    = "unweaver_index_last_success_timestamp_seconds"
	PublishedAt    = "unweaver_index_published_timestamp_seconds"
	IndexDocuments = "unweaver_index_documents"
	IndexChunks    = "unweaver_index_chunks"
	IndexDead      = "unweaver_index_dead_letters"
	IndexFailed    = "unweaver_index_documents_failed"
	RunStatus      = "unweaver_run_status"
	StageDone      = "unweaver_stage_done"
	StageTotal     = "unweaver_stage_total"
	PollFailures   = "unweaver_poll_failures_total"
	CertificateEnd = "unweaver_certificate_expires_timestamp_seconds"

	HTTPSeconds     = "unweaver_http_request_seconds"
	Queries         = "unweaver_queries_total"
	Reranks         = "unweaver_reranks_total"
	GenerationEpoch = "unweaver_generation_epoch"
	IndexReady      = "unweaver_index_ready"
	OpenGenerations = "unweaver_open_generations"
	OpenBytes       = "unweaver_open_bytes"
	Openings        = "unweaver_generations_opened_total"
	Refused         = "unweaver_refused_total"
	QuotaUsed       = "unweaver_quota_used_total"
	QuotaRefused    = "unweaver_quota_refused_total"
)

var (
	ofStores   = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60}
	ofModels   = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320}
	ofWork     = []float64{.01, .05, .25, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600}
	ofGenAI    = []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	ofTokens   = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	ofRequests = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 120}
)

// genLabels are the labels of both metrics of generative AI.
var genLabels = []string{"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"}

// sections of the reference, in its order.
var sections = []struct {
	title, about string
	families     []family
}{
	{"Every process", "", []family{
		{BuildInfo, gauge, []string{"program", "version"}, "Always 1; the labels name program and version.", nil},
		{StoreSeconds, histogram, []string{"store", "operation"},
			"Duration of store operations; a read ends when the store answers.",
			ofStores},
		{StoreErrors, counter, []string{"store", "operation", "code"},
			"Failed store operations, by code; `not_found` and `precondition_failed` are normal answers.", nil},
		{ModelRequests, counter, []string{"endpoint", "model", "task", "code"},
			"Requests to model servers, by result; code is `ok` or the error code.", nil},
		{ModelSeconds, histogram, []string{"endpoint", "task"},
			"Duration of requests to model servers, without time in queues.", ofModels},
		{ModelInFlight, gauge, []string{"endpoint"}, "Requests to model servers in flight.", nil},
		{ModelTokens, counter, []string{"endpoint", "model", "kind"},
			"Tokens that model servers charged; kind is prompt, completion or embedding.", nil},
		{ModelRateLimited, counter, []string{"endpoint"}, "Requests that a model server refused with 429.", nil},
		{ModelWait, histogram, []string{"endpoint", "task"},
			"Time that requests waited for the limits of their endpoint and for admission by their run.", ofModels},
		{GenAISeconds, histogram, append(slices.Clone(genLabels), "error_type"),
			"Duration of requests to model servers and of searches (operation retrieval), as OpenTelemetry's " +
				"`gen_ai.client.operation.duration`.", ofGenAI},
		{GenAITokens, histogram, append(slices.Clone(genLabels), "gen_ai_token_type"),
			"Tokens of a request, as `gen_ai.client.token.usage`; type is input or output.", ofTokens},
	}},
	{"Worker", "Served at `worker.address`. Every worker reports the state of all indexes: aggregate *gauge, looked " +
		"up* with `max by (index)`, and add up counters.", []family{
		{LastSuccess, snapshot, []string{"index"},
			"When a build last ended as completed or completed_with_errors, even if nothing changed; if that is " +
				"unknown, when the served generation was made.", nil},
		{PublishedAt, snapshot, []string{"index"}, "When the published generation was made.", nil},
		{IndexDocuments, snapshot, []string{"index"}, "Documents of the published generation.", nil},
		{IndexChunks, snapshot, []string{"index"}, "Chunks of the published generation.", nil},
		{IndexDead, snapshot, []string{"index"},
			"Dead letters: passages of the published generation whose extraction failed.", nil},
		{IndexFailed, snapshot, []string{"index"}, "Documents that failed in the published generation.", nil},
		{RunStatus, snapshot, []string{"index", "status", "reason"},
			"1 for the status of the newest build; reason is the code of a pause, wait, hold or failure.", nil},
		{StageDone, snapshot, []string{"index", "stage"}, "Units done in the current stage of a running build.", nil},
		{StageTotal, snapshot, []string{"index", "stage"}, "All units of that stage.", nil},
		{QueueDepth, snapshot, []string{"type"},
			"About how many tasks no worker has taken yet; type is workflow, activity, or computing (activities " +
				"that fill a core).", nil},
		{PollFailures, counter, []string{"code"}, "Failed look-ups of the metrics above, which keep their last values.", nil},
		{CertificateEnd, snapshot, nil,
			"Expiry of the certificate that this process presents to Temporal (`engine.tls_cert`).", nil},
		{IndexCalls, counter, []string{"index", "task"}, "Paid model calls of this process.", nil},
		{IndexTokens, counter, []string{"index", "kind"}, "Paid tokens of this process.", nil},
		{IndexCost, counter, []string{"index", "task"},
			"Cost of these tokens by `models.*.price`, in `models.currency`.", nil},
		{ActivitySeconds, histogram, []string{"activity"}, "Duration of attempts of activities.", ofWork},
		{ActivityFailures, counter, []string{"activity", "code"}, "Attempts of activities that failed.", nil},
		{ActivityRetries, counter, []string{"activity"}, "Retries of activities.", nil},
		{ActivityRunning, gauge, nil, "Activities running in this process.", nil},
		{ActivitySlots, gauge, []string{"type"},
			"Activities that may run at once in this process; type is activity (`worker.slots`) or computing " +
				"(`worker.cpu`), as `worker.role` allows.", nil},
		{RunsEnded, counter, []string{"index", "status"},
			"Runs whose end, pause or wait this process recorded.", nil},
		{RunSeconds, histogram, []string{"index"}, "Duration of runs that ended, pauses included.", ofWork},
		{Notices, counter, []string{"event", "outcome"},
			"Attempts to call the webhook; outcome is sent or an error code.", nil},
		{HintSeconds, histogram, []string{"index"},
			"Time from the first hint that a build follows to the end of the build, if it published.", ofWork},
		{Audits, counter, []string{"index", "status"}, "Audits whose end this process recorded.", nil},
		{AuditDrift, counter, []string{"index", "kind"},
			"Differences that audits found, repaired or not; kind is segment, class, live, document, " +
				"record, vector or hash.", nil},
	}},
	{"query-api", "Served at `/metrics` of `query_api.address`, to keys of scope operate, and of " +
		"`query_api.internal_address`.", []family{
		{HTTPSeconds, histogram, []string{"route", "status"}, "Duration of HTTP requests.", ofRequests},
		{Queries, counter, []string{"index", "method", "outcome"}, "Queries by index, method and outcome.", nil},
		{Reranks, counter, []string{"index", "outcome"},
			"Queries to rerank; outcome is ok, timeout, or the code of the reranker's error. Unless it is ok, the " +
				"order stays as found.", nil},
		{GenerationEpoch, gauge, []string{"index"}, "Epoch of the served generation.", nil},
		{IndexReady, gauge, []string{"index"}, "1 if the index is served here or opens on first use, 0 if it " +
			"cannot be opened.", nil},
		{OpenGenerations, gauge, nil, "Open generations.", nil},
		{OpenBytes, gauge, nil, "Bytes of open generations, mapped files included: at most " +
			"`query_api.indexes.bytes`, unless one alone is larger or replaces an open one.", nil},
		{Openings, counter, nil, "Generations opened.", nil},
		{Refused, counter, []string{"code"}, "Requests refused before their route, by code.", nil},
		{QuotaUsed, counter, []string{"subject", "quota"},
			"What callers with quotas used in this process; subject is `key:` with the id of an API key, or `group:` " +
				"with its name; quota is requests, answers, tokens or money.", nil},
		{QuotaRefused, counter, []string{"subject", "quota"},
			"Requests that a quota refused; quota is unknown if it could not be checked.", nil},
	}},
}

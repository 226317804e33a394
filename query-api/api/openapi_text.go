package api

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/served"
)

const apiText = "Ask an index built by UnWeaver, and read what it contains. v1 only gains response fields: clients " +
	"must accept new ones.\n\n" +
	"Errors are RFC 9457 problems with a stable `type`; `code` is its last part. Below /v1/chat, /v1/models " +
	"and /v1/responses they have OpenAI's form, with the same codes, but model_not_found and " +
	"unsupported_parameter. With status 429 or 503, Retry-After says when to retry; without it an operator must " +
	"fix the cause first. A request reads one generation of an index, which the response names; " +
	"`generation` selects it.\n\n" +
	"Lists have `next_cursor`; empty means the end. HEAD works like GET, OPTIONS returns Allow. Responses are " +
	"compressed with gzip if the client accepts it."

// keyText says what a caller shows.
const keyText = "an API key (unweaver keys create) or, where query_api.oidc is set, a token of the identity " +
	"provider; servers on loopback without query_api.oidc require neither"

// tagTexts groups the operations.
var tagTexts = []any{
	map[string]any{"name": tagQuery, "description": "Questions and their answers."},
	map[string]any{"name": tagIndexes, "description": "Indexes and their generations."},
	map[string]any{"name": tagDocuments, "description": "Documents and their passages."},
	map[string]any{"name": tagEntities, "description": "What the documents mention, and where."},
	map[string]any{"name": tagRuns, "description": "Builds and restores, running or ended."},
	map[string]any{
		"name": tagControl, "description": "Builds, schedules, publication and dead letters. Each needs a key of scope " +
			"operate, also on loopback, and `query_api.control: true`; `unweaver dev` always has it.",
	},
	map[string]any{
		"name": tagAgents, "description": "For clients of OpenAI's API or the Model Context Protocol (MCP).",
	},
	map[string]any{"name": tagOperations, "description": "For orchestrators and monitoring."},
}

// Values of examples: they are those of a small corpus about Norway.
const (
	exampleEntity = "8e016391c88c77d6773deab343b91f53"
	exampleChunk  = "68ec39bf04b5093d4a9daea68c4a5bce"
)

// pathParameters by name.
var pathParameters = map[string]struct{ pattern, doc, example string }{
	"index":      {"^[a-z0-9][a-z0-9-]{0,62}$", "name of the index", "sample"},
	"branch":     {"^[a-z0-9][a-z0-9-]{0,62}$", "name of the branch", "sample-large"},
	"tag":        {"^[a-z0-9][a-z0-9-]{0,62}$", "name of the tag", "before-migration"},
	"generation": {"^[a-z0-9][a-z0-9-]{0,62}$", "name of the generation", "g1"},
	"run":        {"^[a-z0-9][a-z0-9-]{0,62}$", "name of the run, which is the name of its generation", "g1"},
	"id":         {"^[0-9a-f]{32}$", "id, as in responses", exampleEntity},
	"model":      {"^unweaver/[a-z0-9][a-z0-9-]{0,62}$", "unweaver/ and the name of an index", "unweaver/sample"},
	"key": {
		"", "key of the document. Slashes may stay unescaped; write # as %23, and in a key that ends in /text that " +
			"slash as %2F",
		"cities/oslo.txt",
	},
}

// schemaTexts says what components are.
var schemaTexts = map[string]string{
	"APRAsks":          "A triple of the question; ?x stands for the unknown.",
	"APRFact":          "A fact, and the passages that state it.",
	"APRRun":           "A run of facts with its scores. The fine score is the weighted sum of the five terms.",
	"AlignedChunk":     "A passage with its price, its load and its capacity.",
	"AlignedEntity":    "A candidate entity. Entities that are kept vote.",
	"Alive":            "Response of /livez.",
	"Answer":           "The chat model's answer from the context, and the passages that it cites.",
	"Bisect":           "A question, and the document that it is to find.",
	"BisectCause":      "Something that changed between the two generations.",
	"BisectProbe":      "What one generation returns.",
	"BisectRow":        "A passage that one of the two generations returns.",
	"Bisected":         "The night that took a document away from a question.",
	"Calls":            "Requests to models by task.",
	"Chunk":            "A passage of the stored text of a document. Offsets are code points of it, half open.",
	"ChunkDetail":      "One passage with what was extracted from it.",
	"Change":           "A document or an entity that changed.",
	"ClassShare":       "The part of a passage's mass that came through an entity.",
	"DeadLetters":      "A page of dead letters.",
	"Diff":             "Changes of documents since the parent generation, by kind.",
	"DocumentDetail":   "One document, and which version of it is served.",
	"DocumentSummary":  "One document of a list.",
	"DocumentText":     "Decoded text of a document, or a part of it.",
	"Documents":        "A page of documents.",
	"Entities":         "A page of entities.",
	"Entity":           "An entity that contributed to the result.",
	"EntityChunks":     "A page of the passages that mention an entity.",
	"EntityDetail":     "One entity with its description.",
	"ApplyCalls":       "Extractions to pay for, by the passages that changed types are applied to.",
	"EntityRef":        "Name and id of an entity.",
	"EntitySummary":    "One entity of a list.",
	"GemStep":          "A step of a search along the edges of the similarity graph.",
	"Memory":           "Themes that passages share, by the questions that they answer.",
	"MemoryTheme":      "A theme with its passages.",
	"MemoryChunk":      "A passage in a theme.",
	"Enrichment":       "Additional data that a build computes for a generation.",
	"Event":            "An event of a run.",
	"Retry":            "Errors after which units of a stage were retried.",
	"LeftOut":          "Objects of the corpus that were skipped, by reason.",
	"Snippet":          "The part of a passage to show for a question: code points of its text.",
	"Rect":             "An area of a PDF page that shows a passage, in points of 1/72 inch.",
	"Highlight":        "A word of the question in a passage: code points of its text, end excluded.",
	"Note":             "What a chat model reads besides passages: encoded facts, or the summary of a theme.",
	"SettingExplain":   "The setting of the hybrid method, and the figures of the index that select it.",
	"Span":             "A part of a text in code points, end excluded.",
	"Signals":          "The figures from which the confidence is computed.",
	"Audit":            "What an audit checked, and the differences that it found.",
	"Audited":          "How much an audit checked.",
	"Question":         "A standing question.",
	"Citation":         "A passage by its place: code points of its document.",
	"Watched":          "What a run found by standing questions.",
	"WatchedChange":    "A standing question whose passages changed, with both answers and the cause.",
	"WatchedAnswer":    "The passages of one generation for a question, and the sentences that answer.",
	"WatchedQuestions": "A page of standing questions.",
	"WatchQuestion":    "A question to keep.",
	"Watching":         "Standing questions that were added.",
	"Probed":           "Results of a run's probe questions before publication.",
	"Drift":            "How many differences of one kind were found, and how many were repaired.",
	"Found":            "One object that differs from what was written.",
	"Estimate":         "The cost of a run as estimated by a dry run.",
	"Filter":           "Restricts a query to matching documents. It is not access control.",
	"Generation":       "A generation of a list.",
	"GenerationDetail": "One generation: what it holds, what changed, and the report of its run.",
	"Generations":      "The generations of an index.",
	"GemChunk":         "The question of a passage that is most similar to the query.",
	"GemSummary":       "A theme whose summary led to a passage.",
	"HybridChunk":      "A passage's score and its components.",
	"IndexCard":        "One index.",
	"IndexInfo":        "One index of a list.",
	"IndexPart":        "What one of several indexes had to do with a result.",
	"SeveralQuery":     "A query to several indexes, of which filter and all other fields are the same for each.",
	"IndexReadiness":   "Whether this replica serves an index, and what to do if it does not.",
	"Indexes":          "The published indexes.",
	"ListPlace":        "Place of a hit in a list.",
	"ListScore":        "One place of a plain search.",
	"ListSummary":      "Summary of one search.",
	"Mention":          "What was extracted about an entity from a passage.",
	"ModelSummary":     "The models used to build a generation.",
	"Modified":         "A time range; from is included, to is excluded.",
	"ParentCounts":     "Size of the parent generation.",
	"Passage":          "A passage of its document's stored text: one within a table begins with the names of columns.",
	"Problem":          "An error in the form of RFC 9457.",
	"Query":            "A query. Fields set to null are treated as absent.",
	"Range":            "Lower and upper bound of a figure, inclusive.",
	"Readiness":        "Response of /readyz.",
	"Report":           "Report of a run: work, cost and problems.",
	"RunDetail":        "A run: its report and its current state.",
	"RunProblem":       "A problem that a person should check.",
	"RunSummary":       "A run of a list.",
	"Runs":             "A page of runs.",
	"Waiting":          "A run that waits for an outage to end: since when, and the time of the next try.",
	"Result":           "The result of a query.",
	"RunnerUp":         "The best passage that was not elected, and its distance from the last seat.",
	"SeatExplain":      "An elected passage: its deciding value (null if no voter supports it) and its voters.",
	"SeedExplain":      "An entity from which the walk starts.",
	"Spent":            "Total usage of requests.",
	"Share":            "What a run would rebuild for one reason.",
	"StageProgress":    "One stage of a run.",
	"Budget":           "Limits of a run for paid calls, tokens and money; 0: no limit.",
	"LiveLimits":       "Limits of model calls set for a run. Absent fields use the configuration.",
	"Moment":           "Progress and paid usage of a run at one time.",
	"KeyUsage":         "What the caller used of its quotas today.",
	"QuotaUse":         "One quota of the caller.",
	"Trends":           "The last builds of an index, and their totals.",
	"Totals":           "Totals of the builds.",
	"Night":            "Key figures of an ended build.",
	"Missed": "How far a run was outside the estimate of its plan, as a share of the greater figure: 0 " +
		"within the range, above 0 if the run needed more.",
	"Timings":      "Duration of the parts of a query, in milliseconds.",
	"Tokens":       "Tokens by kind.",
	"Usage":        "Tokens that a query paid for.",
	"Turn":         "A message of a conversation.",
	"WeightedVote": "One passage of a weighted vote.",
	"Without":      "What a query ignores.",

	"Discarded":       "When a dead letter was discarded, and why.",
	"DocumentStored":  "A document that was written to the corpus.",
	"EstimateRequest": "Options of the build to estimate.",
	"Letter":          "A dead letter: a passage whose extraction failed.",
	"Move":            "What changed in what is served or kept.",
	"PublishRequest":  "How to serve a generation.",
	"ResumeRequest":   "How to resume a run.",
	"RetryRequest":    "Which dead letters to retry.",
	"DiscardRequest":  "Which dead letters to discard.",
	"WatchRequest":    "Questions whose passages every night compares.",
	"RunBudget":       "Limits of what a run pays for, from its start; absent or 0: as it is.",
	"RunRequest":      "Options of a build.",
	"RunStarted":      "A run that was started or joined.",
	"RunSteered":      "What a command to a run came to.",
	"Schedule":        "A schedule with its next and its last runs.",
	"HintsRequest":    "Objects that may have changed.",
	"HintsTaken":      "Hints that were kept.",
	"ScheduleRequest": "What a schedule is to be.",
	"ScheduledRun":    "One run of a schedule.",
	"Triggered":       "A scheduled run that starts, or the run in its way.",
	"Why":             "What a run would do with one document, and why.",
	"Reranked":        "How the passages were reranked.",
	"Written":         "What a run wrote to the stores.",

	"ChatAnnotation":       "Says where a part of the answer's text comes from.",
	"ChatChoice":           "The one answer.",
	"ChatCompletion":       "The response to a request without stream.",
	"ChatDetails":          "What OpenAI's form cannot express.",
	"ChatFailure":          "An error in OpenAI's form.",
	"ChatFailureBody":      "The error. Codes are those of problems, plus model_not_found and unsupported_parameter.",
	"ChatMessage":          "The message of a choice.",
	"ChatModel":            "An index, presented as a model.",
	"ChatModels":           "The indexes that the key covers, as models.",
	"ChatRequest":          "A conversation. Its last user message is the question and may refer to earlier ones.",
	"ChatRequestMessage":   "One message of a request.",
	"ChatIncomplete":       "Why a response ends early.",
	"ChatOutputAnnotation": "Says where a part of the answer's text comes from.",
	"ChatOutputItem":       "The one message of a response.",
	"ChatOutputText":       "The text of a message.",
	"ChatResponse":         "The response to a request without stream.",
	"ChatResponseRequest":  "A request for a response. Other fields are ignored.",
	"ChatResponseUsage":    "What the model server reported. The built-in model uses no tokens.",
	"ChatSource":           "The passage that a citation names. Offsets are code points of the document's decoded text.",
	"ChatStreamOptions":    "Options of a stream.",
	"ChatURLCitation":      "A citation in OpenAI's form.",
	"ChatUsage":            "What the model server reported. The built-in model uses no tokens.",
	"Delta":                "A piece of the answer's text. Concatenate all of them.",
	"Message":              "A request of JSON-RPC, or a notification.",
	"Reply":                "The response to a message: a result or an error.",
}

// requestExamples by operation.
var requestExamples = map[string]map[string]any{
	"bisect": {
		"document": map[string]any{
			"summary": "a document that the current generation does not return",
			"value":   map[string]any{"query": "What is the capital of Norway?", "expect": "cities/oslo.txt"},
		},
	},
	"query": {
		"question": map[string]any{
			"summary": "a question, with the defaults of the index",
			"value":   map[string]any{"query": "What is the capital of Norway?"},
		},
		"stream": map[string]any{
			"summary": "an answer as a stream of events",
			"value":   map[string]any{"query": "What is the capital of Norway?", "answer": true, "stream": true},
		},
		"answer": map[string]any{
			"summary": "an answer by the chat model, only from documents under cities/",
			"value": map[string]any{
				"query": "Which city has an opera house?", "answer": true, "top_chunks": 5,
				"filter": map[string]any{"document_prefix": "cities/"},
			},
		},
		"method": map[string]any{
			"summary": "another method, with a rule and an explanation",
			"value": map[string]any{
				"query": "Who sailed with the Fram?", "method": "unweaver", "rule": "weighted", "explain": true,
				"top_entities": 50,
			},
		},
	},
	"startRun": {
		"defaults": map[string]any{"summary": "a build of what changed", "value": map[string]any{}},
		"rebuild": map[string]any{
			"summary": "everything, from paid results", "value": map[string]any{"rebuild": true, "generation": "again"},
		},
	},
	"sendHints": {
		"one": map[string]any{"summary": "one object", "value": map[string]any{"keys": []any{"cities/oslo.txt"}}},
	},
	"estimateRun": {"defaults": map[string]any{"summary": "a build of what changed", "value": map[string]any{}}},
	"resumeRun": {
		"budget": map[string]any{
			"summary": "with a larger budget", "value": map[string]any{"budget": map[string]any{"money": 5}},
		},
	},
	"retryDeadLetters": {
		"some": map[string]any{"summary": "one passage", "value": map[string]any{"chunks": []any{exampleChunk}}},
	},
	"addWatched": {
		"question": map[string]any{
			"summary": "one question, asked as who may read public documents alone",
			"value":   map[string]any{"questions": []any{map[string]any{"question": "What is the capital of Norway?"}}},
		},
	},
	"discardDeadLetters": {
		"one": map[string]any{
			"summary": "one passage", "value": map[string]any{"chunks": []any{exampleChunk}, "why": "a table of numbers"},
		},
	},
	"putSchedule": {
		"nightly": map[string]any{
			"summary": "every night at two", "value": map[string]any{"cron": "0 2 * * *", "timezone": "Europe/Oslo"},
		},
		"pause": map[string]any{"summary": "paused", "value": map[string]any{"paused": true, "note": "move of the archive"}},
	},
	"publishGeneration": {
		"reason": map[string]any{
			"summary": "with a reason for the audit trail", "value": map[string]any{"reason": "checked with diff"},
		},
	},
	"querySeveral": {
		"pattern": map[string]any{
			"summary": "every index whose name begins with sam",
			"value":   map[string]any{"indexes": []any{"sam*"}, "query": "What is the capital of Norway?", "answer": true},
		},
	},
	"createChatCompletion": {
		"question": map[string]any{
			"summary": "a question, whose answer comes at once",
			"value": map[string]any{
				"model":    "unweaver/sample",
				"messages": []any{map[string]any{"role": "user", "content": "What is the capital of Norway?"}},
			},
		},
	},
	"createResponse": {
		"question": map[string]any{
			"summary": "a question, whose answer comes at once",
			"value":   map[string]any{"model": "unweaver/sample", "input": "What is the capital of Norway?"},
		},
	},
	"sendMessage": {
		"tools": map[string]any{
			"summary": "the list of tools",
			"value":   map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
		},
	},
}

// answerExamples by operation.
var answerExamples = map[string]any{
	"live": Alive{"alive"},
	"ready": Readiness{
		Status: "ready", Version: "1.0.0",
		Checks:  map[string]string{"artifacts": "ok", "classes": "ok", "vectors": "ok", "index sample": "ok"},
		Indexes: []served.IndexReadiness{{Index: "sample", State: served.StateReady, Generation: "g1"}},
	},
	"startRun":         exampleStarted,
	"retryDeadLetters": exampleStarted,
	"estimateRun": core.Report{
		Index: "sample", Status: core.StatusCompleted, Reason: "dry_run", Stages: []core.StageProgress{},
	},
	"pauseRun":  RunSteered{"sample", "g1", core.ActionPause, new(int64)},
	"resumeRun": RunSteered{"sample", "g1", core.ActionResume, nil},
	"cancelRun": RunSteered{"sample", "g1", core.ActionCancel, new(int64)},
	"listDeadLetters": DeadLetters{Index: "sample", Items: []core.Letter{{
		Chunk: exampleChunk, Document: "cities/oslo.txt", Reason: "bad_model_output", Kind: core.LetterContent, Attempts: 2,
		Raw: "I cannot read this.",
	}}},
	"getSchedule":       exampleSchedule,
	"putSchedule":       exampleSchedule,
	"triggerSchedule":   control.Triggered{Index: "sample"},
	"publishGeneration": exampleMove(core.ActionRollback),
	"discardGeneration": exampleMove(core.ActionDiscard),
	"tagGeneration":     exampleMove(core.ActionTag),
	"untagGeneration":   exampleMove(core.ActionUntag),
	"promoteBranch":     exampleMove(core.ActionPromote),
	"putDocument": DocumentStored{
		Index: "sample", Document: "cities/oslo.txt", SHA256: exampleDocument.Version, Bytes: 96, Created: true,
	},
	"getUsage": KeyUsage{
		Key: "Ab3dE6gH", RenewsIn: 36420, Quotas: []middleware.QuotaUse{{Quota: "answers", Limit: 500, Used: 12}},
	},
	"listIndexes": Indexes{Items: []served.IndexInfo{exampleIndex}},
	"listEntities": Entities{
		Source: exampleSource, NextCursor: "g1.20.5f3a09c1",
		Items: []EntitySummary{{ID: exampleEntity, Name: "Oslo", Type: "City", ChunkTotal: 3}},
	},
	"getEntity": EntityDetail{
		Source:        exampleSource,
		EntitySummary: EntitySummary{ID: exampleEntity, Name: "Oslo", Type: "City", ChunkTotal: 3},
		Description:   "Oslo: the capital of Norway.", Mentions: 3,
	},
	"listDocuments": Documents{
		Source: exampleSource, Items: []DocumentSummary{exampleDocument}, NextCursor: "g1.20.5f3a09c1",
	},
	"getDocument": DocumentDetail{
		Source: exampleSource, DocumentSummary: exampleDocument, Object: exampleDocument.Document, Bytes: 96,
	},
	"getDocumentText": DocumentText{
		Source: exampleSource, Document: exampleDocument.Document, Version: exampleDocument.Version, Title: "Oslo",
		Start: 0, End: 31, Length: 96, Text: "Oslo is the capital of Norway. ",
	},
}

// exampleMove returns a move of a generation by an action.
func exampleMove(action string) core.Move {
	out := core.Move{Index: "sample", Action: action, To: "g1", Operation: "20261122t080000z-k3f9"}
	switch action {
	case core.ActionRollback:
		out.From, out.Release = "g2", 3
	case core.ActionPromote:
		out.From, out.Release, out.Name = "g2", 3, "sample-large"
	case core.ActionTag, core.ActionUntag:
		out.Name = "before-migration"
	}
	return out
}

var (
	exampleStarted  = RunStarted{Index: "sample", Generation: "g2"}
	exampleSchedule = control.Scheduled{
		Index: "sample", Timezone: "Europe/Oslo", Catchup: core.Duration(24 * time.Hour), Nights: []control.NightRun{},
		Next: []time.Time{time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC)},
	}
	exampleSource = Source{Index: "sample", Generation: "g1"}
	exampleIndex  = served.IndexInfo{
		Index: "sample", State: "published", Generation: "g1", Release: 1, Documents: 7, Chunks: 12, Classes: 14,
		ContentHash: "2f1d6a3c0f0e0c4b8a7d5e6f9b1a2c3d4e5f60718293a4b5c6d7e8f901234567", Analyser: "en/3",
	}
	exampleDocument = DocumentSummary{
		Document: "cities/oslo.txt", Version: "5b1c2d3e4f60718293a4b5c6d7e8f9012345672f1d6a3c0f0e0c4b8a7d5e6f9b",
		Title: "Oslo", Type: "text", Metadata: map[string]string{"kind": "city"}, Length: 96, Chunks: 3,
	}
)

// problemExample returns a problem of a status, with a code that has it.
func problemExample(status int) Problem {
	code := fault.Code("internal")
	switch status {
	case http.StatusBadRequest:
		code = fault.Usage
	case http.StatusNotFound:
		code = fault.UnknownIndex
	case http.StatusTooManyRequests:
		code = fault.RateLimited
	case http.StatusServiceUnavailable:
		code = fault.GenBusy
	case http.StatusInternalServerError:
	default:
		var codes []fault.Code
		for _, known := range fault.Codes() {
			if statuses[known] == status || controlStatuses[known] == status {
				codes = append(codes, known)
			}
		}
		code = slices.MinFunc(codes, func(a, b fault.Code) int { return cmp.Compare(a, b) })
	}
	detail := exampleDetails[code]
	return Problem{
		Type: problemBase + string(code), Title: http.StatusText(status), Status: status, Code: string(code),
		Detail: cmp.Or(detail[0], "what failed, on what, and why"), Hint: detail[1],
	}
}

// exampleDetails are detail and hint of a code.
var exampleDetails = map[fault.Code][2]string{
	fault.UnknownIndex: {
		"query sample: there is no published index with this name",
		"GET /v1/indexes lists those you may ask; or the key is not for it",
	},
	fault.Unauthorized: {
		"check the API key: the request has no API key",
		"send the header Authorization: Bearer KEY; create a key with: unweaver keys create",
	},
	fault.InvalidParam: {"read query query: the question is empty", "send a question: {\"query\": \"…\"}"},
	fault.GenBusy:      {"open generation g1: it is being opened", "ask again in a moment"},
	fault.GenCollected: {"open generation g1: it was deleted", "omit generation to query the current one"},
	fault.RateLimited:  {"answer the request: too many requests per second", "send fewer requests, or raise the limit"},
	fault.Usage:        {"read body: there is data after the JSON object", "send exactly one JSON object"},
	fault.NoControl: {
		"use this address: this server was not given control of builds",
		"set query_api.control: true and engine in the configuration of query-api; unweaver dev has it",
	},
	fault.LeaseHeld: {"index sample: run sample/g2 is building it with other settings", "wait for it, or cancel it"},
	fault.MediaType: {"read body: the Content-Type is not JSON", "send Content-Type: application/json"},
}

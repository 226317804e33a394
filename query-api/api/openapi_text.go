package api

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/unweaver/unweaver/internal/fault"
)

const apiText = "Ask an index built by UnWeaver, and read what it contains. v1 only gains response fields: clients " +
	"must accept new ones.\n\n" +
	"Errors are RFC 9457 problems with a stable `type`; `code` is its last part. Below /v1/chat, /v1/models, " +
	"/v1/embeddings and /v1/responses they have OpenAI's form, with the same codes, but model_not_found and " +
	"unsupported_parameter. With status 429 or 503, Retry-After says when to ask again; without it an operator has to " +
	"act first. A request reads one generation of an index, which the response names; " +
	"`generation` selects it.\n\n" +
	"Lists have `next_cursor`; empty means the end. HEAD works like GET, OPTIONS returns Allow. Responses are " +
	"compressed with gzip if the client accepts it."

// tagTexts groups the operations.
var tagTexts = []any{
	map[string]any{"name": tagQuery, "description": "Questions and their answers."},
	map[string]any{"name": tagIndexes, "description": "Indexes and their generations."},
	map[string]any{"name": tagDocuments, "description": "Documents and their passages."},
	map[string]any{"name": tagEntities, "description": "What the documents mention, and where."},
	map[string]any{"name": tagRuns, "description": "Builds and restores, running or ended."},
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
	"generation": {"^[a-z0-9][a-z0-9-]{0,62}$", "name of the generation", "g1"},
	"run":        {"^[a-z0-9][a-z0-9-]{0,62}$", "name of the run: that of its generation", "g1"},
	"id":         {"^[0-9a-f]{32}$", "id, as answers have it", exampleEntity},
	"model":      {"^unweaver/[a-z0-9][a-z0-9-]{0,62}$", "unweaver/ and the name of an index", "unweaver/sample"},
	"key": {
		"", "key of the document. Slashes may stay unescaped; in a key that ends in /text write that slash as %2F",
		"cities/oslo.txt",
	},
}

// schemaTexts says what components are.
var schemaTexts = map[string]string{
	"APRAsks":          "A triple of the question; ?x is what is asked for.",
	"APRFact":          "A fact, and the passages that state it.",
	"APRRun":           "A run of facts with its scores: the fine one is the weighted sum of the five terms.",
	"AlignedChunk":     "A passage with its price, its load and its capacity.",
	"AlignedEntity":    "An entity of the pool; kept ones vote.",
	"Alive":            "Answer of /livez.",
	"Answer":           "What the chat model answered from the context, with the passages that it cites.",
	"Calls":            "Requests to models by task.",
	"Chunk":            "A passage of a document, verbatim. Offsets are code points of the decoded text, half open.",
	"ChunkDetail":      "One passage with what was extracted from it.",
	"ClassShare":       "The part of a passage's mass that came through an entity.",
	"Diff":             "Documents against the parent generation, by what became of them.",
	"DocumentDetail":   "One document, and which version of it is served.",
	"DocumentSummary":  "One document of a list.",
	"DocumentText":     "Decoded text of a document, or a part of it.",
	"Documents":        "A page of documents.",
	"Entities":         "A page of entities.",
	"Entity":           "An entity that had a part in the result.",
	"EntityChunks":     "A page of the passages that mention an entity.",
	"EntityDetail":     "One entity with its description.",
	"EntityRef":        "Name and id of an entity.",
	"EntitySummary":    "One entity of a list.",
	"GemStep":          "A step of a search along the edges of the similarity graph.",
	"Memory":           "The themes that passages have in common, by the questions that they answer.",
	"MemoryTheme":      "A theme with its passages.",
	"MemoryChunk":      "A passage in a theme.",
	"Enrichment":       "What a build made of a generation beside what every one has.",
	"Event":            "What happened to a run, and when.",
	"Retry":            "What units of a stage failed with and were tried again for.",
	"LeftOut":          "Objects of the corpus that were not looked at, by why.",
	"Snippet":          "The part of a passage to show for a question: code points of its text.",
	"Rect":             "A part of a page on which a passage of a PDF stands, in points of 1/72 inch.",
	"Highlight":        "A word of the question in a passage: code points of its text, the end is not included.",
	"Note":             "What a chat model reads beside passages: facts in an encoding, or the summary of a theme.",
	"SettingExplain":   "By which setting hybrid was asked, and what of the index chooses one.",
	"Span":             "A part of a text in code points, the end is not included.",
	"Signals":          "What the confidence is made of.",
	"Audit":            "What an audit looked at, and what it found otherwise than it was written.",
	"Audited":          "How much an audit looked at.",
	"Probed":           "What a run found by its probe questions, before it was published.",
	"Drift":            "How much of one kind was found, and how much of it was mended.",
	"Found":            "One object that is otherwise than it was written.",
	"Estimate":         "What a dry run expects a run to pay for.",
	"Filter":           "Narrows a question to documents. It is not access control.",
	"Generation":       "A generation of a list.",
	"GenerationDetail": "One generation: what it holds, what changed, and the report of its run.",
	"Generations":      "The generations of an index.",
	"GemChunk":         "Which question of a passage was nearest to the query's.",
	"GemSummary":       "A theme whose summary brought a passage.",
	"HybridChunk":      "A passage's score and what it is made of.",
	"IndexCard":        "One index.",
	"IndexInfo":        "One index of a list.",
	"IndexReadiness":   "Whether an index is served by this replica, and what to do where it is not.",
	"Indexes":          "The published indexes.",
	"ListPlace":        "Place of a hit in a list.",
	"ListScore":        "One place of a plain search.",
	"ListSummary":      "One search, summed up.",
	"Mention":          "What the extraction of a passage says of an entity.",
	"ModelSummary":     "The models that made a generation.",
	"Modified":         "A range of times: from is included, to is not.",
	"ParentCounts":     "What the parent of a generation held.",
	"Passage":          "A passage as its document has it.",
	"Problem":          "An error in the form of RFC 9457.",
	"Query":            "A query. Fields set to null are treated as absent.",
	"Range":            "What a figure lies between, both ends included.",
	"Readiness":        "Answer of /readyz.",
	"Report":           "Report of a run: what it did, what it cost, and what went wrong.",
	"RunDetail":        "A run: its report, and what runs now.",
	"RunProblem":       "Something that a person should look at.",
	"RunSummary":       "A run of a list.",
	"Runs":             "A page of runs.",
	"Waiting":          "Of a run that waits for an outage to end: since when, and when it is tried again.",
	"Result":           "The answer to a question.",
	"RunnerUp":         "The best passage that is not elected, and how far it is from the last seat.",
	"SeatExplain":      "A member: the deciding value, null where no voter supports it, and its voters.",
	"SeedExplain":      "An entity that the walk starts from.",
	"Spent":            "What requests come to.",
	"Share":            "What a dry run would make for one reason.",
	"StageProgress":    "One stage of a run.",
	"Budget":           "What a run may take of paid calls, tokens and money; 0: no bound.",
	"LiveLimits":       "Limits of calls to models that a run was given; what is left out is the configuration's.",
	"Moment":           "How far a run was, and what it had paid for, at one time.",
	"Trends":           "The last nights of an index, and what they come to together.",
	"Totals":           "Sums over nights.",
	"Night":            "A build that ended, in a few figures.",
	"Missed": "By how much a run was outside of what its plan expected, as a share of the greater of both figures: 0 " +
		"within the range, above 0 where more was needed.",
	"Timings":      "Milliseconds of the parts of a query.",
	"Tokens":       "Tokens by kind.",
	"Usage":        "Tokens that a query was paid for.",
	"WeightedVote": "One passage of a weighted vote.",
	"Without":      "What is left out of a query.",
	"Why":          "What a dry run would do about one document, and why.",
	"Reranked":     "What became of the order of passages.",
	"Written":      "What a run wrote to the stores.",

	"ChatAnnotation":       "Says where a part of the answer's text comes from.",
	"ChatChoice":           "The one answer.",
	"ChatCompletion":       "The answer to a request without stream.",
	"ChatDetails":          "What OpenAI's form cannot express.",
	"ChatFailure":          "An error in OpenAI's form.",
	"ChatFailureBody":      "What is wrong. Codes are those of problems, but model_not_found and unsupported_parameter.",
	"ChatMessage":          "Message of an answer.",
	"ChatModel":            "An index, as a model.",
	"ChatModels":           "The indexes that the key is for, as models.",
	"ChatRequest":          "A conversation whose last question is asked. Other fields are ignored.",
	"ChatRequestMessage":   "One message of a request.",
	"ChatIncomplete":       "Why a response ends early.",
	"ChatOutputAnnotation": "Says where a part of the answer's text comes from.",
	"ChatOutputItem":       "The one message of a response.",
	"ChatOutputText":       "The text of a message.",
	"ChatResponse":         "The answer to a request for a response without stream.",
	"ChatResponseRequest":  "What a response is asked for. Other fields are ignored.",
	"ChatResponseUsage":    "What the model server reported. The built-in model uses no tokens.",
	"ChatSource":           "The passage that a citation names. Offsets are code points of the document's decoded text.",
	"ChatStreamOptions":    "Options of a stream.",
	"ChatURLCitation":      "A citation as clients know it.",
	"ChatUsage":            "What the model server reported. The built-in model uses no tokens.",
	"Delta":                "A piece of an answer; all of them together are its text.",
	"Message":              "A request of JSON-RPC, or a notification.",
	"Reply":                "The answer to a message: a result or an error.",
}

// requestExamples by operation.
var requestExamples = map[string]map[string]any{
	"query": {
		"question": map[string]any{
			"summary": "a question, with everything else as the index has it",
			"value":   map[string]any{"query": "What is the capital of Norway?"},
		},
		"stream": map[string]any{
			"summary": "answered piece by piece, as a stream of events",
			"value":   map[string]any{"query": "What is the capital of Norway?", "answer": true, "stream": true},
		},
		"answer": map[string]any{
			"summary": "answered by the chat model, from documents below cities/ alone",
			"value": map[string]any{
				"query": "Which city has an opera house?", "answer": true, "top_chunks": 5,
				"filter": map[string]any{"document_prefix": "cities/"},
			},
		},
		"method": map[string]any{
			"summary": "by another method, with its rule and an explanation",
			"value": map[string]any{
				"query": "Who sailed with the Fram?", "method": "unweaver", "rule": "weighted", "explain": true,
				"top_entities": 50,
			},
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
			"summary": "what tools there are",
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
		Indexes: []IndexReadiness{{Index: "sample", State: stateReady, Generation: "g1"}},
	},
	"listIndexes": Indexes{Items: []IndexInfo{exampleIndex}},
	"listEntities": Entities{
		Source: exampleSource, NextCursor: "g1.20.5f3a09c1",
		Items: []EntitySummary{{exampleEntity, "Oslo", 3}},
	},
	"getEntity": EntityDetail{
		Source: exampleSource, EntitySummary: EntitySummary{exampleEntity, "Oslo", 3},
		Description: "Oslo: the capital of Norway.", Mentions: 3,
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

var (
	exampleSource = Source{Index: "sample", Generation: "g1"}
	exampleIndex  = IndexInfo{
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
	case http.StatusGatewayTimeout:
		code = "timeout"
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
		for known, has := range statuses {
			if has == status {
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
		"query sample: no index of that name is published",
		"build it with: unweaver index CORPUS --index sample; " +
			"if it was built: unweaver restore sample; or the key is not for it",
	},
	fault.Unauthorized: {
		"check the API key: none was sent",
		"send Authorization: Bearer KEY; keys are made with: unweaver keys create",
	},
	fault.InvalidParam: {"read query query: the question is empty", "say what you want to know"},
	fault.GenBusy:      {"open generation g1: it is being opened", "ask again in a moment"},
	fault.GenCollected: {"open generation g1: it was collected", "query the current one"},
	fault.RateLimited:  {"answer the request: too many requests a second", "send fewer, or ask for a higher limit"},
	fault.Usage:        {"read body: something follows the JSON object", "send one JSON object"},
	fault.MediaType:    {"read body: it is not said to be JSON", "send Content-Type: application/json"},
}

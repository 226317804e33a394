package api

import (
	"net/http"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/answer/bisect"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
)

// route is one operation: how it is reached, and what its description says.
type route struct {
	method, pattern string
	path            string // as described, where the mux writes it otherwise
	id              string // operationId: names of methods in generated clients
	tag             string
	summary, doc    string
	query, headers  []parameter
	body            any    // zero value of its type; nil: none
	optional        bool   // the body may be left out
	bytes           bool   // the body is a document, as it is
	answer          any    // zero value; nil: not JSON
	done            []int  // statuses where all is well; none: 200
	events          string // what the answer holds where it is a stream of events; empty: it never is
	problems        []int
	failure         any          // zero value of what errors are reported as; nil: Problem
	most            string       // what a body may have; empty: 64 KiB
	kept            bool         // answers have an ETag
	scope           access.Scope // that a key needs
	shows           shown        // of documents that have labels
	asks            bool         // may ask models in the name of the caller
	open            bool         // needs no key
	control         bool         // builds, steers or uploads: needs a key also where reading needs none
	handler         http.HandlerFunc
}

// shown says which documents of an index with labels a route shows.
type shown string

const (
	showsOwn  shown = "those that the caller may read" // as if the index had no others
	showsAll  shown = "all, or `forbidden`"            // generations: a caller who may not read all gets none
	showsRuns shown = "all, by scope alone"            // runs and their reports, to scope operate
	showsHeld shown = "questions with labels that the caller holds"
	showsNone shown = "none"
)

// docPath returns the path in the description.
func (r route) docPath() string {
	if r.path != "" {
		return r.path
	}
	return r.pattern
}

// allProblems returns the problems of the route and those that every request can meet.
func (r route) allProblems() []int {
	out := []int{http.StatusBadRequest, http.StatusMisdirectedRequest, http.StatusUnprocessableEntity}
	if !r.open {
		out = append(out, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests,
			http.StatusInternalServerError)
		if r.pattern != "/readyz" {
			out = append(out, http.StatusServiceUnavailable)
		}
	}
	if r.body != nil || r.bytes {
		out = append(out, http.StatusRequestTimeout, http.StatusUnsupportedMediaType)
	}
	if r.control {
		out = append(out, ofControl...)
	}
	return append(out, r.problems...)
}

// parameter of a query string.
type parameter struct {
	name    string
	schema  map[string]any
	doc     string
	example any
}

var (
	plain   = map[string]any{"type": "string"}
	count   = map[string]any{"type": "integer", "minimum": 0, "maximum": maxRunes}
	pinned  = parameter{"generation", plain, "the generation to read; default: the current one", nil}
	howMany = parameter{"limit", map[string]any{
		"type": "integer", "minimum": 1, "maximum": maxLimit, "default": defaultLimit,
	}, "entries per page", 20}
	paged = parameter{
		"cursor", map[string]any{"type": "string", "pattern": "^$|" + cursorForm},
		"next_cursor of the previous page, with the same order and filters (else 422); empty or absent: the first " +
			"page. 410: its generation or entry no longer exists, start again", nil,
	}
	ofAnIndex  = []int{http.StatusNotFound, http.StatusGone, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	ofAQuery   = append([]int{http.StatusRequestEntityTooLarge, http.StatusBadGateway}, ofAnIndex...)
	ofArtifact = []int{http.StatusNotFound, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	ofStores   = []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	ofControl  = []int{
		http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusConflict, http.StatusGone,
		http.StatusRequestEntityTooLarge, http.StatusNotImplemented, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout,
	}
)

// Tags of operations, in the order of the description.
const (
	tagQuery      = "query"
	tagIndexes    = "indexes"
	tagDocuments  = "documents"
	tagEntities   = "entities"
	tagRuns       = "runs"
	tagControl    = "control"
	tagAgents     = "agents"
	tagOperations = "operations"
)

// listRoutes returns the table of operations. Mux and OpenAPI are made from it.
func (s *Server) listRoutes() []route {
	var table []route
	for _, part := range [][]route{
		s.indexRoutes(), s.documentRoutes(), s.entityRoutes(), s.runRoutes(), s.steerRoutes(), s.scheduleRoutes(),
		s.releaseRoutes(), s.watchedRoutes(), s.uploadRoutes(), s.hintRoutes(), s.agentRoutes(), s.operationRoutes(),
	} {
		table = append(table, part...)
	}
	for i := range table {
		if table[i].scope == "" {
			table[i].scope = access.Query
		}
	}
	return table
}

func (s *Server) indexRoutes() []route {
	return []route{
		{
			method: "POST", pattern: "/v1/indexes/{index}/query", id: "query", tag: tagQuery, summary: "Ask a question",
			doc: "Returns the most relevant passages, best first, and on request an answer with citations. Scores are " +
				"comparable only within one response. Only a few queries with expensive parameters run at a time: the next one " +
				"returns 429 with Retry-After.",
			body: answer.Request{}, answer: answer.Response{}, problems: ofAQuery,
			shows: showsOwn, asks: true, handler: s.serveQuery, events: queryEvents,
		},
		{
			method: "POST", pattern: "/v1/query", id: "querySeveral", tag: tagQuery, summary: "Ask several indexes at once",
			doc: "Asks each index beside the others and fuses their passages by rank. One that fails is named in `indexes` " +
				"and `degraded`, and the others answer. A name that the key may not read is a 404, as one that does not exist; a " +
				"pattern leaves it out.",
			body: answer.SeveralRequest{}, answer: answer.Response{}, problems: ofAQuery,
			shows: showsOwn, asks: true, handler: s.serveSeveral,
			events: queryEvents,
		},
		{
			method: "GET", pattern: "/v1/indexes", id: "listIndexes", tag: tagIndexes, summary: "List published indexes",
			doc: "Lists the indexes that the key can read, by name.", kept: true,
			query:  []parameter{paged, howMany},
			answer: Indexes{}, problems: append([]int{http.StatusGone}, ofStores...), shows: showsOwn, handler: s.listIndexes,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}", id: "getIndex", tag: tagIndexes, summary: "Get one index",
			doc:  "Returns its served generation, age, size and problems.",
			kept: true, answer: IndexCard{}, problems: ofArtifact, shows: showsOwn, handler: s.serveCard,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/generations", id: "listGenerations", tag: tagIndexes,
			summary: "List the generations of an index", doc: "The current one first, then the newest.",
			kept: true, query: []parameter{paged, howMany}, answer: Generations{},
			problems: append([]int{http.StatusGone}, ofArtifact...), shows: showsAll, handler: s.listGenerations,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/generations/{generation}", id: "getGeneration", tag: tagIndexes,
			summary: "Get one generation", doc: "With the report of its run and the changes against its parent.",
			kept: true, answer: GenerationDetail{}, problems: ofArtifact, shows: showsAll, handler: s.serveGeneration,
		},
		{
			method: "POST", pattern: "/v1/indexes/{index}/bisect", id: "bisect", tag: tagIndexes,
			summary: "Find the night that took a document away",
			doc: "Finds the last generation that returns a document for a question and the first one after it that does not, " +
				"and what changed between them. It asks about log2 of those that are kept, and has 120 seconds.",
			body: bisect.Request{}, answer: bisect.Found{}, scope: access.Operate, problems: ofAQuery,
			shows: showsAll, asks: true, handler: s.serveBisect,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/memory", id: "getMemory", tag: tagIndexes,
			summary: "Get the themes of an index",
			doc: "Returns the results of enrichment `gem`: themes with their strongest passages, and the spectrum. Without " +
				"the enrichment the response is a 422 that names the setting.",
			kept: true, answer: Memory{}, problems: ofAnIndex, shows: showsOwn, handler: s.serveMemory,
			query: []parameter{{"nodes", map[string]any{
				"type": "integer", "minimum": 1, "maximum": mostNodes, "default": mostNodes,
			}, "passages in total, spread evenly over the themes", 60}, pinned},
		},
	}
}

func (s *Server) documentRoutes() []route {
	return []route{
		{
			method: "GET", pattern: "/v1/indexes/{index}/documents", id: "listDocuments", tag: tagDocuments,
			summary: "List documents", doc: "In byte order of their keys.", kept: true,
			query: []parameter{
				{"prefix", plain, "first characters of the key", "cities/"}, paged, howMany, pinned,
			},
			answer: Documents{}, problems: ofAnIndex, shows: showsOwn, handler: s.listDocuments,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/documents/{rest...}", id: "getDocument", tag: tagDocuments,
			path:    "/v1/indexes/{index}/documents/{key}",
			summary: "Get one document", doc: "With metadata and the served version.", kept: true,
			query: []parameter{pinned}, answer: DocumentDetail{}, problems: ofAnIndex, shows: showsOwn, handler: s.getDocument,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/documents/{rest...}", id: "getDocumentText", tag: tagDocuments,
			path:    "/v1/indexes/{index}/documents/{key}/text",
			summary: "Get the decoded text of a document", kept: true,
			doc: "Returns at most 1,048,576 code points. Offsets are code points of the served version, as in " +
				"passages and mentions.",
			query: []parameter{
				{"version", plain, "SHA-256 of the content that the offsets refer to; 404 if another version is served", nil},
				{"start", count, "first code point; default: the beginning", 0},
				{"end", count, "code point after the last; default: the end", 200},
				pinned,
			},
			answer: DocumentText{}, problems: ofAnIndex, shows: showsOwn, handler: s.documentText,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/chunks/{id}", id: "getChunk", tag: tagDocuments,
			summary: "Get one passage", doc: "With the entities extracted from it.", kept: true,
			query: []parameter{pinned}, answer: ChunkDetail{}, problems: ofAnIndex, shows: showsOwn, handler: s.getChunk,
		},
	}
}

func (s *Server) entityRoutes() []route {
	return []route{
		{
			method: "GET", pattern: "/v1/indexes/{index}/entities", id: "listEntities", tag: tagEntities,
			summary: "List entities", doc: "By name, or by number of passages.",
			kept: true,
			query: []parameter{
				{"prefix", plain, "first characters of the name, case-insensitive", "os"},
				{"contains", plain, "part of the name, case-insensitive", "slo"},
				{"type", plain, "only entities of this type, case-insensitive; 422 if the index has no such type", nil},
				{"document", plain, "key of a document: only entities that it mentions", "cities/oslo.txt"},
				{"order", map[string]any{"type": "string", "enum": []any{byName, byPassages}, "default": byName},
					"passages: most mentioned first", nil},
				paged, howMany, pinned,
			},
			answer: Entities{}, problems: ofAnIndex, shows: showsOwn, handler: s.listEntities,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/entities/{id}", id: "getEntity", tag: tagEntities,
			summary: "Get one entity", doc: "With its description, merged from its mentions.", kept: true,
			query: []parameter{pinned}, answer: EntityDetail{}, problems: ofAnIndex, shows: showsOwn, handler: s.getEntity,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/entities/{id}/chunks", id: "listEntityChunks", tag: tagEntities,
			summary: "List the passages that mention an entity", doc: "By document key, then position.",
			kept: true, query: []parameter{paged, howMany, pinned},
			answer: EntityChunks{}, problems: ofAnIndex, shows: showsOwn, handler: s.entityChunks,
		},
	}
}

func (s *Server) runRoutes() []route {
	return []route{
		{
			method: "GET", pattern: "/v1/indexes/{index}/runs", id: "listRuns", tag: tagRuns,
			summary: "List the runs of an index",
			doc:     "Lists running runs and runs with a report, newest first, also of indexes that were never published.",
			kept:    true, scope: access.Operate, query: []parameter{paged, howMany}, answer: Runs{},
			problems: append([]int{http.StatusGone}, ofArtifact...), shows: showsRuns, handler: s.listRuns,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/runs/{run...}", path: "/v1/indexes/{index}/runs/{run}", id: "getRun",
			tag:     tagRuns,
			summary: "Get one run", doc: "Progress, cost and problems, as in `unweaver status --json`.",
			kept: true, scope: access.Operate, answer: RunDetail{}, problems: ofArtifact, shows: showsRuns, handler: s.getRun,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/runs/{run...}", path: "/v1/indexes/{index}/runs/{run}/report",
			id: "getRunReport", tag: tagRuns, shows: showsRuns, handler: s.runReport,
			summary: "Get the report of a run as text", kept: true, scope: access.Operate, problems: ofArtifact,
			doc: "Markdown: what to do, stages, cost, estimate, changes, gates, failures.",
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/trends", id: "getTrends", tag: tagRuns,
			summary: "Get the figures of the last nights",
			doc: "Of each ended build, oldest first: passages, changes, calls, tokens, cost, time, error of the estimate, " +
				"failures, bytes.",
			kept: true, scope: access.Operate, answer: runlog.Trends{}, problems: ofArtifact,
			shows: showsRuns, handler: s.serveTrends,
			query: []parameter{{"nights", map[string]any{
				"type": "integer", "minimum": 1, "maximum": runlog.MostNights, "default": usualNights,
			}, "how many", 30}},
		},
	}
}

func (s *Server) operationRoutes() []route {
	return []route{
		{
			method: "GET", pattern: "/livez", id: "live", tag: tagOperations, summary: "Check that the process answers",
			doc: "Reads no store.", answer: Alive{}, open: true, shows: showsNone, handler: serveAlive,
		},
		{
			method: "GET", pattern: "/readyz", id: "ready", tag: tagOperations,
			summary: "Check that stores answer and indexes are open",
			doc: "Probes every store. Lists indexes that cannot be opened, with cause and remedy. The replica stays " +
				"ready while it serves at least one index.",
			query:    []parameter{{"index", plain, "index that must be served; default: any", nil}},
			problems: []int{http.StatusNotFound},
			answer:   Readiness{}, scope: access.Operate, shows: showsNone, handler: s.serveReady,
		},
		{
			method: "GET", pattern: "/v1/usage", id: "getUsage", tag: tagOperations,
			summary: "Get what the caller used of its quotas today",
			doc: "Counted over all replicas, by `query_api.quotas`; the people of a group share what a quota by groups allows." +
				" This request is not counted.",
			answer: KeyUsage{}, problems: []int{http.StatusServiceUnavailable}, shows: showsNone, handler: s.serveUsage,
		},
		{
			method: "GET", pattern: "/metrics", id: "metrics", tag: tagOperations, summary: "Get metrics for Prometheus",
			doc: "Requires a key for all indexes.", scope: access.Operate, shows: showsRuns, handler: s.serveMetrics,
		},
	}
}

package api

import (
	"net/http"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
)

// route is one operation: how it is reached, and what its description says.
type route struct {
	method, pattern string
	path            string // as described, where the mux writes it otherwise
	id              string // operationId: names of methods in generated clients
	tag             string
	summary, doc    string
	query           []parameter
	body            any    // zero value of its type; nil: none
	answer          any    // zero value; nil: not JSON
	events          string // what the answer holds where it is a stream of events; empty: it never is
	problems        []int
	failure         any              // zero value of what errors are told as; nil: Problem
	most            string           // what a body may have; empty: 64 KiB
	kept            bool             // answers have an ETag
	scope           access.Scope     // that a key needs
	open            bool             // needs no key
	handler         http.HandlerFunc // nil: another route of the table answers it
}

// described is the path in the description.
func (r route) described() string {
	if r.path != "" {
		return r.path
	}
	return r.pattern
}

// allProblems are those of the route and those that every request can meet.
func (r route) allProblems() []int {
	out := []int{http.StatusBadRequest, http.StatusMisdirectedRequest, http.StatusUnprocessableEntity}
	if !r.open {
		out = append(out, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests,
			http.StatusInternalServerError)
		if r.pattern != "/readyz" {
			out = append(out, http.StatusServiceUnavailable)
		}
	}
	if r.body != nil {
		out = append(out, http.StatusRequestTimeout, http.StatusUnsupportedMediaType)
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
	pinned  = parameter{"generation", plain, "the generation to read; without it the one that is served now", nil}
	howMany = parameter{"limit", map[string]any{
		"type": "integer", "minimum": 1, "maximum": maxLimit, "default": defaultLimit,
	}, "entries of a page", 20}
	paged = parameter{
		"cursor", map[string]any{"type": "string", "pattern": "^$|" + cursorForm},
		"next_cursor of the page before, with the same order and filters (else 422); none, or an empty one, for the " +
			"first. It ends with 410 when the generation or entry that it names is gone", nil,
	}
	ofAnIndex  = []int{http.StatusNotFound, http.StatusGone, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	ofAQuery   = append([]int{http.StatusRequestEntityTooLarge, http.StatusBadGateway}, ofAnIndex...)
	ofArtifact = []int{http.StatusNotFound, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	ofStores   = []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout}
)

// Tags of operations, in the order of the description.
const (
	tagQuery      = "query"
	tagIndexes    = "indexes"
	tagDocuments  = "documents"
	tagEntities   = "entities"
	tagRuns       = "runs"
	tagAgents     = "agents"
	tagOperations = "operations"
)

// routes is the table of operations. Mux and OpenAPI are made from it.
func (s *Server) routes() []route {
	var table []route
	for _, part := range [][]route{
		s.indexRoutes(), s.documentRoutes(), s.entityRoutes(), s.runRoutes(), s.agents(), s.operationRoutes(),
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
			doc: "Finds the passages of the index that help to answer, in the order of their use, and on request the answer " +
				"of the chat model with citations. Scores order one response; they do not compare across responses. Few " +
				"questions are answered at once whose parameters ask for heavy work: one more is a 429 with Retry-After, " +
				"and ordinary ones are answered beside them.",
			body: answer.Request{}, answer: answer.Response{}, problems: ofAQuery, handler: s.query, events: queryEvents,
		},
		{
			method: "GET", pattern: "/v1/indexes", id: "listIndexes", tag: tagIndexes, summary: "List published indexes",
			doc: "Those that the key is for, by name.", kept: true,
			query:  []parameter{paged, howMany},
			answer: Indexes{}, problems: append([]int{http.StatusGone}, ofStores...), handler: s.listIndexes,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}", id: "getIndex", tag: tagIndexes, summary: "Get one index",
			doc:  "What is served of it, since when, how large it is, and what is wrong with it.",
			kept: true, answer: IndexCard{}, problems: ofArtifact, handler: s.card,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/generations", id: "listGenerations", tag: tagIndexes,
			summary: "List the generations of an index", doc: "The one that is served first, then the newest first.",
			kept: true, query: []parameter{paged, howMany}, answer: Generations{},
			problems: append([]int{http.StatusGone}, ofArtifact...), handler: s.listGenerations,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/generations/{generation}", id: "getGeneration", tag: tagIndexes,
			summary: "Get one generation", doc: "With the report of the run that made it and what changed against its parent.",
			kept: true, answer: GenerationDetail{}, problems: ofArtifact, handler: s.generation,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/memory", id: "getMemory", tag: tagIndexes,
			summary: "Get the themes of an index",
			doc: "What enrichment `gem` made: themes, each with the passages of its largest loadings, and what the spectrum " +
				"says. A generation without it is a 422 that names the setting.",
			kept: true, answer: Memory{}, problems: ofAnIndex, handler: s.memory,
			query: []parameter{{"nodes", map[string]any{
				"type": "integer", "minimum": 1, "maximum": mostNodes, "default": mostNodes,
			}, "the most passages in all, as many of each theme as of any other", 60}, pinned},
		},
	}
}

func (s *Server) documentRoutes() []route {
	return []route{
		{
			method: "GET", pattern: "/v1/indexes/{index}/documents", id: "listDocuments", tag: tagDocuments,
			summary: "List documents", doc: "In the byte order of their keys.", kept: true,
			query: []parameter{
				{"prefix", plain, "only documents whose key starts with it", "cities/"}, paged, howMany, pinned,
			},
			answer: Documents{}, problems: ofAnIndex, handler: s.listDocuments,
		},
		{
			method: "GET", path: "/v1/indexes/{index}/documents/{key}", id: "getDocument", tag: tagDocuments,
			summary: "Get one document", doc: "Its metadata, and which version of it is served.", kept: true,
			query: []parameter{pinned}, answer: DocumentDetail{}, problems: ofAnIndex,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/documents/{rest...}", id: "getDocumentText", tag: tagDocuments,
			path:    "/v1/indexes/{index}/documents/{key}/text",
			summary: "Get the decoded text of a document", kept: true,
			doc: "All of it, or a range, at most 1,048,576 code points. Offsets are code points of the version that is " +
				"served, as in passages and mentions.",
			query: []parameter{
				{"version", plain, "sha256 of the content that offsets are of; 404 where another is served", nil},
				{"start", count, "first code point; without it the beginning", 0},
				{"end", count, "code point behind the last; without it the end", 200},
				pinned,
			},
			answer: DocumentText{}, problems: ofAnIndex, handler: s.document,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/chunks/{id}", id: "getChunk", tag: tagDocuments,
			summary: "Get one passage", doc: "With what was extracted from it.", kept: true,
			query: []parameter{pinned}, answer: ChunkDetail{}, problems: ofAnIndex, handler: s.getChunk,
		},
	}
}

func (s *Server) entityRoutes() []route {
	return []route{
		{
			method: "GET", pattern: "/v1/indexes/{index}/entities", id: "listEntities", tag: tagEntities,
			summary: "List entities", doc: "In the order of their folded names, or those with the most passages first.",
			kept: true,
			query: []parameter{
				{"prefix", plain, "only entities whose name starts with it, whatever the case", "os"},
				{"contains", plain, "only entities whose name contains it, whatever the case", "slo"},
				{"order", map[string]any{"type": "string", "enum": []any{byName, byPassages}, "default": byName},
					"passages: those that the most passages mention first; keep it, contains and prefix for the next page", nil},
				paged, howMany, pinned,
			},
			answer: Entities{}, problems: ofAnIndex, handler: s.listEntities,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/entities/{id}", id: "getEntity", tag: tagEntities,
			summary: "Get one entity", doc: "With its description, merged from all mentions.", kept: true,
			query: []parameter{pinned}, answer: EntityDetail{}, problems: ofAnIndex, handler: s.getEntity,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/entities/{id}/chunks", id: "listEntityChunks", tag: tagEntities,
			summary: "List the passages that mention an entity", doc: "In passage order: documents by key, passages by place.",
			kept: true, query: []parameter{paged, howMany, pinned},
			answer: EntityChunks{}, problems: ofAnIndex, handler: s.entityChunks,
		},
	}
}

func (s *Server) runRoutes() []route {
	return []route{
		{
			method: "GET", pattern: "/v1/indexes/{index}/runs", id: "listRuns", tag: tagRuns,
			summary: "List the runs of an index",
			doc: "Those that go on, and those whose reports are kept, the one that began last first. An index that was " +
				"never published has runs, too.",
			kept: true, scope: access.Operate, query: []parameter{paged, howMany}, answer: Runs{},
			problems: append([]int{http.StatusGone}, ofArtifact...), handler: s.listRuns,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/runs/{run...}", path: "/v1/indexes/{index}/runs/{run}", id: "getRun",
			tag:     tagRuns,
			summary: "Get one run", doc: "Its progress, cost and problems: what `unweaver status --json` prints.",
			kept: true, scope: access.Operate, answer: RunDetail{}, problems: ofArtifact, handler: s.getRun,
		},
		{
			method: "GET", path: "/v1/indexes/{index}/runs/{run}/report", id: "getRunReport", tag: tagRuns,
			summary: "Get the report of a run as text", kept: true, scope: access.Operate, problems: ofArtifact,
			doc: "Markdown for people: what to do, stages, cost, estimate against actual, changes by reason, gates, " +
				"failures.",
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/trends", id: "getTrends", tag: tagRuns,
			summary: "Get what the last nights came to",
			doc: "Of the builds of an index that ended, the oldest first: passages, changes, calls, tokens, cost, time, how " +
				"wrong the estimate was, failures, bytes. They are kept longer than generations.",
			kept: true, scope: access.Operate, answer: runlog.Trends{}, problems: ofArtifact, handler: s.trends,
			query: []parameter{{"nights", map[string]any{
				"type": "integer", "minimum": 1, "maximum": runlog.MostNights, "default": usualNights,
			}, "how many of them", 30}},
		},
	}
}

func (s *Server) operationRoutes() []route {
	return []route{
		{
			method: "GET", pattern: "/livez", id: "live", tag: tagOperations, summary: "Tell whether the process answers",
			doc: "It asks no store.", answer: Alive{}, open: true, handler: alive,
		},
		{
			method: "GET", pattern: "/readyz", id: "ready", tag: tagOperations,
			summary: "Tell whether stores answer and what can be served is open",
			doc: "Really probes every store. An index that cannot be opened is told with its cause and remedy, and takes " +
				"nothing else away: the replica is ready as long as it serves another.",
			query:    []parameter{{"index", plain, "the index that counts; without it any that is served", nil}},
			problems: []int{http.StatusNotFound},
			answer:   Readiness{}, scope: access.Operate, handler: s.ready,
		},
		{
			method: "GET", pattern: "/metrics", id: "metrics", tag: tagOperations, summary: "Get metrics for Prometheus",
			doc: "Their labels name indexes: it takes a key of all of them.", scope: access.Operate, handler: s.metered,
		},
	}
}

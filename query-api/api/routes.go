package api

import (
	"net/http"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/answer/bisect"
	"github.com/unweaver/unweaver/internal/methods/gem/gemmethod"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/query-api/openapi"
)

type (
	route     = openapi.Route
	parameter = openapi.Parameter
)

var (
	plain   = map[string]any{"type": "string"}
	count   = map[string]any{"type": "integer", "minimum": 0, "maximum": maxRunes}
	pinned  = parameter{Name: "generation", Schema: plain, Doc: "the generation to read; default: the current one"}
	howMany = parameter{Name: "limit", Schema: map[string]any{
		"type": "integer", "minimum": 1, "maximum": maxLimit, "default": defaultLimit,
	}, Doc: "entries per page", Example: 20}
	paged = parameter{
		Name: "cursor", Schema: map[string]any{"type": "string", "pattern": "^$|" + cursorForm},
		Doc: "next_cursor of the previous page, with the same order and filters (else 422); empty or absent: the first " +
			"page. 410: its generation or entry no longer exists, start again",
	}
	ofAnIndex  = []int{http.StatusNotFound, http.StatusGone, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	ofAQuery   = append([]int{http.StatusRequestEntityTooLarge, http.StatusBadGateway}, ofAnIndex...)
	ofArtifact = []int{http.StatusNotFound, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	ofStores   = []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout}
)

// Tags of operations.
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

// What routes show of the documents of an index with labels.
const (
	showsOwn  = "those that the caller may read" // as if the index had no others
	showsAll  = "all, or `forbidden`"            // generations: a caller who may not read all gets none
	showsRuns = "all, by scope alone"            // runs and their reports, to scope operate
	showsHeld = "questions with labels that the caller holds"
	showsNone = "none"
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
		if table[i].Scope == "" {
			table[i].Scope = access.Query
		}
	}
	return table
}

func (s *Server) indexRoutes() []route {
	return []route{
		{
			Method: "POST", Pattern: "/v1/indexes/{index}/query", ID: "query", Tag: tagQuery, Summary: "Ask a question",
			Doc: "Returns the most relevant passages, best first, and on request an answer with citations. Scores are " +
				"comparable only within one response. Only a few queries with expensive parameters run at a time: the next one " +
				"returns 429 with Retry-After.",
			Body: answer.Request{}, Answer: answer.Response{}, Problems: ofAQuery,
			Shows: showsOwn, Asks: true, Handler: s.serveQuery, Events: queryEvents,
		},
		{
			Method: "POST", Pattern: "/v1/query", ID: "querySeveral", Tag: tagQuery, Summary: "Ask several indexes at once",
			Doc: "Asks each index beside the others and fuses their passages by rank. One that fails is named in `indexes` " +
				"and `degraded`, and the others answer. A name that the key may not read is a 404, as one that does not exist; a " +
				"pattern leaves it out.",
			Body: answer.SeveralRequest{}, Answer: answer.Response{}, Problems: ofAQuery,
			Shows: showsOwn, Asks: true, Handler: s.serveSeveral,
			Events: queryEvents,
		},
		{
			Method: "GET", Pattern: "/v1/indexes", ID: "listIndexes", Tag: tagIndexes, Summary: "List published indexes",
			Doc: "Lists the indexes that the key can read, by name.", Kept: true,
			Query:  []parameter{paged, howMany},
			Answer: Indexes{}, Problems: append([]int{http.StatusGone}, ofStores...), Shows: showsOwn,
			Handler: s.answerTagged(s.listIndexes),
		},
		{
			Method: "GET", Pattern: "/v1/indexes/{index}", ID: "getIndex", Tag: tagIndexes, Summary: "Get one index",
			Doc:  "Returns its served generation, age, size and problems.",
			Kept: true, Answer: IndexCard{}, Problems: ofArtifact, Shows: showsOwn, Handler: s.serveCard,
		},
		{
			Method: "GET", Pattern: "/v1/indexes/{index}/generations", ID: "listGenerations", Tag: tagIndexes,
			Summary: "List the generations of an index", Doc: "The current one first, then the newest.",
			Kept: true, Query: []parameter{paged, howMany}, Answer: Generations{},
			Problems: append([]int{http.StatusGone}, ofArtifact...), Shows: showsAll, Handler: s.answerTagged(s.listGenerations),
		},
		{
			Method: "GET", Pattern: "/v1/indexes/{index}/generations/{generation}", ID: "getGeneration", Tag: tagIndexes,
			Summary: "Get one generation", Doc: "With the report of its run and the changes against its parent.",
			Kept: true, Answer: GenerationDetail{}, Problems: ofArtifact, Shows: showsAll,
			Handler: s.answerTagged(s.getGeneration),
		},
		{
			Method: "POST", Pattern: "/v1/indexes/{index}/bisect", ID: "bisect", Tag: tagIndexes,
			Summary: "Find the night that took a document away",
			Doc: "Finds the last generation that returns a document for a question and the first one after it that does not, " +
				"and what changed between them. It asks about log2 of those that are kept, and has 120 seconds.",
			Body: bisect.Request{}, Answer: bisect.Found{}, Scope: access.Operate, Problems: ofAQuery,
			Shows: showsAll, Asks: true, Handler: s.serveBisect,
		},
		{
			Method: "GET", Pattern: "/v1/indexes/{index}/memory", ID: "getMemory", Tag: tagIndexes,
			Summary: "Get the themes of an index",
			Doc: "Returns the results of enrichment `gem`: themes with their strongest passages, and the spectrum. Without " +
				"the enrichment the response is a 422 that names the setting.",
			Kept: true, Answer: gemmethod.View{}, Problems: ofAnIndex, Shows: showsOwn, Handler: s.answerPinned(serveMemory),
			Query: []parameter{{Name: "nodes", Schema: map[string]any{
				"type": "integer", "minimum": 1, "maximum": mostNodes, "default": mostNodes,
			}, Doc: "passages in total, spread evenly over the themes", Example: 60}, pinned},
		},
	}
}

func (s *Server) documentRoutes() []route {
	return []route{
		{
			Method: "GET", Pattern: "/v1/indexes/{index}/documents", ID: "listDocuments", Tag: tagDocuments,
			Summary: "List documents", Doc: "In byte order of their keys.", Kept: true,
			Query: []parameter{
				{Name: "prefix", Schema: plain, Doc: "first characters of the key", Example: "cities/"}, paged, howMany, pinned,
			},
			Answer: Documents{}, Problems: ofAnIndex, Shows: showsOwn, Handler: s.answerPinned(listDocuments),
		},
		{
			Method: "GET", Pattern: "/v1/indexes/{index}/documents/{rest...}", ID: "getDocument", Tag: tagDocuments,
			Path:    "/v1/indexes/{index}/documents/{key}",
			Summary: "Get one document", Doc: "With metadata and the served version.", Kept: true,
			Query: []parameter{pinned}, Answer: DocumentDetail{}, Problems: ofAnIndex, Shows: showsOwn,
			Handler: s.answerPinned(getDocument),
		},
		{
			Method: "GET", Pattern: "/v1/indexes/{index}/documents/{rest...}", ID: "getDocumentText", Tag: tagDocuments,
			Path:    "/v1/indexes/{index}/documents/{key}/text",
			Summary: "Get the decoded text of a document", Kept: true,
			Doc: "Returns at most 1,048,576 code points. Offsets are code points of the served version, as in " +
				"passages and mentions.",
			Query: []parameter{
				{
					Name: "version", Schema: plain,
					Doc: "SHA-256 of the content that the offsets refer to; 404 if another version is served",
				},
				{Name: "start", Schema: count, Doc: "first code point; default: the beginning", Example: 0},
				{Name: "end", Schema: count, Doc: "code point after the last; default: the end", Example: 200},
				pinned,
			},
			Answer: DocumentText{}, Problems: ofAnIndex, Shows: showsOwn, Handler: s.answerPinned(documentText),
		},
		{
			Method: "GET", Pattern: "/v1/indexes/{index}/chunks/{id}", ID: "getChunk", Tag: tagDocuments,
			Summary: "Get one passage", Doc: "With the entities extracted from it.", Kept: true,
			Query: []parameter{pinned}, Answer: ChunkDetail{}, Problems: ofAnIndex, Shows: showsOwn,
			Handler: s.answerPinned(getChunk),
		},
	}
}

func (s *Server) entityRoutes() []route {
	return []route{
		{
			Method: "GET", Pattern: "/v1/indexes/{index}/entities", ID: "listEntities", Tag: tagEntities,
			Summary: "List entities", Doc: "By name, or by number of passages.",
			Kept: true,
			Query: []parameter{
				{Name: "prefix", Schema: plain, Doc: "first characters of the name, case-insensitive", Example: "os"},
				{Name: "contains", Schema: plain, Doc: "part of the name, case-insensitive", Example: "slo"},
				{
					Name: "type", Schema: plain,
					Doc: "only entities of this type, case-insensitive; 422 if the index has no such type",
				},
				{
					Name: "document", Schema: plain, Doc: "key of a document: only entities that it mentions",
					Example: "cities/oslo.txt",
				},
				{
					Name: "order", Schema: map[string]any{"type": "string", "enum": []any{byName, byPassages}, "default": byName},
					Doc: "passages: most mentioned first",
				},
				paged, howMany, pinned,
			},
			Answer: Entities{}, Problems: ofAnIndex, Shows: showsOwn, Handler: s.answerPinned(s.listEntities),
		},
		{
			Method: "GET", Pattern: "/v1/indexes/{index}/entities/{id}", ID: "getEntity", Tag: tagEntities,
			Summary: "Get one entity", Doc: "With its description, merged from its mentions.", Kept: true,
			Query: []parameter{pinned}, Answer: EntityDetail{}, Problems: ofAnIndex, Shows: showsOwn,
			Handler: s.answerPinned(s.getEntity),
		},
		{
			Method: "GET", Pattern: "/v1/indexes/{index}/entities/{id}/chunks", ID: "listEntityChunks", Tag: tagEntities,
			Summary: "List the passages that mention an entity", Doc: "By document key, then position.",
			Kept: true, Query: []parameter{paged, howMany, pinned},
			Answer: EntityChunks{}, Problems: ofAnIndex, Shows: showsOwn, Handler: s.answerPinned(s.entityChunks),
		},
	}
}

func (s *Server) runRoutes() []route {
	return []route{
		{
			Method: "GET", Pattern: "/v1/indexes/{index}/runs", ID: "listRuns", Tag: tagRuns,
			Summary: "List the runs of an index",
			Doc:     "Lists running runs and runs with a report, newest first, also of indexes that were never published.",
			Kept:    true, Scope: access.Operate, Query: []parameter{paged, howMany}, Answer: Runs{},
			Problems: append([]int{http.StatusGone}, ofArtifact...), Shows: showsRuns, Handler: s.answerTagged(s.listRuns),
		},
		{
			Method: "GET", Pattern: "/v1/indexes/{index}/runs/{run...}", Path: "/v1/indexes/{index}/runs/{run}", ID: "getRun",
			Tag:     tagRuns,
			Summary: "Get one run", Doc: "Progress, cost and problems, as in `unweaver status --json`.",
			Kept: true, Scope: access.Operate, Answer: RunDetail{}, Problems: ofArtifact, Shows: showsRuns,
			Handler: s.answerTagged(s.getRun),
		},
		{
			Method: "GET", Pattern: "/v1/indexes/{index}/runs/{run...}", Path: "/v1/indexes/{index}/runs/{run}/report",
			ID: "getRunReport", Tag: tagRuns, Shows: showsRuns, Handler: s.runReport,
			Summary: "Get the report of a run as text", Kept: true, Scope: access.Operate, Problems: ofArtifact,
			Doc: "Markdown: what to do, stages, cost, estimate, changes, gates, failures.",
		},
		{
			Method: "GET", Pattern: "/v1/indexes/{index}/trends", ID: "getTrends", Tag: tagRuns,
			Summary: "Get the figures of the last nights",
			Doc: "Of each ended build, oldest first: passages, changes, calls, tokens, cost, time, error of the estimate, " +
				"failures, bytes.",
			Kept: true, Scope: access.Operate, Answer: runlog.Trends{}, Problems: ofArtifact,
			Shows: showsRuns, Handler: s.answerTagged(s.getTrends),
			Query: []parameter{{Name: "nights", Schema: map[string]any{
				"type": "integer", "minimum": 1, "maximum": runlog.MostNights, "default": usualNights,
			}, Doc: "how many", Example: 30}},
		},
	}
}

func (s *Server) operationRoutes() []route {
	return []route{
		{
			Method: "GET", Pattern: "/livez", ID: "live", Tag: tagOperations, Summary: "Check that the process answers",
			Doc: "Reads no store.", Answer: Alive{}, Open: true, Shows: showsNone, Handler: serveAlive,
		},
		{
			Method: "GET", Pattern: "/readyz", ID: "ready", Tag: tagOperations,
			Summary: "Check that stores answer and indexes are open",
			Doc: "Probes every store. Lists indexes that cannot be opened, with cause and remedy. The replica stays " +
				"ready while it serves at least one index.",
			Query:    []parameter{{Name: "index", Schema: plain, Doc: "index that must be served; default: any"}},
			Problems: []int{http.StatusNotFound},
			Answer:   Readiness{}, Scope: access.Operate, Shows: showsNone, Handler: s.serveReady,
		},
		{
			Method: "GET", Pattern: "/v1/usage", ID: "getUsage", Tag: tagOperations,
			Summary: "Get what the caller used of its quotas today",
			Doc: "Counted over all replicas, by `query_api.quotas`; the people of a group share what a quota by groups allows." +
				" This request is not counted.",
			Answer: KeyUsage{}, Problems: []int{http.StatusServiceUnavailable}, Shows: showsNone, Handler: s.serveUsage,
		},
		{
			Method: "GET", Pattern: "/metrics", ID: "metrics", Tag: tagOperations, Summary: "Get metrics for Prometheus",
			Doc: "Requires a key for all indexes.", Scope: access.Operate, Shows: showsRuns, Handler: s.serveMetrics,
		},
	}
}

package api

import (
	"net/http"

	"github.com/unweaver/unweaver/internal/access"
)

// route is one operation: how it is reached, and what its description says.
type route struct {
	method, pattern string
	path            string // as described, where the mux writes it otherwise
	summary         string
	query           []parameter
	body            any    // zero value of its type; nil: none
	answer          any    // zero value; nil: not JSON
	events          string // what the answer holds where it is a stream of events; empty: it never is
	problems        []int
	failure         any          // zero value of what errors are told as; nil: Problem
	scope           access.Scope // that a key needs
	open            bool         // needs no key
	handler         http.HandlerFunc
}

// allProblems are those of the route and those that every request can meet.
func (r route) allProblems() []int {
	out := []int{
		http.StatusBadRequest, http.StatusMisdirectedRequest, http.StatusUnprocessableEntity,
	}
	if !r.open {
		out = append(out, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests)
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
	name   string
	schema map[string]any
}

var (
	plain   = map[string]any{"type": "string"}
	count   = map[string]any{"type": "integer", "minimum": 0, "maximum": maxRunes}
	cursor  = map[string]any{"type": "string", "pattern": "^(0|[1-9][0-9]{0,8})$"}
	pinned  = parameter{"generation", plain}
	howMany = parameter{"limit", map[string]any{
		"type": "integer", "minimum": 1, "maximum": maxLimit, "default": defaultLimit,
	}}
	ofAnIndex  = []int{http.StatusNotFound, http.StatusGone, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	ofAQuery   = append([]int{http.StatusBadRequest, http.StatusRequestEntityTooLarge}, ofParams...)
	ofParams   = append([]int{http.StatusUnprocessableEntity, http.StatusTooManyRequests}, ofAnIndex...)
	ofBrowsing = append([]int{http.StatusUnprocessableEntity}, ofAnIndex...)
	ofStores   = []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout}
)

// routes is the table of operations. Mux and OpenAPI are made from it.
func (s *Server) routes() []route {
	table := []route{
		{
			method: "POST", pattern: "/v1/indexes/{index}/query", summary: "Ask a question",
			body: Request{}, answer: Response{}, problems: ofAQuery, handler: s.query, events: queryEvents,
		},
		{
			method: "GET", pattern: "/v1/indexes", summary: "Published indexes",
			answer: Indexes{}, problems: ofStores, handler: s.listIndexes,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/generations", summary: "Generations of an index",
			answer: Generations{}, problems: append([]int{http.StatusNotFound}, ofStores...), handler: s.listGenerations,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/entities", summary: "Entities by name",
			query:  []parameter{{"prefix", plain}, howMany, pinned},
			answer: Entities{}, problems: ofBrowsing, handler: s.listEntities,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/entities/{id}", summary: "One entity",
			query: []parameter{pinned}, answer: EntityDetail{}, problems: ofAnIndex, handler: s.getEntity,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/entities/{id}/chunks", summary: "Chunks of an entity",
			query:  []parameter{{"cursor", cursor}, howMany, pinned},
			answer: EntityChunks{}, problems: ofBrowsing, handler: s.entityChunks,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/chunks/{id}", summary: "A chunk with what was extracted from it",
			query: []parameter{pinned}, answer: ChunkDetail{}, problems: ofAnIndex, handler: s.getChunk,
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/documents/{rest...}",
			path:    "/v1/indexes/{index}/documents/{key}/text",
			summary: "Decoded text of a document; offsets are code points",
			query:   []parameter{{"version", plain}, {"start", count}, {"end", count}, pinned},
			answer:  DocumentText{}, problems: ofBrowsing, handler: s.documentText,
		},
		{
			method: "GET", pattern: "/livez", summary: "Whether the process answers",
			answer: Alive{}, open: true, handler: alive,
		},
		{
			method: "GET", pattern: "/readyz", summary: "Whether stores answer and every index has a generation open",
			answer: Readiness{}, scope: access.Operate, handler: s.ready,
		},
		{
			method: "GET", pattern: "/metrics", summary: "Metrics for Prometheus", scope: access.Operate,
			handler: s.metered,
		},
	}
	table = append(table, s.agents()...)
	for i := range table {
		if table[i].scope == "" {
			table[i].scope = access.Query
		}
	}
	return table
}

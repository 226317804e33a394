package api

import (
	"net/http"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/chat"
	"github.com/unweaver/unweaver/query-api/mcp"
	"github.com/unweaver/unweaver/query-api/within"
)

// agents are the routes for programs that know the form of OpenAI, or the Model Context Protocol: they ask the other
// routes, in the name of who asks.
func (s *Server) agents() []route {
	routes := within.Routes{Handler: http.HandlerFunc(s.inside)}
	service := chat.Service{Routes: routes}
	return []route{
		{
			method: "POST", pattern: "/mcp", summary: "Tools for agents, by the Model Context Protocol without sessions",
			body: mcp.Message{}, answer: mcp.Reply{}, failure: mcp.Reply{},
			problems: []int{http.StatusNotFound, http.StatusRequestEntityTooLarge},
			handler:  mcp.Handler(mcp.Backend{To: routes}).ServeHTTP,
		},
		{
			method: "POST", pattern: "/v1/chat/completions", summary: "Ask an index in the form of OpenAI",
			body: chat.Request{}, answer: chat.Completion{}, problems: ofAQuery, failure: chat.Failure{},
			events: "with stream: chunks of a completion, and at last [DONE]", handler: service.Complete,
		},
		{
			method: "GET", pattern: "/v1/models", summary: "Indexes in the form of OpenAI",
			answer: chat.Models{}, problems: ofStores, failure: chat.Failure{}, handler: service.Models,
		},
		{
			method: "GET", pattern: "/v1/models/{model...}", path: "/v1/models/{model}",
			summary: "One index in the form of OpenAI", answer: chat.Model{}, failure: chat.Failure{},
			problems: append([]int{http.StatusNotFound}, ofStores...), handler: service.Model,
		},
	}
}

// inside serves the routes to routes: their callers have passed the guard.
func (s *Server) inside(w http.ResponseWriter, request *http.Request) { s.mux().ServeHTTP(w, request) }

// asked writes a problem in the form that the path speaks.
func asked(w http.ResponseWriter, request *http.Request, problem Problem, err error) bool {
	if !chat.Speaks(request.URL.Path) {
		return false
	}
	told := within.Problem{
		Status: problem.Status, Code: problem.Code, Detail: problem.Detail, Hint: problem.Hint, Reference: problem.Reference,
	}
	if problem.Status == http.StatusServiceUnavailable || problem.Status == http.StatusTooManyRequests {
		told.RetryAfter = max(time.Second, fault.RetryAfter(err))
	}
	if detail, ok := strings.CutSuffix(told.Detail, " ("+told.Hint+")"); ok {
		told.Detail = detail // the form has no place for a hint, and adds it
	}
	chat.Fail(w, told)
	return true
}

package api

import (
	"net/http"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/chat"
	"github.com/unweaver/unweaver/query-api/inproc"
	"github.com/unweaver/unweaver/query-api/mcp"
)

// agents are the routes for programs that know the form of OpenAI, or the Model Context Protocol: they ask the other
// routes, in the name of who asks.
func (s *Server) agents() []route {
	routes := inproc.Routes{Handler: http.HandlerFunc(s.inside)}
	service := chat.Service{Routes: routes}
	return []route{
		{
			method: "POST", pattern: "/mcp", id: "sendMessage", tag: tagAgents,
			summary: "Send a message of the Model Context Protocol",
			doc: "Tools for agents: search, answer, explain, get_chunk, get_document and list_indexes. There are no " +
				"sessions: one message, one answer. Accept names application/json and text/event-stream.", most: "256 KiB",
			body: mcp.Message{}, answer: mcp.Reply{}, failure: mcp.Reply{},
			problems: []int{http.StatusNotFound, http.StatusRequestEntityTooLarge},
			handler:  mcp.Handler(mcp.Backend{To: routes}).ServeHTTP,
		},
		{
			method: "POST", pattern: "/v1/chat/completions", id: "createChatCompletion", tag: tagAgents,
			summary: "Ask an index in the form of OpenAI", most: "1 MiB",
			doc: "The model is an index; the last message of a user is the question. Wishes that cannot be met, such as " +
				"tools, are refused.",
			body: chat.Request{}, answer: chat.Completion{}, problems: ofAQuery, failure: chat.Failure{},
			events: "with stream: chunks of a completion, and at last [DONE]", handler: service.Complete,
		},
		{
			method: "GET", pattern: "/v1/models", id: "listModels", tag: tagAgents,
			summary: "List indexes in the form of OpenAI", doc: "Those that the key is for.",
			answer: chat.Models{}, problems: ofStores, failure: chat.Failure{}, handler: service.Models,
		},
		{
			method: "GET", pattern: "/v1/models/{model...}", path: "/v1/models/{model}", id: "getModel",
			tag: tagAgents, summary: "Get one index in the form of OpenAI",
			doc: "A slash in the name may stand as it is.", answer: chat.Model{}, failure: chat.Failure{},
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
	told := inForm(problem)
	if problem.Status == http.StatusServiceUnavailable || problem.Status == http.StatusTooManyRequests {
		told.RetryAfter = max(time.Second, fault.RetryAfter(err))
	}
	chat.Fail(w, told)
	return true
}

// inForm is a problem as the form of OpenAI takes it.
func inForm(problem Problem) inproc.Problem {
	told := inproc.Problem{
		Status: problem.Status, Code: problem.Code, Detail: problem.Detail, Hint: problem.Hint, Reference: problem.Reference,
	}
	if detail, ok := strings.CutSuffix(told.Detail, " ("+told.Hint+")"); ok {
		told.Detail = detail // the form has no place for a hint, and adds it
	}
	return told
}

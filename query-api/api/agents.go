package api

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/unweaver/unweaver/query-api/chat"
	"github.com/unweaver/unweaver/query-api/mcp"
	"github.com/unweaver/unweaver/query-api/problem"
)

// agentRoutes returns the routes for programs that know the form of OpenAI, or the Model Context Protocol: what they
// ask is done in the name of who asks.
func (s *Server) agentRoutes() []route {
	service := chat.Service{Ask: s.askModel, Indexes: s.listModels, Problem: s.inForm}
	tools := mcp.Handler(mcp.Remote{Client: &http.Client{Transport: inside{s}}, Base: "http://localhost"})
	return []route{
		{
			Method: "POST", Pattern: "/mcp", ID: "sendMessage", Tag: tagAgents,
			Summary: "Send a message of MCP",
			Doc: "Tools: search, answer, explain, get_chunk, get_document, list_entities, list_indexes. No sessions. " +
				"Accept must name application/json and text/event-stream.", Most: "256 KiB",
			Body: mcp.Message{}, Answer: mcp.Reply{}, Failure: mcp.Reply{},
			Problems: []int{http.StatusNotFound, http.StatusRequestEntityTooLarge},
			Shows:    showsOwn, Asks: true, Handler: tools.ServeHTTP,
		},
		{
			Method: "POST", Pattern: "/v1/chat/completions", ID: "createChatCompletion", Tag: tagAgents,
			Summary: "Ask an index in OpenAI's form", Most: "1 MiB",
			Doc: "The last user message is the question, which may refer to earlier ones. Tools and unknown fields " +
				"are ignored with a Warning header; options that an index cannot honour are rejected.",
			Body: chat.Request{}, Answer: chat.Completion{}, Problems: ofAQuery, Failure: chat.Failure{},
			Events: "with stream: chunks of a completion, then [DONE]", Shows: showsOwn, Asks: true, Handler: service.Complete,
		},
		{
			Method: "POST", Pattern: "/v1/responses", ID: "createResponse", Tag: tagAgents,
			Summary: "Ask an index in OpenAI's newer form", Most: "1 MiB",
			Doc:  "Works like /v1/chat/completions. Nothing is stored: previous_response_id and background are rejected.",
			Body: chat.ResponseRequest{}, Answer: chat.Response{}, Problems: ofAQuery, Failure: chat.Failure{},
			Events: "with stream: the events of a response, the last one response.completed",
			Shows:  showsOwn, Asks: true, Handler: service.Respond,
		},
		{
			Method: "GET", Pattern: "/v1/models", ID: "listModels", Tag: tagAgents,
			Summary: "List indexes in OpenAI's form", Doc: "Lists the indexes that the key can read.",
			Answer: chat.Models{}, Problems: ofStores, Failure: chat.Failure{}, Shows: showsNone, Handler: service.ServeModels,
		},
		{
			Method: "GET", Pattern: "/v1/models/{model...}", Path: "/v1/models/{model}", ID: "getModel",
			Tag: tagAgents, Summary: "Get one index in OpenAI's form",
			Doc: "The slash in the name can be sent unescaped.", Answer: chat.Model{}, Failure: chat.Failure{},
			Problems: append([]int{http.StatusNotFound}, ofStores...), Shows: showsNone, Handler: service.ServeModel,
		},
	}
}

// listModels returns the indexes that the caller may ask, in the form of OpenAI.
func (s *Server) listModels(ctx context.Context) ([]chat.Model, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	found, err := s.served.ListPublished(ctx)
	models := []chat.Model{}
	for _, known := range found {
		model := chat.Model{ID: chat.Prefix + known.Index, Object: "model", OwnedBy: "unweaver"}
		if !known.Created.IsZero() { // that of one that is damaged is not known
			model.Created = known.Created.Unix()
		}
		models = append(models, model)
	}
	return models, err
}

// inside sends requests of tools to the routes of this process, in the name of the context's caller.
type inside struct{ *Server }

// RoundTrip implements http.RoundTripper.
func (i inside) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := context.WithValue(request.Context(), matchedKey{}, &matched{}) // the log has the tools' own route
	out := &recorded{header: http.Header{}, status: http.StatusOK}
	i.routes.ServeHTTP(out, request.WithContext(ctx))
	return &http.Response{StatusCode: out.status, Header: out.header, Body: io.NopCloser(&out.body)}, request.Body.Close()
}

// recorded is the answer to such a request.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorded) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorded) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *recorded) Write(p []byte) (int, error) { return r.body.Write(p) }

// inForm returns an error in the form that agents read.
func (s *Server) inForm(ctx context.Context, err error) *problem.Problem {
	err = s.explainAbsence(ctx, err)
	return s.toProblem(ctx, "agents", err)
}

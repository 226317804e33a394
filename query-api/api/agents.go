package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/query-api/chat"
	"github.com/unweaver/unweaver/query-api/mcp"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/problem"
	"github.com/unweaver/unweaver/query-api/served"
)

// agentRoutes returns the routes for programs that know the form of OpenAI, or the Model Context Protocol: what they
// ask is done in the name of who asks.
func (s *Server) agentRoutes() []route {
	service := chat.Service{Ask: s.askModel, Indexes: s.listModels, Problem: s.inForm}
	return []route{
		{
			method: "POST", pattern: "/mcp", id: "sendMessage", tag: tagAgents,
			summary: "Send a message of MCP",
			doc: "Tools: search, answer, explain, get_chunk, get_document, list_entities, list_indexes. No sessions. " +
				"Accept must name application/json and text/event-stream.", most: "256 KiB",
			body: mcp.Message{}, answer: mcp.Reply{}, failure: mcp.Reply{},
			problems: []int{http.StatusNotFound, http.StatusRequestEntityTooLarge},
			shows:    showsOwn, asks: true, handler: mcp.Handler(tools{s}).ServeHTTP,
		},
		{
			method: "POST", pattern: "/v1/chat/completions", id: "createChatCompletion", tag: tagAgents,
			summary: "Ask an index in OpenAI's form", most: "1 MiB",
			doc: "The last user message is the question, which may refer to earlier ones. Tools and unknown fields " +
				"are ignored with a Warning header; options that an index cannot honour are rejected.",
			body: chat.Request{}, answer: chat.Completion{}, problems: ofAQuery, failure: chat.Failure{},
			events: "with stream: chunks of a completion, then [DONE]", shows: showsOwn, asks: true, handler: service.Complete,
		},
		{
			method: "POST", pattern: "/v1/responses", id: "createResponse", tag: tagAgents,
			summary: "Ask an index in OpenAI's newer form", most: "1 MiB",
			doc:  "Works like /v1/chat/completions. Nothing is stored: previous_response_id and background are rejected.",
			body: chat.ResponseRequest{}, answer: chat.Response{}, problems: ofAQuery, failure: chat.Failure{},
			events: "with stream: the events of a response, the last one response.completed",
			shows:  showsOwn, asks: true, handler: service.Respond,
		},
		{
			method: "GET", pattern: "/v1/models", id: "listModels", tag: tagAgents,
			summary: "List indexes in OpenAI's form", doc: "Lists the indexes that the key can read.",
			answer: chat.Models{}, problems: ofStores, failure: chat.Failure{}, shows: showsNone, handler: service.ServeModels,
		},
		{
			method: "GET", pattern: "/v1/models/{model...}", path: "/v1/models/{model}", id: "getModel",
			tag: tagAgents, summary: "Get one index in OpenAI's form",
			doc: "The slash in the name can be sent unescaped.", answer: chat.Model{}, failure: chat.Failure{},
			problems: append([]int{http.StatusNotFound}, ofStores...), shows: showsNone, handler: service.ServeModel,
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

// tools is this server as agents ask it.
type tools struct{ *Server }

var _ mcp.Backend = tools{}

// ListIndexes implements mcp.Backend.
func (t tools) ListIndexes(ctx context.Context) (out []mcp.Index, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	found, err := t.served.ListPublished(ctx)
	for _, one := range found {
		out = append(out, mcp.Index{
			Index: one.Index, Generation: one.Generation, Documents: one.Documents, Chunks: one.Chunks, Classes: one.Classes,
		})
	}
	return out, t.wrapError(ctx, err)
}

// Ask implements mcp.Backend.
func (t tools) Ask(ctx context.Context, index string, body []byte) (answer.Response, error) {
	out, err := t.askRaw(ctx, index, body, false)
	return out, t.wrapError(ctx, err)
}

// ReadChunk implements mcp.Backend.
func (t tools) ReadChunk(ctx context.Context, index, generation, id string) (out mcp.Detail, err error) {
	pinned := wanted{generation: generation}
	err = t.readGeneration(ctx, index, pinned, func(ctx context.Context, of *retrieve.Generation) error {
		found, err := chunkDetail(ctx, of, id)
		out = mcp.Detail{
			Index: found.Index, Generation: found.Generation, Chunk: found.Chunk, Mentions: found.Mentions,
		}
		return err
	})
	return out, err
}

// ReadText implements mcp.Backend.
func (t tools) ReadText(
	ctx context.Context, index, document string, values url.Values,
) (out mcp.DocumentText, err error) {
	pinned := wanted{generation: values.Get("generation")}
	err = t.readGeneration(ctx, index, pinned, func(ctx context.Context, of *retrieve.Generation) error {
		found, err := textOf(ctx, of, document, values)
		out = mcp.DocumentText{
			Index: found.Index, Generation: found.Generation, Document: found.Document, Version: found.Version,
			Title: found.Title, Metadata: found.Metadata, Start: found.Start, End: found.End, Length: found.Length,
			Text: found.Text,
		}
		return err
	})
	return out, err
}

// ListEntities implements mcp.Backend.
func (t tools) ListEntities(ctx context.Context, index string, values url.Values) (out mcp.Entities, err error) {
	address := "/v1/indexes/" + url.PathEscape(index) + "/entities?" + values.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil) // what the route's cursors are of
	if err != nil {
		return out, t.wrapError(ctx, err)
	}
	pinned, err := wantedOf(request)
	if err != nil {
		return out, t.wrapError(ctx, err)
	}
	err = t.readGeneration(ctx, index, pinned, func(ctx context.Context, of *retrieve.Generation) error {
		found, err := t.pageEntities(ctx, request, of, pinned.place)
		out = mcp.Entities{Index: found.Index, Generation: found.Generation, NextCursor: found.NextCursor}
		for _, one := range found.Items {
			out.Items = append(out.Items, mcp.Entity(one))
		}
		return err
	})
	return out, err
}

// readGeneration holds a generation that the context's caller may ask.
func (t tools) readGeneration(
	ctx context.Context, index string, pinned wanted, read func(context.Context, *retrieve.Generation) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	if !middleware.CallerOf(ctx).MayRead(index) {
		return t.wrapError(ctx, served.UnknownIndex(index))
	}
	held, err := t.served.Pin(ctx, index, pinned.generation)
	if err != nil {
		return t.wrapError(ctx, pinned.mapGone(err))
	}
	defer held.Close()
	return t.wrapError(ctx, read(ctx, held))
}

func (t tools) wrapError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return t.inForm(ctx, err)
}

// writeAgentProblem writes a problem in the form that the path speaks.
func writeAgentProblem(w http.ResponseWriter, request *http.Request, problem Problem, err error) bool {
	if !chat.IsChatPath(request.URL.Path) {
		return false
	}
	chat.WriteProblem(w, toAgentProblem(problem, err))
	return true
}

// inForm returns an error in the form that agents read.
func (s *Server) inForm(ctx context.Context, err error) *problem.Problem {
	err = s.explainAbsence(ctx, err)
	reported, _ := s.toProblem(ctx, "agents", err)
	return toAgentProblem(reported, err)
}

// toAgentProblem returns a problem as the forms of agents take it.
func toAgentProblem(reported Problem, err error) *problem.Problem {
	return &problem.Problem{
		Status: reported.Status, Code: reported.Code, Detail: reported.Detail, Hint: reported.Hint, Param: reported.Param,
		Reference: reported.Reference, RetryAfter: retryAfter(reported.Status, err),
	}
}

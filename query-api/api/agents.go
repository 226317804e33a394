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
			Method: "POST", Pattern: "/mcp", ID: "sendMessage", Tag: tagAgents,
			Summary: "Send a message of MCP",
			Doc: "Tools: search, answer, explain, get_chunk, get_document, list_entities, list_indexes. No sessions. " +
				"Accept must name application/json and text/event-stream.", Most: "256 KiB",
			Body: mcp.Message{}, Answer: mcp.Reply{}, Failure: mcp.Reply{},
			Problems: []int{http.StatusNotFound, http.StatusRequestEntityTooLarge},
			Shows:    showsOwn, Asks: true, Handler: mcp.Handler(tools{s}).ServeHTTP,
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

// inForm returns an error in the form that agents read.
func (s *Server) inForm(ctx context.Context, err error) *problem.Problem {
	err = s.explainAbsence(ctx, err)
	return s.toProblem(ctx, "agents", err)
}

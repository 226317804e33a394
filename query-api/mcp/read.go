package mcp

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func (s *server) listAll(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, List, error) {
	all, err := s.to.ListIndexes(ctx)
	if err != nil {
		return nil, List{}, toToolError(err)
	}
	out := List{Indexes: append([]Index{}, all...)}
	var text strings.Builder
	for _, index := range all {
		fmt.Fprintf(&text, "%s: %d documents, %d passages, %d entities, generation %s\n",
			index.Index, index.Documents, index.Chunks, index.Classes, index.Generation)
	}
	if len(all) == 0 {
		text.WriteString("There is no published index that the key covers (build one with: unweaver index).")
	}
	return newTextResult(strings.TrimSpace(text.String())), out, nil
}

// paramsOf returns the parameters of a generation.
func paramsOf(generation string) url.Values {
	if generation == "" {
		return url.Values{}
	}
	return url.Values{"generation": {generation}}
}

func (s *server) getChunk(ctx context.Context, _ *sdk.CallToolRequest, asked OfChunk) (
	*sdk.CallToolResult, ChunkText, error,
) {
	var out ChunkText
	index, most, err := s.resolvePlace(ctx, asked.Place, asked.Chunk)
	if err != nil {
		return nil, out, err
	}
	detail, err := s.to.ReadChunk(ctx, index, asked.Generation, asked.Chunk)
	if err != nil {
		return nil, out, toToolError(err)
	}
	out = ChunkText{
		Index: detail.Index, Generation: detail.Generation, Passage: passageOf(detail.Chunk), Entities: []string{},
	}
	for _, mention := range detail.Mentions {
		out.Entities = append(out.Entities, mention.Name)
	}
	whole := len(out.Passage.Text)
	note, runes := "", 0
	out.Passage.Text, runes = shortenText(ctx, out.Passage.Text, most)
	if len(out.Passage.Text) < whole {
		next := out.Passage.Start + runes
		out.NextStart = &next
		note = fmt.Sprintf("Cut to stay within max_tokens: continues at code point %d (get_document, start %d).", next, next)
	}
	return newTextResult(strings.TrimSpace(out.Passage.renderText() + note)), out, nil
}

func (s *server) getDocument(ctx context.Context, _ *sdk.CallToolRequest, asked OfDocument) (
	*sdk.CallToolResult, DocumentText, error,
) {
	out, most, err := s.readDocument(ctx, asked)
	if err != nil {
		return nil, out, err
	}
	var runes int
	out.Text, runes = shortenText(ctx, out.Text, most)
	out.End = out.Start + runes
	head := fmt.Sprintf("%s (%s, %d to %d of %d)\n", out.Title, out.Document, out.Start, out.End, out.Length)
	note := ""
	if wanted := out.Length; out.End < wanted && (asked.End == 0 || out.End < asked.End) {
		next := out.End
		out.NextStart = &next
		note = fmt.Sprintf("\n\nIt continues at code point %d: get_document with start %d.", next, next)
	}
	return newTextResult(head + out.Text + note), out, nil
}

// readDocument returns the text of a document, as much as the route gives at once, and how much of it is to be shown.
func (s *server) readDocument(ctx context.Context, asked OfDocument) (out DocumentText, most int, err error) {
	index, most, err := s.resolvePlace(ctx, asked.Place, asked.Document)
	if err != nil {
		return out, 0, err
	}
	values := paramsOf(asked.Generation)
	if asked.Start != 0 {
		values.Set("start", strconv.Itoa(asked.Start))
	}
	if asked.End != 0 {
		values.Set("end", strconv.Itoa(asked.End))
	}
	out, err = s.to.ReadText(ctx, index, asked.Document, values)
	return out, most, toToolError(err)
}

// documentURI is the address of a document as a resource.
const documentURI = "unweaver://{index}/{+document}"

func (s *server) addResources(to *sdk.Server) {
	to.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "document", Title: "Text of a document", MIMEType: "text/plain", URITemplate: documentURI,
		Description: "Decoded text of a document: the first million code points.",
	}, func(ctx context.Context, request *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		uri := request.Params.URI
		index, key, ok := strings.Cut(strings.TrimPrefix(uri, "unweaver://"), "/")
		if key, err := url.PathUnescape(key); ok && err == nil {
			text, _, err := s.readDocument(ctx, OfDocument{Place: Place{Index: index}, Document: key})
			if err == nil {
				return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
					{URI: uri, MIMEType: "text/plain", Text: text.Text},
				}}, nil
			}
		}
		return nil, sdk.ResourceNotFoundError(uri)
	})
}

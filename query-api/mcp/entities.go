package mcp

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/unweaver/unweaver/internal/model/tokens"
)

// Entity is one entity of a list.
type Entity struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Type       string `json:"type,omitempty" jsonschema:"of the types of the index"`
	ChunkTotal int64  `json:"chunk_total" jsonschema:"passages that mention it"`
}

// Entities is the result of list_entities.
type Entities struct {
	Index      string   `json:"index"`
	Generation string   `json:"generation"`
	Items      []Entity `json:"items"`
	NextCursor string   `json:"next_cursor,omitempty" jsonschema:"cursor of the next page; absent: this is the last"`
}

// OfEntities is what list_entities takes.
type OfEntities struct {
	Place
	Type     string `json:"type,omitempty" jsonschema:"only entities of this type; a wrong one lists those of the index"`
	Document string `json:"document,omitempty" jsonschema:"only entities that the document of this key mentions"`
	Prefix   string `json:"prefix,omitempty" jsonschema:"first characters of the name"`
	Contains string `json:"contains,omitempty" jsonschema:"part of the name"`
	Order    string `json:"order,omitempty" jsonschema:"name (default) or passages: most mentioned first"`
	Limit    int    `json:"limit,omitempty" jsonschema:"entities of a page, 1 to 1000; default 50"`
	Cursor   string `json:"cursor,omitempty" jsonschema:"next_cursor of the page before, with the same arguments"`
}

// ToParameters returns what is asked as the parameters of the route.
func (o OfEntities) ToParameters() url.Values {
	out := url.Values{}
	for name, value := range map[string]string{
		"type": o.Type, "document": o.Document, "prefix": o.Prefix, "contains": o.Contains, "order": o.Order,
		"cursor": o.Cursor, "generation": o.Generation,
	} {
		if value != "" {
			out.Set(name, value)
		}
	}
	if o.Limit != 0 {
		out.Set("limit", strconv.Itoa(o.Limit))
	}
	return out
}

func (s *server) listEntities(ctx context.Context, _ *sdk.CallToolRequest, asked OfEntities) (
	*sdk.CallToolResult, Entities, error,
) {
	index, most, err := s.resolvePlace(ctx, asked.Place)
	if err != nil {
		return nil, Entities{}, err
	}
	out, err := s.to.ListEntities(ctx, index, asked.ToParameters())
	if err != nil {
		return nil, Entities{}, toToolError(err)
	}
	fits, left := 0, most-notesTokens
	for ; fits < len(out.Items); fits++ {
		if left -= tokens.Count(out.Items[fits].RenderText() + "\n"); left < 0 && fits > 0 {
			break
		}
	}
	if fits < len(out.Items) { // the cursor of a page as long as fits goes on behind it
		asked.Limit = fits
		if out, err = s.to.ListEntities(ctx, index, asked.ToParameters()); err != nil {
			return nil, Entities{}, toToolError(err)
		}
	}
	out.Items = append([]Entity{}, out.Items...)
	var text strings.Builder
	for _, one := range out.Items {
		text.WriteString(one.RenderText() + "\n")
	}
	switch {
	case len(out.Items) == 0:
		text.WriteString("There is no such entity.")
	case out.NextCursor != "":
		text.WriteString("There are more: call list_entities again with cursor " + out.NextCursor + ".")
	}
	return newTextResult(strings.TrimSpace(text.String())), out, nil
}

// RenderText returns an entity for a reader.
func (e Entity) RenderText() string {
	kind := ""
	if e.Type != "" {
		kind = e.Type + ", "
	}
	return fmt.Sprintf("%s (%s%d passages, id %s)", e.Name, kind, e.ChunkTotal, e.ID)
}

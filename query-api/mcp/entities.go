package mcp

import (
	"cmp"
	"context"
	"fmt"
	"hash/crc32"
	"net/url"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/unweaver/unweaver/internal/fault"
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
	Index      string `json:"index,omitempty" jsonschema:"the index; may be left out where there is one"`
	Type       string `json:"type,omitempty" jsonschema:"only entities of this type; a wrong one lists those of the index"`
	Document   string `json:"document,omitempty" jsonschema:"only entities that the document of this key mentions"`
	Prefix     string `json:"prefix,omitempty" jsonschema:"first characters of the name"`
	Contains   string `json:"contains,omitempty" jsonschema:"part of the name"`
	Order      string `json:"order,omitempty" jsonschema:"name (default) or passages: most mentioned first"`
	Limit      int    `json:"limit,omitempty" jsonschema:"entities of a page, 1 to 1000; default 50"`
	Cursor     string `json:"cursor,omitempty" jsonschema:"next_cursor of the page before, with the same arguments"`
	Generation string `json:"generation,omitempty" jsonschema:"a kept generation; default: the current one"`
	MaxTokens  *int   `json:"max_tokens,omitempty" jsonschema:"longest text, 1 to 131072; default 6000"`
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
	most, err := longestOf(asked.MaxTokens)
	if err != nil {
		return nil, Entities{}, err
	}
	index, err := s.resolveIndex(ctx, asked.Index)
	if err != nil {
		return nil, Entities{}, err
	}
	page, given := asked.skipGiven(index)
	out, err := s.to.ListEntities(ctx, index, page.ToParameters())
	if err == nil && given > len(out.Items) {
		err = fault.InvalidParam.At("read request", "cursor").
			Because(fmt.Sprintf("%.80q is not a cursor of this list", asked.Cursor)).
			Advise("send next_cursor of the previous page with the same arguments, or no cursor for the first page")
	}
	if err != nil {
		return nil, Entities{}, toToolError(err)
	}
	out.Items = append([]Entity{}, out.Items[given:]...)
	var text strings.Builder
	left := most - notesTokens
	for i, one := range out.Items {
		line := one.RenderText() + "\n"
		if left -= tokens.Count(line); left < 0 && i > 0 {
			out.NextCursor = asked.cutCursor(index, cmp.Or(page.Cursor, out.Generation), given+i)
			out.Items = out.Items[:i]
			break
		}
		text.WriteString(line)
	}
	switch {
	case len(out.Items) == 0:
		text.WriteString("There is no such entity.")
	case out.NextCursor != "":
		text.WriteString("There are more: call list_entities again with cursor " + out.NextCursor + ".")
	}
	return newTextResult(strings.TrimSpace(text.String())), out, nil
}

const (
	// cutMark stands in the cursor of a page whose text was cut: behind the cursor of the page, or behind its generation
	// where it is the first, and before how many of its entities were given and a checksum.
	cutMark = "+"

	usualEntities, mostEntities = 50, 1000 // of a page
)

// cutCursor returns the cursor of the rest of a page. Its checksum is also that of the list, as the same entities of
// another list were not given.
func (o OfEntities) cutCursor(index, page string, given int) string {
	o.Cursor, o.Limit, o.Generation = "", 0, ""
	cursor := page + cutMark + strconv.Itoa(given)
	sum := crc32.ChecksumIEEE(fmt.Appendf(nil, "%s %s?%s", cursor, index, o.ToParameters().Encode()))
	return fmt.Sprintf("%s.%08x", cursor, sum)
}

// skipGiven returns what to ask for, and how many entities of the answer were given before. A cursor that this list did
// not give is left to the route, which refuses it.
func (o OfEntities) skipGiven(index string) (OfEntities, int) {
	page, rest, _ := strings.Cut(o.Cursor, cutMark)
	count, _, _ := strings.Cut(rest, ".")
	given, err := strconv.Atoi(count)
	first := !strings.Contains(page, ".")
	if err != nil || given < 1 || given >= mostEntities || o.cutCursor(index, page, given) != o.Cursor ||
		first && o.Generation != "" && o.Generation != page {
		return o, 0 // a cursor of the route, or none
	}
	o.Cursor = page
	if first {
		o.Cursor, o.Generation = "", page
	}
	if o.Limit >= 0 && o.Limit <= mostEntities {
		o.Limit = min(cmp.Or(o.Limit, usualEntities)+given, mostEntities)
	}
	return o, given
}

// RenderText returns an entity for a reader.
func (e Entity) RenderText() string {
	kind := ""
	if e.Type != "" {
		kind = e.Type + ", "
	}
	return fmt.Sprintf("%s (%s%d passages, id %s)", e.Name, kind, e.ChunkTotal, e.ID)
}

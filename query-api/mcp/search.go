package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/answer/prompt"
)

func passageOf(c answer.Passage) Passage {
	return Passage{
		Chunk: c.ID, Document: c.Document, Version: c.Version, Title: c.Title, Heading: c.Heading, Page: c.Page,
		PageEnd: c.PageEnd, Metadata: c.Metadata, Start: c.Start, End: c.End, Stale: c.Stale, Text: c.Text,
		Newer: c.SupersededBy,
	}
}

// queryIndex asks the query route.
func (s *server) queryIndex(ctx context.Context, asked Question, more string) (
	out answer.Response, found Found, most int, err error,
) {
	most, err = longestOf(asked.MaxTokens)
	if err != nil {
		return out, Found{}, 0, err
	}
	index := ""
	switch {
	case asked.Indexes == nil:
		if index, err = s.resolveIndex(ctx, asked.Index); err != nil {
			return out, Found{}, 0, err
		}
	case asked.Index != "":
		return out, Found{}, 0, errors.New("index and indexes are both given: give one of them")
	}
	raw, err := json.Marshal(struct {
		Asked
		Indexes []string `json:"indexes,omitempty"`
		Answer  bool     `json:"answer"`
		Explain bool     `json:"explain"`
	}{asked.Asked, asked.Indexes, more == "answer", more == "explain"})
	if err != nil {
		return out, Found{}, 0, err
	}
	ctx, cancel := bindContext(ctx)
	defer cancel()
	if out, err = s.to.Ask(ctx, index, raw); err != nil {
		return out, Found{}, 0, toToolError(err)
	}
	found = Found{
		Index: out.Index, Generation: out.Generation, Method: out.Method, Degraded: out.Degraded, Question: out.Question,
		Confidence: out.Confidence, Passages: []Passage{},
	}
	if out.Reason != nil {
		found.Reason = *out.Reason
	}
	for _, next := range out.Chunks {
		passage := passageOf(next.Passage)
		passage.Rank, passage.Score, passage.Index = next.Rank, next.Score, next.Index
		for _, entity := range next.Entities {
			passage.Entities = append(passage.Entities, entity.Name)
		}
		found.Passages = append(found.Passages, passage)
	}
	return out, found, most, nil
}

func newTextResult(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// explainNothing says why a question found nothing.
func explainNothing(response answer.Response) string {
	text := fmt.Sprintf("No passage of index %s matches the question. %s", response.Index, response.ReasonText)
	return strings.TrimSpace(text)
}

func (s *server) searchIndex(ctx context.Context, _ *sdk.CallToolRequest, asked Question) (
	*sdk.CallToolResult, Found, error,
) {
	response, found, most, err := s.queryIndex(ctx, asked, "")
	if err != nil {
		return nil, found, err
	}
	if len(found.Passages) == 0 {
		return newTextResult(explainNothing(response)), found, nil
	}
	var text string
	text, found.Passages, found.Cut = fitPassages("", found.Passages, most)
	return newTextResult(text), found, nil
}

// answerQuestion gives the answer and the passages that it cites; they, not the answer, are cut.
func (s *server) answerQuestion(ctx context.Context, _ *sdk.CallToolRequest, asked Question) (
	*sdk.CallToolResult, Answered, error,
) {
	response, found, most, err := s.queryIndex(ctx, asked, "answer")
	if err != nil {
		return nil, Answered{}, err
	}
	out := Answered{Found: found}
	if said := response.Answer; said != nil {
		out.Answer, out.Citations, out.Kind, out.Truncated = said.Text, said.Citations, said.Kind, said.Truncated
		out.Missing, out.Sure, out.Lacks = said.Reason, said.Confidence, said.Lacks
	}
	out.Notes = response.Notes
	if out.Citations == nil {
		out.Citations = []string{}
	}
	cited := slices.DeleteFunc(found.Passages, func(p Passage) bool { return !slices.Contains(out.Citations, p.Chunk) })
	head := out.Answer + "\n\n"
	switch {
	case out.Kind == prompt.BestSentence && response.Answer.Reason != "":
		head += "(Quoted from the passages: " + response.Answer.Reason + ".)\n\n"
	case out.Kind == prompt.BestSentence:
		head += "(Quoted from the passages: no chat model is configured.)\n\n"
	}
	var text string
	text, out.Passages, out.Cut = fitPassages(head, cited, most)
	return newTextResult(text), out, nil
}

// explainAnswer gives passages in a few words, since it is about why, and the explanation.
func (s *server) explainAnswer(ctx context.Context, _ *sdk.CallToolRequest, asked Question) (
	*sdk.CallToolResult, Explained, error,
) {
	response, found, most, err := s.queryIndex(ctx, asked, "explain")
	if err != nil {
		return nil, Explained{}, err
	}
	for i, passage := range found.Passages {
		short := []rune(passage.Text)
		if len(short) > 160 {
			found.Passages[i].Text = string(short[:160]) + "…"
		}
		if len(passage.Entities) > 0 {
			found.Passages[i].Text += fmt.Sprintf("\nfound through: %q", passage.Entities)
		} else {
			found.Passages[i].Text += "\nfound by words and similarity alone"
		}
	}
	head := fmt.Sprintf("Method %s on generation %s of index %s.\n\n", found.Method, found.Generation, found.Index)
	if found.Generation == "" {
		head = fmt.Sprintf("Indexes %s; explain has the method and generation of each.\n\n", found.Index)
	}
	if len(found.Passages) == 0 {
		head += explainNothing(response)
	}
	out := Explained{Explain: response.Explain}
	if response.Explain == nil && len(response.Indexes) > 0 { // each index has its own
		out.Explain = response.Indexes
	}
	var text string
	text, found.Passages, found.Cut = fitPassages(head, found.Passages, most)
	out.Found = found
	return newTextResult(text), out, nil
}

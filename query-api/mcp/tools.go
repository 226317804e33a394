package mcp

import (
	"fmt"
	"regexp"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/unweaver/unweaver/internal/answer"
)

// Question is what search, answer and explain take.
type Question struct {
	Index     string   `json:"index,omitempty" jsonschema:"the index; may be left out where there is one"`
	Indexes   []string `json:"indexes,omitempty" jsonschema:"several at once, in place of index: names, patterns with *"`
	MaxTokens *int     `json:"max_tokens,omitempty" jsonschema:"longest text, 1 to 131072; default 6000"`
	Asked
}

// Asked is the part of a question that the query route takes as it is, and checks.
type Asked struct {
	Query       string         `json:"query" jsonschema:"the question, in plain words; best one that stands alone"`
	Method      *string        `json:"method,omitempty" jsonschema:"retrieval method; default: the index's"`
	Rule        *string        `json:"rule,omitempty" jsonschema:"how entities elect passages; default: the index's"`
	Params      map[string]any `json:"params,omitempty" jsonschema:"parameters of the method, by name"`
	TopEntities *int           `json:"top_entities,omitempty" jsonschema:"entities that the search starts from, 1 to 1000"`
	TopChunks   *int           `json:"top_chunks,omitempty" jsonschema:"passages, 1 to 100; default: the index's"`
	TopK        *int           `json:"top_k,omitempty" jsonschema:"the same as top_chunks; one of the two is given"`
	Filter      *Filter        `json:"filter,omitempty" jsonschema:"which documents to search; all conditions apply"`
	AsOf        *string        `json:"as_of,omitempty" jsonschema:"documents in force then: 2026-01-31 or with a time"`
	Without     *Without       `json:"without,omitempty" jsonschema:"what to ignore, as if the index did not contain it"`
	Generation  *string        `json:"generation,omitempty" jsonschema:"a kept generation; default: the current one"`
	Rerank      *bool          `json:"rerank,omitempty" jsonschema:"false: without the index's reranker"`

	History []answer.Turn `json:"history,omitempty" jsonschema:"earlier messages that the question refers to"`

	MaxContextTokens *int    `json:"max_context_tokens,omitempty" jsonschema:"passage tokens for an answer; default 4000"`
	MaxAnswerTokens  *int    `json:"max_answer_tokens,omitempty" jsonschema:"longest answer, tokens; default: the model's"`
	AnswerStyle      *string `json:"answer_style,omitempty" jsonschema:"short or full; default: the index's"`
}

// Filter narrows a question to documents.
type Filter struct {
	DocumentPrefix *string          `json:"document_prefix,omitempty" jsonschema:"only documents with this key prefix"`
	Metadata       map[string]any   `json:"metadata,omitempty" jsonschema:"text, list, {in,not,gte,gt,lte,lt,exists}"`
	Modified       *Modified        `json:"modified,omitempty" jsonschema:"only documents modified in this range"`
	Or             []map[string]any `json:"or,omitempty" jsonschema:"filters like this one, of which one must be met"`
}

// Without drops entities and documents.
type Without struct {
	Entities  []string `json:"entities,omitempty" jsonschema:"ids"`
	Documents []string `json:"documents,omitempty" jsonschema:"keys"`
}

// Modified is a range of times.
type Modified struct {
	From string `json:"from,omitempty" jsonschema:"2026-01-31, or with a time 2026-01-31T12:00:00Z; included"`
	To   string `json:"to,omitempty" jsonschema:"as from; not included"`
}

// Passage is a chunk of a document. Start and end are code points of the document's decoded text.
type Passage struct {
	Rank     int               `json:"rank,omitempty" jsonschema:"its place; also its mark [n] in an answer"`
	Index    string            `json:"index,omitempty" jsonschema:"where it stands, of several"`
	Chunk    string            `json:"chunk" jsonschema:"id, for get_chunk"`
	Document string            `json:"document" jsonschema:"key, for get_document"`
	Version  string            `json:"version,omitempty" jsonschema:"of the document: sha256 of its bytes"`
	Title    string            `json:"title"`
	Heading  []string          `json:"heading,omitempty"`
	Page     int               `json:"page,omitempty"`
	PageEnd  int               `json:"page_end,omitempty"`
	Start    int               `json:"start"`
	End      int               `json:"end"`
	Score    float64           `json:"score,omitempty" jsonschema:"comparable only within one result"`
	Stale    bool              `json:"stale,omitempty" jsonschema:"of an earlier version: the document cannot be read now"`
	Metadata map[string]string `json:"metadata,omitempty" jsonschema:"of its document"`
	Newer    []string          `json:"superseded_by,omitempty" jsonschema:"keys of documents that replace this one"`
	Entities []string          `json:"entities,omitempty" jsonschema:"through which it was found"`
	Text     string            `json:"text"`
}

// renderText returns a passage for a reader.
func (p Passage) renderText() string {
	var out strings.Builder
	if p.Rank > 0 {
		fmt.Fprintf(&out, "[%d] ", p.Rank)
	}
	fmt.Fprintf(&out, "%s (", p.Title)
	if p.Index != "" {
		out.WriteString("index " + p.Index + ", ")
	}
	out.WriteString(p.Document)
	if p.Page > 0 {
		fmt.Fprintf(&out, ", page %d", p.Page)
		if p.PageEnd > p.Page {
			fmt.Fprintf(&out, " to %d", p.PageEnd)
		}
	}
	if len(p.Heading) > 0 {
		out.WriteString(", " + strings.Join(p.Heading, " > "))
	}
	fmt.Fprintf(&out, ", %d to %d, chunk %s)", p.Start, p.End, p.Chunk)
	if p.Stale {
		out.WriteString(" of an earlier version")
	}
	if len(p.Newer) > 0 {
		fmt.Fprintf(&out, " superseded by %q", p.Newer)
	}
	text := p.Text
	if p.Rank > 0 { // a line of a document that begins as a passage does would be read as one
		text = looksLikeHead.ReplaceAllString(text, `$1\$2`)
	}
	out.WriteString("\n" + text + "\n\n")
	return out.String()
}

var looksLikeHead = regexp.MustCompile(`(?m)^([ \t\r]*)(\[[0-9]+\])`)

// Cut says what max_tokens left out.
type Cut struct {
	MaxTokens int      `json:"max_tokens"`
	Of        int      `json:"of" jsonschema:"passages that were found"`
	Chunks    []string `json:"chunks" jsonschema:"ids of those left out, for get_chunk"`
}

// Found is the result of search.
type Found struct {
	Index      string    `json:"index"`
	Generation string    `json:"generation"`
	Method     string    `json:"method"`
	Question   string    `json:"question,omitempty" jsonschema:"with history: the question that was asked"`
	Reason     string    `json:"reason,omitempty" jsonschema:"no_match, empty_index, no_document (filter), unknown_field"`
	Confidence *float64  `json:"confidence,omitempty" jsonschema:"probability that one of the first five answers, 0 to 1"`
	Degraded   []string  `json:"degraded,omitempty" jsonschema:"parts of the search that failed; notes left out"`
	Passages   []Passage `json:"passages"`
	Cut        *Cut      `json:"cut,omitempty"`
}

// Answered is the result of answer.
type Answered struct {
	Found
	Answer    string   `json:"answer"`
	Kind      string   `json:"kind" jsonschema:"model wrote it, best_sentence: quoted from passages, or none"`
	Citations []string `json:"citations" jsonschema:"passages that the answer rests on"`
	Truncated bool     `json:"truncated,omitempty"`
	Missing   string   `json:"answer_reason,omitempty" jsonschema:"why the chat model wrote no answer"`
	Sure      *float64 `json:"answer_confidence,omitempty" jsonschema:"probability that best_sentence answers, 0 to 1"`
	Lacks     []string `json:"lacks,omitempty" jsonschema:"words of the question that best_sentence lacks"`

	Notes []answer.Note `json:"notes,omitempty" jsonschema:"facts and summaries that the model read beside passages"`
}

// Explained is the result of explain.
type Explained struct {
	Found
	Explain any `json:"explain" jsonschema:"by method; see the schema Explain of /openapi.json"`
}

// Index is one of list_indexes.
type Index struct {
	Index      string `json:"index"`
	Generation string `json:"generation"`
	Documents  int64  `json:"documents"`
	Chunks     int64  `json:"chunks"`
	Classes    int64  `json:"classes" jsonschema:"entities"`
}

// List is the result of list_indexes.
type List struct {
	Indexes []Index `json:"indexes"`
}

// Place is where a call reads, and how much.
type Place struct {
	Index      string `json:"index,omitempty" jsonschema:"the index; may be left out where there is one"`
	Generation string `json:"generation,omitempty" jsonschema:"a kept generation; default: the current one"`
	MaxTokens  *int   `json:"max_tokens,omitempty" jsonschema:"longest text, 1 to 131072; default 6000"`
}

// OfChunk is what get_chunk takes.
type OfChunk struct {
	Place
	Chunk string `json:"chunk" jsonschema:"its id"`
}

// ChunkText is the result of get_chunk.
type ChunkText struct {
	Index      string   `json:"index"`
	Generation string   `json:"generation"`
	Passage    Passage  `json:"passage"`
	Entities   []string `json:"entities" jsonschema:"what was extracted from it"`
	NextStart  *int     `json:"next_start,omitempty" jsonschema:"where its text goes on, for get_document, if it was cut"`
}

// OfDocument is what get_document takes.
type OfDocument struct {
	Place
	Document string `json:"document" jsonschema:"its key"`
	Start    int    `json:"start,omitempty" jsonschema:"first code point"`
	End      int    `json:"end,omitempty" jsonschema:"code point after the last one; default: the end"`
}

// DocumentText is the result of get_document.
type DocumentText struct {
	Index      string            `json:"index"`
	Generation string            `json:"generation"`
	Document   string            `json:"document"`
	Version    string            `json:"version"`
	Title      string            `json:"title"`
	Metadata   map[string]string `json:"metadata,omitempty" jsonschema:"as filters know it"`
	Start      int               `json:"start"`
	End        int               `json:"end"`
	Length     int               `json:"length" jsonschema:"of the whole document, in code points"`
	Text       string            `json:"text"`
	NextStart  *int              `json:"next_start,omitempty" jsonschema:"where it goes on, if it does"`
}

func (s *server) addTools(to *sdk.Server) {
	tool := func(name, title, says string) *sdk.Tool {
		inside := false
		return &sdk.Tool{Name: name, Title: title, Description: says, Annotations: &sdk.ToolAnnotations{
			Title: title, ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &inside,
		}}
	}
	list := tool("list_indexes", "List indexes", "Lists the indexes and their sizes.")
	list.InputSchema = map[string]any{ // OpenAI's API refuses a function without properties
		"type": "object", "properties": map[string]any{}, "additionalProperties": false,
	}
	sdk.AddTool(to, list, s.listAll)
	sdk.AddTool(to, tool("search", "Search passages",
		"Finds the passages of an index that answer a question, best first, with document and offsets."), s.searchIndex)
	sdk.AddTool(to, tool("answer", "Answer a question",
		"Answers a question from an index with its chat model, and returns the passages that the answer cites. "+
			"A call can cost money. The tool search does not call the chat model, except to read history."), s.answerQuestion)
	sdk.AddTool(to, tool("explain", "Explain a search",
		"Searches like search, and reports through which entities and lists each passage was found."), s.explainAnswer)
	sdk.AddTool(to, tool("get_chunk", "Read a passage",
		"Returns one passage by its id, with the entities extracted from it."), s.getChunk)
	sdk.AddTool(to, tool("list_entities", "List entities",
		"Lists the entities of an index, all of them page by page: of one type, of one document, or by name. "+
			"Use it, and not search, for questions that ask for every entity of a kind."), s.listEntities)
	sdk.AddTool(to, tool("get_document", "Read a document",
		"Returns the decoded text of a document from any code point, for example around a passage."), s.getDocument)
}

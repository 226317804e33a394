package chat

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/answer"
)

// Completion is the answer to a request without stream.
type Completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []Choice `json:"choices"`
	Usage   Usage    `json:"usage"`

	SystemFingerprint string  `json:"system_fingerprint" doc:"the generation that answered"`
	Details           Details `json:"unweaver"`
}

// Choice is the one answer.
type Choice struct {
	Index        int     `json:"index"`
	Message      Message `json:"message"`
	Logprobs     *string `json:"logprobs"`
	FinishReason string  `json:"finish_reason"`
}

// Message of an answer.
type Message struct {
	Role        string       `json:"role"`
	Content     string       `json:"content"`
	Refusal     *string      `json:"refusal"`
	Annotations []Annotation `json:"annotations"`
}

// Annotation says where a part of the answer's text comes from.
type Annotation struct {
	Type        string      `json:"type"`
	URLCitation URLCitation `json:"url_citation"`
	Source      Source      `json:"unweaver"`
}

// URLCitation is a citation as clients know it.
type URLCitation struct {
	StartIndex int    `json:"start_index" doc:"code points of the answer: its mark [n], or all where no mark names it"`
	EndIndex   int    `json:"end_index" doc:"the first code point behind"`
	URL        string `json:"url" doc:"the passage at this server"`
	Title      string `json:"title"`
}

// Source is the passage that a citation names. Start and end are code points of the document's decoded text.
type Source struct {
	Index    string   `json:"index,omitempty" doc:"where several were asked"`
	Chunk    string   `json:"chunk"`
	Document string   `json:"document"`
	Version  string   `json:"version"`
	Start    int      `json:"start"`
	End      int      `json:"end"`
	Rank     int      `json:"rank"`
	Stale    bool     `json:"stale,omitempty"`
	Heading  []string `json:"heading,omitempty"`
	Page     int      `json:"page,omitempty"`
	PageEnd  int      `json:"page_end,omitempty"`
}

// Usage is what the model server reports, or our count where it reports nothing usable. The built-in model uses none.
type Usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
}

// Details are what the form has no place for.
type Details struct {
	Index      string   `json:"index"`
	Generation string   `json:"generation"`
	Release    *int64   `json:"release"`
	Question   string   `json:"question,omitempty" doc:"after earlier questions: the question that was asked"`
	Method     string   `json:"method"`
	Reason     *string  `json:"reason"`
	Degraded   []string `json:"degraded"`
	Confidence *float64 `json:"confidence" doc:"probability that one of the first five answers; null: unknown"`
	Answered   *float64 `json:"answer_confidence,omitempty" doc:"for best_sentence: probability that it answers"`
	AnswerKind string   `json:"answer_kind" enum:"model,best_sentence,none" doc:"best_sentence: quoted from passages"`

	Indexes []answer.IndexPart `json:"indexes,omitempty" doc:"where several were asked: each, with the code of its error"`

	Notes []answer.Note `json:"notes,omitempty" doc:"facts and summaries that the model read beside passages"`
	Usage answer.Usage  `json:"usage" doc:"tokens by purpose"`
}

// Chunk is one event of a streamed answer. The last one with a choice has the reason of its end, and annotations; with
// stream_options.include_usage one more has no choice and the usage.
type Chunk struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []ChunkChoice `json:"choices"`
	Usage   *Usage        `json:"usage,omitempty"`

	SystemFingerprint string   `json:"system_fingerprint,omitempty"`
	Details           *Details `json:"unweaver,omitempty"`
}

// ChunkChoice is the one answer's next piece.
type ChunkChoice struct {
	Index        int     `json:"index"`
	Delta        Piece   `json:"delta"`
	Logprobs     *string `json:"logprobs"`
	FinishReason *string `json:"finish_reason"`
}

// Piece of an answer.
type Piece struct {
	Role        string       `json:"role,omitempty"`
	Content     *string      `json:"content,omitempty"`
	Annotations []Annotation `json:"annotations,omitempty"`
}

// found is the answer to a query.
type found struct{ answer.Response }

func (f found) newDetails() Details {
	return Details{
		Index: f.Index, Generation: f.Generation, Release: f.Release, Method: f.Method, Reason: f.Reason,
		Degraded: f.Degraded, Confidence: f.Confidence, AnswerKind: f.Answer.Kind, Notes: f.Notes, Usage: f.Usage,
		Answered: f.Answer.Confidence, Question: f.Question, Indexes: f.Indexes,
	}
}

func (f found) sumUsage() Usage {
	prompt, completion := f.Usage.PromptTokens, f.Usage.CompletionTokens
	return Usage{prompt, completion, prompt + completion}
}

// finishReason returns the reason of an answer's end.
func (f found) finishReason() string {
	if f.Answer.Truncated {
		return "length"
	}
	return "stop"
}

// mark of a citation: the place of a chunk, from one.
var mark = regexp.MustCompile(`\[(\d{1,9})\]`)

// listAnnotations returns the annotations that marks of the text name, in their order; a citation without a mark is of
// the whole text.
func (f found) listAnnotations(base string) []Annotation {
	out := []Annotation{}
	text := f.Answer.Text
	marked := map[string]bool{}
	at, runes := 0, 0 // as far as code points are counted
	for _, place := range mark.FindAllStringSubmatchIndex(text, -1) {
		n, err := strconv.Atoi(text[place[2]:place[3]])
		if err != nil || n < 1 || n > len(f.Chunks) || !f.canCite(n-1) {
			continue
		}
		runes += utf8.RuneCountInString(text[at:place[0]])
		at = place[0]
		marked[f.Chunks[n-1].ID] = true
		out = append(out, f.newAnnotation(base, n-1, runes, runes+place[1]-place[0]))
	}
	for _, id := range f.Answer.Citations {
		for i, chunk := range f.Chunks {
			if chunk.ID == id && !marked[id] {
				out = append(out, f.newAnnotation(base, i, 0, utf8.RuneCountInString(text)))
			}
		}
	}
	return out
}

// canCite reports whether an answer can name a chunk: it was read, or a note that rests on it was.
func (f found) canCite(i int) bool {
	return f.Chunks[i].InContext || slices.Contains(f.Answer.Citations, f.Chunks[i].ID)
}

func (f found) newAnnotation(base string, i, start, end int) Annotation {
	chunk := f.Chunks[i]
	address := base + "/v1/indexes/" + url.PathEscape(cmp.Or(chunk.Index, f.Index)) + "/chunks/" + chunk.ID +
		"?generation=" + url.QueryEscape(cmp.Or(chunk.Generation, f.Generation))
	return Annotation{"url_citation", URLCitation{start, end, address, chunk.Title}, Source{
		Index: chunk.Index, Chunk: chunk.ID, Document: chunk.Document, Version: chunk.Version,
		Start: chunk.Start, End: chunk.End,
		Rank: chunk.Rank, Stale: chunk.Stale, Heading: chunk.Heading, Page: chunk.Page, PageEnd: chunk.PageEnd,
	}}
}

// reply to one request.
type reply struct {
	id      string
	created int64
	model   string
	base    string // scheme and host, as the client reaches them
}

// newCompletion returns the whole answer, for a request without a stream.
func (a *reply) newCompletion(f found) Completion {
	message := Message{Role: "assistant", Content: f.Answer.Text, Annotations: f.listAnnotations(a.base)}
	return Completion{
		ID: "chatcmpl-" + a.id, Object: "chat.completion", Created: a.created, Model: a.model,
		Choices: []Choice{{Message: message, FinishReason: f.finishReason()}},
		Usage:   f.sumUsage(), SystemFingerprint: f.Generation, Details: f.newDetails(),
	}
}

func (a *reply) newChunk(piece Piece, ended *string) Chunk {
	return Chunk{
		ID: "chatcmpl-" + a.id, Object: "chat.completion.chunk", Created: a.created, Model: a.model,
		Choices: []ChunkChoice{{Delta: piece, FinishReason: ended}},
	}
}

// newFirstChunk returns the event before the text.
func (a *reply) newFirstChunk() Chunk {
	empty := ""
	return a.newChunk(Piece{Role: "assistant", Content: &empty}, nil)
}

// newPiece returns the event of a piece of the text.
func (a *reply) newPiece(text string) Chunk { return a.newChunk(Piece{Content: &text}, nil) }

// newLastChunk returns the event behind the text.
func (a *reply) newLastChunk(f found) Chunk {
	ended := f.finishReason()
	out := a.newChunk(Piece{Annotations: f.listAnnotations(a.base)}, &ended)
	details := f.newDetails()
	out.SystemFingerprint, out.Details = f.Generation, &details
	return out
}

// newUsageChunk returns the event with the usage.
func (a *reply) newUsageChunk(f found) Chunk {
	out := a.newChunk(Piece{}, nil)
	used := f.sumUsage()
	out.Choices, out.Usage = []ChunkChoice{}, &used
	return out
}

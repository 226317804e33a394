package answer

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// Request is the body of a query (docs/reference/formats.md, HTTP). What the tags say is in the schema.
type Request struct {
	Query            string         `json:"query" length:"1,8192" pattern:"\\S" required:"true" doc:"max 8,192 characters"`
	History          []Turn         `json:"history" doc:"earlier messages: the question may refer to the last six"`
	Method           string         `json:"method" doc:"default: the index's retrieval.method"`
	Rule             *string        `json:"rule" doc:"how entities elect passages"`
	TopEntities      *Count         `json:"top_entities" bounds:"1,1000" doc:"entities that the search starts from"`
	TopChunks        *Count         `json:"top_chunks" bounds:"1,100" doc:"how many passages; default: the index's"`
	TopK             *Count         `json:"top_k" bounds:"1,100" doc:"alias of top_chunks; send only one of them"`
	Params           map[string]any `json:"params"`
	Filter           Filter         `json:"filter" doc:"which documents to search"`
	AsOf             *Moment        `json:"as_of" doc:"only documents in force then: 2026-01-31 or 2026-01-31T12:00:00Z"`
	Without          Without        `json:"without" doc:"documents (keys) and entities (ids) to ignore completely"`
	MaxContextTokens *Count         `json:"max_context_tokens" bounds:"1,131072" default:"4000" doc:"tokens of passages"`
	Answer           bool           `json:"answer" default:"false" doc:"also answer the question from the passages"`
	MaxAnswerTokens  *Count         `json:"max_answer_tokens" bounds:"1,1000000" doc:"default: the model's limit"`
	AnswerStyle      string         `json:"answer_style" doc:"short: one sentence if possible; full; default: the index's"`
	Stream           bool           `json:"stream" default:"false" doc:"with answer: send the answer as events"`
	Explain          bool           `json:"explain" default:"false" doc:"also report how the passages were found"`
	Generation       *string        `json:"generation" doc:"the generation to ask; default: the current one"`
	Rerank           *bool          `json:"rerank" doc:"default: rerank if the index has a reranker; true requires one"`
	Fields           []string       `json:"fields" doc:"fields of the response; empty: all"`

	NeedsModel bool `json:"-"` // a chat model that fails is an error, and passages are not quoted in its place
}

// MostIndexes that one question is asked.
const MostIndexes = 16

// SeveralRequest is the body of a query to several indexes.
type SeveralRequest struct {
	Indexes []string `json:"indexes" items:"^[a-z0-9*][a-z0-9*-]{0,62}$" doc:"names, patterns with *; at most 16 indexes"`
	Request
}

// Without drops entities and documents from a query.
type Without struct {
	Entities  []string `json:"entities" doc:"ids of entities" items:"^[0-9a-fA-F]{32}$"`
	Documents []string `json:"documents" doc:"keys of documents"`
}

// Limits of a query.
const (
	maxQuery         = 8192
	maxTopEntities   = 1000
	maxTopChunks     = 100
	maxContextTokens = 131072
	maxAnswerTokens  = 1_000_000
	defaultContext   = 4000
)

// checkBounds checks a number with its limits and default.
func checkBounds(name string, given *Count, lo, hi, def int) (int, error) {
	if given == nil {
		return def, nil
	}
	if int(*given) < lo || int(*given) > hi {
		return 0, newFault("read query", name, fmt.Sprintf("want %d to %d, got %d", lo, hi, *given), "")
	}
	return int(*given), nil
}

// planned is a request that was checked against a generation's defaults.
type planned struct {
	retrieve.Query
	spec   retrieve.Spec
	budget int // tokens of the context
	most   int // tokens of the answer; 0: what the model may give

	parser  string    // who finds the triples of the question, as parameter triples has it; empty: none
	at      time.Time // for which passages are in force or not: that of the question, else now
	reranks bool      // the best chunks are ordered again
	unasked string    // why no chat model is asked; empty: it is
}

// planQuery checks a request and fills in what the generation's configuration and the method say by default.
func (q *Request) planQuery(defaults core.Retrieval, methods *retrieve.Registry) (planned, error) {
	var out planned
	q.Query = strings.TrimSpace(q.Query)
	if q.Query == "" {
		return out, newFault("read query", "query", "the question is empty", `send a question: {"query": "…"}`)
	}
	if n := utf8.RuneCountInString(q.Query); n > maxQuery {
		why := fmt.Sprintf("the question has %d characters, at most %d are allowed", n, maxQuery)
		return out, newFault("read query", "query", why, "shorten it")
	}
	if err := checkHistory(q.History); err != nil {
		return out, err
	}
	if q.AnswerStyle != "" && q.AnswerStyle != core.StyleShort && q.AnswerStyle != core.StyleFull {
		return out, newFault("read query", "answer_style", "there is no style "+fault.QuoteName(q.AnswerStyle),
			"use "+core.StyleShort+" or "+core.StyleFull)
	}
	if q.Method == "" {
		q.Method = defaults.Method
	}
	method, err := methods.Method(q.Method)
	if err != nil {
		return out, err
	}
	out.spec = method.Spec()
	if q.Rule == nil && len(out.spec.Rules) > 0 {
		q.Rule = &defaults.Rule
	}
	out.Text, out.Method, out.MinSim, out.Explain = q.Query, q.Method, defaults.MinSimilarity, q.Explain
	if q.Rule != nil {
		if err := methods.CheckRule(q.Method, *q.Rule); err != nil {
			return out, err
		}
		out.Rule = *q.Rule
	}
	if out.Params, err = out.spec.ReadParams(q.Params); err != nil {
		return out, err
	}
	if q.TopK != nil && q.TopChunks != nil {
		return out, newFault("read query", "top_k", "it is an alias of top_chunks, which is given too", "send one of them")
	}
	top, chunks := "top_chunks", q.TopChunks
	if q.TopK != nil {
		top, chunks = "top_k", q.TopK
	}
	for _, number := range []struct {
		name          string
		given         *Count
		hi, otherwise int
		to            *int
	}{
		{"top_entities", q.TopEntities, maxTopEntities, out.spec.Entities, &out.TopEntities},
		{top, chunks, maxTopChunks, defaults.TopChunks, &out.TopChunks},
		{"max_context_tokens", q.MaxContextTokens, maxContextTokens, defaultContext, &out.budget},
		{"max_answer_tokens", q.MaxAnswerTokens, maxAnswerTokens, 0, &out.most},
	} {
		if *number.to, err = checkBounds(number.name, number.given, 1, number.hi, number.otherwise); err != nil {
			return out, err
		}
	}
	err = q.narrowQuery(&out.Query)
	if out.at = out.AsOf; out.at.IsZero() {
		out.at = time.Now()
	}
	return out, err
}

// narrowQuery reads filter and without.
func (q *Request) narrowQuery(out *retrieve.Query) (err error) {
	if q.AsOf != nil {
		out.AsOf = q.AsOf.Time
	}
	if out.Filter, err = new(filterReader).readFilter(q.Filter, "filter", 0); err != nil {
		return err
	}
	out.Without = retrieve.Without{Entities: map[core.ID]bool{}, Documents: map[string]bool{}}
	for _, given := range q.Without.Entities {
		id, err := core.ParseID(given)
		if err != nil {
			hint := "use ids from the field entities of a response"
			return newFault("read query", "without.entities", err.Error(), hint)
		}
		out.Without.Entities[id] = true
	}
	for _, document := range q.Without.Documents {
		out.Without.Documents[document] = true
	}
	return nil
}

// Count is a whole number as JSON Schema has it: 5, 5.0 and 5e0 are one.
type Count int

// UnmarshalJSON implements json.Unmarshaler.
func (c *Count) UnmarshalJSON(raw []byte) error {
	const largest = 1 << 53 // that every JSON reader has exactly
	kind := jsontext.Value(raw).Kind()
	number, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case kind != '0':
		return errors.New("want a whole number, got " + KindName(kind))
	case err != nil || number != math.Trunc(number) || math.Abs(number) > largest:
		return errors.New("want a whole number, got " + string(raw))
	}
	*c = Count(number)
	return nil
}

// KindName says what kind of value JSON has.
func KindName(kind jsontext.Kind) string {
	switch kind {
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "bool"
	}
	return kind.String()
}

func newFault(op, object, why, hint string) error {
	return fault.InvalidParam.At(op, object).Because(why).Advise(hint)
}

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Answer is what the command line reads of a query's response.
type Answer struct {
	Index      string `json:"index"`
	Generation string `json:"generation"`
	Method     string `json:"method"`
	Rule       string `json:"rule"`
	Models     string `json:"models"`
	Reason     string `json:"reason"`
	ReasonText string `json:"reason_text"`
	FilterText string `json:"filter_text"`
	// Confidence that one of the first five chunks says it; nil where it is not known.
	Confidence *float64      `json:"confidence"`
	Chunks     []AnswerChunk `json:"chunks"`
	Entities   []struct {
		ID         string  `json:"id"`
		Name       string  `json:"name"`
		Type       string  `json:"type"`
		Similarity float64 `json:"similarity"`
		Rank       int     `json:"rank"`
		ChunkTotal int64   `json:"chunk_total"`
	} `json:"entities"`
	Answer *struct {
		Kind       string   `json:"kind"`
		Confidence *float64 `json:"confidence"` // in what is quoted
		Text       string   `json:"text"`
		Citations  []string `json:"citations"`
		Reason     string   `json:"reason"`
	} `json:"answer"`
	Explain json.RawMessage `json:"explain"`
	Indexes []struct {
		Index   string          `json:"index"`
		Code    string          `json:"code"`
		Method  string          `json:"method"`
		Explain json.RawMessage `json:"explain"`
	} `json:"indexes"`
	Timings struct {
		Total float64 `json:"total"`
	} `json:"timings_ms"`
}

// AnswerChunk is a chunk of a response.
type AnswerChunk struct {
	Index    string   `json:"index"` // empty: one index was asked
	ID       string   `json:"id"`
	Document string   `json:"document"`
	Title    string   `json:"title"`
	Heading  []string `json:"heading"`
	Page     int      `json:"page"` // 0: the document has none
	PageEnd  int      `json:"page_end"`
	Start    int      `json:"start"`
	End      int      `json:"end"`
	Text     string   `json:"text"`
	Snippet  *struct {
		Start int `json:"start"` // code points of Text
		End   int `json:"end"`
	} `json:"snippet"`
	Highlights []struct {
		Start int `json:"start"`
		End   int `json:"end"`
	} `json:"highlights"`
	Markup []struct {
		Start int `json:"start"`
		End   int `json:"end"`
	} `json:"markup"`
	Score    float64      `json:"score"`
	Rank     int          `json:"rank"`
	Filled   bool         `json:"filled"`
	Stale    bool         `json:"stale"`
	Newer    []string     `json:"superseded_by"`
	Entities []entityName `json:"entities"`
}

type entityName struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (a *App) queryCmd() *cobra.Command {
	var index, method, rule, generation, filter, asOf string
	var explain, answer, rerank bool
	var top, entities int
	var without, params []string
	command := &cobra.Command{
		Use:   "query QUESTION",
		Short: "Ask a question of a published index",
		Long:  queryLong(),
		Args:  requireArgs(1, 2, "a QUESTION in quotes and an INDEX"),
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 2 && index == "" {
				index = args[1]
			}
			if !isIndexes(index) || len(args) == 2 && index != args[1] {
				return fault.Usage.At("query index", index).
					Because("no index is named").
					Advise("write: unweaver query NAME \"QUESTION\"")
			}
			body := map[string]any{"query": args[0], "explain": explain, "answer": answer}
			for key, value := range map[string]string{
				"method": method, "rule": rule, "generation": generation, "as_of": asOf,
			} {
				if value != "" || key == "as_of" && command.Flags().Changed("as-of") { // an empty one is a mistake
					body[key] = value
				}
			}
			if command.Flags().Changed("rerank") {
				body["rerank"] = rerank
			}
			for flag, n := range map[string]int{"top-chunks": top, "top-entities": entities} {
				if command.Flags().Changed(flag) {
					body[strings.ReplaceAll(flag, "-", "_")] = n
				}
			}
			if len(params) > 0 {
				parsed, err := queryParams(params)
				if err != nil {
					return err
				}
				body["params"] = parsed
			}
			if command.Flags().Changed("filter") { // an empty one is a mistake, not a question without a filter
				if body["filter"] = json.RawMessage(filter); !json.Valid([]byte(filter)) {
					return fault.Usage.At("read --filter", filter).Because("it is not JSON").
						Advise(`write: --filter '{"metadata": {"author": "Ada"}}'`)
				}
			}
			return a.withQueries(command.Context(), func(ctx context.Context, base string) error {
				raw, err := Ask(ctx, base, index, body)
				if err != nil {
					return err
				}
				if len(without) > 0 {
					return a.compareRankings(ctx, base, index, body, raw, without)
				}
				return a.printAnswer(raw)
			})
		},
	}
	set := command.Flags()
	set.StringVar(&index, "index", "", "name of the index; several: a+b, or a pattern 'a*'")
	set.StringVar(&method, "method", "", "retrieval method (default: that of the index)")
	set.StringVar(&rule, "rule", "", "election rule of method unweaver")
	set.StringVar(&generation, "generation", "", "query this kept generation instead of the current one")
	set.BoolVar(&explain, "explain", false, "show how each passage was found")
	set.StringArrayVar(
		&without,
		"without",
		nil,
		"ask again without an entity (its id) or a document (its key), and show both rankings",
	)
	set.StringArrayVar(&params, "param", nil, "parameter of the method: name=value")
	set.StringVar(&filter, "filter", "", `search only these documents: JSON, as {"metadata": {"year": {"gte": 2020}}}`)
	set.StringVar(&asOf, "as-of", "", "only documents in force then: 2026-01-31 or 2026-01-31T12:00:00Z")
	set.IntVar(&entities, "top-entities", 0, "number of entities (default: that of the method)")
	set.BoolVar(&answer, "answer", true, "answer from the passages")
	set.BoolVar(&rerank, "rerank", false, "rerank the passages (default: true if the index has a reranker)")
	set.IntVar(&top, "top-chunks", 0, "number of passages (default: that of the index)")
	return leastOne(command, "top-entities", "top-chunks")
}

// printAnswer prints the response to a query.
func (a *App) printAnswer(raw []byte) error {
	if a.json {
		_, err := fmt.Fprintln(a.Out, strings.TrimSpace(string(raw)))
		return err
	}
	var answer Answer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return err
	}
	ShowAnswer(a.Out, answer)
	return nil
}

// isIndexes reports whether a name is that of an index, or several names and patterns with + between them.
func isIndexes(name string) bool {
	for one := range strings.SplitSeq(name, "+") {
		if plain := strings.ReplaceAll(one, "*", "x"); !core.ValidIndex(plain) {
			return false
		}
	}
	return true
}

// queryParams reads name=value, where a value is JSON or a word.
func queryParams(given []string) (map[string]any, error) {
	out := map[string]any{}
	for _, parameter := range given {
		name, text, ok := strings.Cut(parameter, "=")
		if !ok {
			return nil, fault.Usage.At("read --param", parameter).Because("want name=value")
		}
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			value = text
		}
		out[name] = value
	}
	return out, nil
}

// compareRankings asks again without entities or documents and shows both rankings.
func (a *App) compareRankings(
	ctx context.Context,
	base, index string,
	body map[string]any,
	raw []byte,
	without []string,
) error {
	entities, documents := []string{}, []string{}
	for _, left := range without {
		if _, err := core.ParseID(left); err == nil {
			entities = append(entities, left)
		} else {
			documents = append(documents, left)
		}
	}
	body["without"] = map[string]any{"entities": entities, "documents": documents}
	body["answer"] = false
	again, err := Ask(ctx, base, index, body)
	if err != nil {
		return err
	}
	if a.json {
		return a.printOut(map[string]json.RawMessage{"with": raw, "without": again}, nil)
	}
	var one, two Answer
	if err := errors.Join(json.Unmarshal(raw, &one), json.Unmarshal(again, &two)); err != nil {
		return err
	}
	ShowAnswer(a.Out, one)
	showBoth(a.Out, one, two)
	return nil
}

var queryClient = &http.Client{Timeout: 2*time.Minute + 10*time.Second}

type queryKey struct{}

// withKey lets Ask send an API key.
func withKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, queryKey{}, key)
}

func keyOf(ctx context.Context) string {
	key, _ := ctx.Value(queryKey{}).(string)
	return key
}

// Ask posts a query and gives the raw response. Several indexes have + between their names, and may be patterns.
func Ask(ctx context.Context, base, index string, body map[string]any) ([]byte, error) {
	path := "/v1/indexes/" + url.PathEscape(index) + "/query"
	if strings.ContainsAny(index, "+*") {
		path = "/v1/query"
		body["indexes"] = strings.Split(index, "+")
	}
	return post(ctx, base, path, body)
}

// post sends a body to query-api and gives the raw response.
func post(ctx context.Context, base, path string, body any) ([]byte, error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		base+path,
		bytes.NewReader(sent),
	)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key := keyOf(ctx); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := queryClient.Do(req)
	if err != nil {
		return nil, fault.StoreDown.At("query", base).Because(err).Advise("check that query-api runs at this address")
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, newRefusal(response, raw)
	}
	return raw, nil
}

// newRefusal returns the error that an answer other than 200 has.
func newRefusal(response *http.Response, raw []byte) error {
	var problem struct {
		Code   string `json:"code"`
		Detail string `json:"detail"`
		Hint   string `json:"hint"`
	}
	if json.Unmarshal(raw, &problem) != nil || problem.Code == "" {
		problem.Code, problem.Detail = string(fault.Internal), response.Status
	}
	return fault.Code(problem.Code).At("", "").Because(problem.Detail).Advise(problem.Hint)
}

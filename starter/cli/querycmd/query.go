package querycmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func (a app) queryCmd() *cobra.Command {
	var index, method, rule, generation, filter, asOf string
	var explain, answer, rerank bool
	var top, entities int
	var without, params []string
	command := &cobra.Command{
		Use:   "query QUESTION",
		Short: "Ask a question of a published index",
		Example: `  unweaver query docs "Who signed the lease?"
  unweaver query docs+handbook "Who signed the lease?"
  unweaver query docs "Who signed the lease?" --method unweaver --rule mes --explain
  unweaver query docs "Who signed the lease?" --top-chunks 10 --json | jq '.chunks[].document'`,
		Long: queryLong(),
		Args: console.RequireArgs(1, 2, "a QUESTION in quotes and an INDEX"),
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
			return a.WithQueries(command.Context(), func(ctx context.Context, base string) error {
				raw, err := console.Ask(ctx, base, index, body)
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
	set.StringArrayVar(&without, "without", nil,
		"ask again without an entity (its id) or a document (its key), and show both rankings")
	set.StringArrayVar(&params, "param", nil, "parameter of the method: name=value")
	set.StringVar(&filter, "filter", "", `search only these documents: JSON, as {"metadata": {"year": {"gte": 2020}}}`)
	set.StringVar(&asOf, "as-of", "", "only documents in force then: 2026-01-31 or 2026-01-31T12:00:00Z")
	set.IntVar(&entities, "top-entities", 0, "number of entities (default: that of the method)")
	set.BoolVar(&answer, "answer", true, "answer from the passages")
	set.BoolVar(&rerank, "rerank", false, "rerank the passages (default: true if the index has a reranker)")
	set.IntVar(&top, "top-chunks", 0, "number of passages (default: that of the index)")
	return console.LeastOne(console.PutIndexFirst(command, true), "top-entities", "top-chunks")
}

// printAnswer prints the response to a query.
func (a app) printAnswer(raw []byte) error {
	if a.JSON {
		_, err := fmt.Fprintln(a.Out, strings.TrimSpace(string(raw)))
		return err
	}
	var got answer.Response
	if err := json.Unmarshal(raw, &got); err != nil {
		return err
	}
	show.Answer(a.Out, got)
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
		out[name] = console.ParseValue(text)
	}
	return out, nil
}

// compareRankings asks again without entities or documents and shows both rankings.
func (a app) compareRankings(
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
	again, err := console.Ask(ctx, base, index, body)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintOut(map[string]json.RawMessage{"with": raw, "without": again}, nil)
	}
	var one, two answer.Response
	if err := errors.Join(json.Unmarshal(raw, &one), json.Unmarshal(again, &two)); err != nil {
		return err
	}
	show.Answer(a.Out, one)
	show.Both(a.Out, one, two)
	return nil
}

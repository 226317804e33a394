// Package rerank is the port to rerankers: models that read a question beside a text and say how well the one answers
// the other (docs/reference/formats.md, Model servers). The adapter for servers is in package openai; what is done with
// scores, and with a reranker that gives none, is the caller's.
package rerank

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/unweaver/unweaver/internal/model"
)

// Task is what observers and limits get as the task of a request for scores.
const Task = "rerank"

// Ranker scores texts by a question. Scores come back in the order of texts, one for each, finite; a higher one is
// better, and nothing else is said of them: they are not to be compared between questions or models. Rerank may be
// called concurrently and repeated; a repetition is paid again. Errors are those of model.Chat, and fault.BadRerank
// where the server answered otherwise than so; usage counts beside an error too.
type Ranker interface {
	Rerank(ctx context.Context, question string, texts []string) ([]float64, model.Usage, error)
	Info() model.Info
}

// Result is what a server says of one text. Nil is what it did not say, or said by no number.
type Result struct {
	Index *int
	Score *float64
}

// AlignScores puts results in the order of the count texts that were sent. The error says what a caller cannot rely on:
// a text that is missing, named twice or not at all, or a score that is no number.
func AlignScores(count int, results []Result) ([]float64, error) {
	scores := make([]float64, count)
	seen := make([]bool, count)
	for at, result := range results {
		switch {
		case result.Index == nil:
			return nil, fmt.Errorf("result %d does not name a text", at)
		case *result.Index < 0 || *result.Index >= count:
			return nil, fmt.Errorf("result %d refers to text %d, but only %d texts were sent", at, *result.Index, count)
		case seen[*result.Index]:
			return nil, fmt.Errorf("two results refer to text %d", *result.Index)
		case result.Score == nil || math.IsNaN(*result.Score) || math.IsInf(*result.Score, 0):
			return nil, fmt.Errorf("the score of text %d is not a number", *result.Index)
		}
		seen[*result.Index], scores[*result.Index] = true, *result.Score
	}
	if len(results) < count {
		return nil, fmt.Errorf("%d results for %d texts", len(results), count)
	}
	return scores, nil
}

// Order gives the places of scores, the best first; equal ones stay as they are.
func Order(scores []float64) []int {
	places := make([]int, len(scores))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return places
}

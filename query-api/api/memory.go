package api

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/methods/gem/gemmethod"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// mostNodes is how many chunks the themes of a memory are reported with: as many as can be looked at.
const mostNodes = 300

// Memory is what enrichment gem made of a generation: themes, each with the chunks of its largest components.
type Memory struct {
	Source
	Chunks    int           `json:"chunks" doc:"of the generation"`
	Shown     int           `json:"shown" doc:"passages that are listed below, each counted once"`
	Questions int           `json:"questions" doc:"that the passages answer, in all"`
	Graph     string        `json:"graph" doc:"that the spectrum is of: matrix, nearest; empty where there is none"`
	Values    []float64     `json:"values" doc:"the first eigenvalues"`
	Residuals []float64     `json:"residuals" doc:"of each eigenvalue how wrong it is at most"`
	Distinct  float64       `json:"distinct" doc:"sum of the squares of all eigenvalues: larger, more distinct themes"`
	Estimated int           `json:"estimated" doc:"themes by the first gap of the eigenvalues; 0: there is none"`
	Themes    []MemoryTheme `json:"themes"`
}

// MemoryTheme is what chunks have in common; the first is the overview, which says how central chunks are.
type MemoryTheme struct {
	Theme     int           `json:"theme"`
	Lambda    float64       `json:"lambda" doc:"its eigenvalue"`
	Beta      float64       `json:"beta" doc:"the eigenvalue as a share of the first"`
	Summary   string        `json:"summary" doc:"of its members, as a model or a rule wrote it: no text of a document"`
	Questions []string      `json:"questions" doc:"that the summary answers"`
	Chunks    []MemoryChunk `json:"chunks" doc:"the largest loading first"`
}

// MemoryChunk is a chunk in a theme.
type MemoryChunk struct {
	ID       string  `json:"id"`
	Document string  `json:"document"`
	Ordinal  int     `json:"ordinal"`
	Start    int     `json:"start" doc:"code point of the document at which it begins"`
	End      int     `json:"end" doc:"code point behind its last"`
	Loading  float64 `json:"loading" doc:"its component of the theme's eigenvector"`
	Degree   float64 `json:"degree" doc:"sum of its similarities: how central it is"`
	Member   bool    `json:"member" doc:"the summary was made of it"`
	Question string  `json:"question" doc:"the first that it answers; its text where it is compared by that"`
}

// serveMemory answers GET …/memory.
func serveMemory(
	ctx context.Context, request *http.Request, generation *retrieve.Generation, _ int,
) (any, error) {
	nodes, err := readNumber(request.URL.Query(), "nodes", 1, mostNodes, mostNodes)
	if err != nil {
		return nil, err
	}
	found, err := gemmethod.ReadView(ctx, generation, nodes)
	if err != nil {
		return nil, err
	}
	out := Memory{
		Source: sourceOf(generation), Chunks: found.Chunks, Shown: found.Shown, Questions: found.Questions,
		Values: []float64{}, Residuals: []float64{}, Themes: []MemoryTheme{},
	}
	if file := found.File; file != nil {
		out.Graph, out.Distinct, out.Estimated = file.Graph, file.Distinct, file.Estimated
		out.Values, out.Residuals = append(out.Values, file.Values...), append(out.Residuals, file.Residuals...)
	}
	for k, theme := range found.Themes {
		reported := MemoryTheme{
			Theme: k, Lambda: theme.Lambda, Beta: theme.Beta, Summary: theme.Summary,
			Questions: []string{}, Chunks: []MemoryChunk{},
		}
		for _, question := range theme.Questions {
			reported.Questions = append(reported.Questions, question.Text)
		}
		for _, loading := range theme.Loadings {
			chunk := generation.Live.ByNumber(loading.Number)
			reported.Chunks = append(reported.Chunks, MemoryChunk{
				ID: chunk.ID.String(), Document: generation.Live.Key(int(chunk.Document)), Ordinal: int(chunk.Ordinal),
				Start: int(chunk.Start), End: int(chunk.End),
				Loading: loading.Loading, Degree: loading.Degree, Member: loading.Member, Question: loading.Question,
			})
		}
		out.Themes = append(out.Themes, reported)
	}
	return out, nil
}

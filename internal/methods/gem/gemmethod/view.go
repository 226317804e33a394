package gemmethod

import (
	"cmp"
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/retrieve"
)

// View is what enrichment gem made of a generation: themes, each with the chunks of its largest components.
type View struct {
	Index      string        `json:"index"`
	Generation string        `json:"generation"`
	Chunks     int           `json:"chunks" doc:"of the generation"`
	Shown      int           `json:"shown" doc:"passages that are listed below, each counted once"`
	Questions  int           `json:"questions" doc:"that the passages answer, in all"`
	Graph      string        `json:"graph" doc:"that the spectrum is of: matrix, nearest; empty where there is none"`
	Values     []float64     `json:"values" doc:"the first eigenvalues"`
	Residuals  []float64     `json:"residuals" doc:"of each eigenvalue how wrong it is at most"`
	Distinct   float64       `json:"distinct" doc:"sum of the squares of all eigenvalues: larger, more distinct themes"`
	Estimated  int           `json:"estimated" doc:"themes by the first gap of the eigenvalues; 0: there is none"`
	Themes     []ViewedTheme `json:"themes"`
}

// ViewedTheme is what chunks have in common; the first is the overview, which says how central chunks are.
type ViewedTheme struct {
	Theme     int           `json:"theme"`
	Lambda    float64       `json:"lambda" doc:"its eigenvalue"`
	Beta      float64       `json:"beta" doc:"the eigenvalue as a share of the first"`
	Summary   string        `json:"summary" doc:"of its members, as a model or a rule wrote it: no text of a document"`
	Questions []string      `json:"questions" doc:"that the summary answers"`
	Chunks    []ViewedChunk `json:"chunks" doc:"the largest loading first"`
}

// ViewedChunk is a chunk in a theme.
type ViewedChunk struct {
	ID       string  `json:"id"`
	Document string  `json:"document"`
	Ordinal  int     `json:"ordinal"`
	Start    int     `json:"start" doc:"code point of the document at which it begins"`
	End      int     `json:"end" doc:"code point behind its last"`
	Loading  float64 `json:"loading" doc:"its component of the theme's eigenvector"`
	Degree   float64 `json:"degree" doc:"sum of its similarities: how central it is"`
	Member   bool    `json:"member" doc:"the summary was made of it"`
	Question string  `json:"question" doc:"the first that it answers; its text where it is compared by that"`

	number int
}

// ReadView reads the themes, with at most most chunks in all: as many of each theme as of any other. Errors are
// fault.InvalidParam where the generation has no memory, and those of the store.
func ReadView(ctx context.Context, g *retrieve.Generation, most int) (View, error) {
	known, err := ensureMemory(ctx, g, "generation")
	if err != nil {
		return View{}, err
	}
	out := View{
		Index: g.Manifest.Index, Generation: g.Manifest.Generation, Chunks: known.chunks,
		Values: []float64{}, Residuals: []float64{}, Themes: []ViewedTheme{},
	}
	for _, file := range known.files {
		out.Questions += file.Questions()
	}
	file := known.themes
	if file == nil {
		return out, nil
	}
	out.Graph, out.Distinct, out.Estimated = file.Graph, file.Distinct, file.Estimated
	out.Values, out.Residuals = append(out.Values, file.Values...), append(out.Residuals, file.Residuals...)
	shown := map[string]bool{}
	each := most / max(1, len(file.Themes))
	for k, theme := range file.Themes {
		viewed := ViewedTheme{
			Theme: k, Lambda: theme.Lambda, Beta: theme.Beta, Summary: theme.Summary,
			Questions: []string{}, Chunks: []ViewedChunk{},
		}
		for _, question := range theme.Questions {
			viewed.Questions = append(viewed.Questions, question.Text)
		}
		viewed.Chunks = append(viewed.Chunks, known.viewChunks(g, k, each)...)
		for _, chunk := range viewed.Chunks {
			shown[chunk.ID] = true
		}
		out.Themes = append(out.Themes, viewed)
	}
	out.Shown = len(shown)
	return out, nil
}

// viewChunks returns the chunks of the largest components in theme k, above 0, at most most.
func (m *memory) viewChunks(g *retrieve.Generation, k, most int) []ViewedChunk {
	theme := m.themes.Themes[k]
	if theme.Pair >= m.graph.Pairs {
		return nil
	}
	var out []ViewedChunk
	for at, x := range m.graph.Vector(theme.Pair) {
		loading := float64(x)
		if node := m.graph.nodes[at]; node >= 0 && loading > 0 {
			out = append(out, ViewedChunk{number: int(node), Loading: loading, Degree: float64(m.graph.Degrees[at])})
		}
	}
	slices.SortFunc(out, func(a, b ViewedChunk) int {
		return cmp.Or(cmp.Compare(b.Loading, a.Loading), cmp.Compare(a.number, b.number))
	})
	out = out[:min(most, len(out))]
	for i := range out {
		one, chunk := &out[i], g.Live.ByNumber(out[i].number)
		one.ID, one.Document, one.Ordinal = chunk.ID.String(), g.Live.Key(int(chunk.Document)), int(chunk.Ordinal)
		one.Start, one.End = int(chunk.Start), int(chunk.End)
		one.Question = m.questionOf(one.number, 0, chunk.ID)
		one.Member = slices.Contains(m.members[m.chunks+k], one.number)
	}
	return out
}

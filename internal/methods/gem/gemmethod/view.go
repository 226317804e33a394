package gemmethod

import (
	"cmp"
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/methods/gem/themes"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// View is what is shown of a memory: its themes, with the chunks of the largest components.
type View struct {
	Chunks    int // that count
	File      *themes.File
	Themes    []ViewedTheme
	Shown     int // chunks, each counted once
	Questions int
}

// ViewedTheme is a theme and its chunks, the largest component first.
type ViewedTheme struct {
	*themes.Theme
	Loadings []Loading
}

// Loading is a chunk in a theme.
type Loading struct {
	Number   int // of the chunk
	Loading  float64
	Degree   float64
	Member   bool   // the theme's summary was made of it
	Question string // the first that it answers; its text, where no question was found
}

// ReadView reads the themes, with at most most chunks in all: as many of each theme as of any other. Errors are
// fault.InvalidParam where the generation has no memory, and those of the store.
func ReadView(ctx context.Context, g *retrieve.Generation, most int) (View, error) {
	known, err := ensureMemory(ctx, g, "generation")
	if err != nil {
		return View{}, err
	}
	graph := known.graph
	out := View{Chunks: known.chunks, File: known.themes}
	for _, file := range known.files {
		out.Questions += file.Questions()
	}
	if known.themes == nil {
		return out, nil
	}
	shown := map[int]bool{}
	each := most / max(1, len(known.themes.Themes))
	for k := range known.themes.Themes {
		theme := ViewedTheme{Theme: &known.themes.Themes[k]}
		for _, loading := range known.listLoadings(graph, *theme.Theme, each) {
			id := g.Live.ByNumber(loading.Number).ID
			loading.Question = known.questionOf(loading.Number, 0, id)
			loading.Member = slices.Contains(known.members[known.chunks+k], loading.Number)
			theme.Loadings = append(theme.Loadings, loading)
			shown[loading.Number] = true
		}
		out.Themes = append(out.Themes, theme)
	}
	out.Shown = len(shown)
	return out, nil
}

// listLoadings returns the chunks of the largest components in a theme, above 0, at most most.
func (m *memory) listLoadings(graph *memoryGraph, theme themes.Theme, most int) []Loading {
	if theme.Pair >= graph.Pairs {
		return nil
	}
	var out []Loading
	for at, x := range graph.Vector(theme.Pair) {
		loading := float64(x)
		if theme.Opposite {
			loading = -loading
		}
		if node := graph.nodes[at]; node >= 0 && loading > 0 {
			out = append(out, Loading{Number: int(node), Loading: loading, Degree: float64(graph.Degrees[at])})
		}
	}
	slices.SortFunc(out, func(a, b Loading) int {
		return cmp.Or(cmp.Compare(b.Loading, a.Loading), cmp.Compare(a.Number, b.Number))
	})
	return out[:min(most, len(out))]
}

package retrieve

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/methods/gem/themes"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// MemoryView is what is shown of a memory: its themes, with the chunks of the largest components.
type MemoryView struct {
	Chunks    int // that count
	File      *themes.File
	Why       string // the spectrum was computed, or kept
	Themes    []MemoryTheme
	Shown     int // chunks, each counted once
	Questions int
}

// MemoryTheme is a theme and its chunks, the largest component first.
type MemoryTheme struct {
	*themes.Theme
	Loadings []MemoryLoading
}

// MemoryLoading is a chunk in a theme.
type MemoryLoading struct {
	Number   int // of the chunk
	Loading  float64
	Degree   float64
	Member   bool   // the theme's summary was made of it
	Question string // the first that it answers; its text, where nobody found a question
}

// MemoryView reads the themes, with at most most chunks in all: as many of each theme as of any other. Errors are
// fault.InvalidParam where the generation has no memory, and those of the store.
func (g *Generation) MemoryView(ctx context.Context, most int) (MemoryView, error) {
	known, err := g.memory(ctx)
	if err != nil {
		return MemoryView{}, err
	}
	graph := known.graph
	out := MemoryView{Chunks: known.chunks, File: known.themes, Why: g.Manifest.Enrichment(MemoryEnrichment).Why}
	for _, file := range known.files {
		out.Questions += file.Questions()
	}
	if known.themes == nil {
		return out, nil
	}
	shown := map[int]bool{}
	each := most / max(1, len(known.themes.Themes))
	for k := range known.themes.Themes {
		theme := MemoryTheme{Theme: &known.themes.Themes[k]}
		for _, loading := range known.loadings(graph, *theme.Theme, each) {
			id := g.Live.ByNumber(loading.Number).ID
			loading.Question = known.question(loading.Number, 0, id)
			loading.Member = slices.Contains(known.members[known.chunks+k], loading.Number)
			theme.Loadings = append(theme.Loadings, loading)
			shown[loading.Number] = true
		}
		out.Themes = append(out.Themes, theme)
	}
	out.Shown = len(shown)
	return out, nil
}

// loadings are the chunks of the largest components in a theme, above 0, at most most.
func (m *memory) loadings(graph *memoryGraph, theme themes.Theme, most int) []MemoryLoading {
	if theme.Pair >= graph.Pairs {
		return nil
	}
	var out []MemoryLoading
	for at, x := range graph.Vector(theme.Pair) {
		loading := float64(x)
		if theme.Opposite {
			loading = -loading
		}
		if node := graph.nodes[at]; node >= 0 && loading > 0 {
			out = append(out, MemoryLoading{Number: int(node), Loading: loading, Degree: float64(graph.Degrees[at])})
		}
	}
	slices.SortFunc(out, func(a, b MemoryLoading) int {
		return cmp.Or(cmp.Compare(b.Loading, a.Loading), cmp.Compare(a.Number, b.Number))
	})
	return out[:min(most, len(out))]
}

// readAhead is how many chunks of a map are read beside each other.
const readAhead = 64

// MemoryMap draws the map of a memory: chunks in their order, behind them the summaries of themes. Its nodes are
// without texts and questions, which telling gives when the map is written, from the first node to the last. Errors
// are those of MemoryView.
func (g *Generation) MemoryMap(ctx context.Context) (gem.Map, gem.Telling, error) {
	known, err := g.memory(ctx)
	if err != nil {
		return gem.Map{}, nil, err
	}
	graph := known.graph
	set := g.Spec.Memory()
	picture := gem.Picture{
		Params: map[string]string{
			"index": g.Manifest.Index, "generation": g.Manifest.Generation, "m": strconv.Itoa(set.Questions),
			"T": strconv.Itoa(g.Spec.Chunking.MaxTokens), "neighbours": strconv.Itoa(set.Neighbours),
			"order": "algebraic", "neg": "clip", "sym": "mean",
		},
		Graph: graph,
	}
	for number := range known.chunks {
		chunk := g.Live.ByNumber(number)
		picture.Nodes = append(picture.Nodes, gem.MapNode{
			ID: chunk.ID.String(), Kind: "chunk", Doc: g.Live.Key(int(chunk.Document)),
			Start: int(chunk.Start), End: int(chunk.End),
		})
	}
	picture.Spectrum = graph.spectrum(known)
	if file := known.themes; file != nil {
		picture.Params["graph"], picture.Distinct = file.Graph, file.Distinct
		for k, theme := range file.Themes {
			drawn := gem.Theme{Pair: theme.Pair, Opposite: theme.Opposite, Lambda: theme.Lambda, Beta: theme.Beta}
			for _, member := range theme.Members {
				if chunk := g.Live.Chunk(member.ID()); chunk != nil {
					drawn.Members = append(drawn.Members, int(chunk.Number))
					drawn.Loadings = append(drawn.Loadings, member.Loading)
				}
			}
			picture.Themes = append(picture.Themes, drawn)
			picture.Summaries = append(picture.Summaries, known.chunks+k)
			picture.Nodes = append(picture.Nodes, gem.MapNode{ID: "theme-" + strconv.Itoa(k), Kind: "summary"})
		}
	}
	return picture.Draw(), g.telling(ctx, known), nil
}

// spectrum is that of the file, by nodes.
func (g *memoryGraph) spectrum(known *memory) gem.Spectrum {
	out := gem.Spectrum{Degrees: make([]float64, known.chunks)}
	for number := range known.chunks {
		if at := g.places[number]; at >= 0 {
			out.Degrees[number] = float64(g.Degrees[at])
		}
	}
	for k := range g.Pairs {
		was, pair := g.Vector(k), gem.Pair{Vector: make([]float64, known.chunks)}
		if known.themes != nil && k < len(known.themes.Values) {
			pair.Lambda, pair.Residual = known.themes.Values[k], known.themes.Residuals[k]
		}
		for number := range known.chunks {
			if at := g.places[number]; at >= 0 {
				pair.Vector[number] = float64(was[at])
			}
		}
		out.Pairs = append(out.Pairs, pair)
	}
	return out
}

// telling reads texts of the chunks of a map, some beside each other.
func (g *Generation) telling(ctx context.Context, known *memory) gem.Telling {
	var texts []string
	from := 0 // the chunk of the first text
	return func(i int, node *gem.MapNode) error {
		if i >= known.chunks {
			theme := known.themes.Themes[i-known.chunks]
			node.Text = theme.Summary
			for _, question := range theme.Questions {
				node.Questions = append(node.Questions, question.Text)
			}
			return nil
		}
		if i < from || i >= from+len(texts) {
			from, texts = i, make([]string, min(readAhead, known.chunks-i))
			err := parallel.Each(ctx, len(texts), readWidth, func(ctx context.Context, at int) (err error) {
				texts[at], err = g.Text(ctx, g.Live.ByNumber(from+at))
				return err
			})
			if err != nil {
				return err
			}
		}
		node.Text = texts[i-from]
		node.Questions = known.questionsOf(g.Live.ByNumber(i).ID)
		return nil
	}
}

// readWidth is how many texts are read at once.
const readWidth = 16

// questionsOf a chunk; none where it is compared by its text.
func (m *memory) questionsOf(id [16]byte) []string {
	for _, file := range m.files {
		if i := file.Find(id); i >= 0 {
			var out []string
			_, starts := file.Flat()
			for q := starts[i]; q < starts[i+1]; q++ {
				out = append(out, file.Text(int(q)))
			}
			return out
		}
	}
	return nil
}

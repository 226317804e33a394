package gemstage

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/methods/gem/questions"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/methods/gem/themes"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/text"
)

const (
	// stored is up to how many chunks the spectrum is of a graph with every edge; a larger one has those of the nearest.
	stored = 2000
	// leastNodes is with how many chunks there are themes.
	leastNodes = 4
	// usual is how many themes there are where the spectrum shows no gap: the overview and one more.
	usual = 2
)

// buildThemes makes the graph, computes the spectrum, chooses themes and has them summarised. With too few chunks there
// is the graph alone.
func (in In) buildThemes(ctx context.Context, all *spool, nodes gem.Nodes, of questions.Of, sealed *Sealed) error {
	graph, nearest, form, err := in.buildGraph(nodes)
	if err != nil {
		return err
	}
	few := len(all.places) < leastNodes
	var spectrum gem.Spectrum
	file := &themes.File{Embedder: of.Embedder, Dimension: of.Dimension, Nodes: int64(len(all.places)), Graph: form}
	if few {
		spectrum.Degrees = graph.Degrees()
	} else {
		if spectrum, err = gem.Compute(ctx, graph, gem.Options{Pairs: in.Settings.Themes + 1}); err != nil {
			return err
		}
		for _, pair := range spectrum.Pairs {
			for i, x := range pair.Vector {
				pair.Vector[i] = roundComponent(x)
			}
			file.Residuals = append(file.Residuals, boundResidual(pair.Residual))
		}
		file.Values, file.Distinct = roundValues(spectrum.Values()), roundValue(gem.Distinctness(graph))
		file.Estimated = gem.CountThemes(file.Values, 0.05)
		sealed.Counts.Missing = int64(spectrum.Missing)
	}
	summaries := gem.Nodes{Base: gem.NewRows(of.Dimension, 0), Mean: gem.NewRows(of.Dimension, 0)}
	if !few {
		sealed.Counts.Nodes = file.Nodes
		sealed.Themes = file
		count := gem.AutoThemes(file.Values, len(all.places), usual, in.Settings.Themes)
		for i, theme := range gem.SelectThemes(spectrum, count) {
			made := themes.Theme{Pair: theme.Pair, Lambda: roundValue(theme.Lambda), Beta: roundValue(theme.Beta)}
			for at, node := range theme.Members {
				made.Members = append(made.Members, themes.Member{
					Chunk: all.places[node].ID.String(), Loading: roundValue(theme.Loadings[at]),
				})
			}
			if err := in.summariseTheme(ctx, i, all, theme.Members, &made, &summaries); err != nil {
				return err
			}
			file.Themes = append(file.Themes, made)
		}
	}
	sealed.Graph = in.buildContent(all, nodes, summaries, nearest, spectrum)
	return nil
}

// buildGraph returns the graph that the spectrum is of, the graph of the nearest of each chunk, and the name of the
// form.
func (in In) buildGraph(nodes gem.Nodes) (graph gem.Graph, nearest *gem.Sparse, form string, err error) {
	if nodes.Len() <= stored {
		every, err := nodes.Matrix()
		if err != nil {
			return nil, nil, "", err
		}
		nearest, err = every.NearestGraph(in.Settings.Neighbours)
		return every, nearest, "matrix", err
	}
	nearest, err = nodes.NewNearest(gem.Nearest{Neighbours: in.Settings.Neighbours})
	return nearest, nearest, "nearest", err
}

// buildContent returns the content of the file of the graph: the nearest of chunks, and behind them summaries, which
// are joined to the chunks that are nearest to them. The spectrum is that of chunks alone.
func (in In) buildContent(
	all *spool, nodes, summaries gem.Nodes, nearest *gem.Sparse, spectrum gem.Spectrum,
) spectral.Content {
	chunks := len(all.places)
	out := spectral.Content{Summaries: summaries.Len(), Starts: []uint64{0}, Pairs: len(spectrum.Pairs)}
	type edge struct {
		to     uint32
		weight float32
	}
	ofChunks := map[int][]edge{} // to summaries, by chunk
	ofSummaries := make([][]edge, summaries.Len())
	for k := range summaries.Len() {
		to, weights := nodes.NearestTo(summaries.Mean.Row(k), summaries.Base.Row(k), in.Settings.Neighbours)
		for at, j := range to {
			weight := float32(weights[at])
			if !(weight > 0) {
				continue
			}
			ofSummaries[k] = append(ofSummaries[k], edge{uint32(j), weight})
			ofChunks[int(j)] = append(ofChunks[int(j)], edge{uint32(chunks + k), weight})
		}
	}
	put := func(edges []edge) {
		for _, e := range edges {
			out.To, out.Weights = append(out.To, e.to), append(out.Weights, e.weight)
		}
	}
	for i, chunk := range all.places {
		out.Chunks = append(out.Chunks, chunk.ID)
		out.Degrees = append(out.Degrees, float32(spectrum.Degrees[i]))
		to, weights := nearest.Neighbours(i)
		for at, j := range to {
			if weight := float32(weights[at]); weight > 0 {
				put([]edge{{uint32(j), weight}})
			}
		}
		put(ofChunks[i])
		out.Starts = append(out.Starts, uint64(len(out.To)))
	}
	for _, edges := range ofSummaries {
		put(edges)
		out.Starts = append(out.Starts, uint64(len(out.To)))
	}
	for _, pair := range spectrum.Pairs {
		for _, x := range pair.Vector {
			out.Vectors = append(out.Vectors, float32(x))
		}
	}
	return out
}

// summariseTheme makes the summary of members, in the order of documents, and its questions. Its vectors are added to
// summaries; one of nothing has vectors of zeros, which are near to none.
func (in In) summariseTheme(
	ctx context.Context, number int, all *spool, members []int, made *themes.Theme, summaries *gem.Nodes,
) error {
	var ordered []enrich.Chunk
	for _, node := range members {
		ordered = append(ordered, all.readChunk(node))
	}
	slices.SortFunc(ordered, func(a, b enrich.Chunk) int {
		return cmp.Or(cmp.Compare(a.Document, b.Document), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	var passages, prose []string
	for _, chunk := range ordered {
		passages = append(passages, chunk.Text)
		prose = append(prose, text.KeepProse(chunk.Text))
	}
	whole := strings.Join(passages, "\n\n")
	made.Summary = cmp.Or(
		builtin.SummaryIn(in.Language, strings.Join(prose, "\n\n"), summaryRunes),
		builtin.SummaryIn(in.Language, whole, summaryRunes),
	)
	if in.Summarizer.Info().Paid {
		by := in
		by.Chat, by.Health = in.Summarizer, in.Shortens
		said, err := by.askPaid(ctx, summaryPrompt, whole, summaryCall(number, whole), func(reply string) (answer, bool) {
			summary := readSummary(reply)
			return answer{Text: summary}, summary != ""
		})
		if err != nil {
			return err
		}
		if said.Text != "" {
			made.Summary = said.Text
		}
	}
	made.Tokens = tokens.Count(made.Summary)
	if made.Summary == "" {
		nothing := make([]float32, summaries.Base.Dim)
		summaries.Base.Append(nothing)
		summaries.Mean.Append(nothing)
		return nil
	}
	asked, err := in.questionsOf(ctx, "", made.Summary)
	if err != nil {
		return err
	}
	vectors, err := in.embedTexts(ctx, append([]string{made.Summary}, asked.Questions...))
	if err != nil {
		return err
	}
	base := gem.ToUnit(vectors[0])
	var averaged [][]float32
	for i, question := range asked.Questions {
		vector := gem.AverageQuestion(vectors[1+i], base)
		averaged = append(averaged, vector)
		made.Questions = append(made.Questions, themes.Question{Text: question, Vector: vector})
	}
	summaries.Base.Append(base)
	summaries.Mean.Append(gem.Mean(base, averaged))
	if len(made.Questions) == 0 {
		made.Questions = []themes.Question{{Text: made.Summary, Vector: base}}
	}
	return nil
}

// What is written is rounded, so that processors that round the last bits otherwise write the same.
func roundValue(x float64) float64 { return math.Round(x*1e6)/1e6 + 0 } // no -0

func roundValues(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, x := range values {
		out[i] = roundValue(x)
	}
	return out
}

// boundResidual returns a power of ten that is not below a residual: its digits are noise.
func boundResidual(residual float64) float64 {
	for bound := 1e-15; bound < 1; bound *= 10 {
		if residual <= bound {
			return bound
		}
	}
	return 1
}

// roundComponent returns a number of an eigenvector as it is written: what the solver left of the last digits is noise,
// and themes are chosen by what is written.
func roundComponent(x float64) float64 { return float64(float32(roundValue(x))) }

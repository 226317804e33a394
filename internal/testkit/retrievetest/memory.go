package retrievetest

import (
	"bytes"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/methods/gem/questions"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/methods/gem/themes"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/text"
)

// writeMemory writes the enrichment gem: the questions of each chunk by rule, its text where there are none, and one
// theme of the first two chunks, where there are two.
func (b *builder) writeMemory() {
	embedder := b.manifest.Chunk.Digest().String()
	of := questions.Of{Embedder: embedder, Dimension: builtin.Dimension}
	var chunks []questions.Chunk
	for _, c := range b.chunks {
		asked := questions.Chunk{ID: c.id}
		for _, text := range builtin.QuestionsIn(text.LanguageOf("en"), c.Text, 5) {
			vector := gem.AverageQuestion(b.vector(text), b.vector(c.Text))
			asked.Questions = append(asked.Questions, questions.Question{Text: text, Vector: vector})
		}
		if len(asked.Questions) == 0 {
			asked.Questions = []questions.Question{{Text: c.Text, Vector: gem.ToUnit(b.vector(c.Text))}}
		}
		chunks = append(chunks, asked)
	}
	slices.SortFunc(chunks, func(x, y questions.Chunk) int { return bytes.Compare(x.ID[:], y.ID[:]) })
	file := musttest.Get(artifact.NewFile())(b.t)
	defer file.Discard()
	check(b.t, questions.Write(file, of, func(yield func(questions.Chunk, error) bool) {
		for _, chunk := range chunks {
			if !yield(chunk, nil) {
				return
			}
		}
	}))
	b.enriched(file, "questions")
	b.manifest.Enriched = []core.Enrichment{{Name: "gem", Rules: "test"}}
	b.writeGraph(chunks)
	if len(b.chunks) < 2 {
		return
	}
	summary := "Ships and their crews"
	content, err := themes.File{
		Embedder: embedder, Dimension: builtin.Dimension, Nodes: int64(len(chunks)), Graph: "matrix",
		Values: []float64{1}, Residuals: []float64{0},
		Themes: []themes.Theme{{
			Lambda: 1, Beta: 1, Summary: summary, Tokens: 4,
			Members: []themes.Member{
				{Chunk: b.chunks[0].id.String(), Loading: 0.8}, {Chunk: b.chunks[1].id.String(), Loading: 0.6},
			},
			Questions: []themes.Question{{Text: SummaryQuestion, Vector: gem.ToUnit(b.vector(SummaryQuestion))}},
		}},
	}.Encode()
	check(b.t, err)
	whole := musttest.Get(artifact.NewFile())(b.t)
	defer whole.Discard()
	check(b.t, musttest.Err(whole.Write(content)))
	b.enriched(whole, "themes")
}

// writeGraph joins each chunk to the three that are nearest by their questions and texts, and the summary to its
// members. The only eigenvector has the first two chunks in it.
func (b *builder) writeGraph(chunks []questions.Chunk) {
	var nodes gem.Nodes
	content := spectral.Content{Starts: []uint64{0}, Pairs: 1}
	for _, chunk := range chunks {
		text, loading := "", float32(0)
		for i, c := range b.chunks {
			if c.id == chunk.ID {
				if text = c.Text; i < 2 {
					loading = []float32{0.8, 0.6}[i]
				}
			}
		}
		var averaged [][]float32
		for _, question := range chunk.Questions {
			averaged = append(averaged, question.Vector)
		}
		nodes.Base.Append(gem.ToUnit(b.vector(text)))
		nodes.Mean.Append(gem.Mean(b.vector(text), averaged))
		content.Chunks = append(content.Chunks, chunk.ID)
		content.Vectors = append(content.Vectors, loading)
	}
	every := musttest.Get(nodes.Matrix())(b.t)
	nearest := musttest.Get(every.NearestGraph(3))(b.t)
	for _, degree := range every.Degrees() {
		content.Degrees = append(content.Degrees, float32(degree))
	}
	var members []uint32
	put := func(to uint32, weight float64) {
		content.To, content.Weights = append(content.To, to), append(content.Weights, float32(weight))
	}
	if len(b.chunks) > 1 {
		content.Summaries = 1
	}
	for i := range chunks {
		to, weights := nearest.Neighbours(i)
		for at, j := range to {
			put(uint32(j), weights[at])
		}
		if content.Summaries > 0 && content.Vectors[i] > 0 {
			members = append(members, uint32(i))
			put(uint32(len(chunks)), SummaryWeight)
		}
		content.Starts = append(content.Starts, uint64(len(content.To)))
	}
	if content.Summaries > 0 {
		for _, member := range members {
			put(member, SummaryWeight)
		}
		content.Starts = append(content.Starts, uint64(len(content.To)))
	}
	file := musttest.Get(artifact.NewFile())(b.t)
	defer file.Discard()
	check(b.t, content.Write(file))
	b.enriched(file, spectral.Kind)
}

// SummaryWeight is that of the edges of the summary of a fixture.
const SummaryWeight = 0.5

// SummaryQuestion is what the summary of the theme of a fixture answers.
const SummaryQuestion = "xylophone quartet rehearsal"

func (b *builder) enriched(file *artifact.File, kind string) {
	segment, _, err := file.PutSegment(b.ctx, b.index)
	check(b.t, err)
	b.manifest.Segments.Enriched = append(b.manifest.Segments.Enriched,
		core.EnrichedFile{Segment: segment, Of: "gem", Kind: kind})
}

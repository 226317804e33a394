package release

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// askedAtOnce is how many questions are asked side by side.
const askedAtOnce = 4

// asker asks a generation questions by the path that queries take.
type asker struct {
	*Run
	generation *retrieve.Generation
	chunks     int // of an answer
}

// answered is what a generation finds for a question.
type answered struct {
	view  *retrieve.Generation // what who asks sees of the generation
	found retrieve.Result
	err   error
}

// openAsker opens a generation by its manifest. Close it.
func (r *Run) openAsker(ctx context.Context, sha string, chunks int) (*asker, error) {
	generation, err := retrieve.Opening{
		Artifacts: r.Artifacts, Cache: r.Cache, Vectors: r.Vectors, Index: r.Job.Index, Manifest: sha,
	}.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &asker{r, generation, chunks}, nil
}

// Close lets go of the generation; nil has none.
func (a *asker) Close() {
	if a != nil {
		a.generation.Close()
	}
}

// askEach asks questions by the method of the configuration that the generation was built with, and returns what is
// found, in their order. An error is one that keeps all of them from being answered; that of one question is in its
// answer.
func (a *asker) askEach(ctx context.Context, questions []core.Question) ([]answered, error) {
	out := make([]answered, len(questions))
	texts := make([]string, len(questions))
	var err error
	for i, question := range questions {
		if out[i].view, err = a.generation.View(ctx, core.ReadersOf(question.Labels)); err != nil {
			return nil, err
		}
		texts[i] = question.Question
		a.Progress.Touch()
	}
	settings := a.generation.Spec.Retrieval
	method, err := methods.Registry().Method(settings.Method)
	if err != nil {
		return nil, err
	}
	spec := method.Spec()
	params, err := spec.ReadParams(nil)
	if err != nil {
		return nil, err
	}
	read, err := a.readQuestions(ctx, out, spec, texts)
	if err != nil {
		return nil, err
	}
	searcher := retrieve.Searcher{Vectors: a.Vectors, Records: a.Records, Methods: methods.Registry()}
	err = parallel.Each(ctx, len(out), askedAtOnce, func(ctx context.Context, i int) error {
		query := retrieve.Query{
			Text: texts[i], Method: settings.Method, TopEntities: spec.Entities, TopChunks: a.chunks,
			Params: params, MinSim: settings.MinSimilarity,
			Vector: read[i].byClass, ChunkVector: read[i].byChunk, Reading: read[i].reading,
		}
		if len(spec.Rules) > 0 {
			query.Rule = settings.Rule
		}
		out[i].found, out[i].err = searcher.Run(ctx, out[i].view, query)
		a.Progress.Touch()
		if mustStop(ctx, out[i].err) {
			return out[i].err
		}
		return nil
	})
	return out, err
}

// mustStop reports whether an error says that the run is not to go on, rather than that it cannot ask.
func mustStop(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || fault.Is(err, fault.Paused) || fault.Is(err, fault.Cancelled) ||
		fault.Is(err, fault.ControlUnreadable) || fault.Is(err, fault.LeaseLost))
}

// readQuestion is what a method compares of a question.
type readQuestion struct {
	byClass, byChunk []float32
	reading          retrieve.Reading
}

// readQuestions reads and embeds questions as their method needs, by the embedders that the generation was built with.
// A method that has questions read gets what rules read: no chat model is asked for them.
func (a *asker) readQuestions(
	ctx context.Context, asked []answered, method retrieve.Spec, questions []string,
) ([]readQuestion, error) {
	out := make([]readQuestion, len(questions))
	needs := method.Needs
	if needs.Embedding == retrieve.NoEmbedding {
		return out, nil
	}
	spec := a.generation.Spec // only embedders are asked: the server of another model may be gone since
	spec.Chat, spec.Roles = core.ChatModel{Provider: "builtin"}, nil
	models, err := a.Models(spec, a.Book)
	if err != nil {
		return nil, err
	}
	manifest := a.generation.Manifest
	var views []*retrieve.Generation
	for _, one := range asked {
		views = append(views, one.view)
	}
	if needs.Embedding == retrieve.ByClassEmbedder {
		texts, views := slices.Clone(questions), slices.Clone(views)
		for i := range questions {
			if method.Reader != nil {
				out[i].reading = method.Reader.ByRules(views[i], questions[i])
				texts = append(texts, out[i].reading.Texts...)
				views = append(views, slices.Repeat(views[i:i+1], len(out[i].reading.Texts))...)
			}
		}
		vectors, err := a.embedQuestions(ctx, views, models.Classes, manifest.Class, texts)
		if err != nil {
			return nil, err
		}
		rows := vectors[len(questions):]
		for i := range out {
			n := len(out[i].reading.Texts)
			out[i].byClass, out[i].reading.Rows, rows = vectors[i], rows[:n:n], rows[n:]
		}
	}
	if needs.Embedding == retrieve.ByChunkEmbedder || needs.Hashed || manifest.Chunk.Provider != "builtin" {
		vectors, err := a.embedQuestions(ctx, views, models.Chunks, manifest.Chunk, questions)
		if err != nil {
			return nil, err
		}
		for i := range out {
			out[i].byChunk = vectors[i]
		}
	}
	return out, nil
}

// embedQuestions returns the vectors of texts as questions, each for its view, through the ledger: a text is paid for
// once. Only an embedder that weighs words by what a view holds is called for each view. Templates are of documents, so
// questions under fingerprints that differ in them alone have one vector.
func (a *asker) embedQuestions(
	ctx context.Context, views []*retrieve.Generation, embedder model.Embedder, by core.Fingerprint, texts []string,
) ([][]float32, error) {
	embedder = model.ForQuestions(embedder)
	_, weighs := model.As[model.Weighable](embedder)
	wanted := map[*retrieve.Generation]map[string][]float32{}
	viewOf := func(place int) *retrieve.Generation {
		if weighs {
			return views[place]
		}
		return a.generation
	}
	for i, text := range texts {
		if wanted[viewOf(i)] == nil {
			wanted[viewOf(i)] = map[string][]float32{}
		}
		wanted[viewOf(i)][text] = nil
	}
	for view, vectors := range wanted {
		source := embed.Source{Embedder: view.Weigh(embedder, by), Ledger: a.Ledger}
		if err := a.embedTexts(ctx, source, by, vectors); err != nil {
			return nil, err
		}
	}
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = wanted[viewOf(i)][text]
	}
	return out, nil
}

// embedTexts sets the vector of each text.
func (a *asker) embedTexts(
	ctx context.Context, source embed.Source, by core.Fingerprint, vectors map[string][]float32,
) error {
	by.Template, by.Windows = "", ""
	fingerprint := by.Digest().String()
	items := func(yield func(embed.Item, error) bool) {
		for _, text := range slices.Sorted(maps.Keys(vectors)) {
			if !yield(embed.Item{Text: text, Digest: core.Sum("question-vector/1", text, fingerprint)}, nil) {
				return
			}
		}
	}
	for batch, err := range embed.CutBatches(items) {
		if err != nil {
			return err
		}
		got, err := source.Vectors(ctx, batch)
		if err == nil && len(got) != len(batch) {
			err = fault.BadEmbeddings.At("embed questions", a.Name()).
				Because(fmt.Sprintf("%d vectors of %d texts", len(got), len(batch)))
		}
		if err != nil {
			return err
		}
		for i, vector := range got {
			vectors[batch[i].Text] = vector
		}
		a.Progress.Touch()
	}
	return nil
}

package release

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

const (
	askedAtOnce  = 4  // questions are asked side by side
	watchRefused = 10 // questions may fail for good before no more of a batch are asked
)

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

// openAsker opens a generation by its manifest. Close that.
func (r *Run) openAsker(ctx context.Context, sha string, chunks int) (*asker, error) {
	generation, err := retrieve.Opening{
		Artifacts: r.Artifacts, Cache: r.Cache, Vectors: r.Vectors, Index: r.Job.Index, Manifest: sha,
	}.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &asker{r, generation, chunks}, nil
}

// askEach asks questions by the method of the configuration that the generation was built with, and returns what is
// found, in their order. An error keeps all of them from being answered, or may go by itself; one that stays with a
// question is in its answer.
func (a *asker) askEach(ctx context.Context, questions []core.Question) ([]answered, error) {
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
	models, err := a.openEmbedders(spec)
	if err != nil {
		return nil, err
	}
	if err := a.embedAhead(ctx, &models, questions); err != nil {
		return nil, err
	}
	searcher := retrieve.Searcher{Vectors: a.Vectors, Records: a.Records, Methods: methods.Registry()}
	out := make([]answered, len(questions))
	var refused atomic.Int64
	err = parallel.Each(ctx, len(out), askedAtOnce, func(ctx context.Context, i int) (err error) {
		if out[i].view, err = a.generation.View(ctx, core.ReadersOf(questions[i].Labels)); err != nil {
			return err
		}
		query := retrieve.Query{
			Text: questions[i].Question, Method: settings.Method, TopEntities: spec.Entities, TopChunks: a.chunks,
			Params: params, MinSim: settings.MinSimilarity,
		}
		if len(spec.Rules) > 0 {
			query.Rule = settings.Rule
		}
		if err = a.embedQuery(ctx, out[i].view, models, spec.Reader, &query); err == nil {
			out[i].found, err = searcher.Run(ctx, out[i].view, query)
		}
		a.Progress.Touch()
		if stopsAsking(ctx, err) || fault.KindOf(err) == fault.Fatal && refused.Add(1) > watchRefused {
			return err
		}
		out[i].err = err
		return nil
	})
	return out, err
}

// mustStop reports whether an error says that the run is not to go on, rather than that it cannot ask.
func mustStop(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || fault.Is(err, fault.Paused) || fault.Is(err, fault.Cancelled) ||
		fault.Is(err, fault.ControlUnreadable) || fault.Is(err, fault.LeaseLost))
}

// stopsAsking reports whether an error keeps all questions from being asked for now.
func stopsAsking(ctx context.Context, err error) bool {
	return mustStop(ctx, err) || err != nil && fault.KindOf(err) == fault.Transient
}

// embedder makes vectors of questions; its model is nil where the method needs none.
type embedder struct {
	model model.Embedder
	by    core.Fingerprint
	ahead map[string][]float32 // by texts
}

// embedders are those that a method needs.
type embedders struct{ classes, chunks embedder }

// openEmbedders returns the embedders that the generation was built with, as far as a method needs them.
func (a *asker) openEmbedders(method retrieve.Spec) (out embedders, err error) {
	needs, manifest := method.Needs, a.generation.Manifest
	if needs.Embedding == retrieve.NoEmbedding {
		return out, nil
	}
	spec := a.generation.Spec // only embedders are asked: the server of another model may be gone since
	spec.Chat, spec.Roles = core.ChatModel{Provider: "builtin"}, nil
	models, err := a.Models(spec, a.Book)
	if err != nil {
		return out, err
	}
	if needs.Embedding == retrieve.ByClassEmbedder {
		out.classes = embedder{model: model.ForQuestions(models.Classes), by: manifest.Class}
	}
	if needs.Embedding == retrieve.ByChunkEmbedder || needs.Hashed || manifest.Chunk.Provider != "builtin" {
		out.chunks = embedder{model: model.ForQuestions(models.Chunks), by: manifest.Chunk}
	}
	return out, nil
}

// embedAhead embeds questions together, as the ledger and servers that are paid take many at once. Where they refuse a
// text, each question is embedded by itself.
func (a *asker) embedAhead(ctx context.Context, models *embedders, questions []core.Question) error {
	for _, one := range []*embedder{&models.classes, &models.chunks} {
		if one.model == nil || !one.model.Info().Paid {
			continue
		}
		ahead := map[string][]float32{}
		for some := range slices.Chunk(questions, watchBatch) {
			var texts []string
			for _, question := range some {
				texts = append(texts, question.Question)
			}
			vectors, err := a.embedTexts(ctx, a.generation, *one, texts...)
			if stopsAsking(ctx, err) {
				return err
			}
			for i, vector := range vectors {
				ahead[texts[i]] = vector
			}
		}
		one.ahead = ahead
	}
	return nil
}

// embedQuery sets what a method compares of a question. A method that has questions read gets what rules read: no chat
// model is asked for them.
func (a *asker) embedQuery(
	ctx context.Context, view *retrieve.Generation, models embedders, reader *retrieve.Reader, query *retrieve.Query,
) error {
	if models.classes.model != nil {
		if reader != nil {
			query.Reading = reader.ByRules(view, query.Text)
		}
		vectors, err := a.embedTexts(ctx, view, models.classes, append([]string{query.Text}, query.Reading.Texts...)...)
		if err != nil {
			return err
		}
		query.Vector, query.Reading.Rows = vectors[0], vectors[1:]
	}
	if models.chunks.model != nil {
		vectors, err := a.embedTexts(ctx, view, models.chunks, query.Text)
		if err != nil {
			return err
		}
		query.ChunkVector = vectors[0]
	}
	return nil
}

// embedTexts returns the vectors of texts as questions, through the ledger: a text is paid for once. Templates are of
// documents, so questions under fingerprints that differ in them alone have one vector.
func (a *asker) embedTexts(
	ctx context.Context, view *retrieve.Generation, by embedder, texts ...string,
) ([][]float32, error) {
	if vector := by.ahead[texts[0]]; vector != nil && len(texts) == 1 {
		return [][]float32{vector}, nil
	}
	source := embed.Source{Embedder: view.Weigh(by.model, by.by), Ledger: a.Ledger}
	by.by.Template, by.by.Windows = "", ""
	fingerprint := by.by.Digest().String()
	items := make([]embed.Item, len(texts))
	for i, text := range texts {
		items[i] = embed.Item{Text: text, Digest: core.Sum("question-vector/1", text, fingerprint)}
	}
	vectors, err := source.Vectors(ctx, items)
	if err == nil && len(vectors) != len(items) {
		err = fault.BadEmbeddings.At("embed questions", a.Name()).
			Because(fmt.Sprintf("%d vectors of %d texts", len(vectors), len(items)))
	}
	a.Progress.Touch()
	return vectors, err
}

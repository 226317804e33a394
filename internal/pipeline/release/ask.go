package release

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
	generation, err := retrieve.Open(ctx, r.Artifacts, r.Cache, r.Vectors, r.Job.Index, sha, 0)
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

// viewOf returns what who asks a question sees.
func (a *asker) viewOf(ctx context.Context, question core.Question) (*retrieve.Generation, error) {
	return a.generation.View(ctx, core.ReadersOf(question.Labels))
}

// askEach asks questions and returns what is found, in their order. An error ends it only where the run has to stop:
// any other is that of the questions which it keeps from being answered.
func (a *asker) askEach(ctx context.Context, questions []core.Question) ([]answered, error) {
	out := make([]answered, len(questions))
	groups := map[string][]int{} // of one method and reader
	var order []string
	for i, question := range questions {
		key := fmt.Sprintf("%q %q", question.Method, question.Labels)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], i)
	}
	for _, key := range order {
		places := groups[key]
		err := a.askGroup(ctx, questions, places, out)
		if mustStop(ctx, err) {
			return nil, err
		}
		for _, place := range places {
			if err != nil {
				out[place].err = err
			} else if mustStop(ctx, out[place].err) {
				return nil, out[place].err
			}
		}
	}
	return out, nil
}

// mustStop reports whether an error says that the run is not to go on, rather than that it cannot ask.
func mustStop(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || fault.Is(err, fault.Paused) || fault.Is(err, fault.Cancelled) ||
		fault.Is(err, fault.ControlUnreadable))
}

// askGroup asks those questions of a list that stand at some places, which have one method and one reader, with the
// settings of the configuration that the generation was built with.
func (a *asker) askGroup(ctx context.Context, questions []core.Question, places []int, out []answered) error {
	view, err := a.viewOf(ctx, questions[places[0]])
	if err != nil {
		return err
	}
	settings := view.Spec.Retrieval
	if named := questions[places[0]].Method; named != "" {
		settings.Method = named
	}
	method, err := methods.Registry().Method(settings.Method)
	if err != nil {
		return err
	}
	spec := method.Spec()
	params, err := spec.ReadParams(nil)
	if err != nil {
		return err
	}
	texts := make([]string, len(places))
	for i, place := range places {
		texts[i] = questions[place].Question
	}
	read, err := a.readQuestions(ctx, view, spec, texts)
	if err != nil {
		return err
	}
	searcher := retrieve.Searcher{Vectors: a.Vectors, Records: a.Records, Methods: methods.Registry()}
	return parallel.Each(ctx, len(places), askedAtOnce, func(ctx context.Context, i int) error {
		query := retrieve.Query{
			Text: texts[i], Method: settings.Method, TopEntities: spec.Entities, TopChunks: a.chunks,
			Params: params, MinSim: settings.MinSimilarity,
			Vector: read[i].byClass, ChunkVector: read[i].byChunk, Reading: read[i].reading,
		}
		if len(spec.Rules) > 0 {
			query.Rule = settings.Rule
		}
		found, err := searcher.Run(ctx, view, query)
		out[places[i]] = answered{view, found, err}
		a.Progress.Touch()
		return nil
	})
}

// readQuestion is what a method compares of a question.
type readQuestion struct {
	byClass, byChunk []float32
	reading          retrieve.Reading
}

// readQuestions reads and embeds questions as their method needs, by the embedders that the generation was built with.
// A method that has questions read gets what rules read: no chat model is asked for them.
func (a *asker) readQuestions(
	ctx context.Context, view *retrieve.Generation, method retrieve.Spec, questions []string,
) ([]readQuestion, error) {
	out := make([]readQuestion, len(questions))
	needs := method.Needs
	if needs.Embedding == retrieve.NoEmbedding {
		return out, nil
	}
	spec := view.Spec // only embedders are asked: the server of another model may be gone since
	spec.Chat, spec.Roles = core.ChatModel{Provider: "builtin"}, nil
	models, err := a.Models(spec, a.Book)
	if err != nil {
		return nil, err
	}
	manifest := view.Manifest
	if needs.Embedding == retrieve.ByClassEmbedder {
		texts := slices.Clone(questions)
		for i := range questions {
			if method.Reader != nil {
				out[i].reading = method.Reader.ByRules(view, questions[i])
				texts = append(texts, out[i].reading.Texts...)
			}
		}
		vectors, err := a.embedQuestions(ctx, view, models.Classes, manifest.Class, texts)
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
		vectors, err := a.embedQuestions(ctx, view, models.Chunks, manifest.Chunk, questions)
		if err != nil {
			return nil, err
		}
		for i := range out {
			out[i].byChunk = vectors[i]
		}
	}
	return out, nil
}

// embedQuestions returns the vectors of texts as questions, through the ledger: a text is paid for once. Templates are
// of documents, so questions under fingerprints that differ in them alone have one vector.
func (a *asker) embedQuestions(
	ctx context.Context, view *retrieve.Generation, embedder model.Embedder, by core.Fingerprint, texts []string,
) ([][]float32, error) {
	source := embed.Source{Embedder: view.Weigh(model.ForQuestions(embedder), by), Ledger: a.Ledger}
	by.Template, by.Windows = "", ""
	fingerprint := by.Digest().String()
	items := func(yield func(embed.Item, error) bool) {
		for _, text := range texts {
			if !yield(embed.Item{Text: text, Digest: core.Sum("question-vector/1", text, fingerprint)}, nil) {
				return
			}
		}
	}
	out := make([][]float32, 0, len(texts))
	for batch, err := range embed.CutBatches(items) {
		if err != nil {
			return nil, err
		}
		vectors, err := source.Vectors(ctx, batch)
		if err == nil && len(vectors) != len(batch) {
			err = fault.BadEmbeddings.At("embed questions", a.Name()).
				Because(fmt.Sprintf("%d vectors of %d texts", len(vectors), len(batch)))
		}
		if err != nil {
			return nil, err
		}
		out = append(out, vectors...)
		a.Progress.Touch()
	}
	return out, nil
}

// sortQuestions orders questions so that those which are asked together follow each other.
func sortQuestions(questions []core.Question) {
	slices.SortStableFunc(questions, func(a, b core.Question) int {
		if order := strings.Compare(a.Method, b.Method); order != 0 {
			return order
		}
		return slices.Compare(a.Labels, b.Labels)
	})
}

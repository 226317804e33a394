// Package gemstage makes the memory of a generation: the questions that its chunks answer, and the themes that chunks
// with such questions have in common (internal/methods/gem, internal/methods/gem/questions,
// internal/methods/gem/themes). Steps:
//
//  1. Pay has the ledger hold the questions of chunks, one call each, and the vectors of them: part by part, in any
//     order, by any worker. What it has is not paid for again, so that a night pays for the chunks that changed.
//  2. Seal reads all of it in the order of ids, writes the questions with the vectors that a prompt is compared with,
//     computes the spectrum, has each theme summarised, one call each, and gives graph and themes. Nothing is taken
//     from an earlier file, so that what it makes is what a build from nothing makes.
//
// Models that cost nothing are not asked for questions: rules find them. A chunk of which no question is found is
// compared by its text.
package gemstage

import (
	"context"
	"io"
	"iter"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/methods/gem/questions"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/methods/gem/themes"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/text"
)

// Rules is the version of everything here that shapes the files, beside prompts and models: a new one makes them again.
// gem/1: first form; gem/2: with the file of the graph and its eigenvectors;
// gem/3: rules pass over what is no prose.
const Rules = "gem/3"

// Task of the ledger.
const Task = "questions"

// In is what a memory is made of.
type In struct {
	Language    *text.Language
	Chat        model.Chat
	Health      *stage.Health // of Chat; nil is allowed
	Summarizer  model.Chat    // writes summaries of themes
	Shortens    *stage.Health // of Summarizer; nil is allowed
	Ledger      *ledger.Ledger
	Embedder    model.Embedder // of chunks
	Fingerprint core.Digest    // of it
	MaxTokens   int            // that it reads of a text; 0: all
	Attempt     int            // round of retry-failed
	Settings    gem.Settings
}

// Counts of what was made.
type Counts struct {
	Chunks, Questions int64
	Fallbacks         int64 // chunks that are compared by their text, as no question was found
	Failed            int64 // of these, chunks for which the model gave no answer of use
	Themes            int64
	Missing           int64 // eigenpairs that did not converge
	Nodes             int64 // chunks that the spectrum is of
}

const (
	width  = 64  // calls and requests in flight; the endpoint's gate bounds them over all workers
	window = 256 // chunks that are held with their vectors at once
)

// Pay has the ledger hold what Seal needs of chunks. What costs nothing is not asked for.
func (in In) Pay(ctx context.Context, chunks iter.Seq2[enrich.Chunk, error]) error {
	if !in.Chat.Info().Paid && !in.Embedder.Info().Paid {
		return nil
	}
	for group, err := range parallel.Batch(chunks, window) {
		if err != nil {
			return err
		}
		asked, err := in.askQuestions(ctx, group, new(Counts))
		if err != nil {
			return err
		}
		if !in.Embedder.Info().Paid {
			continue
		}
		var texts []string
		for i, chunk := range group {
			texts = append(append(texts, in.firstWindow(chunk)), asked[i]...)
		}
		err = in.runBatches(ctx, texts, func(ctx context.Context, source embed.Source, _ int, items []embed.Item) error {
			return source.Pay(ctx, items)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Sealed is what Seal made beside the file of questions.
type Sealed struct {
	Themes *themes.File // nil: there are too few chunks
	Graph  spectral.Content
	Hash   core.Digest
	Counts Counts
}

// Seal writes the questions of chunks and gives their graph and themes. Memory holds the graph; texts and two vectors
// of each chunk lie in temporary files, of which the vectors are read over and over.
func (in In) Seal(ctx context.Context, chunks iter.Seq2[enrich.Chunk, error], out io.Writer) (Sealed, error) {
	var sealed Sealed
	all, err := newSpool(chunks)
	if err != nil {
		return sealed, err
	}
	defer all.close()
	hash := core.NewSumming()
	hash.Add(Rules)
	of := questions.Of{Embedder: in.Fingerprint.String(), Dimension: in.Embedder.Dimension()}
	if of.Dimension == 0 { // known from the first answer
		vectors, err := in.embedTexts(ledger.WithNote(ctx, nil), []string{model.ProbeText})
		if err != nil {
			return sealed, err
		}
		of.Dimension = len(vectors[0])
	}
	var vectors columns
	defer vectors.close()
	asked := func(yield func(questions.Chunk, error) bool) {
		for from := 0; from < len(all.places); from += window {
			made, err := in.embedGroup(ctx, all.readChunks(from, min(from+window, len(all.places))), &vectors, &sealed.Counts)
			if err != nil {
				yield(questions.Chunk{}, err)
				return
			}
			for _, chunk := range made {
				hash.Add(chunk.ID.String())
				for _, question := range chunk.Questions {
					hash.Add(question.Text)
				}
				if !yield(chunk, nil) {
					return
				}
			}
		}
	}
	if err := questions.Write(out, of, asked); err != nil {
		return sealed, err
	}
	sealed.Counts.Chunks = int64(len(all.places))
	nodes, err := vectors.viewNodes(of.Dimension)
	if err != nil {
		return sealed, err
	}
	if err := in.buildThemes(ctx, all, nodes, of, &sealed); err != nil {
		return sealed, err
	}
	if file := sealed.Themes; file != nil {
		sealed.Counts.Themes = int64(len(file.Themes))
		for _, theme := range file.Themes {
			hash.Add(theme.Summary)
			for _, member := range theme.Members {
				hash.Add(member.Chunk)
			}
		}
	}
	sealed.Hash = hash.Digest()
	return sealed, nil
}

// embedGroup asks for the questions of chunks and embeds them: each is compared by the mean of its direction and that
// of its chunk. What a graph is made of is added to nodes.
func (in In) embedGroup(
	ctx context.Context, group []enrich.Chunk, nodes *columns, counts *Counts,
) ([]questions.Chunk, error) {
	asked, err := in.askQuestions(ctx, group, counts)
	if err != nil {
		return nil, err
	}
	var texts []string
	for i, chunk := range group {
		texts = append(append(texts, in.firstWindow(chunk)), asked[i]...)
	}
	vectors, err := in.embedTexts(ctx, texts)
	if err != nil {
		return nil, err
	}
	out := make([]questions.Chunk, len(group))
	for i, chunk := range group {
		base := gem.ToUnit(vectors[0])
		made := questions.Chunk{ID: chunk.ID}
		var averaged [][]float32
		for q, question := range asked[i] {
			vector := gem.AverageQuestion(vectors[1+q], base)
			averaged = append(averaged, vector)
			made.Questions = append(made.Questions, questions.Question{Text: question, Vector: vector})
		}
		vectors = vectors[1+len(asked[i]):]
		if err := nodes.put(base, gem.Mean(base, averaged)); err != nil {
			return nil, err
		}
		counts.Questions += int64(len(made.Questions))
		if len(made.Questions) == 0 {
			counts.Fallbacks++
			made.Questions = []questions.Question{{Text: chunk.Text, Vector: base}}
		}
		out[i] = made
	}
	return out, nil
}

// firstWindow returns the text of a chunk as it is embedded: its first window.
func (in In) firstWindow(chunk enrich.Chunk) string {
	return embed.CutWindows(chunk.Title, chunk.Text, in.MaxTokens)[0]
}

func (in In) embedTexts(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	err := in.runBatches(ctx, texts, func(ctx context.Context, source embed.Source, at int, items []embed.Item) error {
		vectors, err := source.Vectors(ctx, items)
		copy(out[at:], vectors)
		return err
	})
	return out, err
}

// runBatches cuts texts into requests by their content, several at once. at is the place of a request's first text.
func (in In) runBatches(
	ctx context.Context, texts []string,
	do func(ctx context.Context, source embed.Source, at int, items []embed.Item) error,
) error {
	items := make([]embed.Item, len(texts))
	for i, one := range texts {
		fit := embed.Fit(one, in.MaxTokens)
		items[i] = embed.Item{Key: fit, Digest: embed.Digest(fit, in.Fingerprint), Text: fit}
	}
	source := embed.Source{Embedder: in.Embedder, Ledger: in.Ledger}
	return embed.EachBatch(ctx, width, parallel.Items(items), func(ctx context.Context, at int, some []embed.Item) error {
		return do(ctx, source, at, some)
	})
}

// answer is the questions of a chunk, or the text of a summary, and how it was come by.
type answer struct {
	Questions []string `json:"questions,omitempty"`
	Text      string   `json:"text,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	Usage     model.Usage
	failed    bool // the model was asked and gave nothing of use
}

// askQuestions gives the questions of chunks, in their order.
func (in In) askQuestions(ctx context.Context, group []enrich.Chunk, counts *Counts) ([][]string, error) {
	found := make([]answer, len(group))
	err := parallel.Each(ctx, len(group), min(width, len(group)), func(ctx context.Context, i int) (err error) {
		found[i], err = in.questionsOf(ctx, group[i].Document, group[i].Text)
		return err
	})
	out := make([][]string, len(group))
	for i, one := range found {
		out[i] = one.Questions
		if one.failed {
			counts.Failed++
		}
	}
	return out, err
}

// questionsOf returns the questions of a text: from the ledger, else from the model; by rule where the model costs
// nothing.
func (in In) questionsOf(ctx context.Context, document, content string) (answer, error) {
	count := in.Settings.Questions
	if count == 0 {
		return answer{}, nil
	}
	if !in.Chat.Info().Paid {
		return answer{Questions: FilterQuestions(builtin.QuestionsIn(in.Language, content, count), count)}, nil
	}
	read := func(reply string) (answer, bool) {
		asked := readQuestions(reply, count)
		return answer{Questions: asked}, len(asked) > 0
	}
	found, err := in.askPaid(ctx, promptOf(count), content, questionsCall(document, content, count), read)
	found.failed = err == nil && len(found.Questions) == 0
	return found, err
}

// askPaid gives an answer by the ledger, or asks the model, once more where it cannot be read. What stays of no use is
// an answer of nothing, which is remembered where it is about the text.
func (in In) askPaid(
	ctx context.Context, prompt, input string, call model.Call, read func(string) (answer, bool),
) (answer, error) {
	info := in.Chat.Info()
	key := ledger.ScopeKey(info.Domain, ledger.Key(Task, prompt, info.Model, info.Parameters, SchemaVersion, input))
	var out answer
	_, passing, err := stage.RecallOrAsk(ctx, in.Ledger, Task, key, in.Attempt,
		func(ctx context.Context) (stage.Answer[answer], error) {
			return stage.Ask(ctx, in.Chat, call, reminder, read, in.Health)
		},
		func(said stage.Answer[answer]) answer {
			said.Value.Usage, said.Value.Reason = said.Usage, said.Reason
			return said.Value
		}, &out)
	if err != nil || passing {
		return answer{}, err
	}
	return out, nil
}

// FilterQuestions leaves out of questions what is empty and what was asked already, in any case of letters, and what is
// more than most.
func FilterQuestions(asked []string, most int) []string {
	var out []string
	seen := map[string]bool{}
	for _, question := range asked {
		question = strings.Join(strings.Fields(question), " ")
		folded := strings.ToLower(question)
		if question == "" || seen[folded] || len(out) == most {
			continue
		}
		seen[folded] = true
		out = append(out, question)
	}
	return out
}

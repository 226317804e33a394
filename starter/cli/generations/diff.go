package generations

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func (a app) diffCmd() *cobra.Command {
	var index, questions string
	command := &cobra.Command{
		Use:   "diff [A] [B]",
		Short: "Compare two generations: documents, passages, entities, questions, cost",
		Long: `Compare generation A with generation B: documents added, changed, moved and removed, passages, entities
added, changed and removed, and the cost of each generation.

Without names, the command compares the current generation with its parent. With one name of a generation that is not
served, for example one that a gate held, it compares that generation with the served one. It skips files that both
generations share.

With --questions FILE (JSON Lines of {"question": ...}, such as a probe file) it asks both generations each question,
and shows the questions whose first five passages differ. If models.embedding is a server, each question costs one
embedding.`,
		Example: "  unweaver diff docs\n  unweaver diff docs 20261122t020000z --questions probes.jsonl\n" +
			"  unweaver diff docs 20261120t020000z 20261122t020000z --json | jq .documents",
		Args: console.RequireArgs(0, 2, "at most two generations"),
		RunE: func(command *cobra.Command, args []string) error {
			request := control.DifferenceRequest{Index: index}
			switch len(args) {
			case 1:
				request.To = args[0]
			case 2:
				request.From, request.To = args[0], args[1]
			}
			asked, err := readQuestions(questions)
			if err != nil {
				return err
			}
			return a.WithControl(command.Context(), func(ctx context.Context, controller control.Control, base string) error {
				difference, err := controller.CompareGenerations(ctx, request)
				if err != nil {
					return err
				}
				if len(asked) > 0 {
					if difference.Questions, err = askBoth(ctx, base, difference, asked); err != nil {
						return err
					}
				}
				return a.PrintOut(difference, func(w io.Writer) { showDifference(w, difference) })
			})
		},
	}
	command.Flags().StringVar(&questions, "questions", "", "file of questions to ask both generations")
	return console.TakeIndex(command, &index)
}

// readQuestions reads a file of questions; none where no file is named.
func readQuestions(path string) ([]core.Question, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fault.Usage.At("read questions", path).Because(err)
	}
	defer func() { _ = file.Close() }()
	asked, err := core.ReadProbes(file, false)
	if err != nil {
		return nil, fault.Usage.At("read questions", path).
			Because(err).
			Advise(`write a line {"question": "..."} for each`)
	}
	return asked, nil
}

const (
	// firstChunks is how many chunks of a question are compared.
	firstChunks = 5
	// askedAtOnce is how many questions are in flight.
	askedAtOnce = 4
)

// askBoth asks two generations, and keeps the questions whose first chunks differ, in their order.
func askBoth(
	ctx context.Context, base string, between core.Difference, asked []core.Question,
) (*core.QuestionDifference, error) {
	changes := make([]*core.QuestionChange, len(asked))
	err := parallel.Each(ctx, len(asked), askedAtOnce, func(ctx context.Context, i int) error {
		var chunks, documents [2][]string
		for side, of := range []core.DifferenceSide{between.From, between.To} {
			raw, err := console.Ask(ctx, base, cmp.Or(of.Index, between.Index), map[string]any{
				"query": asked[i].Question, "generation": of.Generation, "top_chunks": firstChunks, "answer": false,
			})
			if err != nil {
				return err
			}
			var got answer.Response
			if err := json.Unmarshal(raw, &got); err != nil {
				return fault.Internal.At("read the answer to", fault.QuoteName(asked[i].Question)).Because(err)
			}
			documents[side] = []string{}
			for _, chunk := range got.Chunks {
				chunks[side] = append(chunks[side], chunk.ID)
				documents[side] = append(documents[side], chunk.Document)
			}
		}
		if !slices.Equal(chunks[0], chunks[1]) {
			changes[i] = &core.QuestionChange{Question: asked[i].Question, Before: documents[0], After: documents[1]}
		}
		return nil
	})
	out := &core.QuestionDifference{Asked: len(asked), Changed: []core.QuestionChange{}}
	for _, change := range changes {
		if change != nil {
			out.Changed = append(out.Changed, *change)
		}
	}
	return out, err
}

// showDifference prints what changed.
func showDifference(w io.Writer, d core.Difference) {
	side := func(of core.DifferenceSide) string {
		if of.Index != "" {
			return fmt.Sprintf("%s/%s (%s)", of.Index, of.Generation, of.State)
		}
		return fmt.Sprintf("%s (%s)", of.Generation, of.State)
	}
	fmt.Fprintf(w, "%s: %s → %s\n", d.Index, side(d.From), side(d.To))
	was, is := d.From.Counts, d.To.Counts
	fmt.Fprintf(w, "  documents  %d → %d: %d added, %d changed, %d moved, %d removed\n", was.Documents, is.Documents,
		d.Documents.Added, d.Documents.Changed, d.Documents.Moved, d.Documents.Removed)
	fmt.Fprintf(w, "  passages   %d → %d: %d added, %d removed\n", was.Chunks, is.Chunks, d.Chunks.Added, d.Chunks.Removed)
	fmt.Fprintf(w, "  entities   %d → %d: %d added, %d changed, %d removed\n", was.Classes, is.Classes, d.Classes.Born,
		d.Classes.Changed, d.Classes.Died)
	if was.Failed+is.Failed+was.DeadLetters+is.DeadLetters > 0 {
		fmt.Fprintf(w, "  failed     %d → %d documents, %d → %d passages\n", was.Failed, is.Failed, was.DeadLetters,
			is.DeadLetters)
	}
	if d.To.Tokens.Sum()+d.From.Tokens.Sum() > 0 {
		fmt.Fprintf(w, "  paid for   %d tokens, cost %.4f; before: %d, %.4f\n", d.To.Tokens.Sum(), d.To.Cost,
			d.From.Tokens.Sum(), d.From.Cost)
	}
	showChanges(w, "documents", d.Documents.Listed)
	showChanges(w, "entities", d.Classes.Listed)
	if d.Questions == nil {
		return
	}
	fmt.Fprintf(w, "  of %s, %d return different passages first\n", show.Count(d.Questions.Asked, "question"),
		len(d.Questions.Changed))
	for _, change := range d.Questions.Changed {
		fmt.Fprintf(w, "    %s\n      before: %s\n      after:  %s\n", change.Question, strings.Join(change.Before, ", "),
			strings.Join(change.After, ", "))
	}
}

// shownChanges is how many changes of a kind the terminal gets; JSON has more.
const shownChanges = 5

func showChanges(w io.Writer, what string, listed []core.Change) {
	shown := map[string]int{}
	for _, change := range listed {
		if shown[change.Change]++; shown[change.Change] > shownChanges {
			continue
		}
		if len(shown) == 1 && shown[change.Change] == 1 {
			fmt.Fprintf(w, "  %s, the first of each kind:\n", what)
		}
		line := change.Object
		if line == "" {
			line = change.ID
		}
		if change.From != "" {
			line += ", was " + change.From
		}
		fmt.Fprintf(w, "    %-8s %s\n", change.Change, line)
	}
}

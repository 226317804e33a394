package runs

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func (a app) lettersCmd() *cobra.Command {
	command := &cobra.Command{
		Use:   "dead-letters",
		Short: "Inspect and retry the passages whose extraction failed (dead letters)",
		Long: `Inspect and retry the passages of the published generation whose extraction failed. Until a retry succeeds,
queries find such a passage by its title and its words. A dead letter has one of two causes: its content, which the
same model will fail on again, or the system, when the model server could not be used.`,
	}
	command.AddCommand(a.lettersListCmd(), a.lettersShowCmd(), a.lettersReplayCmd(), a.lettersDiscardCmd())
	return command
}

func (a app) lettersListCmd() *cobra.Command {
	var index string
	var all bool
	command := console.TakeIndex(&cobra.Command{
		Use:     "list",
		Short:   "List the dead letters of the published generation",
		Example: "  unweaver dead-letters list docs",
		Args:    console.RequireArgs(0, 0, "no argument"),
		RunE: a.NewControlRun(func(ctx context.Context, controller control.Control, _ []string) error {
			letters, err := controller.DeadLetters(ctx, index)
			if err != nil {
				return err
			}
			shown := slices.DeleteFunc(slices.Clone(letters), func(letter core.Letter) bool {
				return letter.Discarded != nil && !all
			})
			return a.PrintOut(map[string]any{"index": index, "dead_letters": shown}, func(w io.Writer) {
				for _, letter := range shown {
					fmt.Fprintf(w, "%s  %-7s %-18s %-10s %s, passage %d%s\n", letter.Chunk, letter.Kind, letter.Reason,
						show.Count(int64(letter.Attempts), "attempt"), letter.Document, letter.Ordinal, describeDiscard(letter))
				}
				hidden := len(letters) - len(shown)
				fmt.Fprintf(w, "%s", show.Count(int64(len(shown)), "dead letter"))
				if hidden > 0 {
					fmt.Fprintf(w, ", and %d discarded (--all shows them)", hidden)
				}
				fmt.Fprintln(w)
			})
		}),
	}, &index)
	command.Flags().BoolVar(&all, "all", false, "also show discarded dead letters")
	return command
}

func describeDiscard(letter core.Letter) string {
	if letter.Discarded == nil {
		return ""
	}
	return strings.TrimSuffix("  discarded "+letter.Discarded.At.Format("2006-01-02")+": "+letter.Discarded.Why, ": ")
}

func (a app) lettersShowCmd() *cobra.Command {
	var index string
	return console.TakeIndex(&cobra.Command{
		Use:     "show PASSAGE",
		Short:   "Show a dead letter: the cause, the answer of the model, the text of the passage",
		Example: "  unweaver dead-letters show docs 0123456789abcdef0123456789abcdef",
		Args:    console.RequireArgs(1, 1, "a PASSAGE"),
		RunE: console.NewReport(a.App, func(ctx context.Context, c control.Control, args []string) (core.Letter, error) {
			return c.DeadLetter(ctx, index, args[0])
		}, func(w io.Writer, letter core.Letter) {
			fmt.Fprintf(w, "%s  %s, passage %d\n", letter.Chunk, show.OneLine(letter.Document), letter.Ordinal)
			fmt.Fprintf(w, "  %s: %s, %s%s\n", letter.Kind, letter.Reason, show.Count(int64(letter.Attempts), "attempt"),
				describeDiscard(letter))
			fmt.Fprintf(w, "the last answer:\n%s\n", indentText(letter.Raw))
			fmt.Fprintf(w, "the passage:\n%s\n", indentText(letter.Text))
		}),
	}, &index)
}

// indentText indents what others wrote, line by line.
func indentText(text string) string {
	if text == "" {
		return "  (nothing)"
	}
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ")
}

func (a app) lettersReplayCmd() *cobra.Command {
	var index string
	var wait bool
	command := console.TakeIndex(&cobra.Command{
		Use:   "replay [PASSAGE...]",
		Short: "Retry the documents of these dead letters",
		Long: `Retry the failed model calls in the documents of these dead letters, and nothing else. Without PASSAGE it
retries all dead letters, as retry-failed does.`,
		Example: "  unweaver dead-letters replay docs 0123456789abcdef0123456789abcdef --wait",
		Args:    console.RequireArgs(0, 1<<20, "PASSAGEs"),
		RunE: func(command *cobra.Command, args []string) error {
			return a.retryFailed(command.Context(), control.LettersRequest{Name: index, Chunks: args}, wait)
		},
	}, &index)
	command.Flags().BoolVar(&wait, "wait", false, "wait for the end, with progress")
	return command
}

func (a app) lettersDiscardCmd() *cobra.Command {
	var index, why string
	command := console.TakeIndex(&cobra.Command{
		Use:   "discard PASSAGE...",
		Short: "Take dead letters off the list",
		Long: `Discard dead letters: retry-failed skips them. Queries still find their passages by title and words, and
reports still count them. To retry one all the same, use replay.`,
		Example: "  unweaver dead-letters discard docs 0123456789abcdef0123456789abcdef --why \"a table of numbers\"",
		Args:    console.RequireArgs(1, 1<<20, "PASSAGEs"),
		RunE: a.NewControlRun(func(ctx context.Context, controller control.Control, args []string) error {
			if err := controller.DiscardLetters(ctx, control.LettersRequest{Name: index, Chunks: args, Why: why}); err != nil {
				return err
			}
			return a.PrintOut(map[string]any{"index": index, "discarded": args}, func(w io.Writer) {
				fmt.Fprintf(w, "%s discarded\n", show.Count(int64(len(args)), "dead letter"))
			})
		}),
	}, &index)
	command.Flags().StringVar(&why, "why", "", "the reason, kept with the letters")
	return command
}

func (a app) retryCmd() *cobra.Command {
	var wait bool
	command := &cobra.Command{
		Use:   "retry-failed RUN",
		Short: "Retry the extraction of every failed passage, and change nothing else",
		Long: `Retry the extraction of every failed passage of the published generation, with the configuration of that
generation, and publish the result. Documents without a dead letter stay unchanged, even if the corpus has changed. A
passage that succeeds leaves the list of dead letters; one that fails again stays on it. If a round is already
running, for example after its process was killed, the command joins it. With --wait the round starts after another
run of the index ends.

` + runForm,
		Example: "  unweaver retry-failed docs --wait\n  unweaver retry-failed docs",
		Args:    console.RequireArgs(1, 1, "a RUN"),
		RunE: func(command *cobra.Command, args []string) error {
			return a.retryFailed(command.Context(), control.LettersRequest{Name: args[0]}, wait)
		},
	}
	command.Flags().BoolVar(&wait, "wait", false, "wait for the end, with progress")
	return command
}

// retryFailed begins a round of retry-failed, or joins the one that goes on for the same chunks.
func (a app) retryFailed(ctx context.Context, request control.LettersRequest, wait bool) error {
	return a.WithControl(ctx, func(ctx context.Context, controller control.Control, _ string) error {
		waits := wait || a.Started // a stack of this command's own would end with it
		index, _, _ := strings.Cut(request.Name, "/")
		run, err := console.InTurn(ctx, a.App, controller, index, waits, console.AnyRun, func() (control.Run, error) {
			return controller.RetryFailed(ctx, request)
		})
		if err == nil && run.Run == "" {
			return a.PrintOut(run, func(w io.Writer) { fmt.Fprintf(w, "%s: no failed passage to retry\n", request.Name) })
		}
		if err != nil {
			return err
		}
		return a.AwaitRun(ctx, controller, run, waits)
	})
}

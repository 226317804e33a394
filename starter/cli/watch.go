package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	reports "github.com/unweaver/unweaver/internal/pipeline/report"
)

func (a *App) watchCmd() *cobra.Command {
	var index string
	command := &cobra.Command{
		Use:   "watch",
		Short: "Keep questions whose passages every night compares: add, list and remove",
		Long: `Keep standing questions. After each run that publishes a generation, the report lists the questions whose
passages changed: from what to what, and because of which document. A webhook receives the same (notify.on:
[watched]).`,
		Args: cobra.NoArgs,
	}
	command.AddCommand(a.addWatchCmd(&index), a.listWatchCmd(&index), a.removeWatchCmd(&index))
	command.PersistentFlags().StringVar(&index, "index", "", "name of the index")
	_ = command.MarkPersistentFlagRequired("index") // the flag exists
	return command
}

func (a *App) addWatchCmd(index *string) *cobra.Command {
	var question core.Question
	var file string
	command := &cobra.Command{
		Use:   "add [QUESTION]",
		Short: "Keep a question, or those of a file",
		Long: `Keep a question, or with --file those of a file of JSON Lines: {"question": ..., "labels": [...],
"notify": ...}, where only the question is required. A question with the same text and labels is
replaced.`,
		Example: "  unweaver watch add --index docs \"How long is the notice period?\"\n" +
			"  unweaver watch add --index docs \"Who approves travel?\" --labels hr,board --notify legal\n" +
			"  unweaver watch add --index docs --file questions.jsonl",
		Args: requireArgs(0, 1, "at most one QUESTION"),
		RunE: func(command *cobra.Command, args []string) error {
			request := control.WatchRequest{Index: *index}
			switch {
			case (len(args) == 1) == (file != ""):
				return fault.Usage.At("add standing question", *index).Because("want a QUESTION or --file, and not both")
			case file != "":
				var err error
				if request.Add, err = readQuestions(file, `{"question": "...", "labels": ["..."], "notify": "..."}`,
					core.ReadStanding); err != nil {
					return err
				}
			default:
				question.Question = args[0]
				request.Add = []core.Question{question}
			}
			return a.changeWatched(command.Context(), request, "kept")
		},
	}
	set := command.Flags()
	set.StringSliceVar(&question.Labels, "labels", nil,
		"labels of the reader who asks, besides public documents; * for every document")
	set.StringVar(&question.Notify, "notify", "", "name of a webhook of notify.named; empty: that of the index")
	set.StringVar(&file, "file", "", "file of questions")
	return command
}

func (a *App) removeWatchCmd(index *string) *cobra.Command {
	return &cobra.Command{
		Use:   "remove ID",
		Short: "Remove a standing question",
		Long: "Remove the standing question of an ID, or with " + control.AllWatched +
			" all of them, also where they cannot be read.",
		Example: "  unweaver watch remove --index docs 3f2a9c51d0b84e7f9a6c2d1e5b7f8a90\n" +
			"  unweaver watch remove --index docs " + control.AllWatched,
		Args: requireArgs(1, 1, "the ID of a question, or "+control.AllWatched),
		RunE: func(command *cobra.Command, args []string) error {
			return a.changeWatched(command.Context(), control.WatchRequest{Index: *index, Remove: args[0]}, "removed")
		},
	}
}

func (a *App) changeWatched(ctx context.Context, request control.WatchRequest, done string) error {
	return a.withControl(ctx, func(ctx context.Context, controller control.Control, _ string) error {
		out, err := controller.ChangeWatched(ctx, request)
		if err != nil {
			return err
		}
		return a.printOut(out, func(w io.Writer) {
			showWatched(w, out.Questions)
			fmt.Fprintf(w, "%s: %s; %s has %s\n", done, countOf(len(out.Questions), "question"), out.Index,
				countOf(out.Total, "standing question"))
		})
	})
}

func (a *App) listWatchCmd(index *string) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the standing questions of an index",
		Example: "  unweaver watch list --index docs",
		Args:    requireArgs(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			return a.withControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
				questions, err := controller.ListWatched(ctx, *index)
				if err != nil {
					return err
				}
				out := control.Watching{Index: *index, Questions: questions, Total: len(questions)}
				return a.printOut(out, func(w io.Writer) {
					showWatched(w, questions)
					fmt.Fprintf(w, "%s has %s\n", *index, countOf(len(questions), "standing question"))
				})
			})
		},
	}
}

func showWatched(w io.Writer, questions []core.Question) {
	showTable(w, "ID\tLABELS\tNOTIFY\tQUESTION", questions, func(one core.Question) string {
		return strings.Join([]string{one.ID, strings.Join(one.Labels, ","), one.Notify, one.Question}, "\t")
	})
}

// showChanged prints the standing questions whose passages changed.
func showChanged(w io.Writer, found *core.Watched) {
	if found == nil {
		return
	}
	fmt.Fprintf(w, "  of %s, %d changed", countOf(found.Questions, "standing question"), found.Changed)
	if found.Since != "" {
		fmt.Fprintf(w, " since %s", found.Since)
	}
	fmt.Fprintln(w)
	for _, one := range found.Listed[:min(len(found.Listed), shownChanges)] {
		fmt.Fprintf(w, "    %s\n      before: %s\n      after:  %s\n      because of: %s\n", one.Question.Question,
			reports.ListDocuments(one.Before), reports.ListDocuments(one.After), reports.DescribeCause(one))
	}
	if found.Changed > shownChanges {
		fmt.Fprintf(w, "    all: %s\n", found.Path)
	}
}

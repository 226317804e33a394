package generations

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func (a app) watchCmd() *cobra.Command {
	var index string
	command := &cobra.Command{
		Use:   "watch",
		Short: "Keep questions whose passages every night compares: add, list and remove",
		Long: `Keep standing questions. After each run that publishes a generation, the report lists the questions whose
passages changed: from what to what, and because of which document. A webhook receives the same (notify.on:
[watched]).`,
		Args: cobra.NoArgs,
	}
	remove := &cobra.Command{
		Use:   "remove ID",
		Short: "Remove a standing question",
		Long: "Remove the standing question of an ID, or with " + control.AllWatched +
			" all of them, also where they cannot be read. A key removes those with labels that it holds.",
		Example: "  unweaver watch remove --index docs 3f2a9c51d0b84e7f9a6c2d1e5b7f8a90\n" +
			"  unweaver watch remove --index docs " + control.AllWatched,
		Args: console.RequireArgs(1, 1, "the ID of a question, or "+control.AllWatched),
		RunE: func(command *cobra.Command, args []string) error {
			return a.watchQuestions(command.Context(), control.WatchRequest{Index: index, Remove: args[0]}, "removed")
		},
	}
	list := &cobra.Command{
		Use:     "list",
		Short:   "List the standing questions of an index",
		Example: "  unweaver watch list --index docs",
		Args:    console.RequireArgs(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			return a.watchQuestions(command.Context(), control.WatchRequest{Index: index}, index)
		},
	}
	command.AddCommand(a.addWatchCmd(&index), list, remove)
	command.PersistentFlags().StringVar(&index, "index", "", "name of the index")
	_ = command.MarkPersistentFlagRequired("index") // the flag exists
	return command
}

func (a app) addWatchCmd(index *string) *cobra.Command {
	var like core.Question
	command := &cobra.Command{
		Use:   "add QUESTION...",
		Short: "Keep questions",
		Long:  "Keep questions. One with the same text and labels is replaced.",
		Example: "  unweaver watch add --index docs \"How long is the notice period?\"\n" +
			"  unweaver watch add --index docs \"Who approves travel?\" --labels hr,board --notify legal\n" +
			"  tr '\\n' '\\0' < questions.txt | xargs -0 unweaver watch add --index docs --",
		Args: console.RequireArgs(1, core.MaxWatched, "a QUESTION"),
		RunE: func(command *cobra.Command, args []string) error {
			request := control.WatchRequest{Index: *index}
			for _, like.Question = range args {
				request.Add = append(request.Add, like)
			}
			return a.watchQuestions(command.Context(), request, "kept")
		},
	}
	set := command.Flags()
	set.StringSliceVar(&like.Labels, "labels", nil,
		"labels of the reader who asks, besides public documents; * for every document")
	set.StringVar(&like.Notify, "notify", "", "name of a webhook of notify.named; empty: that of the index")
	return command
}

// watchQuestions asks for standing questions, and prints those that come back and what they are.
func (a app) watchQuestions(ctx context.Context, request control.WatchRequest, what string) error {
	request.Readers.All = true // a key with labels narrows it where the request arrives
	return a.WithControl(ctx, func(ctx context.Context, controller control.Control, _ string) error {
		questions, err := controller.WatchQuestions(ctx, request)
		if err != nil {
			return err
		}
		return a.PrintOut(questions, func(w io.Writer) {
			show.Table(w, "ID\tLABELS\tNOTIFY\tQUESTION", questions, func(one core.Question) string {
				return strings.Join([]string{one.ID, strings.Join(one.Labels, ","), one.Notify, one.Question}, "\t")
			})
			fmt.Fprintf(w, "%s: %s\n", what, show.Count(len(questions), "standing question"))
		})
	})
}

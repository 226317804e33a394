package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/ops"
)

func (a *App) generationsCmd() *cobra.Command {
	var index string
	command := &cobra.Command{
		Use:   "generations",
		Short: "List the generations of an index",
		Args:  arguments(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			return a.withControl(command.Context(), func(ctx context.Context, control ops.Control, _ string) error {
				generations, err := control.Generations(ctx, index)
				if err != nil {
					return err
				}
				return a.print(map[string]any{"index": index, "generations": generations}, func(w io.Writer) {
					fmt.Fprintf(
						w,
						"%-22s %4s  %-9s %9s %9s %9s  %-20s %s\n",
						"generation",
						"seq",
						"state",
						"documents",
						"chunks",
						"classes",
						"built",
						"content hash",
					)
					for _, generation := range generations {
						fmt.Fprintf(
							w,
							"%-22s %4d  %-9s %9d %9d %9d  %-20s %.16s\n",
							generation.Generation,
							generation.Seq,
							generation.State,
							generation.Documents,
							generation.Chunks,
							generation.Classes,
							generation.Created.Format("2006-01-02 15:04:05"),
							generation.ContentHash,
						)
					}
				})
			})
		},
	}
	command.Flags().StringVar(&index, "index", "", "name of the index")
	_ = command.MarkFlagRequired("index") // the flag exists
	return command
}

func (a *App) restoreCmd() *cobra.Command {
	var index string
	command := &cobra.Command{
		Use:   "restore",
		Short: "Load an index's stores again from its artifacts, with no model call",
		Args:  arguments(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			return a.withControl(command.Context(), func(ctx context.Context, control ops.Control, _ string) error {
				run, err := control.Restore(ctx, index)
				if err != nil {
					return err
				}
				return a.wait(ctx, control, run.Run)
			})
		},
	}
	command.Flags().StringVar(&index, "index", "", "name of the index")
	_ = command.MarkFlagRequired("index") // the flag exists
	return command
}

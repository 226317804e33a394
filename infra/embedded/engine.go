package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/infra/embedded/devserver"
)

// engineCmd has the program of the engine, for machines that will have no network, and for scripts.
func engineCmd() *cobra.Command {
	var from string
	pull := &cobra.Command{
		Use:   "pull",
		Short: "Find or fetch the engine's program, and print its path",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			finder := devserver.Finder{From: from, Say: func(line string) { fmt.Fprintln(os.Stderr, line) }}
			find := finder.Find
			if from != "" {
				find = finder.Fetch
			}
			path, err := find(c.Context())
			if err == nil {
				fmt.Println(path)
			}
			return err
		},
	}
	pull.Flags().StringVar(&from, "from", "", "file, folder or URL that has it, in place of the Python index")
	command := &cobra.Command{Use: "engine", Short: "Fetch the engine of the embedded stack", Args: cobra.NoArgs}
	command.AddCommand(pull)
	return command
}

package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *App) devCmd() *cobra.Command {
	var temporal, http int
	var corpusDir string
	command := &cobra.Command{
		Use:   "dev",
		Short: "Run the embedded stack, worker and query-api in one process, until Ctrl-C",
		Args:  arguments(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			args := []string{"dev", "--temporal-port", fmt.Sprint(temporal)}
			if command.Flags().Changed("http-port") { // else it is that of query_api.address
				args = append(args, "--http-port", fmt.Sprint(http))
			}
			args = append(args, a.passOn()...)
			if corpusDir != "" {
				args = append(args, "--corpus", corpusDir)
			}
			return a.become(ofDev, args)
		},
	}
	command.Flags().IntVar(&temporal, "temporal-port", 7233, "port of Temporal on 127.0.0.1; 0 = any free")
	command.Flags().IntVar(&http, "http-port", 8080, "port of HTTP on 127.0.0.1; 0 = any free")
	command.Flags().StringVar(&corpusDir, "corpus", "", "index this folder as index docs once the stack is ready")
	return command
}

func (a *App) demoCmd() *cobra.Command {
	var keep bool
	command := &cobra.Command{
		Use:   "demo",
		Short: "Index the sample corpus on the embedded stack and answer a question",
		Args:  arguments(0, 0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			args := []string{"demo"}
			if keep {
				args = append(args, "--keep")
			}
			return a.become(ofDev, args)
		},
	}
	command.Flags().BoolVar(&keep, "keep", false, "keep the stack running until Ctrl-C, to look at its web page")
	return command
}

// Package cli is the unweaver command line. It parses, calls control, and shows; it holds no policy. The folders below
// it have the commands; console has what they share, and show prints.
package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/core/version"
	"github.com/unweaver/unweaver/starter/cli/admin"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/dev"
	"github.com/unweaver/unweaver/starter/cli/evalcmd"
	"github.com/unweaver/unweaver/starter/cli/generations"
	"github.com/unweaver/unweaver/starter/cli/querycmd"
	"github.com/unweaver/unweaver/starter/cli/runs"
)

const rootLong = `Entity-centric retrieval: index corpora, publish generations, ask questions.

The first argument is the INDEX, or one of its runs. The commands index and estimate take the CORPUS instead, and the
index by --index NAME.

`

// Run parses arguments, runs the command and gives the exit code.
func Run(ctx context.Context, app *console.App, args []string) int {
	return app.Run(ctx, newRoot(app), args)
}

func newRoot(app *console.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "unweaver",
		Short: "Entity-centric retrieval: index corpora, publish generations, ask questions",
		Long:  rootLong + console.ExitCodes,
		Example: `  unweaver demo
  unweaver index ./docs --index docs --wait
  unweaver query docs "Who signed the lease?"
  unweaver ls`,
		Version:       version.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("unweaver {{.Version}}\n")
	app.AddFlags(root)
	for _, commands := range []func(*console.App) []*cobra.Command{
		runs.Commands, generations.Commands, querycmd.Commands, evalcmd.Commands, dev.Commands, admin.Commands,
	} {
		root.AddCommand(commands(app)...)
	}
	completeHelp(root)
	groupCommands(root)
	return root
}

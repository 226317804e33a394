package querycmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/query-api/mcp"
	"github.com/unweaver/unweaver/starter/cli/console"
)

// mcpCmd speaks the Model Context Protocol on standard input and output: nothing else is written there.
func (a app) mcpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Serve tools for agents on standard input and output (Model Context Protocol)",
		Long: "Serve tools for agents on standard input and output (Model Context Protocol): search, answer, explain,\n" +
			"get_chunk, get_document, list_entities, list_indexes. The tools call the configured query-api, or the\n" +
			"embedded stack of the data directory, which this command starts if it is not running.",
		Args: console.RequireArgs(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			in, out := command.InOrStdin(), command.OutOrStdout()
			return a.WithQueries(command.Context(), func(ctx context.Context, queries string) error {
				tools := mcp.New(newRemote(ctx, queries))
				err := tools.Run(ctx, mcp.NewTransport(in, out))
				if ctx.Err() != nil { // the client has ended this program, as they do
					return nil
				}
				return err
			})
		},
	}
}

// newRemote returns the query-api at an address, for tools.
func newRemote(ctx context.Context, base string) mcp.Remote {
	return mcp.Remote{Client: console.QueryClient, Base: base, Key: console.KeyOf(ctx)}
}

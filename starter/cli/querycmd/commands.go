// Package querycmd has the commands that ask query-api.
package querycmd

import (
	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/starter/cli/console"
)

// app is one invocation.
type app struct{ *console.App }

// Commands returns the commands of this package.
func Commands(shared *console.App) []*cobra.Command {
	a := app{shared}
	return []*cobra.Command{
		a.queryCmd(), a.entitiesCmd(), a.mcpCmd(),
	}
}

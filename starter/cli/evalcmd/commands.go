// Package evalcmd has the commands that measure retrieval: see starter/eval.
package evalcmd

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
		a.evalCmd(), a.reproduceCmd(),
	}
}

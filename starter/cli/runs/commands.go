// Package runs has the commands that build indexes, steer runs and list them.
package runs

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
		a.indexCmd(), a.estimateCmd(), a.statusCmd(), a.pauseCmd(), a.limitCmd(), a.resumeCmd(), a.cancelCmd(),
		a.retryCmd(), a.lettersCmd(), a.scheduleCmd(), a.backfillCmd(), a.lsCmd(), a.runsCmd(), a.trendsCmd(),
		a.logsCmd(), a.showCmd(),
	}
}

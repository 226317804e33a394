// Package generations has the commands that change and compare what an index keeps and serves.
package generations

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
		a.generationsCmd(), a.rollbackCmd(), a.publishCmd(), a.discardCmd(), a.tagCmd(), a.untagCmd(),
		a.operationsCmd(), a.diffCmd(), a.branchCmd(), a.promoteCmd(), a.restoreCmd(), a.auditCmd(), a.purgeCmd(),
		a.deleteCmd(), a.aliasesCmd(),
		a.pushCmd(), a.pullCmd(), a.verifyCmd(), a.bisectCmd(), a.watchCmd(),
	}
}

// Package admin has the commands of an installation: settings, keys, certificates, weights, checks.
package admin

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
		a.doctorCmd(), a.modelsCmd(), a.configCmd(), a.certsCmd(), a.keysCmd(),
	}
}

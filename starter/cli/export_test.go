package cli

import (
	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/starter/cli/console"
)

// Commands gives every command, without running one.
func Commands() *cobra.Command { return newRoot(&console.App{}) }

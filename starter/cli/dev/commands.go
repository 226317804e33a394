// Package dev runs the embedded stack: the commands dev, demo and engine.
package dev

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
		a.devCmd(), a.demoCmd(), a.engineCmd(),
	}
}

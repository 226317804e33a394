package admin

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/core/version"
	"github.com/unweaver/unweaver/starter/cli/console"
)

func (a app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  console.RequireArgs(0, 0, "nothing"),
		RunE: func(*cobra.Command, []string) error {
			reported := map[string]string{
				"version": version.String(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
			}
			return a.PrintOut(reported, func(w io.Writer) {
				fmt.Fprintf(w, "unweaver %s (%s, %s)\n", reported["version"], reported["go"], reported["platform"])
			})
		},
	}
}

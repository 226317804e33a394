package admin

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/starter/cli/console"
)

func (a app) doctorCmd() *cobra.Command {
	var index string
	var without bool
	command := &cobra.Command{
		Use:     "doctor",
		Short:   "Check every setting, and every server that it names",
		Example: "  unweaver doctor\n  unweaver doctor docs --json",
		Args:    console.RequireArgs(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			spec, err := a.ResolveSpec(index, "")
			if err != nil {
				return err
			}
			return a.WithControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
				if spec, err = a.SpecOf(ctx, controller, index, ""); err != nil {
					return err
				}
				checks, err := controller.RunDoctor(ctx, spec)
				if err != nil {
					return err
				}
				if without {
					checks = slices.DeleteFunc(checks, func(check control.Check) bool {
						return check.Name == control.CheckWorker || check.Name == control.CheckComputing
					})
				}
				for _, check := range checks {
					if !check.OK {
						a.Exit = console.ExitFailed
					}
				}
				return a.PrintOut(map[string]any{"checks": checks, "ok": a.Exit == 0}, func(writer io.Writer) {
					for _, check := range checks {
						mark := "ok  "
						if !check.OK {
							mark = "FAIL"
						}
						fmt.Fprintf(writer, "%s  %-18s %s\n", mark, check.Name, control.JoinLines(check.Detail))
						if !check.OK && check.Hint != "" && !strings.Contains(check.Detail, check.Hint) {
							fmt.Fprintf(writer, "      %-18s %s\n", "", control.JoinLines(check.Hint))
						}
					}
				})
			})
		},
	}
	command.Flags().StringVar(&index, "index", "default", "index whose models and corpus to check")
	command.Flags().BoolVar(&without, "without-workers", false,
		"leave out whether workers poll the task queues: for a check before the first one starts")
	return console.PutIndexFirst(command, false)
}

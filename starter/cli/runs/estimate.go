package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
)

func (a app) estimateCmd() *cobra.Command {
	var asked build
	var out string
	command := &cobra.Command{
		Use:   "estimate [CORPUS]",
		Short: "Estimate what a build would do and cost, without starting it",
		Long: `Estimate what a build would do and cost: documents and passages by reason, calls, tokens, money and time,
each with a range. The estimate takes no lease, starts no run, needs no API key, calls no model and writes nothing.
An unchanged document costs only its listing. Ranges are based on the costs of the last generations, if there are
any. If the weights of a built-in embedder are present, a short probe measures its speed.

With --out the command writes the plan to a file. index --plan FILE builds that plan, or refuses and lists what
changed.`,
		Example: `  unweaver estimate ./docs --index docs
  unweaver estimate ./docs --index docs --why guides/lease.md
  unweaver estimate ./docs --index docs --out plan.json && unweaver index ./docs --index docs --plan plan.json --wait`,
		Args: console.RequireArgs(0, 1, "at most a CORPUS"),
		RunE: func(command *cobra.Command, args []string) error {
			asked.Listed = out != ""
			return a.withBuild(command, args, asked, func(ctx context.Context, c control.Control, r control.IndexRequest) error {
				return a.printEstimate(ctx, c, r, out)
			})
		},
	}
	asked.addFlags(command, "as for index --rebuild", "as for index --replace-corpus")
	command.Flags().StringVar(&asked.Why, "why", "", "explain one document, by its key: the path below the corpus")
	command.Flags().StringVar(&out, "out", "", "write the plan to this file")
	return command
}

// printEstimate prints what a build would come to, and writes its plan where out names a file.
func (a app) printEstimate(
	ctx context.Context, controller control.Control, request control.IndexRequest, out string,
) error {
	report, err := controller.EstimateBuild(ctx, request)
	if err == nil && out != "" {
		err = writePlan(out, *report.Plan)
	}
	if err != nil {
		return err
	}
	return a.ReportRun(control.Status{Report: report.Report, Overall: 1})
}

// writePlan writes plan.json. It names documents, so that no other user may read it.
func writePlan(path string, plan core.Plan) error {
	raw, err := json.MarshalIndent(plan, "", " ")
	if err == nil {
		err = os.WriteFile(path, append(raw, '\n'), 0o600)
	}
	if err != nil {
		return fault.Usage.At("write the plan", path).Because(err).Advise("give another file with --out")
	}
	return nil
}

// asPlanned compares a plan with what would be done now, and gives what it expects; nil where there is none.
func (a app) asPlanned(
	ctx context.Context, controller control.Control, request control.IndexRequest, path string,
) (*core.Estimate, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.Usage.At("read the plan", path).Because(err).Advise("make it with: unweaver estimate --out " + path)
	}
	var plan core.Plan
	err = json.Unmarshal(raw, &plan)
	if err == nil && plan.Format != core.PlanFormat {
		err = fmt.Errorf("it has format %d, want %d", plan.Format, core.PlanFormat)
	}
	if err != nil {
		return nil, fault.Usage.At("read the plan", path).Because(err).Advise("make it with: unweaver estimate --out " + path)
	}
	request.Listed, request.Unpriced = true, true
	report, err := controller.EstimateBuild(ctx, request)
	if err != nil {
		return nil, err
	}
	if moved := plan.ListDifferences(*report.Plan); len(moved) > 0 {
		return nil, fault.PlanMoved.At("build as planned in", path).
			Because("the build would now differ from the plan: " + strings.Join(moved, "; ")).
			Advise("check the changes, then plan again: unweaver estimate --out " + path)
	}
	return &plan.Estimate, nil
}

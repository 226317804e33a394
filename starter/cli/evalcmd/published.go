package evalcmd

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/eval"
)

// evalPublished asks the questions of a published index, and builds nothing.
func (a app) evalPublished(ctx context.Context, flags evalFlags) error {
	if !console.IsIndexes(flags.index) || strings.ContainsAny(flags.index, "+*") {
		return fault.Usage.At("evaluate", flags.index).Because("want the name of one index")
	}
	dataset, err := eval.LoadQuestions(flags.questions)
	if err != nil {
		return err
	}
	systems, err := flags.readSystems()
	if err != nil {
		return err
	}
	ks, err := parseCutoffs(flags.ks)
	if err != nil {
		return err
	}
	return a.WithQueries(ctx, func(ctx context.Context, queries string) error {
		report, err := eval.Run(ctx, eval.Plan{
			Dataset: dataset, Systems: systems, Ks: ks, Seed: flags.seed, Workers: flags.workers,
			Ask: newAsker(queries, flags.index), Notice: func(s string) { fmt.Fprintln(a.Err, s) },
		})
		if err != nil {
			return err
		}
		report.Index = flags.index
		return a.writeEvaluation(report, cmp.Or(flags.out, "eval-"+flags.index))
	})
}

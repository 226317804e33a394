package evalcmd

import (
	"cmp"
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/eval"
)

// evalPublished asks the questions of a published index, and builds nothing.
func (a app) evalPublished(ctx context.Context, flags evalFlags) error {
	if !core.ValidIndex(flags.index) {
		return fault.Usage.At("evaluate", flags.index).Because("want the name of one index")
	}
	dataset, err := eval.LoadQuestions(flags.questions)
	if err != nil {
		return err
	}
	plan, err := a.newPlan(flags, dataset)
	if err != nil {
		return err
	}
	return a.WithQueries(ctx, func(ctx context.Context, queries string) error {
		plan.Ask = newAsker(queries, flags.index)
		report, err := eval.Run(ctx, plan)
		if err != nil {
			return err
		}
		report.Index = flags.index
		return a.writeEvaluation(report, cmp.Or(flags.out, "eval-"+flags.index))
	})
}

package evalcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/eval"
)

// evalSuite evaluates every dataset of a folder.
func (a app) evalSuite(ctx context.Context, flags evalFlags) error {
	sets, err := eval.ListSets(flags.suite)
	if err != nil {
		return err
	}
	out := cmp.Or(flags.out, "eval-suite")
	last, err := eval.ReadSuite(out)
	if err != nil {
		return err
	}
	suite := &eval.Suite{At: time.Now().UTC(), Base: "bm25"}
	if last != nil {
		suite.Last = &last.At
	}
	if !slices.Contains(flags.methods, suite.Base) {
		flags.methods = append(flags.methods, suite.Base)
	}
	return a.WithControl(ctx, func(ctx context.Context, controller control.Control, queries string) error {
		for _, dataset := range sets {
			fmt.Fprintf(a.Err, "%s: %d questions\n", dataset.Name, len(dataset.Questions))
			evaluate, err := a.newEvaluation(flags, dataset)
			if err != nil {
				return err
			}
			report, err := evaluate(ctx, controller, queries)
			if err != nil {
				return err
			}
			suite.Ks = report.Ks
			suite.Add(report, last)
		}
		if err := suite.Write(out); err != nil {
			return fault.StoreDenied.At("write the suite to", out).Because(err).Advise("choose another --out")
		}
		return a.PrintOut(suite, func(w io.Writer) {
			fmt.Fprint(w, suite.RenderMarkdown())
			fmt.Fprintf(w, "\nwritten: %s/suite.md, suite.json, suite.svg\n", out)
		})
	})
}

package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/eval"
	"github.com/unweaver/unweaver/starter/eval/calibrate"
)

// calibrate fits confidence on datasets: each is asked its own questions, and those of the others.
func (a *App) calibrate(ctx context.Context, flags evalFlags) error {
	if flags.out == "" {
		flags.out = "calibration"
	}
	type indexed struct {
		dataset *eval.Dataset
		spec    core.Spec
	}
	var sets []indexed
	for _, folder := range strings.Split(flags.dataset, ",") {
		dataset, err := eval.Load(folder)
		if err != nil {
			return err
		}
		flags.index = evalIndex(dataset)
		spec, err := a.evalSpec(flags, dataset)
		if err != nil {
			return err
		}
		sets = append(sets, indexed{dataset, spec})
	}
	return a.withControl(ctx, func(ctx context.Context, controller control.Control, queries string) error {
		var asked []calibrate.Set
		for _, set := range sets {
			if _, err := a.evalBuild(ctx, controller, set.dataset, set.spec); err != nil {
				return err
			}
			asked = append(asked, calibrate.Set{
				Dataset: set.dataset,
				Prefix:  "corpus.jsonl#",
				Ask: func(ctx context.Context, body map[string]any) ([]byte, error) {
					return Ask(ctx, queries, set.spec.Index, body)
				},
			})
		}
		cases, err := calibrate.Collect(ctx, asked, flags.seed, flags.workers)
		if err != nil {
			return err
		}
		report, err := calibrate.Calibrate(cases, flags.seed)
		if err != nil {
			return err
		}
		if err := report.Write(flags.out); err != nil {
			return fault.StoreDenied.At("write reports to", flags.out).Because(err).Advise("choose another --out")
		}
		return a.print(report, func(w io.Writer) {
			fmt.Fprint(w, report.Markdown())
			fmt.Fprintf(w, "\nwritten: %s/calibration.md, calibration.json, calibration.svg\n", flags.out)
		})
	})
}

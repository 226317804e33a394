package evalcmd

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/eval"
)

// paperChunks is how many passages a system of Table 1 gives the answering model.
const paperChunks = 5

func (a app) reproduceCmd() *cobra.Command {
	var flags evalFlags
	var sets []string
	command := &cobra.Command{
		Use:   "reproduce table1 DIR",
		Short: "Reproduce Table 1 of the UnWeaver paper with your models",
		Example: "  unweaver reproduce table1 ./papers --dataset emanual\n" +
			"  unweaver reproduce table1 ./papers --yes",
		Long: `Reproduce Table 1 of the UnWeaver paper (arXiv 2603.29875) with the configured models: UnWeaver,
UnWeaverPPR, VectorRAG, ClosedBook and Oracle on the published files of RAGBench and MuSiQue below DIR, with parity,
five chunks and no filling. RAPTOR, GraphRAG and HippoRAG2 are not included: this program does not implement them.

The command prints the cost first; add --yes to continue. It saves answers and judgements in --out as they arrive.
After a stop, run the same command: it continues and pays for nothing twice. For the steps see
docs/guides/measure.md.`,
		Args: console.RequireArgs(2, 2, "table1 and the folder of the published files"),
		RunE: func(command *cobra.Command, args []string) error {
			if args[0] != "table1" {
				return fault.Usage.At("reproduce", args[0]).Because("it is not known").Advise("known: table1")
			}
			return a.reproduceTables(command.Context(), args[1], sets, flags)
		},
	}
	set := command.Flags()
	set.StringSliceVar(&sets, "dataset", nil, "covidqa, emanual, techqa, musique; default: all that are in DIR")
	set.StringVar(&flags.out, "out", "table1", "folder of the reports, with a subfolder for each set")
	set.IntVar(&flags.runs, "runs", 5, "times to judge the answers")
	set.IntVar(&flags.workers, "workers", 16, "concurrent questions")
	set.BoolVar(&flags.yes, "yes", false, "continue without confirmation, at any cost")
	return console.LeastOne(command, "runs", "workers")
}

// reproduction is one set that is reproduced.
type reproduction struct {
	flags    evalFlags
	dataset  *eval.Dataset
	spec     core.Spec
	evaluate evaluation
}

func (a app) reproduceTables(ctx context.Context, dir string, sets []string, flags evalFlags) error {
	datasets, err := readPublished(dir, sets)
	if err != nil {
		return err
	}
	var all []reproduction
	for _, dataset := range datasets {
		one, err := a.newReproduction(dataset, flags)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	return a.WithControl(ctx, func(ctx context.Context, controller control.Control, queries string) error {
		for _, one := range all {
			if err := a.tellIndexCost(ctx, controller, one); err != nil {
				return err
			}
		}
		if !flags.yes {
			return fault.Usage.At("reproduce", dir).Because("this costs money").Advise("to continue, add --yes")
		}
		for _, one := range all {
			report, err := one.evaluate(ctx, controller, queries)
			if err == nil {
				err = report.Write(one.flags.out)
			}
			if err != nil {
				return err
			}
			if err := a.PrintOut(report, func(w io.Writer) {
				fmt.Fprint(w, report.RenderMarkdown())
				fmt.Fprintf(w, "\nwritten: %s/report.md, report.json, questions.jsonl\n", one.flags.out)
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// readPublished reads the sets that are asked for, or all that are there.
func readPublished(dir string, sets []string) ([]*eval.Dataset, error) {
	known := []string{"covidqa", "emanual", "techqa", "musique"}
	asked := sets
	if len(asked) == 0 {
		asked = known
	}
	var out []*eval.Dataset
	for _, name := range asked {
		if !slices.Contains(known, name) {
			return nil, fault.Usage.At("read --dataset", name).Because("it is not known").
				Advise("known: " + strings.Join(known, ", "))
		}
		dataset, err := eval.LoadPublished(dir, name)
		if err != nil {
			return nil, err
		}
		if dataset != nil {
			out = append(out, dataset)
		} else if len(sets) > 0 {
			return nil, newMissingError(dir, name)
		}
	}
	if len(out) == 0 {
		return nil, newMissingError(dir, strings.Join(known, ", "))
	}
	return out, nil
}

func newMissingError(dir, name string) error {
	return fault.Usage.At("read published sets", dir).Because("it has no file of " + name).
		Advise("RAGBench: covidqa/train-*.parquet and so on; MuSiQue: musique_ans_v1.0_dev.jsonl (docs/guides/measure.md)")
}

// newReproduction checks everything that can be checked before something is paid for, and prints what answers cost.
func (a app) newReproduction(dataset *eval.Dataset, flags evalFlags) (reproduction, error) {
	if want := eval.PaperSets[dataset.Name]; len(dataset.Questions) != want {
		fmt.Fprintf(a.Err, "%s: %d questions, where the paper has %d\n", dataset.Name, len(dataset.Questions), want)
	}
	flags.index, flags.out = "table1-"+dataset.Name, filepath.Join(flags.out, dataset.Name)
	flags.methods, flags.rules = []string{"unweaver", "ppr", "vector"}, []string{"weighted"}
	flags.ks, flags.seats = []string{fmt.Sprint(paperChunks)}, paperChunks
	flags.extraction, flags.seed, flags.answers = "config", 1, true
	a.Set = append(a.Set, "indexes."+flags.index+".parity=true")
	reported := flags
	reported.yes = true // it is asked about once, for everything
	evaluate, err := a.newEvaluation(reported, dataset)
	if err != nil {
		return reproduction{}, err
	}
	spec, err := a.evalSpec(flags, dataset)
	return reproduction{flags: flags, dataset: dataset, spec: spec, evaluate: evaluate}, err
}

// tellIndexCost prints what the index of a set costs now: nothing where it is there.
func (a app) tellIndexCost(ctx context.Context, controller control.Control, one reproduction) error {
	estimated, err := controller.EstimateBuild(ctx, control.IndexRequest{Spec: one.spec, ReplaceCorpus: true})
	if err != nil || estimated.Estimate == nil {
		return err
	}
	e := estimated.Estimate
	fmt.Fprintf(a.Err, "%s: index of %d passages: %.0f extractions, %.0f to %.0f tokens, cost %.2f to %.2f\n",
		one.dataset.Name, len(one.dataset.Texts), e.Extract.High, e.Tokens.Low, e.Tokens.High, e.Cost.Low, e.Cost.High)
	return nil
}

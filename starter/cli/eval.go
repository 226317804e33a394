package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/eval"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/ops"
)

type evalFlags struct {
	dataset, index, out, extraction string
	methods, rules                  []string
	ks                              []string
	runs, workers                   int
	seed                            uint64
	answers, yes, compare           bool
}

func (a *App) evalCmd() *cobra.Command {
	var flags evalFlags
	command := &cobra.Command{
		Use: "eval", Short: "Compare retrieval methods on a dataset with gold passages",
		Long: `Compare retrieval methods on one index: recall, MRR and nDCG with confidence intervals, tokens and latency.

A dataset is a folder with corpus.jsonl ({"id","title","text"}) and questions.jsonl ({"question","gold":[ids],"answers":[...]}); a recorded
extraction beside them (extractions_desc.jsonl, extractions.jsonl) is replayed unless --extraction config says otherwise. The index is built,
or reused where nothing changed. With --answers each method also answers, and a model judges the answers (factual correctness); the cost is
told first, and --yes goes on.`,
		Args: exactArgs(
			0,
			"no argument",
		), RunE: func(c *cobra.Command, _ []string) error { return a.eval(c.Context(), flags) },
	}
	set := command.Flags()
	set.StringVar(&flags.dataset, "dataset", "", "folder of the dataset")
	set.StringVar(&flags.index, "index", "", "name of the index (default: eval-<dataset>)")
	set.StringVar(&flags.out, "out", "", "folder of the reports (default: eval-<dataset>)")
	set.StringVar(
		&flags.extraction,
		"extraction",
		"auto",
		"auto: the recording where there is one; config: the configured model",
	)
	set.StringSliceVar(&flags.methods, "methods", config.Methods, "methods, the first is compared with")
	set.StringSliceVar(&flags.rules, "rules", []string{"weighted"}, "election rules of method unweaver")
	set.StringSliceVar(&flags.ks, "k", []string{"2", "5", "10"}, "cut-offs")
	set.IntVar(&flags.runs, "runs", 5, "runs of answers' judgements")
	set.IntVar(&flags.workers, "workers", 4, "questions asked at once; 1 for clean latencies")
	set.Uint64Var(&flags.seed, "seed", 1, "seed of the bootstrap")
	set.BoolVar(&flags.answers, "answers", false, "also answer and judge (needs a model server)")
	set.BoolVar(
		&flags.compare,
		"compare",
		true,
		"where the recording has triples, add a walk in the style of HippoRAG2",
	)
	set.BoolVar(&flags.yes, "yes", false, "go on without asking, whatever it costs")
	_ = command.MarkFlagRequired("dataset") // the flag exists
	return command
}

func systems(methods, rules []string) ([]eval.System, error) {
	var out []eval.System
	for _, m := range methods {
		if !slices.Contains(config.Methods, m) {
			return nil, fault.Usage.At("read --methods", m).
				Because("it is not known").
				Advise("known: " + strings.Join(config.Methods, ", "))
		}
		if m != "unweaver" {
			out = append(out, eval.System{Method: m})
			continue
		}
		for _, r := range rules {
			if !slices.Contains(config.Rules, r) {
				return nil, fault.Usage.At("read --rules", r).
					Because("it is not known").
					Advise("known: " + strings.Join(config.Rules, ", "))
			}
			out = append(out, eval.System{Method: m, Rule: r})
		}
	}
	return out, nil
}

func cutoffs(given []string) ([]int, error) {
	var ks []int
	for _, s := range given {
		k, err := strconv.Atoi(s)
		if err != nil || k < 1 || k > 100 {
			return nil, fault.Usage.At("read --k", s).Because("want numbers from 1 to 100")
		}
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return slices.Compact(ks), nil
}

// evalSpec is the index's configuration with what a dataset asks for: passages are chunks, recordings are replayed.
func (a *App) evalSpec(flags evalFlags, dataset *eval.Dataset) (corpus.Spec, error) {
	stage, err := filepath.Abs(filepath.Join(a.dataDir, "eval", dataset.Name))
	if err != nil {
		return corpus.Spec{}, err
	}
	if err := dataset.Stage(stage); err != nil {
		return corpus.Spec{}, fault.StoreDenied.At("copy the corpus to", stage).Because(err)
	}
	spec, err := a.spec(flags.index, stage)
	if err != nil {
		return spec, err
	}
	chosen := false
	for _, s := range a.set {
		chosen = chosen || strings.Contains(s, "chunking.strategy")
	}
	if !chosen {
		spec.Chunking.Strategy = "document"
	}
	if flags.extraction == "auto" && dataset.Recorded != "" && spec.Chat.Provider == "builtin" {
		path, err := filepath.Abs(dataset.Recorded)
		if err != nil {
			return spec, err
		}
		spec.Chat.Provider, spec.Chat.File, spec.Chat.Model = "recorded", path, ""
	}
	return spec, nil
}

func (a *App) eval(ctx context.Context, flags evalFlags) error {
	dataset, err := eval.Load(flags.dataset)
	if err != nil {
		return err
	}
	name := strings.ReplaceAll(strings.ToLower(dataset.Name), "_", "-")
	if flags.index == "" {
		flags.index = "eval-" + name
	}
	if flags.out == "" {
		flags.out = "eval-" + name
	}
	sys, err := systems(flags.methods, flags.rules)
	if err != nil {
		return err
	}
	ks, err := cutoffs(flags.ks)
	if err != nil {
		return err
	}
	spec, err := a.evalSpec(flags, dataset)
	if err != nil {
		return err
	}
	plan := eval.Plan{
		Dataset: dataset,
		Systems: sys,
		Ks:      ks,
		Seed:    flags.seed,
		Workers: flags.workers,
		Runs:    flags.runs,
		Notice:  func(s string) { fmt.Fprintln(a.Err, s) },
	}
	if flags.compare {
		if plan.Hippo, err = eval.NewHippo(dataset); err != nil {
			return err
		}
	}
	if flags.answers {
		if plan.Judge, err = a.judge(spec, dataset, len(sys)+2, flags); err != nil {
			return err
		}
	}
	return a.withControl(ctx, func(ctx context.Context, ctl ops.Control, http string) error {
		run, err := ctl.Index(ctx, ops.IndexRequest{Spec: spec})
		if err != nil {
			return err
		}
		st, err := a.follow(ctx, ctl, run.Run)
		if err != nil {
			return err
		}
		if st.Status != corpus.StatusCompleted && st.Status != corpus.StatusErrors {
			return fault.Internal.At("build index", flags.index).
				Because(st.Status + " " + st.Reason + " " + st.Detail).
				Advise("see: unweaver status " + run.Run)
		}
		plan.Ask = func(ctx context.Context, body map[string]any) ([]byte, error) {
			return Ask(ctx, http, flags.index, body)
		}
		rep, err := eval.Run(ctx, plan)
		if err != nil {
			return err
		}
		rep.Index, rep.Chat, rep.Content, rep.Text, rep.Vectors = flags.index, st.Models.Chat, st.ContentHash, st.TextHash, st.VectorHash
		for i := range rep.Rows {
			if t := &rep.Rows[i].Tokens; len(
				rep.Rows[i].Recall,
			) > 0 { // what this run paid; zero where the index was there
				t.PromptIndex, t.CompletionIndex, t.EmbedIndex = st.Tokens.Prompt, st.Tokens.Completion, st.Tokens.Embedding
			}
		}
		if err := rep.Write(flags.out); err != nil {
			return fault.StoreDenied.At("write reports to", flags.out).Because(err).Advise("choose another --out")
		}
		return a.print(rep, func(w io.Writer) {
			fmt.Fprint(w, rep.Markdown())
			fmt.Fprintf(w, "\nwritten: %s/report.md, report.json, recall.svg\n", flags.out)
		})
	})
}

// judge opens the judging model and tells the cost.
func (a *App) judge(spec corpus.Spec, dataset *eval.Dataset, rows int, flags evalFlags) (*eval.Judge, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	m := cfg.Models.Chat
	if m.Provider != "openai" {
		return nil, fault.Usage.At("judge answers with", "models.chat").
			Because("it is " + m.Provider + ", which cannot judge").
			Advise("set models.chat to a model server, or leave --answers out")
	}
	n, chars := 0, 0
	for _, q := range dataset.Questions {
		if q.Answer != "" {
			n++
			chars += len(q.Answer) + len(q.Question)
		}
	}
	calls := n * rows * (1 + eval.CallsPerAnswer*flags.runs)
	tokens := int64(n*rows)*4500 + int64(n*rows*flags.runs)*4*700
	cost := float64(tokens) * m.Price.Prompt / 1e6
	fmt.Fprintf(
		a.Err,
		"answers and judgements: about %d calls and %d tokens, cost %.2f (%d questions with answers, %d rows, %d runs)\n",
		calls,
		tokens,
		cost,
		n,
		rows,
		flags.runs,
	)
	if !flags.yes {
		return nil, fault.Usage.At("judge answers", "").Because("this costs money").Advise("add --yes to go on")
	}
	key := ""
	for _, e := range a.Env {
		if k, v, _ := strings.Cut(e, "="); k == m.APIKeyEnv {
			key = v
		}
	}
	var chat model.Chat = openai.New(openai.Config{BaseURL: m.BaseURL, APIKey: key, Model: m.Model})
	return &eval.Judge{Chat: chat}, nil
}

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
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/llm"
	"github.com/unweaver/unweaver/internal/llm/openai"
	"github.com/unweaver/unweaver/starter/control"
	"github.com/unweaver/unweaver/starter/eval"
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
	var f evalFlags
	c := &cobra.Command{Use: "eval", Short: "Compare retrieval methods on a dataset with gold passages",
		Long: `Compare retrieval methods on one index: recall, MRR and nDCG with confidence intervals, tokens and latency.

A dataset is a folder with corpus.jsonl ({"id","title","text"}) and questions.jsonl ({"question","gold":[ids],"answers":[...]}); a recorded
extraction beside them (extractions_desc.jsonl, extractions.jsonl) is replayed unless --extraction config says otherwise. The index is built,
or reused where nothing changed. With --answers each method also answers, and a model judges the answers (factual correctness); the cost is
told first, and --yes goes on.`,
		Args: exactArgs(0, "no argument"), RunE: func(c *cobra.Command, _ []string) error { return a.eval(c.Context(), f) }}
	x := c.Flags()
	x.StringVar(&f.dataset, "dataset", "", "folder of the dataset")
	x.StringVar(&f.index, "index", "", "name of the index (default: eval-<dataset>)")
	x.StringVar(&f.out, "out", "", "folder of the reports (default: eval-<dataset>)")
	x.StringVar(&f.extraction, "extraction", "auto", "auto: the recording where there is one; config: the configured model")
	x.StringSliceVar(&f.methods, "methods", config.Methods, "methods, the first is compared with")
	x.StringSliceVar(&f.rules, "rules", []string{"weighted"}, "election rules of method unweaver")
	x.StringSliceVar(&f.ks, "k", []string{"2", "5", "10"}, "cut-offs")
	x.IntVar(&f.runs, "runs", 5, "runs of answers' judgements")
	x.IntVar(&f.workers, "workers", 4, "questions asked at once; 1 for clean latencies")
	x.Uint64Var(&f.seed, "seed", 1, "seed of the bootstrap")
	x.BoolVar(&f.answers, "answers", false, "also answer and judge (needs a model server)")
	x.BoolVar(&f.compare, "compare", true, "where the recording has triples, add a walk in the style of HippoRAG2")
	x.BoolVar(&f.yes, "yes", false, "go on without asking, whatever it costs")
	_ = c.MarkFlagRequired("dataset") // the flag exists
	return c
}

func systems(methods, rules []string) ([]eval.System, error) {
	var out []eval.System
	for _, m := range methods {
		if !slices.Contains(config.Methods, m) {
			return nil, fault.New(fault.Usage, fault.Bad, "read --methods", m, "it is not known", "known: "+strings.Join(config.Methods, ", "))
		}
		if m != "unweaver" {
			out = append(out, eval.System{Method: m})
			continue
		}
		for _, r := range rules {
			if !slices.Contains(config.Rules, r) {
				return nil, fault.New(fault.Usage, fault.Bad, "read --rules", r, "it is not known", "known: "+strings.Join(config.Rules, ", "))
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
			return nil, fault.New(fault.Usage, fault.Bad, "read --k", s, "want numbers from 1 to 100", "")
		}
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return slices.Compact(ks), nil
}

// evalSpec is the index's configuration with what a dataset asks for: passages are chunks, recordings are replayed.
func (a *App) evalSpec(f evalFlags, d *eval.Dataset) (corpus.Spec, error) {
	stage, err := filepath.Abs(filepath.Join(a.dataDir, "eval", d.Name))
	if err != nil {
		return corpus.Spec{}, err
	}
	if err := d.Stage(stage); err != nil {
		return corpus.Spec{}, fault.New(fault.StoreDenied, fault.Fatal, "copy the corpus to", stage, err, "")
	}
	spec, err := a.spec(f.index, stage)
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
	if f.extraction == "auto" && d.Recorded != "" && spec.Chat.Provider == "builtin" {
		path, err := filepath.Abs(d.Recorded)
		if err != nil {
			return spec, err
		}
		spec.Chat.Provider, spec.Chat.File, spec.Chat.Model = "recorded", path, ""
	}
	return spec, nil
}

func (a *App) eval(ctx context.Context, f evalFlags) error {
	d, err := eval.Load(f.dataset)
	if err != nil {
		return err
	}
	name := strings.ReplaceAll(strings.ToLower(d.Name), "_", "-")
	if f.index == "" {
		f.index = "eval-" + name
	}
	if f.out == "" {
		f.out = "eval-" + name
	}
	sys, err := systems(f.methods, f.rules)
	if err != nil {
		return err
	}
	ks, err := cutoffs(f.ks)
	if err != nil {
		return err
	}
	spec, err := a.evalSpec(f, d)
	if err != nil {
		return err
	}
	p := eval.Plan{Dataset: d, Systems: sys, Ks: ks, Seed: f.seed, Workers: f.workers, Runs: f.runs, Notice: func(s string) { fmt.Fprintln(a.Err, s) }}
	if f.compare {
		if p.Hippo, err = eval.NewHippo(d); err != nil {
			return err
		}
	}
	if f.answers {
		if p.Judge, err = a.judge(spec, d, len(sys)+2, f); err != nil {
			return err
		}
	}
	return a.withControl(ctx, func(ctx context.Context, ctl control.Control, http string) error {
		run, err := ctl.Index(ctx, control.IndexRequest{Spec: spec})
		if err != nil {
			return err
		}
		st, err := a.follow(ctx, ctl, run.Run)
		if err != nil {
			return err
		}
		if st.Status != corpus.StatusCompleted && st.Status != corpus.StatusErrors {
			return fault.New(fault.Internal, fault.Fatal, "build index", f.index, st.Status+" "+st.Reason+" "+st.Detail, "see: unweaver status "+run.Run)
		}
		p.Ask = func(ctx context.Context, body map[string]any) ([]byte, error) { return Ask(ctx, http, f.index, body) }
		rep, err := eval.Run(ctx, p)
		if err != nil {
			return err
		}
		rep.Index, rep.Chat, rep.Content, rep.Text, rep.Vectors = f.index, st.Models.Chat, st.ContentHash, st.TextHash, st.VectorHash
		for i := range rep.Rows {
			if t := &rep.Rows[i].Tokens; len(rep.Rows[i].Recall) > 0 { // what this run paid; zero where the index was there
				t.PromptIndex, t.CompletionIndex, t.EmbedIndex = st.Tokens.Prompt, st.Tokens.Completion, st.Tokens.Embedding
			}
		}
		if err := rep.Write(f.out); err != nil {
			return fault.New(fault.StoreDenied, fault.Fatal, "write reports to", f.out, err, "choose another --out")
		}
		return a.print(rep, func(w io.Writer) {
			fmt.Fprint(w, rep.Markdown())
			fmt.Fprintf(w, "\nwritten: %s/report.md, report.json, recall.svg\n", f.out)
		})
	})
}

// judge opens the judging model and tells the cost.
func (a *App) judge(spec corpus.Spec, d *eval.Dataset, rows int, f evalFlags) (*eval.Judge, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	m := cfg.Models.Chat
	if m.Provider != "openai" {
		return nil, fault.New(fault.Usage, fault.Bad, "judge answers with", "models.chat", "it is "+m.Provider+", which cannot judge", "set models.chat to a model server, or leave --answers out")
	}
	n, chars := 0, 0
	for _, q := range d.Questions {
		if q.Answer != "" {
			n++
			chars += len(q.Answer) + len(q.Question)
		}
	}
	calls := n * rows * (1 + eval.CallsPerAnswer*f.runs)
	tokens := int64(n*rows)*4500 + int64(n*rows*f.runs)*4*700
	cost := float64(tokens) * m.Price.Prompt / 1e6
	fmt.Fprintf(a.Err, "answers and judgements: about %d calls and %d tokens, cost %.2f (%d questions with answers, %d rows, %d runs)\n", calls, tokens, cost, n, rows, f.runs)
	if !f.yes {
		return nil, fault.New(fault.Usage, fault.Bad, "judge answers", "", "this costs money", "add --yes to go on")
	}
	key := ""
	for _, e := range a.Env {
		if k, v, _ := strings.Cut(e, "="); k == m.APIKeyEnv {
			key = v
		}
	}
	var chat llm.Chat = openai.New(openai.Config{BaseURL: m.BaseURL, APIKey: key, Model: m.Model})
	return &eval.Judge{Chat: chat}, nil
}

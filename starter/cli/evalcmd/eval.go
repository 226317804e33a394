package evalcmd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
	"github.com/unweaver/unweaver/starter/eval"
)

type evalFlags struct {
	dataset, suite, index, out, extraction string
	questions                              string
	methods, rules, against                []string
	ks                                     []string
	runs, workers, seats                   int
	seed                                   uint64
	answers, yes                           bool
}

func (a app) evalCmd() *cobra.Command {
	var flags evalFlags
	command := &cobra.Command{
		Use:   "eval [INDEX]",
		Short: "Compare retrieval methods on a dataset with gold passages",
		Example: "  unweaver eval docs --questions probes.jsonl\n" +
			"  unweaver eval --dataset ./mine --methods hybrid,bm25 --k 5\n" +
			"  unweaver eval --suite ./sets --methods hybrid,unweaver",
		Long: `Compare retrieval methods on one index: recall, MRR and nDCG with confidence intervals, tokens and latency.

A dataset is a folder with corpus.jsonl ({"id","title","text"}) and questions.jsonl
({"question","gold":[ids],"answers":[...]}). If a recorded extraction is beside them (extractions_desc.jsonl,
extractions.jsonl), it is replayed unless you set --extraction config. The index is built, or reused where nothing
changed. With --answers each method also answers, and a model judges the answers (factual correctness). The command
prints the cost first; add --yes to continue.

With INDEX and --questions the command builds nothing: it evaluates the published index with questions whose documents
you know, a line each ({"question","documents":[keys]}, as in the file of gate.probes), and lists the questions that
the first method misses.

With --suite the command evaluates every dataset of a folder and writes one table: each method against bm25 and
against the previous run in --out, as paired differences. suite.svg draws recall by method and set.

With --against each method also runs with other settings, or on another existing index or generation. The page shows
the paired differences at every cut-off. A difference whose interval contains zero is not reported as real.`,
		Args: console.RequireArgs(0, 1, "an INDEX with --questions"),
		RunE: func(command *cobra.Command, args []string) error {
			if (len(args) > 0) != (flags.questions != "") {
				return fault.Usage.At("evaluate", strings.Join(args, "")).Because("an INDEX and --questions require each other").
					Advise("write: unweaver eval INDEX --questions FILE; or: unweaver eval --dataset FOLDER")
			}
			if len(args) > 0 {
				flags.index = args[0]
				return a.evalPublished(command.Context(), flags)
			}
			return a.runEval(command.Context(), flags)
		},
	}
	set := command.Flags()
	set.StringVar(&flags.dataset, "dataset", "", "folder of the dataset")
	set.StringVar(&flags.questions, "questions", "", "file of questions about the published INDEX")
	set.StringVar(&flags.suite, "suite", "", "folder of datasets: one table for all, compared with the previous run")
	set.StringVar(&flags.index, "index", "", "name of the index (default: eval-<dataset>)")
	set.StringVar(&flags.out, "out", "", "folder of the reports (default: eval-<dataset>)")
	set.StringVar(&flags.extraction, "extraction", "auto",
		"auto: the recording, if there is one; config: the configured model")
	set.StringSliceVar(&flags.methods, "methods", config.PlainMethods(),
		"methods; the first is the baseline; the index is built with the enrichments that they need")
	set.StringSliceVar(&flags.rules, "rules", []string{"weighted"}, "election rules of method unweaver")
	set.StringArrayVar(
		&flags.against,
		"against",
		nil,
		"compare each method with itself, repeatable: index=NAME, generation=NAME, top_entities=N, "+
			"rerank=BOOL or params.NAME=JSON, several with semicolons",
	)
	set.StringSliceVar(&flags.ks, "k", []string{"2", "5", "10"}, "cut-offs")
	set.IntVar(&flags.seats, "answer-chunks", 5, "with --answers: passages for each answer")
	set.IntVar(&flags.runs, "runs", 5, "times to judge the answers")
	set.IntVar(&flags.workers, "workers", 4, "concurrent questions; 1 to measure latencies")
	set.Uint64Var(&flags.seed, "seed", 1, "seed of the bootstrap")
	set.BoolVar(&flags.answers, "answers", false, "also answer and judge (needs a model server)")
	set.BoolVar(&flags.yes, "yes", false, "continue without confirmation, at any cost")
	command.MarkFlagsOneRequired("dataset", "suite", "questions")
	for _, other := range []string{"dataset", "index", "answers"} {
		command.MarkFlagsMutuallyExclusive("suite", other)
		command.MarkFlagsMutuallyExclusive("questions", other)
	}
	command.MarkFlagsMutuallyExclusive("questions", "suite")
	return console.LeastOne(command, "runs", "workers", "answer-chunks")
}

// evalStage returns the folder of a dataset's corpus: always the same for a data directory, and outside of it, as
// nothing there is ever read as documents.
func (a app) evalStage(dataset *eval.Dataset) (string, error) {
	data, err := filepath.Abs(a.DataDir)
	if err != nil {
		return "", fault.Usage.At("make absolute", a.DataDir).Because(err)
	}
	folder, err := localfile.MakeFolder("", "eval")
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, fmt.Sprintf("%s-%.6x", dataset.Name, sha256.Sum256([]byte(data)))), nil
}

// evalSpec returns the index's configuration with what a dataset asks for: passages are chunks, recordings are
// replayed.
func (a app) evalSpec(flags evalFlags, dataset *eval.Dataset) (core.Spec, error) {
	stage, err := a.evalStage(dataset)
	if err != nil {
		return core.Spec{}, err
	}
	if err := dataset.StageCorpus(stage); err != nil {
		return core.Spec{}, fault.StoreDenied.At("copy the corpus to", stage).Because(err)
	}
	spec, err := a.ResolveSpec(flags.index, stage)
	if err != nil {
		return spec, err
	}
	for _, method := range flags.methods {
		if needed := config.MethodEnrichments[method]; needed != "" && !slices.Contains(spec.Enrich, needed) {
			spec.Enrich = append(spec.Enrich, needed)
		}
	}
	slices.Sort(spec.Enrich)
	cfg, err := a.LoadConfig()
	if err != nil {
		return spec, err
	}
	if !spec.Parity && !cfg.IsGiven("indexes."+flags.index+".chunking.strategy") {
		spec.Chunking.Strategy = "document"
	}
	if flags.extraction == "auto" && dataset.Recorded != "" && spec.Chat.Provider == "builtin" &&
		spec.ChatOf(core.RoleExtraction).Provider == "builtin" {
		path, err := filepath.Abs(dataset.Recorded)
		if err != nil {
			return spec, err
		}
		spec.Chat.Provider, spec.Chat.File, spec.Chat.Model = "recorded", path, ""
	}
	return spec, nil
}

// evalIndex returns the name of a dataset's index.
func evalIndex(dataset *eval.Dataset) string {
	return "eval-" + strings.ReplaceAll(strings.ToLower(dataset.Name), "_", "-")
}

// evalBuild builds the index of a dataset, or finds it unchanged. The index that is named after the dataset is used by
// this dataset alone, wherever its corpus lay before.
func (a app) evalBuild(
	ctx context.Context, controller control.Control, dataset *eval.Dataset, spec core.Spec,
) (control.Status, error) {
	own := spec.Index == evalIndex(dataset)
	request := control.IndexRequest{Spec: spec, ReplaceCorpus: own}
	if err := request.ReadFiles(); err != nil {
		return control.Status{}, err
	}
	run, err := controller.BuildIndex(ctx, request)
	if err != nil {
		return control.Status{}, err
	}
	status, err := a.FollowRun(ctx, controller, run.Run, show.NewBar(a.Err, a.JSON))
	if err == nil && status.Status != core.StatusCompleted && status.Status != core.StatusErrors {
		err = fault.Internal.At("build index", spec.Index).
			Because(status.Status + " " + status.Reason + " " + status.Detail).
			Advise("see: unweaver status " + run.Run)
	}
	return status, err
}

func (a app) runEval(ctx context.Context, flags evalFlags) error {
	if flags.suite != "" {
		return a.evalSuite(ctx, flags)
	}
	dataset, err := eval.Load(flags.dataset)
	if err != nil {
		return err
	}
	evaluate, err := a.newEvaluation(flags, dataset)
	if err != nil {
		return err
	}
	return a.WithControl(ctx, func(ctx context.Context, controller control.Control, queries string) error {
		report, err := evaluate(ctx, controller, queries)
		if err != nil {
			return err
		}
		return a.writeEvaluation(report, cmp.Or(flags.out, evalIndex(dataset)))
	})
}

// writeEvaluation writes the files of a report and prints it.
func (a app) writeEvaluation(report *eval.Report, out string) error {
	if err := report.Write(out); err != nil {
		return fault.StoreDenied.At("write reports to", out).Because(err).Advise("choose another --out")
	}
	return a.PrintOut(report, func(w io.Writer) {
		fmt.Fprint(w, report.RenderMarkdown())
		fmt.Fprintf(w, "\nwritten: %s/report.md, report.json\n", out)
	})
}

// newAsker asks query-api at an address.
func newAsker(queries, evaluated string) eval.Asker {
	return func(ctx context.Context, index string, body map[string]any) ([]byte, error) {
		return console.Ask(ctx, queries, cmp.Or(index, evaluated), body)
	}
}

// newPlan returns what the flags ask of a dataset.
func (a app) newPlan(flags evalFlags, dataset *eval.Dataset) (plan eval.Plan, err error) {
	plan = eval.Plan{
		Dataset: dataset, Seed: flags.seed, Workers: flags.workers, Runs: flags.runs, Seats: flags.seats,
		Notice: func(s string) { fmt.Fprintln(a.Err, s) },
	}
	if plan.Systems, err = flags.readSystems(); err == nil {
		plan.Ks, err = parseCutoffs(flags.ks)
	}
	return plan, err
}

// evaluation builds an index and asks the questions.
type evaluation func(ctx context.Context, controller control.Control, queries string) (*eval.Report, error)

// newEvaluation checks what the flags ask of a dataset.
func (a app) newEvaluation(flags evalFlags, dataset *eval.Dataset) (evaluation, error) {
	flags.index = cmp.Or(flags.index, evalIndex(dataset))
	plan, err := a.newPlan(flags, dataset)
	if err != nil {
		return nil, err
	}
	spec, err := a.evalSpec(flags, dataset)
	if err != nil {
		return nil, err
	}
	var about string // what answers are of, as far as it is known before an index is built
	if flags.answers {
		if plan.Judge, err = a.openJudge(flags); err != nil {
			return nil, err
		}
		plan.Judge.Parity = spec.Parity
		answers := spec.ChatOf(core.RoleAnswer)
		plan.Judge.Style = spec.Answer.Style
		about = fmt.Sprintf("answers by %s of %q, %s, at most %d tokens, vectors by %s of %q, questions %.12s", answers.Model,
			answers.BaseURL, cmp.Or(spec.Answer.Style, core.StyleShort), answers.MaxTokens, spec.Embedding.Model,
			spec.Embedding.BaseURL, dataset.QuestionsSum())
		if err := a.tellAnswerCost(plan, about, flags); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, controller control.Control, queries string) (*eval.Report, error) {
		overlay, ok, err := a.ApplyOverlay(ctx, controller, spec.Index)
		if err == nil && ok { // a branch, or an index that one was promoted to
			spec, err = a.evalSpec(flags, dataset)
			spec.Overlay = overlay.Set
		}
		if err != nil {
			return nil, err
		}
		status, err := a.evalBuild(ctx, controller, dataset, spec)
		if err != nil {
			return nil, err
		}
		plan.Ask = newAsker(queries, flags.index)
		if plan.Spent, err = a.estimateCost(ctx, controller, spec); err != nil {
			return nil, err
		}
		plan.Fills = !spec.Parity
		if plan.Judge != nil {
			plan.Judge.Parity = spec.Parity
			whole := fmt.Sprintf("%s, content %.12s, vectors %.12s", about, status.TextHash, status.VectorHash)
			if plan.Judge.Journal, err = eval.OpenJournal(cmp.Or(flags.out, evalIndex(dataset)), whole); err != nil {
				return nil, err
			}
			defer func() { _ = plan.Judge.Journal.Close() }()
		}
		report, err := eval.Run(ctx, plan)
		if err != nil {
			return nil, err
		}
		report.Index, report.Chat = flags.index, status.Models.Chat
		report.Content, report.Text, report.Vectors = status.ContentHash, status.TextHash, status.VectorHash
		return report, nil
	}, nil
}

// estimateCost returns what an index costs in a store that holds nothing.
func (a app) estimateCost(ctx context.Context, controller control.Control, spec core.Spec) (core.IndexTokens, error) {
	request := control.IndexRequest{Spec: spec, Unpriced: true, Accounts: true, ReplaceCorpus: true}
	if err := request.ReadFiles(); err != nil {
		return core.IndexTokens{}, err
	}
	estimated, err := controller.EstimateBuild(ctx, request)
	if err != nil || estimated.IndexTokens == nil {
		return core.IndexTokens{}, err
	}
	return *estimated.IndexTokens, nil
}

// About what a call has, in tokens.
const (
	answerPrompt, answerReply = 4100, 100
	judgePrompt, judgeReply   = 600, 150
)

// chooseJudges returns the models that answer baselines and judge.
func (a app) chooseJudges(flags evalFlags) (answers, judges core.ChatModel, err error) {
	cfg, err := a.LoadConfig()
	if err != nil {
		return answers, judges, err
	}
	index, err := cfg.Spec(flags.index, "")
	return index.ChatOf(core.RoleAnswer), cfg.ModelOf(flags.index, core.RoleJudge), err
}

// tellAnswerCost prints what answers and judgements cost that are in no journal, and refuses to go on without --yes.
func (a app) tellAnswerCost(plan eval.Plan, about string, flags evalFlags) error {
	index, judge, err := a.chooseJudges(flags)
	if err != nil {
		return err
	}
	journal, err := eval.ReadJournal(cmp.Or(flags.out, evalIndex(plan.Dataset)), about)
	if err != nil {
		return err
	}
	answered := 0
	for _, question := range plan.Dataset.Questions {
		if question.Answer != "" {
			answered++
		}
	}
	if answered == 0 {
		return fault.Usage.At("judge answers", plan.Dataset.Name).Because("no question has a reference answer").
			Advise("add answers to questions.jsonl, or remove --answers")
	}
	rows := len(plan.Systems) + 2
	calls := answered * rows * (1 + eval.CallsPerAnswer*flags.runs)
	answers, judgements := plan.CountUnpaid(journal)
	asked, judged := float64(answers), float64(judgements)
	cost := (asked*(answerPrompt*index.Price.Prompt+answerReply*index.Price.Completion) +
		judged*(judgePrompt*judge.Price.Prompt+judgeReply*judge.Price.Completion)) / 1e6
	fmt.Fprintf(a.Err, "%s: answers and judgements: about %d calls, %d journaled, %d to pay: %.0f tokens, cost %.2f "+
		"(%d questions with answers, %d rows, %d runs)\n",
		plan.Dataset.Name, calls, calls-answers-judgements, answers+judgements,
		asked*(answerPrompt+answerReply)+judged*(judgePrompt+judgeReply), cost, answered, rows, flags.runs)
	if !flags.yes {
		return fault.Usage.At("judge answers", "").Because("this costs money").Advise("to continue, add --yes")
	}
	return nil
}

// openJudge opens the judging model.
func (a app) openJudge(flags evalFlags) (*eval.Judge, error) {
	index, judge, err := a.chooseJudges(flags)
	if err != nil {
		return nil, err
	}
	for _, asked := range []core.ChatModel{index, judge} {
		if asked.Provider != "openai" {
			return nil, fault.Usage.At("judge answers with", "models.chat").
				Because("it is " + asked.Provider + ", which cannot judge").
				Advise("set models.chat, or models.answer and models.judge, to a model server, or remove --answers")
		}
	}
	open := func(from core.ChatModel) model.Chat {
		return openai.New(openai.Config{BaseURL: from.BaseURL, APIKey: a.LookupEnv(from.APIKeyEnv), Model: from.Model})
	}
	return &eval.Judge{Chat: open(judge), Other: open(index)}, nil
}

package upkeep

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/docling"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/estimate"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/overlay"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/stream/scratch"
)

// Estimating is what an estimate reads.
type Estimating struct {
	Artifacts     blob.Store
	Corpora       func(ctx context.Context, uri string) (blob.Store, error)
	StoreID       string
	Models        func(core.Spec) (model.Set, error)    // described: no key, no call
	Folder        func(path string) (blob.Store, error) // makes a store in a folder that goes again
	Runs          func(path string) (coordination.Store, error)
	Settings      core.Spec
	ReplaceCorpus bool
	Rebuild       bool
	Why           string // a document to tell of; empty: none
	Listed        bool   // the report has the plan, with every document that would be made
	Unpriced      bool   // nothing is chunked and counted: what the plan says is enough
	Accounts      bool   // the report has what the published generation cost
	Parser        document.Parser
	Limits        document.Limits
}

// EstimateBuild says what a build would find and pay for. It plans and chunks as a build does, over a folder of its own
// that goes when it returns: no lease is taken, no run is begun, no model is called and nothing is written to a
// store.
func EstimateBuild(ctx context.Context, in Estimating) (core.Estimated, error) {
	report := core.Estimated{Report: core.Report{
		Index: in.Settings.Index, Status: core.StatusCompleted, Reason: "dry_run", Started: time.Now().UTC(),
		Currency: in.Settings.Currency,
	}}
	folder, err := scratch.CreateFolder()
	if err != nil {
		return report, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	run, err := in.newRun(folder)
	if err != nil {
		return report, err
	}
	defer run.Close()
	defer func() { _ = run.Coordination.Close() }()
	e := estimating{Run: run, in: in, decisions: newDecisions(in.Why)}
	defer e.decisions.close()
	if err := e.estimateBuild(ctx, &report); err != nil {
		return report, err
	}
	if report.Estimate != nil {
		if over := in.Settings.Budget.ExceededBy(*report.Estimate, report.Currency); over != "" {
			report.Detail = strings.TrimPrefix(report.Detail+"; "+fmt.Sprintf("the run may exceed its budget of %s, and would "+
				"then pause (indexes.%s.budget)", over, in.Settings.Index), "; ")
		}
	}
	report.Seconds = time.Since(report.Started).Seconds()
	return report, nil
}

// newRun returns a run whose stores are a folder over what it reads.
func (in Estimating) newRun(folder string) (*Run, error) {
	upper, err := in.Folder(folder + "/written")
	if err != nil {
		return nil, err
	}
	cache, err := localfile.New(folder+"/cache", 0)
	if err != nil {
		return nil, err
	}
	runs, err := in.Runs(folder + "/runs")
	if err != nil {
		return nil, err
	}
	store := overlay.New(in.Artifacts, upper)
	ports := &run.Ports{
		Artifacts: store, Corpora: in.Corpora, Coordination: runs, StoreID: in.StoreID, Cache: cache,
		Models:    func(spec core.Spec, _ model.Meter) (model.Set, error) { return in.Models(spec) },
		Converter: func(core.Spec) (document.Converter, error) { return &docling.Client{}, nil }, // nothing is asked
		Ledger:    ledger.New(store, runs), CPU: make(chan struct{}, runtime.GOMAXPROCS(0)),
		Log: slog.New(slog.DiscardHandler), Parser: in.Parser, Limits: in.Limits,
	}
	job := run.Job{
		Index: in.Settings.Index, Generation: "estimate", ReplaceCorpus: in.ReplaceCorpus, Shard: 1 << 30,
		Rebuild: in.Rebuild, Estimates: true,
	}
	begun := OpenBare(ports, job, core.StagePlan, "estimate")
	begun.Settings = in.Settings
	return begun, nil
}

// estimating is one estimate.
type estimating struct {
	*Run
	in        Estimating
	parent    *core.Manifest
	fixed     run.Plan
	models    model.Set
	fresh     estimate.New
	vectors   vectorCount
	cut       bool // the embedder takes longer texts than for the parent, or shorter ones
	decisions *decisions
	table     *segments.Table // of the parent, while calls are counted; nil: there is none
	asked     []int           // chunks of the unit that belong to the document that is asked about
}

func (e *estimating) estimateBuild(ctx context.Context, report *core.Estimated) error {
	planned, err := e.planEstimate(ctx)
	if err != nil {
		return err
	}
	report.Documents, report.Diff, report.Refused = planned.Documents, planned.Diff, planned.Refused
	report.LeftOut = planned.LeftOut
	report.Reasons, report.Problems, report.ProblemsTotal = planned.Reasons, planned.Problems, planned.ProblemCount
	report.DocumentsFailed, report.DocumentsEmpty = planned.Unreadable+planned.Lost, planned.Empty
	report.Unchanged = planned.Unchanged
	addGate := func(reason, detail string) {
		if reason != "" {
			report.Problems = append(report.Problems, core.Problem{Code: reason, Object: e.Job.Index, Detail: detail})
		}
	}
	addGate(publish.CheckRemoval(e.Settings, planned.Diff.Removed, 0, planned.ParentListed, planned.Reasons))
	addGate(publish.CheckLabels(e.Settings, e.parent, planned.Documents))
	report.Estimate = &core.Estimate{}
	if paid := e.ListPaidEnrichments(e.models); len(paid) > 0 && !planned.Unchanged {
		report.Detail = "calls of enrichments are not estimated: " + strings.Join(paid, ", ")
	}
	if err := e.decisions.matchMoves(); err != nil {
		return err
	}
	if planned.Unchanged {
		report.Chunks, report.Classes = e.parent.Counts.Chunks, e.parent.Counts.Classes
	} else if !e.in.Unpriced {
		for unit := range planned.Units {
			if _, err := e.Chunk(ctx, unit); err != nil {
				return err
			}
		}
		report.Documents = planned.Kept.Documents
		e.AddChunked(ctx, &report.Report, planned)
		if err := e.decisions.walkReasons(); err != nil {
			return err
		}
		if err := e.countCalls(ctx, len(planned.Units), &report.Report); err != nil {
			return err
		}
	}
	if e.in.Accounts {
		if report.IndexTokens, err = e.countTokens(ctx); err != nil {
			return err
		}
	}
	report.Shares = e.decisions.shares
	slices.SortFunc(report.Shares, func(a, b core.Share) int { return strings.Compare(a.Reason, b.Reason) })
	if err := e.explainDocument(ctx, &report.Report); err != nil {
		return err
	}
	return e.addPlan(report)
}

// explainDocument reports the document that is asked about.
func (e *estimating) explainDocument(ctx context.Context, report *core.Report) error {
	if e.in.Why == "" {
		return nil
	}
	holder, _, _ := strings.Cut(e.in.Why, "#")
	if report.Why = e.decisions.asked; e.fixed.Excluded.Has(e.in.Why) || e.fixed.Excluded.Has(holder) {
		report.Why = &core.Why{
			Document: e.in.Why, Reason: plan.DecidedPurged,
			Detail: "it was purged and is excluded; to allow it again: unweaver purge list " + e.Index.Name +
				" --readmit " + fault.QuoteName(e.in.Why),
		}
	}
	if report.Why == nil {
		return fault.NotFound.At("explain document", fault.QuoteName(e.in.Why)).
			Because("it is neither in the corpus nor in the published generation").
			Advise("give its key: the path below the corpus, with /; for a row, OBJECT#ID. The index may exclude it by " +
				"include or exclude, or not support its type")
	}
	found, err := e.findProblem(ctx, e.in.Why)
	if err == nil && found.Code != "" {
		report.Why.Detail = found.Code + ": " + found.Detail
	}
	return err
}

// findProblem gives what chunk found of a document; zero: nothing.
func (e *estimating) findProblem(ctx context.Context, document string) (core.Problem, error) {
	for unit := range e.fixed.Plan.Units {
		chunked, written, err := run.ChunkFile(unit).Find(ctx, e.Scratch)
		if err != nil || !written || chunked.ProblemCount == 0 {
			if err != nil {
				return core.Problem{}, err
			}
			continue
		}
		key := artifact.ScratchKey(chunk.ProblemsKey(e.Scratch.Prefix, unit), chunked.ProblemsFile)
		raw, _, err := blob.Read(ctx, e.Artifacts, key)
		if err != nil {
			return core.Problem{}, err
		}
		for line := range bytes.Lines(raw) {
			var problem core.Problem
			if err := json.Unmarshal(line, &problem); err != nil || problem.Object == document {
				return problem, err
			}
		}
	}
	return core.Problem{}, nil
}

// addPlan adds the plan.
func (e *estimating) addPlan(report *core.Estimated) error {
	if !e.in.Listed {
		return nil
	}
	made := &core.Plan{
		Format: core.PlanFormat, Made: time.Now().UTC(), Spec: e.Settings, Manifest: e.fixed.Parent,
		Estimate: *report.Estimate,
	}
	if e.parent != nil {
		made.Parent = e.parent.Generation
	}
	var err error
	if made.Documents, err = e.decisions.listPlanned(); err != nil {
		return err
	}
	report.Plan = made
	return nil
}

// planEstimate does what Run.Plan does, without what needs a model or a store that is served.
func (e *estimating) planEstimate(ctx context.Context) (plan.Result, error) {
	current, parent, err := e.Index.ReadServed(ctx)
	if err != nil {
		return plan.Result{}, err
	}
	e.parent = parent
	if e.Settings.Retrieval.Language, err = e.FindLanguage(ctx, e.parent); err != nil {
		return plan.Result{}, err
	}
	fixed := run.Plan{Parent: current.Manifest, Rebuild: e.Rebuild}
	if e.parent != nil {
		if fixed.Foreign, err = e.IsForeign(ctx, e.parent); err != nil {
			return plan.Result{}, err
		}
	}
	models, reasons, err := e.planModels(ctx, &fixed, e.parent, false)
	if err != nil {
		return plan.Result{}, err
	}
	if e.models = models; e.Rebuild {
		reasons = append([]string{"requested with --rebuild"}, reasons...) // first, as a build reports it
	}
	reasons = append(reasons, e.FixExtraction(&fixed, e.parent)...)
	if fixed.Excluded, err = e.listPurged(ctx); err != nil {
		return plan.Result{}, err
	}
	if err := e.CompareCorpus(ctx, &fixed, e.parent, reasons, e.decisions.addDecision); err != nil {
		return plan.Result{}, err
	}
	due, err := e.ListDue(ctx, fixed, e.parent, e.models)
	if err != nil {
		return plan.Result{}, err
	}
	fixed.Plan.Reasons = append(fixed.Plan.Reasons, due...)
	fixed.Plan.Unchanged = fixed.Plan.Unchanged && len(due) == 0
	e.fixed = fixed
	return fixed.Plan, run.PlanFile.Write(ctx, e.Scratch, fixed)
}

// countCalls counts what would be paid for, task by task.
func (e *estimating) countCalls(ctx context.Context, units int, report *core.Report) error {
	known, release, err := e.knownChunks(ctx)
	defer release()
	if err != nil {
		return err
	}
	var old core.Spec
	if e.parent != nil {
		if old, err = e.Index.Spec(ctx, e.parent.Spec); err != nil {
			return err
		}
		e.cut = old.Embedding.MaxInputTokens != e.Settings.Embedding.MaxInputTokens
	}
	choices, done, err := e.openChoices(ctx)
	defer done()
	if err != nil {
		return err
	}
	var extracting extract.Estimate
	pages := int64(0)
	for unit := range units {
		chunked, err := run.ChunkFile(unit).Read(ctx, e.Scratch)
		if err != nil {
			return err
		}
		report.Documents += chunked.Counts.Documents
		report.Chunks += chunked.Counts.Chunks
		report.LedgerHits.Transcribe += chunked.Transcripts.Hits
		pages += chunked.Transcripts.Asked
		if err := e.countVectors(ctx, unit, chunked, known); err != nil {
			return err
		}
		e.asked = e.asked[:0]
		shares, err := e.compareUnit(ctx, unit, chunked, known)
		if err != nil {
			return err
		}
		at := 0
		found, err := extract.Count(ctx, extract.CountIn{
			Spec: e.Settings, Model: e.models.Extractor().Info(), Ledger: e.Ledger,
			Chooser: choices.planned, Others: choices.others,
			Chunks: extract.StreamTexts(ctx, extract.In{
				Artifacts: e.Index, Scratch: e.Scratch.Prefix, Text: chunked.Text,
				Chunks: e.ChunksKey(unit, chunked),
				Shard:  extract.Shard{Unit: unit, To: int(chunked.Counts.Chunks)}, To: int(chunked.Counts.Chunks),
			}),
			OnChunk: func(asked bool) {
				if asked {
					e.decisions.shares[shares[at]].Calls++
					if slices.Contains(e.asked, at) {
						e.decisions.asked.Calls++
					}
				}
				at++
			},
		})
		if err != nil {
			return err
		}
		extracting = extracting.Plus(found)
	}
	if e.fresh.Unseen = min(extracting.Calls, e.fresh.Chunks); !e.models.Extractor().Info().Paid && e.parent == nil {
		e.fresh.Unseen = e.fresh.Chunks
	}
	if e.parent != nil {
		gone := e.parent.Counts.Chunks // of which those are left that are made again
		if e.fixed.Part {
			if gone, err = e.countEnded(ctx); err != nil {
				return err
			}
		}
		e.fresh.Gone = max(0, gone-(report.Chunks-e.fresh.Chunks))
		if e.fixed.Part {
			report.Chunks += e.parent.Counts.Chunks - gone
		}
	}
	report.LedgerHits.Extract = extracting.Hits
	choices.report(report.Estimate, extracting)
	report.Estimate.Transcribe = core.Range{Low: float64(pages), High: float64(pages)}
	return e.fillRanges(ctx, report, extracting, old)
}

// countEnded counts the parent's chunks that do not count any more, or are made again.
func (e *estimating) countEnded(ctx context.Context) (int64, error) {
	n, release, err := e.OpenNight(ctx)
	defer release()
	if err != nil || n == nil {
		return 0, err
	}
	return n.CountGone().Chunks, nil
}

// fillRanges turns what was counted into ranges of calls, tokens, money and time.
func (e *estimating) fillRanges(
	ctx context.Context, report *core.Report, extracting extract.Estimate, old core.Spec,
) error {
	var parent core.Counts
	shorten := estimate.ShortenIn{
		Paid: e.models.ChatOf(core.RoleShortening).Info().Paid, Shortening: e.Settings.Shortening, New: e.fresh,
	}
	var again estimate.Range
	if e.parent != nil {
		parent = e.parent.Counts
		shorten.Parent = parent
		shorten.Again = old.Shortening != e.Settings.Shortening || !old.BuildsLike(e.Settings) ||
			old.ExtractionShare() != e.Settings.ExtractionShare() || old.WritingLanguage() != e.Settings.WritingLanguage() ||
			old.OwnRequest().Digest() != e.Settings.OwnRequest().Digest()
		again = e.countAgain(extracting, shorten.Again)
	}
	past, err := e.ReadPast(ctx)
	if err != nil {
		return err
	}
	shortening := estimate.EstimateShorten(shorten, past)
	made := extracting.Calls + extracting.Hits
	shortening = past.NarrowTask(shortening, made, 0, func(calls core.Calls) int64 { return calls.Shorten })
	if calls, prompt, completion := past.SumCharged(); calls > 0 && parent.Chunks > 0 {
		extracting = extracting.LearnCharges(old, calls, parent.Tokens/parent.Chunks, prompt, completion)
	}
	embedding := estimate.EmbedIn{
		Paid: e.models.Chunks.Info().Paid, Parent: parent, New: e.vectors.missing, Again: again,
		MaxInputTokens: e.Settings.Embedding.MaxInputTokens, Parts: 1,
	}
	chunks := estimate.EmbedChunks(embedding)
	embedding.Paid, embedding.New = e.models.Classes.Info().Paid, e.fresh
	classes := estimate.EmbedClasses(embedding)
	if again.High == 0 { // no run before embedded as many
		classes = past.NarrowTask(classes, made, chunks.Calls.Low, func(calls core.Calls) int64 { return calls.Embed })
	}
	out := report.Estimate
	out.Extract = core.Range{Low: float64(extracting.Calls), High: float64(extracting.Calls)}
	out.Rules = extracting.Rules
	prompt, completion := extracting.EstimateCharge(e.Settings.ChatOf(core.RoleExtraction).MaxTokens)
	speed := 0.0
	if timed, ok := model.As[model.Timed](e.models.Chunks); ok && chunks.Calls.High+classes.Calls.High > 0 {
		if speed, err = timed.Speed(ctx); err != nil { // the weights are on other machines
			speed = 0
		}
	}
	e.PriceTasks(out, past, e.fixed.Plan.Made, estimate.Task{
		Prompt:     estimate.Range{Low: prompt[0], High: prompt[1]},
		Completion: estimate.Range{Low: completion[0], High: completion[1]},
	}, shortening, chunks, classes, speed)
	return nil
}

package build

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/unweaver/unweaver/internal/build/items"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage/estimate"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/overlay"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/store/localfile"
	"github.com/unweaver/unweaver/internal/stream/scratch"
)

// Estimating is what an estimate reads.
type Estimating struct {
	Artifacts     blob.Store
	Corpora       func(ctx context.Context, uri string) (blob.Store, error)
	StoreID       string
	Models        func(corpus.Spec) (model.Set, error)  // described: no key, no call
	Folder        func(path string) (blob.Store, error) // makes a store in a folder that goes again
	Settings      corpus.Spec
	ReplaceCorpus bool
	Parser        document.Parser
	Limits        document.Limits
}

// Estimate tells what a build would find and pay for. It plans and chunks as a build does, over a folder of its own
// that goes when it returns: no lease is taken, no run is begun, no model is called and nothing is written to a
// store.
func Estimate(ctx context.Context, in Estimating) (corpus.Report, error) {
	report := corpus.Report{
		Index: in.Settings.Index, Status: corpus.StatusCompleted, Reason: "dry_run", Started: time.Now().UTC(),
	}
	folder, err := scratch.Folder()
	if err != nil {
		return report, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	run, err := in.run(folder)
	if err != nil {
		return report, err
	}
	defer run.Close()
	e := estimating{Run: run}
	if err := e.look(ctx, &report); err != nil {
		return report, err
	}
	report.Seconds = time.Since(report.Started).Seconds()
	return report, nil
}

// run is a run whose stores are a folder over what it reads.
func (in Estimating) run(folder string) (*Run, error) {
	upper, err := in.Folder(folder + "/written")
	if err != nil {
		return nil, err
	}
	cache, err := localfile.New(folder+"/cache", 0)
	if err != nil {
		return nil, err
	}
	store, coordination := overlay.New(in.Artifacts, upper), memory.New()
	ports := &Ports{
		Artifacts: store, Corpora: in.Corpora, Coordination: coordination, StoreID: in.StoreID, Cache: cache,
		Models: func(spec corpus.Spec, _ model.Meter) (model.Set, error) { return in.Models(spec) },
		Ledger: ledger.New(store, coordination), CPU: make(chan struct{}, runtime.GOMAXPROCS(0)),
		Log: slog.New(slog.DiscardHandler), Parser: in.Parser, Limits: in.Limits,
	}
	job := Job{Index: in.Settings.Index, Generation: "estimate", ReplaceCorpus: in.ReplaceCorpus, Shard: 1 << 30}
	run := ports.Bare(job, corpus.StagePlan, "estimate")
	run.Settings = in.Settings
	return run, nil
}

// estimating is one estimate.
type estimating struct {
	*Run
	parent *corpus.Manifest
	models model.Set
	fresh  estimate.New
	chunks *chunkVectors // nil: what is paid for is not known
}

func (e *estimating) look(ctx context.Context, report *corpus.Report) error {
	planned, err := e.plan(ctx)
	if err != nil {
		return err
	}
	report.Documents, report.Diff, report.Refused = planned.Documents, planned.Diff, planned.Refused
	report.LeftOut = planned.LeftOut
	report.Reasons, report.Problems, report.ProblemsTotal = planned.Reasons, planned.Problems, planned.ProblemCount
	report.DocumentsFailed, report.Unchanged = planned.Unreadable+planned.Lost, planned.Unchanged
	reason, detail := publish.Removal(e.Settings, planned.Diff.Removed, 0, planned.ParentListed)
	if reason != "" {
		report.Problems = append(report.Problems, corpus.Problem{Code: reason, Object: e.Job.Index, Detail: detail})
	}
	report.Estimate = &corpus.Estimate{}
	if planned.Unchanged {
		report.Chunks, report.Classes = e.parent.Counts.Chunks, e.parent.Counts.Classes
		return nil
	}
	for unit := range planned.Units {
		if _, err := e.Chunk(ctx, unit); err != nil {
			return err
		}
	}
	return e.count(ctx, len(planned.Units), report)
}

// plan is Run.plan without what needs a model or a store that is served.
func (e *estimating) plan(ctx context.Context) (plan.Result, error) {
	current, _, err := e.Index.Current(ctx)
	if err != nil {
		return plan.Result{}, err
	}
	if e.parent, err = e.Run.parent(ctx, current.Manifest); err != nil {
		return plan.Result{}, err
	}
	domains, reasons, err := e.trust(ctx, e.parent)
	if err != nil {
		return plan.Result{}, err
	}
	e.domains = &domains
	if e.models, err = e.Run.models(ctx); err != nil {
		return plan.Result{}, err
	}
	fixed := Plan{Parent: current.Manifest, Trust: &domains}
	if e.parent != nil {
		if fixed.Foreign, err = e.foreign(ctx, e.parent); err != nil {
			return plan.Result{}, err
		}
		frozen := Frozen{Class: e.parent.Class, Chunk: e.parent.Chunk} // of the models the configuration's reasons tell
		changes, err := e.reasons(ctx, e.parent, frozen)
		if err != nil {
			return plan.Result{}, err
		}
		reasons = append(reasons, changes...)
	}
	documents, err := documentsOf(ctx, e.Corpora, e.Settings)
	if err != nil {
		return plan.Result{}, err
	}
	dead, release, err := e.tombs(ctx, e.parent)
	defer release()
	if err != nil {
		return plan.Result{}, err
	}
	planned, err := plan.Run(ctx, plan.In{
		Spec: e.Settings, Corpus: documents, Artifacts: e.Index, Scratch: e.Scratch.Prefix,
		Limits: e.Limits, Parent: e.parent, Dead: dead,
		Foreign: fixed.Foreign, Reasons: reasons, OnProgress: e.Progress.Done, OnBytes: e.Progress.Touch,
	})
	if err != nil {
		return planned, err
	}
	fixed.Plan = planned
	return planned, planFile.Write(ctx, e.Scratch, fixed)
}

// count counts what would be paid for, task by task.
func (e *estimating) count(ctx context.Context, units int, report *corpus.Report) error {
	known, release, err := e.knownChunks(ctx)
	defer release()
	if err != nil {
		return err
	}
	if e.chunks, err = e.newChunkVectors(ctx); err != nil {
		return err
	}
	var extracting extract.Estimate
	for unit := range units {
		chunked, err := chunkFile(unit).Read(ctx, e.Scratch)
		if err != nil {
			return err
		}
		report.Chunks += chunked.Counts.Chunks
		found, err := extract.Count(ctx, extract.CountIn{
			Spec: e.Settings, Model: e.models.Chat.Info(), Ledger: e.Ledger,
			Chunks: extract.Texts(ctx, extract.In{
				Artifacts: e.Index, Scratch: e.Scratch.Prefix, Text: chunked.Text,
				Chunks: e.chunksKey(unit, chunked),
				Shard:  extract.Shard{Unit: unit, To: int(chunked.Counts.Chunks)}, To: int(chunked.Counts.Chunks),
			}),
		})
		if err != nil {
			return err
		}
		extracting = extracting.Plus(found)
		if err := e.compare(ctx, e.chunksKey(unit, chunked), int(chunked.Counts.Chunks), known); err != nil {
			return err
		}
		if err := e.chunks.add(ctx, e.Run, unit, chunked, known); err != nil {
			return err
		}
	}
	e.fresh.Unseen = min(extracting.Calls, e.fresh.Chunks)
	if e.parent != nil {
		e.fresh.Gone = max(0, e.parent.Counts.Chunks-(report.Chunks-e.fresh.Chunks))
	}
	report.LedgerHits.Extract = extracting.Hits
	return e.fill(ctx, report, extracting)
}

// knownChunks tells which chunks the parent has.
func (e *estimating) knownChunks(ctx context.Context) (known func(corpus.ID) bool, release func(), err error) {
	none := func(corpus.ID) bool { return false }
	if e.parent == nil || len(e.parent.Segments.Live)+len(e.parent.Segments.Splits) == 0 {
		return none, func() {}, nil
	}
	table, err := e.table(ctx, e.parent)
	if err != nil {
		return none, func() {}, err
	}
	return func(id corpus.ID) bool {
		_, counts := table.Chunk(id)
		return counts
	}, table.Release, nil
}

func (e *estimating) compare(ctx context.Context, key string, chunks int, known func(corpus.ID) bool) error {
	for ref, err := range items.Refs(ctx, e.Artifacts, key, 0, chunks) {
		if err != nil {
			return err
		}
		if !known(ref.ID) {
			e.fresh.Chunks++
			e.fresh.Tokens += int64(ref.Tokens)
		}
	}
	return nil
}

// fill turns what was counted into ranges of calls, tokens, money and time.
func (e *estimating) fill(ctx context.Context, report *corpus.Report, extracting extract.Estimate) error {
	var parent corpus.Counts
	shorten := estimate.ShortenIn{
		Paid: e.models.Chat.Info().Paid, Shortening: e.Settings.Shortening, Parity: e.Settings.Parity,
		New: e.fresh, Ledger: e.Ledger,
	}
	vectors := parent
	if e.parent != nil {
		parent = e.parent.Counts
		shorten.Parent, shorten.Classes = parent, estimate.Classes(ctx, e.Index, e.parent)
		old, err := e.Index.Spec(ctx, e.parent.Spec)
		if err != nil {
			return err
		}
		shorten.Again = old.Shortening != e.Settings.Shortening || old.Chat.Model != e.Settings.Chat.Model ||
			old.Chat.Provider != e.Settings.Chat.Provider || old.ExtractionShare() != e.Settings.ExtractionShare()
		if old.Embedding.Provider == e.Settings.Embedding.Provider && old.Embedding.Model == e.Settings.Embedding.Model {
			vectors = parent
		}
	}
	shortening, err := estimate.Shorten(ctx, shorten)
	if err != nil {
		return err
	}
	embedding := estimate.EmbedIn{
		Paid: e.models.Chunks.Info().Paid, Parent: vectors, New: e.fresh,
		MaxInputTokens: e.Settings.Embedding.MaxInputTokens, Parts: 1,
	}
	embedding.Missing = e.chunks.missing()
	chunks := estimate.EmbedChunks(embedding)
	embedding.Paid = e.models.Classes.Info().Paid
	classes := estimate.EmbedClasses(embedding)
	out := report.Estimate
	out.Extract = corpus.Range{Low: float64(extracting.Calls), High: float64(extracting.Calls)}
	out.Rules = extracting.Rules
	out.Shorten = widen(shortening.Calls)
	out.Embed = widen(estimate.Range{Low: chunks.Calls.Low + classes.Calls.Low, High: chunks.Calls.High +
		classes.Calls.High})
	prompt, completion := extracting.Charged(e.Settings.Chat.MaxTokens)
	extracted := estimate.Task{
		Prompt:     estimate.Range{Low: prompt[0], High: prompt[1]},
		Completion: estimate.Range{Low: completion[0], High: completion[1]},
	}
	for _, task := range []struct {
		estimate.Task
		price corpus.Price
	}{
		{extracted, e.Settings.Chat.Price},
		{shortening, e.Settings.Chat.Price},
		{chunks, e.Settings.Embedding.Price},
		{classes, e.Settings.Embedding.Price},
	} {
		out.Tokens.Low += float64(task.Prompt.Low + task.Completion.Low)
		out.Tokens.High += float64(task.Prompt.High + task.Completion.High)
		low, high := task.Cost(task.price)
		out.Cost.Low += low
		out.Cost.High += high
	}
	out.Seconds = e.duration(out)
	return nil
}

func widen(r estimate.Range) corpus.Range {
	return corpus.Range{Low: float64(r.Low), High: float64(r.High)}
}

// Usual seconds of one model call, from a fast hosted model to a slow one of one's own.
const (
	fastCall = 0.5
	slowCall = 10.0
)

// duration is how long the calls take at the configured limits.
func (e *estimating) duration(out *corpus.Estimate) corpus.Range {
	concurrency := float64(max(e.Settings.Limits.Concurrency, 1))
	low := (out.Extract.Low + out.Shorten.Low + out.Embed.Low) * fastCall / concurrency
	high := (out.Extract.High + out.Shorten.High + out.Embed.High) * slowCall / concurrency
	if perMinute := float64(e.Settings.Limits.RequestsPerMinute); perMinute > 0 {
		low = max(low, 60*(out.Extract.Low+out.Shorten.Low)/perMinute)
		high = max(high, 60*(out.Extract.High+out.Shorten.High)/perMinute)
	}
	return corpus.Range{Low: low, High: high}
}

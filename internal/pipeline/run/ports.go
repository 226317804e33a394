package run

import (
	"context"
	"log/slog"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/idf"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/blobcache"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Ports are what every run works with; the worker's main fills them. All of them are safe for concurrent use.
type Ports struct {
	Artifacts    blob.Store
	Corpora      func(ctx context.Context, uri string) (blob.Store, error)
	Records      records.Store
	Coordination coordination.Store
	Vectors      vectors.Store
	Staging      blob.Store // where the vector store imports from; nil: rows are upserted
	Models       func(spec core.Spec, meter model.Meter) (model.Set, error)
	Converter    func(spec core.Spec) (document.Converter, error) // of documents.parser
	Ledger       *ledger.Ledger
	StoreID      string
	Cache        *localfile.Cache
	CPU          chan struct{} // admits units that fill a core and much memory
	Log          *slog.Logger
	Checks       Checks // of the generation before
	Parser       document.Parser
	Limits       document.Limits // of what is read without the parser: rows, and what is packed
	Limited      Limited         // receives the limits that a run was given; nil: unused
	Paid         Paid            // receives every call that a run paid for; nil: unused

	// Quote returns the sentences of found passages that answer a question; empty: none is good enough.
	Quote func(ctx context.Context, view *retrieve.Generation, question string, found retrieve.Result) (string, error)
	// WatchTime is how long a night asks standing questions; zero: 15 minutes.
	WatchTime time.Duration

	books   books
	Unshown unshown
	Kept    keptFiles
	near    blobcache.Memory
}

// Paid receives a call that a run of an index paid for: once, when it was answered.
type Paid func(index, task string, usage model.Usage, cost float64)

// Limited receives the limits that a run of an index was given while it runs, nil for none, whenever its control
// record was looked at and before a call is admitted by that look. It must return at once.
type Limited func(index string, limits *core.LiveLimits)

// Job names a build. It holds references and choices, never text.
type Job struct {
	Index         string
	Generation    string
	Spec          string // digest of the stored configuration
	Fence         int64
	Attempt       int    // round of retry-failed
	Backfill      string // name of the backfill that it is for: what that chose is built, all else stays; empty: none
	Tries         int    // of this unit of work, this one included; 0: not known
	ReplaceCorpus bool
	Estimates     bool   // it is no build: nothing is asked
	Rebuild       bool   // what earlier builds wrote is not trusted: asked for, or found by plan
	Anew          string // where the error lies that had the run begin again from plan; empty: it did not
	Shard         int    // chunks a shard holds at most
	Batch         int    // chunks an extraction unit works on
	Holder        Holder // of the lease, as far as it is known
}

// Name returns how people name a build: index/generation.
func (j Job) Name() string { return j.Index + "/" + j.Generation }

// Run is a build as one unit of work sees it. Close it.
type Run struct {
	*Ports
	Job
	Settings core.Spec
	Index    artifact.Index
	Scratch  Scratch
	Stage    string
	Progress *Progress
	Book     *Book
}

// Configure reads the configuration of the job, for a run that was begun without.
func (r *Run) Configure(ctx context.Context) (err error) {
	if r.Settings, err = r.readSpec(ctx); err == nil {
		r.Book.setPrices(r.Settings) // never by settings that were not read: no budget would be no bound
	}
	return err
}

// Grant gives the run another budget than the configured one.
func (r *Run) Grant(budget core.Budget) {
	r.Settings.Budget = budget
	r.Book.setPrices(r.Settings)
}

// anewFolder is where a run works that began again from plan, below its folder.
const anewFolder = "/anew"

// OpenBare begins a unit of work that needs no configuration, such as a restore. scratch names its folder; empty: the
// fence.
func (p *Ports) OpenBare(job Job, stage, scratch string) *Run {
	store := p.Artifacts
	if scratch == "" {
		scratch = fenceName(job.Fence)
		if job.Rebuild || stage == core.StagePlan || stage == core.StageAudit {
			store = blobcache.WithWriteMemory(store, &p.near)
		} else {
			store = blobcache.WithMemory(store, &p.near)
		}
	}
	index := artifact.Index{Store: store, Name: job.Index, Doubt: job.Rebuild}
	if job.Anew != "" {
		scratch += anewFolder // below the fence's folder, so that it is collected with it
	}
	run := &Run{
		Ports: p, Job: job, Index: index, Stage: stage,
		Scratch: Scratch{Store: store, Prefix: index.RunKey(job.Generation, scratch)},
		Book:    p.books.openBook(p, job.Name(), job.Fence),
	}
	run.Progress = &Progress{Stage: stage, Book: run.Book}
	run.Progress.Touch()
	return run
}

// Close ends the unit of work: what it had begun and not finished no longer counts as done.
func (r *Run) Close() {
	r.Progress.Drop()
	r.Book.closeBook()
}

// TakePlace waits for a place among the units that fill a core; the caller gives it back.
func (r *Run) TakePlace(ctx context.Context) (release func(), err error) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case r.CPU <- struct{}{}:
			return func() { <-r.CPU }, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-ticker.C:
			r.Progress.Touch() // it waits its turn: that is no hang
		}
	}
}

// ReadParent reads a manifest by its digest; an empty digest is no parent.
func (r *Run) ReadParent(ctx context.Context, sha string) (*core.Manifest, error) {
	if sha == "" {
		return nil, nil
	}
	return r.Index.Manifest(ctx, sha)
}

// Watch cancels the context that it gives when the run is stopped, and counts objects of the ledger that the unit finds
// damaged. Call end when the unit is over.
func (r *Run) Watch(ctx context.Context) (watched context.Context, end func()) {
	damaged := func(string, error) { r.Book.Change(func(account *Account) { account.Damaged++ }) }
	return r.Book.Watch(ledger.WatchDamage(ctx, damaged), r.Progress.Stage)
}

// CheckControl says why the run must not go on, by a control record read after Look was called.
func (r *Run) CheckControl(ctx context.Context) error { return r.Book.CheckControl(ctx) }

// Flush writes what this process did for the run.
func (r *Run) Flush(ctx context.Context) error { return r.Book.Flush(ctx) }

// LastSign returns when this unit last showed that it gets on, by a clock that does not jump.
func (r *Run) LastSign() time.Time { return epoch.Add(time.Duration(r.Progress.last.Load())) }

// Steer steers the run. A resume is refused where the budget that would count is spent already.
func (r *Run) Steer(ctx context.Context, command string, budget *core.Budget) (inFlight int64, err error) {
	if command == CommandResume {
		if err := r.checkBudget(ctx, budget); err != nil {
			return 0, err
		}
	}
	inFlight, err = Steer(ctx, r.Coordination, r.Name(), command, budget)
	if err != nil || command != CommandResume {
		return inFlight, err
	}
	return 0, r.ClearPause(ctx)
}

// LimitRun gives the run another budget and other limits than those that count now. What is nil stays as it was. A
// budget that is spent already is refused.
func (r *Run) LimitRun(ctx context.Context, budget *core.Budget, limits *core.LiveLimits) error {
	if budget != nil {
		if err := r.checkBudget(ctx, budget); err != nil {
			return err
		}
	}
	return WriteLimits(ctx, r.Coordination, r.Name(), budget, limits)
}

// checkBudget refuses a resume that would pause again at once.
func (r *Run) checkBudget(ctx context.Context, budget *core.Budget) error {
	control, err := ReadControl(ctx, r.Coordination, r.Name())
	if err != nil && !fault.Is(err, fault.ControlUnreadable) {
		return err
	}
	if budget == nil {
		limit := control.LimitBudget(r.Settings.Budget)
		budget = &limit
	}
	total, err := ReadTotals(ctx, r.Coordination, r.Name())
	if err != nil {
		return err
	}
	return CheckBudget(*budget, total, r.Name())
}

// BaseRun returns the run itself, for rooms above that have it inside a run of their own.
func (r *Run) BaseRun() *Run { return r }

// Forget drops what this process remembers of the artifact store, as a process that begins has nothing to remember.
func (p *Ports) Forget() { p.near.Forget() }

// OpenIdf maps a table of word weights into memory. All units of the process share it; release it in every ending.
func (r *Run) OpenIdf(ctx context.Context, sha string) (table *idf.Table, release func(), err error) {
	table, release, err = localfile.Acquire(ctx, r.Cache, r.Artifacts, r.Index.SegmentKey(sha), sha, idf.Open)
	if release == nil {
		release = func() {}
	}
	return table, release, err
}

// readSpec reads the configuration of the job; each process reads one once.
func (r *Run) readSpec(ctx context.Context) (spec core.Spec, err error) {
	var digest core.Digest
	if err := digest.UnmarshalText([]byte(r.Spec)); err != nil {
		return spec, fault.BadConfig.At("read configuration", r.Spec).Because(err).Advise("start the run again")
	}
	key := r.Index.SpecKey(digest)
	if known, ok := r.Kept.Get(key); ok {
		return known.(core.Spec), nil //nolint:forcetypeassert // the name of a file says of what type it is
	}
	if spec, err = r.Index.Spec(ctx, digest); err == nil {
		r.Kept.Put(key, spec)
	}
	return spec, err
}

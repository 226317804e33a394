// Package activities gives Temporal the stages: thin methods on one struct, one file a stage, each a heartbeat, one
// stage call and the mapping of errors. Names are verb and object, unique in the module, equal to the constants of
// workflows.
package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/build/items"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/idf"
	"github.com/unweaver/unweaver/internal/format/live"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/classes"
	"github.com/unweaver/unweaver/internal/store/localfile"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/workflows"
)

// Engine tells about workflow runs; the lease of a build depends on it.
type Engine interface {
	// Closed tells whether a run has ended; an unknown run has.
	Closed(ctx context.Context, workflow, run string) (bool, error)
}

// Activities holds what the stages work with; the worker's main fills it.
type Activities struct {
	Artifacts blob.Store
	Corpora   func(ctx context.Context, uri string) (blob.Store, error)
	Classes   classes.Store
	Vectors   vectors.Store
	Staging   blob.Store // where the vector store imports from; nil: rows are upserted
	Models    func(spec corpus.Spec) (model.Set, error)
	Ledger    *ledger.Ledger
	Engine    Engine
	StoreID   string
	Cache     *localfile.Cache
	CPU       chan struct{} // admits stages that fill a core and much memory
	Log       *slog.Logger

	mu    sync.Mutex
	specs map[string]corpus.Spec
	lives map[string]*live.File
	idfs  map[string]*idf.Table
}

// sealed is build.json: what plan fixed for the rest of the run.
type sealed struct {
	Parent     string      `json:"parent"` // sha256 of the manifest; empty: none
	ParentDocs int64       `json:"parent_documents"`
	Epoch      int64       `json:"epoch"`
	Plan       plan.Result `json:"plan"`
	Started    time.Time   `json:"started"`
	modelled               // fingerprints here, the rest once the chunks are there: models.json
}

// run is one activity call: its build, and where things lie.
type run struct {
	*Activities
	b       workflows.Build
	spec    corpus.Spec
	art     artifact.Index
	scratch string
	id      string // of the run in the class store
	stage   string
	field   string // of this attempt's progress
	records bool   // it records how the run stands: worth retrying while a disk is full or a store is down
	mu      sync.Mutex
	last    corpus.Progress
	dirty   bool
}

// RunName is how people name a build.
func RunName(b workflows.Build) string { return b.Index + "/" + b.Generation }

// open starts an activity call.
func (a *Activities) open(ctx context.Context, build workflows.Build, stage string, n, batch int) (*run, error) {
	art := artifact.Index{Store: a.Artifacts, Name: build.Index}
	r := &run{Activities: a, b: build, art: art, stage: stage, id: RunName(build)}
	r.scratch = art.RunKey(build.Generation, fmt.Sprint(build.Fence))
	r.field = fmt.Sprintf("%s/%05d/%05d/%d", stage, n, batch, activity.GetInfo(ctx).Attempt)
	var err error
	r.spec, err = a.spec(ctx, art, build.Spec)
	return r, err
}

// spec reads a stored configuration once.
func (a *Activities) spec(ctx context.Context, art artifact.Index, digest string) (corpus.Spec, error) {
	a.mu.Lock()
	spec, ok := a.specs[digest]
	a.mu.Unlock()
	if ok {
		return spec, nil
	}
	var d corpus.Digest
	if err := d.UnmarshalText([]byte(digest)); err != nil {
		return spec, fault.BadConfig.At("read spec", digest).Because(err)
	}
	spec, err := art.Spec(ctx, d)
	if err != nil {
		return spec, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.specs == nil {
		a.specs = map[string]corpus.Spec{}
	}
	a.specs[digest] = spec
	return spec, nil
}

func (r *run) key(name string) string { return r.scratch + "/" + name }

func (r *run) readJSON(ctx context.Context, name string, v any) error {
	_, err := blob.ReadJSON(ctx, r.Artifacts, r.key(name), v)
	return err
}

func (r *run) writeJSON(ctx context.Context, name string, v any) error {
	_, err := blob.WriteJSON(ctx, r.Artifacts, r.key(name), v, blob.Cond{})
	return err
}

// done reads the result of a unit that an earlier attempt finished: a unit with a result is never done again.
func (r *run) done(ctx context.Context, name string, v any) (bool, error) {
	err := r.readJSON(ctx, name, v)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// sealed reads what plan fixed, with what was known only once the chunks were there.
func (r *run) sealed(ctx context.Context) (sealed, error) {
	var s sealed
	if err := r.readJSON(ctx, "build.json", &s); err != nil {
		return s, err
	}
	_, err := r.done(ctx, "models.json", &s.modelled)
	return s, err
}

// env gives the joins of items what plan fixed.
func (r *run) env(ctx context.Context) (items.Env, sealed, error) {
	s, err := r.sealed(ctx)
	if err != nil {
		return items.Env{}, s, err
	}
	env := items.Env{
		Spec:        r.spec,
		Artifacts:   r.art,
		Store:       r.StoreID,
		Class:       s.Class,
		Chunk:       s.Chunk,
		Collections: s.Collections,
	}
	if s.Parent == "" {
		return env, s, nil
	}
	manifest, err := r.art.Manifest(ctx, s.Parent)
	if err != nil {
		return env, s, err
	}
	env.Parent = manifest
	if len(manifest.Segments.Live) > 0 {
		env.ParentLive, err = r.liveFile(ctx, r.art, manifest.Segments.Live[0].SHA256)
	}
	return env, s, err
}

// liveFile maps a live segment once per process.
func (a *Activities) liveFile(ctx context.Context, art artifact.Index, sha string) (*live.File, error) {
	return mapOnce(ctx, a, art, &a.lives, sha, live.Open)
}

// mapOnce maps a segment into known, where it stays for the life of the process.
func mapOnce[T any](
	ctx context.Context,
	activities *Activities,
	art artifact.Index,
	known *map[string]T,
	sha string,
	open func(string) (T, error),
) (T, error) {
	activities.mu.Lock()
	defer activities.mu.Unlock()
	if f, ok := (*known)[sha]; ok {
		return f, nil
	}
	f, err := localfile.Open(ctx, activities.Cache, activities.Artifacts, art.SegmentKey(sha), sha, open)
	if err != nil {
		return f, err
	}
	if *known == nil {
		*known = map[string]T{}
	}
	(*known)[sha] = f
	return f, nil
}

// cpu waits for a place among the stages that fill a core.
func (r *run) cpu(ctx context.Context) (func(), error) {
	select {
	case r.CPU <- struct{}{}:
		return func() { <-r.CPU }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// control is what activities of a run poll.
type control struct {
	Pause bool `json:"pause"`
	Over  bool `json:"over"` // a person resumed a run that had spent its budget
}

// poll is how often an activity looks at its control record and writes its progress.
const poll = time.Second

// work runs f with heartbeats, progress and control. The context that f gets is cancelled when the run is paused.
func (r *run) work(ctx context.Context, f func(context.Context) error) error {
	wctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		beat := time.NewTicker(max(r.b.Heartbeat/4, 200*time.Millisecond))
		tick := time.NewTicker(poll)
		defer beat.Stop()
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-beat.C:
				activity.RecordHeartbeat(ctx)
			case <-tick.C:
				r.publishProgress(ctx)
				if err := r.stopped(ctx); err != nil {
					cancel(err)
				}
			}
		}
	})
	err := f(wctx)
	if cause := context.Cause(wctx); err != nil && cause != nil && ctx.Err() == nil {
		err = cause
	}
	close(stop)
	wg.Wait()
	cancel(nil)
	r.publishProgress(context.WithoutCancel(ctx))
	return r.outcome(ctx, err)
}

// control reads the run's control record; an unreadable one asks for nothing.
func (r *run) control(ctx context.Context) control {
	var c control
	if b, err := r.Classes.Control(ctx, r.id); err == nil && b != nil {
		_ = json.Unmarshal(b, &c) // see above
	}
	return c
}

// stopped says why the run must not go on: a person paused it, or its budget is spent.
func (r *run) stopped(ctx context.Context) error {
	c := r.control(ctx)
	if c.Pause {
		return fault.Paused.At("work on", r.id).
			Because("the run is paused").
			Advise("resume it with: unweaver resume " + r.id)
	}
	budget := r.spec.Budget
	if c.Over || budget == (corpus.Budget{}) {
		return nil
	}
	progress, err := r.total(ctx)
	if err != nil {
		return nil // the next look will tell
	}
	calls, tokens := progress.Calls.Extract+progress.Calls.Shorten+progress.Calls.Embed, progress.Tokens.Prompt+progress.Tokens.Completion+progress.Tokens.Embedding
	if (budget.Calls > 0 && calls >= budget.Calls) || (budget.Tokens > 0 && tokens >= budget.Tokens) ||
		(budget.Money > 0 && progress.Cost >= budget.Money) {
		return fault.BudgetSpent.At("work on", r.id).
			Because(fmt.Sprintf("%d calls, %d tokens, cost %.4f are spent", calls, tokens, progress.Cost)).
			Advise(
				"go on beyond the budget with: unweaver resume " + r.id + ", or raise indexes." + r.b.Index + ".budget")
	}
	return nil
}

// beat takes absolute progress of this attempt; it is written by the poll, not by every item.
func (r *run) beat(progress corpus.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	progress.Stage = r.stage
	r.last, r.dirty = progress, true
}

// count is beat for stages that only count.
func (r *run) count(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.Stage, r.last.Done, r.dirty = r.stage, n, true
}

func (r *run) publishProgress(ctx context.Context) {
	r.mu.Lock()
	progress, dirty := r.last, r.dirty
	r.dirty = false
	r.mu.Unlock()
	if !dirty {
		return
	}
	b, err := json.Marshal(progress)
	if err == nil {
		err = r.Classes.SetProgress(ctx, r.id, r.field, b)
	}
	if err != nil {
		r.Log.Warn("progress not written", "run_id", r.id, "stage", r.stage, "code", string(fault.CodeOf(err)))
	}
}

// failure is stored beside the run, so that history holds only its name.
type failure struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// attempts after which a transient failure becomes a pause: some four minutes of trying.
const attempts = 10

// outcome maps an error for Temporal: a code as type, a reference to the text as detail (DESIGN §11.10).
func (r *run) outcome(ctx context.Context, err error) error {
	problem := "problem/" + r.stage + "/" + activity.GetInfo(ctx).ActivityID
	if err == nil {
		if activity.GetInfo(ctx).Attempt > 1 {
			_ = r.Classes.SetProgress(ctx, r.id, problem, nil) // what it tells is over
		}
		return nil
	}
	if ctx.Err() != nil { // cancelled by Temporal or at the worker's shutdown
		return ctx.Err()
	}
	code, kind := fault.CodeOf(err), fault.KindOf(err)
	ref := fmt.Sprintf("%s/errors/%s-%s.json", r.scratch, r.stage, activity.GetInfo(ctx).ActivityID)
	f := failure{string(code), err.Error()}
	if _, werr := blob.WriteJSON(ctx, r.Artifacts, ref, f, blob.Cond{}); werr != nil {
		r.Log.Error("error text not stored", "run_id", r.id, "stage", r.stage, "code", string(code))
		ref = ""
	}
	if b, jerr := json.Marshal(corpus.Problem{Code: f.Code, Object: r.stage, Detail: f.Text}); jerr == nil &&
		code != fault.Paused {
		_ = r.Classes.SetProgress(ctx, r.id, problem, b) // shown by status while it lasts
	}
	final := kind != fault.Transient || activity.GetInfo(ctx).Attempt >= attempts
	if r.records && (code == fault.StoreFull || code == fault.StoreDown || code == fault.StoreDenied) {
		final = false
	}
	return temporal.NewApplicationErrorWithOptions(string(code), string(code), temporal.ApplicationErrorOptions{
		NonRetryable: final, NextRetryDelay: fault.RetryAfter(err), Details: []any{ref},
	})
}

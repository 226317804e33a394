package upkeep

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// A backfill pays first, without the lease and beside nights, and lets them go first: what it chose is chunked,
// extracted and embedded into the ledger. Then a build, which takes the lease as any other does, adds what it chose to
// what is served by then, and finds all of that paid for.
//
// Files of a backfill in <index>/backfills/<name>/: begun.json is what it is for, state.json how it stands, paid.json
// how far its payments are. Each has one writer at a time: who begins it, its workflow, the unit that pays.

// BackfillFolder is the scratch folder of a backfill's payments, which have no fence.
const BackfillFolder = "backfill"

// KeepBackfill keeps what a backfill is for, before it begins.
func KeepBackfill(ctx context.Context, index artifact.Index, b core.Backfill) error {
	state := core.BackfillState{Status: core.StatusRunning, Since: b.Started}
	// Nights leave to it what it chose as soon as begun.json says so.
	for _, file := range []struct {
		name string
		what any
	}{{run.BackfillPaid, core.BackfillProgress{}}, {run.BackfillState, state}, {run.BackfillBegun, b}} {
		key := index.BackfillKey(b.Name, file.name)
		if _, err := blob.WriteJSON(ctx, index.Store, key, file.what, blob.Cond{}); err != nil {
			return err
		}
	}
	return nil
}

// EndAbsentBackfill writes down that a backfill ended which the engine does not run: until then nights leave to it what
// it chose.
func EndAbsentBackfill(ctx context.Context, index artifact.Index, name, status, detail string) error {
	return changeBackfill(ctx, index, name, run.BackfillState, func(state *core.BackfillState) {
		if !core.IsTerminal(state.Status) {
			state.Status, state.Since, state.Code, state.Detail = status, time.Now().UTC(), "gone", detail
		}
	})
}

// changeBackfill rewrites a file of a backfill.
func changeBackfill[T any](ctx context.Context, index artifact.Index, name, file string, change func(*T)) error {
	var now T
	key := index.BackfillKey(name, file)
	if _, err := blob.ReadJSON(ctx, index.Store, key, &now); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	change(&now)
	_, err := blob.WriteJSON(ctx, index.Store, key, now, blob.Cond{})
	return err
}

// OpenedBackfill is what a backfill has to pay for.
type OpenedBackfill struct {
	Units     int
	Documents int64
}

// OpenBackfill lists the corpus and finds what of it the backfill chose and the served generation does not have as it
// is. It takes no lease and writes nothing but scratch.
func (r *Run) OpenBackfill(ctx context.Context) (OpenedBackfill, error) {
	var base string
	fixed, err := run.MakeOnce(ctx, r.BaseRun(), run.PlanFile, r.planBackfill)
	if err != nil {
		return OpenedBackfill{}, err
	}
	if parent, err := r.ReadParent(ctx, fixed.Parent); err == nil && parent != nil {
		base = parent.Generation
	}
	progress := core.BackfillProgress{Documents: fixed.Plan.Made, Units: len(fixed.Plan.Units)}
	for _, unit := range fixed.Plan.Units {
		progress.Bytes += unit.Bytes
	}
	key := r.Index.BackfillKey(r.Backfill, run.BackfillPaid)
	if _, err := blob.WriteJSON(ctx, r.Artifacts, key, progress, blob.Cond{}); err != nil { // a damaged one is replaced
		return OpenedBackfill{}, err
	}
	return OpenedBackfill{Units: len(fixed.Plan.Units), Documents: fixed.Plan.Made},
		r.NoteBackfill(ctx, func(state *core.BackfillState) { state.Base = base })
}

// planBackfill plans as the build that publishes the backfill will, for payments alone.
func (r *Run) planBackfill(ctx context.Context) (run.Plan, error) {
	fixed := run.Plan{Started: time.Now().UTC()}
	current, parent, err := r.Index.ReadServed(ctx)
	if err == nil && parent == nil {
		err = fault.UnknownIndex.At("backfill", r.Job.Index).
			Because("the index has no published generation").
			Advise("first build it: unweaver index CORPUS --index " + r.Job.Index)
	}
	if err != nil {
		return fixed, err
	}
	fixed.Parent, fixed.Epoch = current.Manifest, current.Epoch
	_, reasons, err := r.planModels(ctx, &fixed, parent, true)
	if err != nil {
		return fixed, err
	}
	if fixed.Excluded, err = r.listPurged(ctx); err != nil {
		return fixed, err
	}
	return fixed, r.CompareCorpus(ctx, &fixed, parent, reasons, nil)
}

// planModels fixes whose answers a plan trusts, and the fingerprints of the embedders. It returns the models, and why
// everything is made again as far as that is known by then.
func (r *Run) planModels(
	ctx context.Context, fixed *run.Plan, parent *core.Manifest, ask bool,
) (models model.Set, reasons []string, err error) {
	fixed.Trust, reasons = r.CompareTrust(parent)
	fixed.Rebuild = fixed.Rebuild || fixed.Trust.Moved
	if models, err = r.ModelSet(); err != nil {
		return models, nil, err
	}
	fixed.Class, fixed.Chunk, err = r.FindFingerprints(ctx, models, parent, ask)
	if err != nil || parent == nil {
		return models, reasons, err
	}
	changes, err := r.ListReasons(ctx, parent, fixed.Frozen)
	return models, append(reasons, changes...), err
}

// Aim is what a build that publishes a backfill is made with.
type Aim struct {
	Spec   core.Digest
	Parent string // generation that is served
}

// AimBackfill waits until no run builds the index, and says what is served then: the configuration of that is the
// build's, so that nothing but what the backfill chose is made.
func (r *Run) AimBackfill(ctx context.Context, going Going) (Aim, error) {
	asked, err := run.ReadBackfill(ctx, r.Index, r.Backfill)
	if err != nil {
		return Aim{}, err
	}
	p := &backfillPayer{Run: r, asked: asked, going: going}
	if err := p.waitTurn(ctx); err != nil {
		return Aim{}, err
	}
	_, manifest, err := r.Index.ReadServed(ctx)
	if err == nil && manifest == nil {
		err = fault.UnknownIndex.At("publish backfill", r.Backfill).Because("the index no longer has a published generation")
	}
	if err != nil {
		return Aim{}, err
	}
	return Aim{Spec: manifest.Spec, Parent: manifest.Generation}, nil
}

// NoteBackfill writes down how a backfill stands.
func (r *Run) NoteBackfill(ctx context.Context, change func(*core.BackfillState)) error {
	return changeBackfill(ctx, r.Index, r.Backfill, run.BackfillState, func(now *core.BackfillState) {
		before := now.Status
		change(now)
		if now.Status != before {
			now.Since = time.Now().UTC()
		}
	})
}

// EndBackfill writes down how a backfill ended, or that it pauses, and what it was published on. One that ended removes
// the scratch of its payments. It may be repeated.
func (r *Run) EndBackfill(ctx context.Context, ending run.Ending) error {
	detail := r.ResolveDetail(ctx, ending)
	state, err := run.ReadBackfill(ctx, r.Index, r.Backfill)
	if err != nil {
		return err
	}
	last, parent := "", ""
	published := ending.Status == core.StatusCompleted || ending.Status == core.StatusErrors
	if n := len(state.Builds); n > 0 && published {
		name := path.Base(state.Builds[n-1].Run)
		served, err := r.Index.GenerationRef(ctx, name)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err == nil { // else it came to what was served already
			if parent, err = r.parentOf(ctx, served.Manifest); err != nil {
				return err
			}
			last = name
		}
	}
	err = r.NoteBackfill(ctx, func(now *core.BackfillState) {
		if detail == "" && now.Status == ending.Status { // a repeated attempt: the scratch with its text is gone
			detail = now.Detail
		}
		now.Status, now.Code, now.Detail = ending.Status, ending.Reason, detail
		if last != "" {
			now.Generation, now.Parent, now.Rebased = last, parent, parent != now.Base
		}
	})
	if err != nil || !core.IsTerminal(ending.Status) {
		return err
	}
	if err := r.Coordination.ForgetRun(ctx, r.Name()); err != nil {
		return err
	}
	if err := r.CloseReport(ctx); err != nil {
		return err
	}
	return r.Scratch.Remove(ctx) // names of documents are in it
}

// parentOf returns the generation that one was made from.
func (r *Run) parentOf(ctx context.Context, manifest string) (string, error) {
	made, err := r.ReadParent(ctx, manifest)
	if err != nil || made == nil {
		return "", err
	}
	if made.Parent == "" {
		return "", nil
	}
	before, err := r.ReadParent(ctx, made.Parent)
	if artifact.IsDamage(err) || err != nil && fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("parent of %s: %w", made.Generation, err)
	}
	return before.Generation, nil
}

package upkeep

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/plan"
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
	var state core.BackfillState
	key := index.BackfillKey(name, run.BackfillState)
	_, err := blob.ReadJSON(ctx, index.Store, key, &state)
	if err != nil && !fault.Is(err, fault.NotFound) || core.IsTerminal(state.Status) {
		return err
	}
	state.Status, state.Since, state.Code, state.Detail = status, time.Now().UTC(), "gone", detail
	_, err = blob.WriteJSON(ctx, index.Store, key, state, blob.Cond{})
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
	asked, err := run.ReadBackfill(ctx, r.Index, r.Backfill)
	if err != nil {
		return OpenedBackfill{}, err
	}
	var base string
	fixed, err := run.MakeOnce(ctx, r.BaseRun(), run.PlanFile, func(ctx context.Context) (run.Plan, error) {
		return r.planBackfill(ctx, asked)
	})
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
	if err := r.writeBackfill(ctx, run.BackfillPaid, progress); err != nil {
		return OpenedBackfill{}, err
	}
	return OpenedBackfill{Units: len(fixed.Plan.Units), Documents: fixed.Plan.Made},
		r.NoteBackfill(ctx, func(state *core.BackfillState) { state.Base = base })
}

func (r *Run) writeBackfill(ctx context.Context, file string, what any) error {
	_, err := blob.WriteJSON(ctx, r.Artifacts, r.Index.BackfillKey(r.Backfill, file), what, blob.Cond{})
	return err
}

// planBackfill plans for payments alone.
func (r *Run) planBackfill(ctx context.Context, asked core.Backfill) (run.Plan, error) {
	fixed := run.Plan{Started: time.Now().UTC()}
	current, _, err := r.Index.ReadPointer(ctx)
	if err != nil {
		return fixed, err
	}
	parent, err := r.ReadParent(ctx, current.Manifest)
	if err == nil && parent == nil {
		err = fault.UnknownIndex.At("backfill", r.Job.Index).
			Because("the index has no published generation").
			Advise("first build it: unweaver index CORPUS --index " + r.Job.Index)
	}
	if err != nil {
		return fixed, err
	}
	fixed.Parent, fixed.Epoch = current.Manifest, current.Epoch
	domains, reasons := r.CompareTrust(parent)
	fixed.Trust, fixed.Rebuild = domains, domains.Moved
	models, err := r.ModelSet()
	if err != nil {
		return fixed, err
	}
	if fixed.Class, fixed.Chunk, err = r.FindFingerprints(ctx, models, parent, true); err != nil {
		return fixed, err
	}
	changes, err := r.ListReasons(ctx, parent, fixed.Frozen)
	if err != nil {
		return fixed, err
	}
	reasons = append(reasons, changes...)
	fixed.Part = r.IsPartial(fixed, parent, reasons)
	if _, _, err := r.ChooseBackfills(ctx, fixed, reasons); err != nil { // it could not be published
		return fixed, err
	}
	documents, err := r.OpenDocuments(ctx)
	if err != nil {
		return fixed, err
	}
	if fixed.Excluded, err = r.listPurged(ctx); err != nil {
		return fixed, err
	}
	dead, release, err := r.OpenTombs(ctx, parent)
	defer release()
	if err != nil {
		return fixed, err
	}
	fixed.Plan, err = plan.Run(ctx, plan.In{
		Spec: r.Settings, Corpus: documents, Artifacts: r.Index, Scratch: r.Scratch.Prefix, Limits: r.Limits,
		Parser: r.Parser,
		Parent: parent, Dead: dead, Part: fixed.Part, Chosen: asked.Choice.NewChooser(),
		Purged:     unit.PurgedOf(fixed.Excluded),
		OnProgress: r.Progress.SetDone, OnBytes: r.Progress.Touch,
	})
	return fixed, err
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
	current, _, err := r.Index.ReadPointer(ctx)
	if err != nil {
		return Aim{}, err
	}
	manifest, err := r.ReadParent(ctx, current.Manifest)
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
	var now core.BackfillState
	_, err := blob.ReadJSON(ctx, r.Artifacts, r.Index.BackfillKey(r.Backfill, run.BackfillState), &now)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	before := now.Status
	change(&now)
	if now.Status != before {
		now.Since = time.Now().UTC()
	}
	return r.writeBackfill(ctx, run.BackfillState, now)
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

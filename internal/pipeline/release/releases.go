// Package release changes which generation is served. A build publishes through it. Without a build it goes back to an
// earlier generation, publishes or discards one that a gate held, tags generations, and manages branches. Every act of
// an operator is written to the audit trail before it takes effect. Operators take no lease and call no model: the
// pointer moves by a conditional write, and a build that finds it moved is held.
package release

import (
	"cmp"
	"context"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/hints"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Desk is where operators ask for it.
type Desk struct {
	Artifacts blob.Store
	Mirror    coordination.Readers
	Records   records.Store
	Vectors   vectors.Store
	Now       func() time.Time // nil: time.Now
}

// Request is what an operator asks for.
type Request struct {
	Action     string // core.ActionRollback and so on
	Index      string
	Generation string // of a rollback it may be empty
	Name       string // of a tag
	Base       string // of a promotion: the base that is expected; empty: any
	Force      bool   // publish though what it was made from is not served any more
	KeepLabels bool   // serve no generation without labels in place of one with labels
	Operator   core.Operator
}

func (d *Desk) getNow() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now()
}

// Do does what is asked for. What is refused by a check leaves no record; whatever could have taken effect does.
func (d *Desk) Do(ctx context.Context, request Request) (core.Move, error) {
	index := artifact.Index{Store: d.Artifacts, Name: request.Index}
	if err := index.Check(); err != nil {
		return core.Move{}, err
	}
	a := act{Desk: d, Request: request, index: index}
	var err error
	if a.current, _, err = index.ReadPointer(ctx); err != nil {
		return core.Move{}, err
	}
	if request.Generation != "" && !core.ValidSlug(request.Generation) {
		return core.Move{}, a.newUnknownError(fault.QuoteName(request.Generation))
	}
	switch {
	case request.Action == core.ActionRollback:
		return a.rollBackIndex(ctx)
	case request.Action == core.ActionPromote:
		return a.promoteBranch(ctx)
	case request.Generation == "":
		return core.Move{}, fault.Usage.At(request.Action, request.Index).
			Because("no generation is named").
			Advise("list them with: unweaver generations " + request.Index)
	case request.Action == core.ActionPublish:
		return a.publishHeld(ctx)
	case request.Action == core.ActionDiscard:
		return a.discardHeld(ctx)
	case request.Action == core.ActionTag:
		return a.addTag(ctx)
	case request.Action == core.ActionUntag:
		return a.removeTag(ctx)
	}
	return core.Move{}, fault.Usage.At(
		"change", request.Index,
	).Because(
		"unknown action " + fault.QuoteName(request.Action),
	)
}

// act is one request on its way.
type act struct {
	*Desk
	Request
	index   artifact.Index
	current core.Pointer
}

func (a *act) newMove(to string) core.Move {
	return core.Move{
		Index: a.Index, Action: a.Action, From: a.current.Generation, To: to, Name: a.Name, Release: a.current.Epoch,
	}
}

// recordMove does something between its two records. The second has the epoch that was written, if any.
func (a *act) recordMove(ctx context.Context, move *core.Move, do func() error) error {
	op, err := Begin(ctx, a.index, a.getNow(), core.Operation{
		Action: a.Action, Operator: a.Operator, From: move.From, To: move.To, Name: a.Name, Forced: a.Force,
	})
	if err != nil {
		return err
	}
	move.Operation = op.ID
	err = do()
	outcome := OutcomeOf(a.getNow(), err)
	if err == nil && a.movesPointer() {
		outcome.Release = move.Release
	}
	// The caller may have gone, and it is recorded all the same.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	if unwritten := End(bounded, a.index, op, outcome); unwritten != nil && err == nil {
		return fault.CodeOf(unwritten).At("record the outcome of operation", op.ID).
			Because(unwritten).
			Advise("the operation took effect; to check: unweaver generations " + a.Index)
	}
	return err
}

// endPatience is how long an outcome may take to be recorded once its operation is over.
const endPatience = 10 * time.Second

func (a *act) movesPointer() bool {
	return a.Action == core.ActionRollback || a.Action == core.ActionPublish || a.Action == core.ActionPromote
}

// flipPointer points the index to a generation, where the pointer still is what this act was decided by. A mirror that
// does not answer is no failure: it is a hint.
func (a *act) flipPointer(ctx context.Context, move *core.Move, manifest *core.Manifest, sha string) error {
	if a.Action == core.ActionRollback {
		if err := hints.Hold(ctx, a.index, a.Action, a.getNow()); err != nil {
			return err
		}
	}
	pointer, err := Flip(ctx, FlipIn{
		Artifacts: a.index, Mirror: a.Mirror, Generation: manifest.Generation, Manifest: sha, Seq: manifest.Seq,
		Expected: a.current.Epoch,
	})
	if served := pointer.Manifest == sha && pointer.Epoch == a.current.Epoch+1; !served {
		if fault.Is(err, fault.PointerMoved) {
			return fault.PointerMoved.At(a.Action, a.Index).
				Because("generation " + pointer.Generation + " was published meanwhile").
				Advise("to see the current state: unweaver generations " + a.Index)
		}
		return err
	}
	move.Release = pointer.Epoch
	_ = publish.Alias(ctx, a.Vectors, manifest.Collections) // for other programs alone
	return nil
}

// newUnknownError returns the fault of a generation that there is not.
func (a *act) newUnknownError(name string) error {
	return fault.UnknownGen.At("find generation", name).
		Because("index " + a.Index + " has no generation of that name").
		Advise("list them with: unweaver generations " + a.Index)
}

// readReference reads that of a generation; the pointer knows the current one, whatever became of its reference.
func (a *act) readReference(ctx context.Context, name string) (core.GenerationRef, string, error) {
	var ref core.GenerationRef
	info, err := blob.ReadJSON(ctx, a.Artifacts, a.index.GenerationKey(name, "manifest.json"), &ref)
	if name == a.current.Generation && (err == nil || artifact.IsDamage(err)) {
		return core.GenerationRef{
			Manifest: a.current.Manifest, Seq: a.current.Seq, State: core.GenerationPublished,
		}, info.ETag, nil
	}
	if !fault.Is(err, fault.NotFound) {
		return ref, info.ETag, err
	}
	marked, err := a.isMarked(ctx, name)
	if err != nil {
		return ref, "", err
	}
	if marked {
		return ref, "", a.newCollectedError(name, "it was deleted, because it was no longer kept")
	}
	return ref, "", cmp.Or(a.neverBuilt(ctx, name), a.newUnknownError(name))
}

func (a *act) isMarked(ctx context.Context, name string) (bool, error) {
	_, err := a.Artifacts.Stat(ctx, a.index.CollectedKey(name))
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

func (a *act) newCollectedError(name, why string) error {
	return fault.GenCollected.At(a.Action+" generation", name).
		Because(why).
		Advise("to list the kept ones: unweaver generations " + a.Index + "; to keep more: indexes." + a.Index +
			".keep, or a tag")
}

// neverBuilt explains a run that was held before anything was built; nil: there is no such run.
func (a *act) neverBuilt(ctx context.Context, name string) error {
	report, err := a.index.ReadReport(ctx, name)
	if err != nil || report.Status != core.StatusHeld {
		return nil
	}
	return fault.UnknownGen.At(a.Action+" generation", name).
		Because("its run was held before anything was built (" + report.Reason + "): " + report.Detail).
		Advise("if that is intended, raise the limit for one run: unweaver index --index " + a.Index +
			" --set indexes." + a.Index + ".gate.max_removed=1")
}

package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/aliases/pairstage"
	"github.com/unweaver/unweaver/internal/pipeline/image"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/stream/scratch"
	"github.com/unweaver/unweaver/workflows"
)

// MoveGeneration implements Control. It needs neither the engine nor a worker: what is served can be changed while both
// are down.
func (s *Service) MoveGeneration(ctx context.Context, r control.MoveRequest) (core.Move, error) {
	move, err := s.newDesk().Do(ctx, release.Request{
		Action: r.Action, Index: r.Index, Generation: r.Generation, Name: r.Name, Base: r.Base,
		Force: r.Force, KeepLabels: r.KeepLabels, Operator: control.OperatorOf(ctx),
	})
	if err == nil && r.Action == core.ActionPublish && !move.Unchanged {
		_ = run.NoteTime(ctx, s.Stores.Coordination, run.SuccessOf(r.Index), time.Now()) // for metrics alone
	}
	return move, err
}

func (s *Service) newDesk() *release.Desk {
	return &release.Desk{
		Artifacts: s.Stores.Artifacts, Mirror: s.Stores.Coordination, Records: s.Stores.Records, Vectors: s.Stores.Vectors,
	}
}

// ListOperations implements Control.
func (s *Service) ListOperations(ctx context.Context, index string, limit int) ([]core.Operation, error) {
	trail, err := release.ListOperations(ctx, s.indexOf(index), limit)
	if err == nil && len(trail) == 0 { // that of a deleted index stays
		err = s.checkKnown(ctx, index, "list the operations")
	}
	return trail, err
}

// CompareGenerations implements Control. What differs is copied to a folder of its own for as long.
func (s *Service) CompareGenerations(
	ctx context.Context, r control.DifferenceRequest,
) (out core.Difference, err error) {
	err = withTempCache(r.Index, func(cache *localfile.Cache) error {
		out, err = release.CompareGenerations(ctx, cache, s.indexOf(r.Index), r.From, r.To)
		return err
	})
	return out, err
}

// withTempCache runs f on an index with a cache in a folder of its own.
func withTempCache(index string, f func(cache *localfile.Cache) error) error {
	if err := checkIndex(index); err != nil {
		return err
	}
	folder, err := scratch.CreateFolder()
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	cache, err := localfile.New(folder, 0)
	if err != nil {
		return err
	}
	return f(cache)
}

// MoveImage implements Control. It needs neither the engine nor a worker. Files, keys and the account at a registry are
// those of the user of this process, so only the owner of the installation may ask for it.
func (s *Service) MoveImage(ctx context.Context, r core.ImageRequest) (out core.Transfer, err error) {
	if control.OfAnother(ctx) {
		return out, fault.Forbidden.At(r.Action, r.Index).
			Because("an image is moved with the files and accounts of this machine").
			Advise("run the command where the data directory is, or with a key of scope admin")
	}
	err = withTempCache(r.Index, func(cache *localfile.Cache) error {
		mover := image.Mover{
			ImageRequest: r, Operator: control.OperatorOf(ctx), Standings: s.standingOf,
			Ports: &run.Ports{
				Artifacts: s.Stores.Artifacts, Records: s.Stores.Records, Coordination: s.Stores.Coordination,
				Vectors: s.Stores.Vectors, StoreID: s.Stores.StoreID, Cache: cache, CPU: make(chan struct{}, 1),
				Log: slog.Default(),
			},
		}
		s.transfers.Store(r, &mover)
		defer s.transfers.CompareAndDelete(r, &mover)
		out, err = mover.Move(ctx)
		return err
	})
	return out, err
}

// ReadTransfer implements Control.
func (s *Service) ReadTransfer(_ context.Context, r core.ImageRequest) (out core.Transfer, _ error) {
	if mover, there := s.transfers.Load(r); there {
		out = mover.(*image.Mover).Progress()
	}
	return out, nil
}

// mostSuggested bounds how many classes are compared for suggestions: their vectors are held at once, and time grows
// with the square.
const mostSuggested = 100_000

// ListAliases implements Control.
func (s *Service) ListAliases(ctx context.Context, r control.AliasesRequest) (out core.AliasList, err error) {
	if r.Suggest && (r.Classes < 2 || r.Classes > mostSuggested || r.Cosine < 0 || r.Cosine > 1) {
		return out, fault.InvalidParam.At("suggest aliases of", r.Index).
			Because(fmt.Sprintf("%d entities at a cosine of %v were asked for", r.Classes, r.Cosine)).
			Advise(fmt.Sprintf("give 2 to %d entities, and a cosine of 0 to 1", mostSuggested))
	}
	var suggest *pairstage.Suggest
	if r.Suggest {
		suggest = &pairstage.Suggest{File: r.File, Classes: r.Classes, Cosine: r.Cosine, Refused: r.Refused}
	}
	err = withTempCache(r.Index, func(cache *localfile.Cache) error {
		out, err = pairstage.ListAliases(ctx, cache, s.indexOf(r.Index), s.Stores.Vectors, suggest)
		return err
	})
	return out, err
}

// recordOperation does something to an index between the two records of its operation; what cannot be recorded is not
// done.
func (s *Service) recordOperation(
	ctx context.Context, op core.Operation, index string, do func(id string) error,
) error {
	reason := op.Reason // of a command with a flag for it
	op.Operator = control.OperatorOf(ctx)
	op.Reason = cmp.Or(op.Reason, control.JoinLines(reason))
	op, err := release.Begin(ctx, s.indexOf(index), time.Now(), op)
	if err != nil {
		return err
	}
	err = do(op.ID)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordPatience)
	defer cancel()
	return errors.Join(err, release.End(bounded, s.indexOf(index), op, release.OutcomeOf(time.Now(), err)))
}

// recordPatience is how long a command on a run waits for its record: one that stops a run must not wait for a store
// that is out.
const recordPatience = 5 * time.Second

// recordCommand does a command on a run, which may give it something, between the two records of its operation. Where
// these cannot be written, the command is done all the same, as it may be what saves money, and the error says so.
func (s *Service) recordCommand(ctx context.Context, action, run, change string, do func() error) error {
	name, _, _ := strings.Cut(run, "/")
	index := s.indexOf(name)
	bounded, cancel := context.WithTimeout(ctx, recordPatience)
	op, unrecorded := release.Begin(bounded, index, time.Now(), core.Operation{
		Action: action, Run: run, Change: change, Operator: control.OperatorOf(ctx),
	})
	cancel()
	err := do()
	if unrecorded == nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordPatience)
		defer cancel()
		unrecorded = release.End(bounded, index, op, release.OutcomeOf(time.Now(), err))
	}
	if unrecorded == nil || err != nil {
		return err
	}
	if fault.As(unrecorded) == nil && errors.Is(unrecorded, context.DeadlineExceeded) {
		unrecorded = fault.StoreDown.At("write", "operations").Because(unrecorded)
	}
	return fault.CodeOf(unrecorded).At("record "+action+" of", run).
		Because(unrecorded).
		Advise("the operation took effect, but is missing from the audit trail")
}

// DeleteIndex implements Control. It needs no worker.
func (s *Service) DeleteIndex(ctx context.Context, r control.DeleteRequest) (core.Deletion, error) {
	if err := checkIndex(r.Index); err != nil {
		return core.Deletion{}, err
	}
	if !r.DryRun && !r.Confirmed {
		return core.Deletion{}, fault.Usage.At("delete index", r.Index).
			Because("a deletion cannot be undone, and was not confirmed").
			Advise("to see what it deletes: unweaver delete " + r.Index + " --dry-run; to confirm, add --yes")
	}
	if err := s.refuseWork(ctx, r.Index); err != nil {
		return core.Deletion{}, err
	}
	return s.newDesk().DeleteIndex(ctx, release.Deleting{
		Index: r.Index, DryRun: r.DryRun, Operator: control.OperatorOf(ctx), StoreID: s.Stores.StoreID,
		Staging: s.Stores.Staging, Standings: s.standingOf, Forget: s.Stores.Coordination.ForgetIndex,
		Unschedule: func(ctx context.Context) error { return s.deleteSchedule(ctx, r.Index) },
	})
}

// refuseWork refuses while anything works on an index: a build, a backfill, a restore or an audit.
func (s *Service) refuseWork(ctx context.Context, index string) error {
	going := func(what, run, end string) error {
		return fault.LeaseHeld.At("delete index", index).
			Because(what + " " + run + " is running").
			Advise("wait for it, or cancel it: " + end)
	}
	open, _, err := s.openBuilds(ctx, index)
	if err != nil {
		return err
	}
	if len(open) > 0 {
		return going("build", open[len(open)-1], "unweaver cancel "+open[len(open)-1])
	}
	for kind, latest := range map[string]string{
		"restore": runlog.LatestRestore(index), "audit": runlog.LatestAudit(index),
	} {
		work, err := s.recallRun(ctx, latest)
		if err != nil {
			return err
		}
		if work == "" {
			continue
		}
		if running, err := s.isRunning(ctx, workflows.WorkflowID(work), ""); err != nil || running {
			return cmp.Or(err, going(kind, work, "unweaver cancel "+work))
		}
	}
	backfills, err := run.ReadBackfills(ctx, s.indexOf(index))
	if err != nil {
		return err
	}
	for _, one := range backfills {
		if running, err := s.isRunning(ctx, workflows.BackfillID(index, one.Name), ""); err != nil || running {
			return cmp.Or(err, going("backfill", one.Name, "unweaver backfill cancel "+index+" "+one.Name))
		}
	}
	return nil
}

// standingOf asks the engine about the holder of a lease.
func (s *Service) standingOf(ctx context.Context, holder run.Holder) (run.Standing, error) {
	return engine.DescribeRun(ctx, s.Client, s.Engine, holder)
}

package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/workflows"
)

// PurgeDocuments implements Control. The operation is recorded with digests in the place of the documents' keys.
func (s *Service) PurgeDocuments(
	ctx context.Context, request control.PurgeRequest,
) (answer control.PurgeAnswer, err error) {
	if len(request.Documents) == 0 {
		return answer, fault.Usage.At("purge from", request.Index).Because("no document is named")
	}
	manifest, err := s.readPublished(ctx, request.Index, "purge documents")
	if err != nil {
		return answer, err
	}
	index := s.indexOf(request.Index)
	spec, err := index.Spec(ctx, manifest.Spec)
	err = errors.Join(err, checkUnshared(ctx, index), run.RefusePulled(ctx, index), run.RefuseImageSpec(spec))
	if err != nil {
		return answer, err
	}
	if answer.Plan, err = purges.Plan(ctx, index, request.Documents); err != nil || request.DryRun {
		return answer, err
	}
	if !request.Confirmed {
		return answer, fault.Usage.At("purge from", request.Index).
			Because("a purge cannot be undone, and was not confirmed").
			Advise("to see what it does, add --dry-run; to confirm, add --yes")
	}
	done, err := purgedBefore(ctx, index, answer.Plan)
	if err != nil || done != nil {
		answer.Purge = done
		return answer, err
	}
	if err := s.checkFree(ctx, request.Index); err != nil {
		return answer, err
	}
	wish := purges.WishOf(answer.Plan)
	wish.At, wish.Return = time.Now(), request.Return
	op := core.Operation{Action: core.ActionPurge, From: manifest.Generation, Name: joinIDs(wish.Documents)}
	err = s.recordOperation(ctx, op, request.Index, func(id string) error {
		wish.Operation = id
		return s.beginPurge(ctx, index, manifest, wish, request, &answer)
	})
	return answer, err
}

// checkUnshared refuses an index that shares its segments: with a branch there a purge could not end.
func checkUnshared(ctx context.Context, index artifact.Index) error {
	base, err := index.FindBase(ctx)
	if err != nil {
		return err
	}
	if base.Name != index.Name {
		return fault.Usage.At("purge from", index.Name).
			Because("it is a branch of " + base.Name + ", whose segments it shares").
			Advise("to keep what it serves, promote it; then delete it, and purge from " + base.Name)
	}
	branches, err := index.ListBranches(ctx)
	for _, branch := range branches {
		if err == nil && branch.State == core.BranchOpen {
			err = fault.Usage.At("purge from", index.Name).
				Because("its branch " + branch.Name + " shares its segments").
				Advise("to keep what it serves, promote it; then delete it: unweaver branch " + index.Name +
					" --delete " + branch.Name)
		}
	}
	return err
}

// beginPurge writes the wish, and starts the run that does it.
func (s *Service) beginPurge(
	ctx context.Context, index artifact.Index, manifest *core.Manifest, wish core.Purge, request control.PurgeRequest,
	answer *control.PurgeAnswer,
) error {
	digest, err := s.gatePurge(ctx, manifest.Spec, request) // first: the next run takes up what is begun
	if err != nil {
		return err
	}
	wish, err = purges.Begin(ctx, index, wish)
	if err != nil {
		return err
	}
	answer.Purge = &wish
	name, err := s.nameGeneration(ctx, index.Name)
	if err != nil {
		return err
	}
	name = workflows.PurgeGeneration + name
	if err := upkeep.ChoosePurge(ctx, index, name, wish.ID); err != nil {
		return err
	}
	run, err := s.startBuild(ctx, control.Priority{}, s.newBuild(index.Name, name, digest))
	answer.Run = &run
	return err
}

// gatePurge gives the configuration of a purge: what the current generation was built with, and the caller's gate.
func (s *Service) gatePurge(
	ctx context.Context, served core.Digest, request control.PurgeRequest,
) (core.Digest, error) {
	if request.Gate == nil {
		return served, nil
	}
	index := s.indexOf(request.Index)
	spec, err := index.Spec(ctx, served)
	if err != nil {
		return served, err
	}
	spec.Gate = *request.Gate
	if err := s.keepFiles(ctx, spec, core.Files{Probes: request.Probes}); err != nil {
		return served, err
	}
	return index.PutSpec(ctx, spec)
}

// purgedBefore gives the purge that was done already of documents that nothing holds any more. Of documents that no
// generation has, and that no purge removed, it is an error: the name may be another one.
func purgedBefore(ctx context.Context, index artifact.Index, plan core.PurgePlan) (*core.Purge, error) {
	all, err := purges.List(ctx, index)
	if err != nil {
		return nil, err
	}
	known := len(plan.Pending) > 0
	var last *core.Purge
	for _, document := range plan.Documents {
		was := slices.IndexFunc(all, func(one core.Purge) bool { return slices.Contains(one.Documents, document.Digest) })
		if was < 0 && !document.Known {
			return nil, fault.NotFound.At("purge from "+index.Name, fault.QuoteName(document.Key)).
				Because("no kept generation has a document with this key").
				Advise(cmp.Or(document.AdviseRows(),
					"to list its keys: GET /v1/indexes/"+index.Name+"/documents; a row is object#id"))
		}
		known = known || document.Known
		if was >= 0 {
			last = &all[was]
		}
	}
	if known {
		return nil, nil
	}
	return last, nil
}

// joinIDs names documents in the audit trail, as far as there is room.
func joinIDs(documents []core.Digest) string {
	short := make([]string, len(documents))
	for i, digest := range documents {
		short[i] = digest.Short(16)
	}
	return strings.Join(short, " ")
}

// checkFree refuses while a run builds the index.
func (s *Service) checkFree(ctx context.Context, index string) error {
	open, err := s.goingBuilds(ctx, index)
	if err != nil || len(open) == 0 {
		return err
	}
	run := open[len(open)-1]
	return fault.LeaseHeld.At("purge from", index).
		Because("run " + run + " is building it").
		Advise("add --wait to start the purge after that run ends; to end it now: unweaver cancel " + run)
}

// ListPurges implements Control.
func (s *Service) ListPurges(
	ctx context.Context, request control.PurgesRequest,
) (answer control.PurgesAnswer, err error) {
	index := s.indexOf(request.Index)
	if answer.Purges, err = purges.List(ctx, index); err != nil {
		return answer, err
	}
	if len(answer.Purges) == 0 {
		if err := s.checkKnown(ctx, request.Index, "list the purges"); err != nil {
			return answer, err
		}
	}
	if len(request.Readmit) > 0 {
		op := core.Operation{
			Action: core.ActionReadmit, Name: joinIDs(purges.SetOf(index.Name, request.Readmit).ListDigests()),
		}
		if err := s.recordOperation(ctx, op, index.Name, func(string) (err error) {
			answer.Readmits, err = purges.Allow(ctx, index, request.Readmit)
			return err
		}); err != nil {
			return answer, err
		}
	}
	answer.Purges, err = purges.List(ctx, index)
	return answer, err
}

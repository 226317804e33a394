package service

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

// ChangeBranch implements Control.
func (s *Service) ChangeBranch(ctx context.Context, r control.BranchRequest) (core.Branch, error) {
	if err := errors.Join(checkIndex(r.Index), checkIndex(r.Name)); err != nil {
		return core.Branch{}, err
	}
	asked := release.Branching{
		Base: r.Index, Name: r.Name, Generation: r.Generation, Set: r.Set, Operator: control.OperatorOf(ctx),
	}
	if r.Delete {
		if err := s.unscheduledBranch(ctx, r); err != nil {
			return core.Branch{}, err
		}
		building := func(ctx context.Context, index artifact.Index) (string, error) {
			return run.FindBuilder(ctx, index, s.standingOf)
		}
		return s.newDesk().DeleteBranch(ctx, asked, building)
	}
	if err := refuseLocalFiles(ctx, r); err != nil {
		return core.Branch{}, err
	}
	if err := config.CheckOverlay(r.Set); err != nil {
		return core.Branch{}, err
	}
	return s.newDesk().MakeBranch(ctx, asked)
}

// refuseLocalFiles refuses settings that name files of this machine to who does not own the installation: what is wrong
// with a file would say what it holds, and whether it is there.
func refuseLocalFiles(ctx context.Context, r control.BranchRequest) error {
	if !control.OfAnother(ctx) {
		return nil
	}
	for _, key := range []string{"aliases", "gate.probes", "extraction.examples", "follow_links"} {
		if _, set := r.Set[key]; set {
			return fault.Forbidden.At("branch", r.Index).
				Because("it sets " + key + ", which has the server read files of its machine").
				Advise("set it in the configuration, or make the branch with the command line of the server's owner")
		}
	}
	return nil
}

// unscheduledBranch deletes the schedule of a branch that is about to be deleted, where it has one: a night of it would
// fail.
func (s *Service) unscheduledBranch(ctx context.Context, r control.BranchRequest) error {
	base, err := s.indexOf(r.Name).FindBase(ctx)
	if err != nil || base.Name != r.Index || base.Name == r.Name {
		return err // which the deletion reports
	}
	if err = s.DeleteSchedule(ctx, r.Name); fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// ListBranches implements Control.
func (s *Service) ListBranches(ctx context.Context, index string) ([]core.Branch, error) {
	branches, err := release.ListBranches(ctx, s.indexOf(index))
	if err == nil && len(branches) == 0 {
		err = s.checkKnown(ctx, index, "list the branches")
	}
	return branches, err
}

// checkKnown refuses an index of which the store has nothing: an empty list of it would hide that its name is misspelt.
func (s *Service) checkKnown(ctx context.Context, index, what string) error {
	if err := checkIndex(index); err != nil {
		return err
	}
	for _, err := range s.Stores.Artifacts.List(ctx, index+"/", "") {
		return err
	}
	return fault.UnknownIndex.At(what+" of", index).
		Because("the store has nothing of that name").
		Advise("to list the indexes: unweaver ls")
}

// ReadOverlay implements Control.
func (s *Service) ReadOverlay(ctx context.Context, index string) (out control.Overlaid, err error) {
	out.Overlay, out.Corpus, err = release.OverlayOf(ctx, s.indexOf(index))
	return out, err
}

// checkOverlay refuses a configuration of a branch that was resolved without what the store says of it.
func (s *Service) checkOverlay(ctx context.Context, spec core.Spec) error {
	overlay, _, err := release.OverlayOf(ctx, s.indexOf(spec.Index))
	if err != nil || overlay.Base == "" || maps.Equal(overlay.Set, spec.Overlay) {
		return err
	}
	keys := strings.Join(slices.Sorted(maps.Keys(overlay.Set)), ", ")
	return fault.BadConfig.At("configure", spec.Index).
		Because("it is a branch of " + overlay.Base + " with its own settings (" + keys + "), which the " +
			"request lacks").
		Advise("use a command line of the same version")
}

package run

import (
	"context"
	"errors"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// scheduled is <index>/schedule.json: what the nights of a schedule build.
type scheduled struct {
	Spec core.Spec `json:"spec"`
}

// KeepSchedule keeps what the nights of an index build from now on.
func KeepSchedule(ctx context.Context, index artifact.Index, spec core.Spec) error {
	_, err := blob.WriteJSON(ctx, index.Store, index.ScheduleKey(), scheduled{spec}, blob.Cond{})
	return err
}

// DropSchedule forgets it.
func DropSchedule(ctx context.Context, index artifact.Index) error {
	return index.Store.Delete(ctx, index.ScheduleKey())
}

// OpenSchedule gives the configuration that a night builds.
func OpenSchedule(ctx context.Context, index artifact.Index) (core.Digest, error) {
	var kept scheduled
	_, err := blob.ReadJSON(ctx, index.Store, index.ScheduleKey(), &kept)
	if artifact.IsDamage(err) {
		return core.Digest{}, fault.BadConfig.At("build a night of", index.Name).
			Because("the configuration of its schedule is gone or damaged: " + index.Store.Location(index.ScheduleKey())).
			Advise("apply it again: unweaver schedule apply; or delete the schedule: unweaver schedule delete " + index.Name)
	}
	if err != nil {
		return core.Digest{}, err
	}
	if kept.Spec, err = promoted(ctx, index, kept.Spec); err != nil {
		return core.Digest{}, err
	}
	return index.PutSpec(ctx, kept.Spec)
}

// promoted is the configuration of nights after a branch was promoted: what it was built with, which is kept from then
// on. Else the nights would take it back.
func promoted(ctx context.Context, index artifact.Index, spec core.Spec) (core.Spec, error) {
	current, _, err := index.Current(ctx)
	var manifest *core.Manifest
	if err == nil && current.Manifest != "" {
		manifest, err = index.Manifest(ctx, current.Manifest)
	}
	if artifact.IsDamage(err) { // which the night mends
		return spec, nil
	}
	if manifest == nil {
		return spec, err
	}
	base, baseErr := artifact.BaseOf(ctx, index.Store, index.Name)
	if err = errors.Join(err, baseErr); err != nil || manifest.Index == index.Name || base != index.Name {
		return spec, err
	}
	made, err := index.Spec(ctx, manifest.Spec)
	if err != nil {
		return spec, err
	}
	made.Index = index.Name
	return made, KeepSchedule(ctx, index, made)
}

// Building names the run that holds the lease of an index and goes on; empty: none does, as far as this engine knows.
func Building(ctx context.Context, index artifact.Index, standing Standings) (string, error) {
	lease, _, err := ReadLease(ctx, index)
	if fault.Is(err, fault.NotFound) || err == nil && lease.Workflow == "" {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	found, err := standing(ctx, Holder{Workflow: lease.Workflow, Run: lease.Run, Engine: lease.Engine})
	if err != nil || found != StandingOpen {
		return "", err
	}
	_, run, _ := strings.Cut(lease.Workflow, "/") // build/index/generation
	return run, nil
}

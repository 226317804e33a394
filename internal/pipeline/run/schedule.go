package run

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Scheduled is <index>/schedule.json: what the nights of a schedule build, and what the engine knows of it, so that a
// restore makes it again.
type Scheduled struct {
	Spec     core.Spec       `json:"spec"`
	Schedule json.RawMessage `json:"schedule,omitempty"` // as it was applied: cron, time zone and so on
	Paused   bool            `json:"paused,omitempty"`
	Note     string          `json:"note,omitempty"` // why it was paused
}

// KeepSchedule keeps what the nights of an index build from now on.
func KeepSchedule(ctx context.Context, index artifact.Index, kept Scheduled) error {
	_, err := blob.WriteJSON(ctx, index.Store, index.ScheduleKey(), kept, blob.Cond{})
	return err
}

// ReadSchedule reads what is kept of a schedule; fault.NotFound: there is none.
func ReadSchedule(ctx context.Context, index artifact.Index) (kept Scheduled, err error) {
	_, err = blob.ReadJSON(ctx, index.Store, index.ScheduleKey(), &kept)
	return kept, err
}

// DropSchedule forgets it.
func DropSchedule(ctx context.Context, index artifact.Index) error {
	return index.Store.Delete(ctx, index.ScheduleKey())
}

// OpenSchedule gives the configuration that a night builds.
func OpenSchedule(ctx context.Context, index artifact.Index) (core.Digest, error) {
	kept, err := ReadSchedule(ctx, index)
	if artifact.IsDamage(err) {
		return core.Digest{}, fault.BadConfig.At("build a night of", index.Name).
			Because("the configuration of its schedule is gone or damaged: " + index.Store.Location(index.ScheduleKey())).
			Advise("to write it again: unweaver schedule apply; to delete the schedule: unweaver schedule delete " + index.Name)
	}
	if err != nil {
		return core.Digest{}, err
	}
	spec, err := readPromotedSpec(ctx, index, kept)
	if err != nil {
		return core.Digest{}, err
	}
	return index.PutSpec(ctx, spec)
}

// readPromotedSpec returns the configuration of nights after a branch was promoted: what it was built with, which is
// kept from then on. Else the nights would take it back.
func readPromotedSpec(ctx context.Context, index artifact.Index, kept Scheduled) (core.Spec, error) {
	spec := kept.Spec
	_, manifest, err := index.ReadServed(ctx)
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
	kept.Spec = made
	return made, KeepSchedule(ctx, index, kept)
}

// FindBuilder names the run that holds the lease of an index and goes on; empty: none does, as far as this engine
// knows.
func FindBuilder(ctx context.Context, index artifact.Index, standing Standings) (string, error) {
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

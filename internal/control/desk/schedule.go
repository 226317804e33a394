package desk

import (
	"context"
	"maps"
	"slices"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/fault"
)

// ScheduleChange is what a schedule is to be. What it leaves out is as the configuration says; with Paused alone the
// schedule stays as it is.
type ScheduleChange struct {
	Set    map[string]string // by keys of indexes.*.schedule
	Paused *bool             // nil: as it is
	Note   string            // why it is paused or resumed
}

// ApplySchedule creates the schedule of an index, or makes it what the configuration and a change of it say.
func (d *Desk) ApplySchedule(ctx context.Context, index string, change ScheduleChange) (control.Scheduled, error) {
	set := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(change.Set)) {
		value := change.Set[key]
		if why := config.FindMistake("schedule."+key, value); why != "" {
			return control.Scheduled{}, fault.InvalidParam.At("schedule "+index, key).Because(why)
		}
		if path := "indexes." + index + ".schedule." + key; d.Config.IsSet(path) {
			return control.Scheduled{}, fault.InvalidParam.At("schedule "+index, key).
				Because("the program that serves this was started with --set " + path).
				Advise("start it without")
		}
		set["schedule."+key] = value
	}
	controller, err := d.Connect(ctx)
	if err != nil {
		return control.Scheduled{}, err
	}
	var paused bool
	if len(set) == 0 && change.Paused != nil {
		found, err := controller.ReadSchedule(ctx, index)
		if err != nil {
			return found, err
		}
		paused = found.Paused
	} else if paused, err = d.applySettings(ctx, controller, index, set, change); err != nil {
		return control.Scheduled{}, err
	}
	if change.Paused != nil && *change.Paused != paused {
		steer := controller.ResumeSchedule
		if *change.Paused {
			steer = controller.PauseSchedule
		}
		if err := steer(ctx, index, change.Note); err != nil {
			return control.Scheduled{}, err
		}
	}
	return controller.ReadSchedule(ctx, index)
}

// applySettings makes a schedule what the configuration says with further settings, and returns whether it is paused.
// One that is created is paused from its beginning where the change says so.
func (d *Desk) applySettings(
	ctx context.Context, controller control.Control, index string, set map[string]string, change ScheduleChange,
) (paused bool, err error) {
	found, err := d.readSettings(ctx, index, set)
	if err != nil {
		return false, err
	}
	if found.schedule.Cron == "" {
		return false, fault.InvalidParam.At("schedule "+index, "cron").
			Because("it is not given, and indexes." + index + ".schedule.cron is not set").
			Advise(`send cron, such as "0 2 * * *"`)
	}
	request := control.ScheduleRequest{
		Spec: found.spec, Schedule: found.schedule, Priority: found.priority, Paused: change.Paused, Note: change.Note,
	}
	if request.Files, err = config.ReadFiles(&request.Spec); err != nil {
		return false, err
	}
	applied, err := controller.ApplySchedule(control.ForAnother(ctx), request)
	return applied.Paused, err
}

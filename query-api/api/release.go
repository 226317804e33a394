package api

import (
	"net/http"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/desk"
	"github.com/unweaver/unweaver/internal/core"
)

// ScheduleRequest is what a schedule is to be. Fields that are absent are as the configuration of the server says.
type ScheduleRequest struct {
	Cron     *string `json:"cron" doc:"five fields, or @daily and the like"`
	Timezone *string `json:"timezone" doc:"such as Europe/Oslo"`
	Overlap  *string `json:"overlap" enum:"skip,buffer_one,buffer_all,cancel_other,allow_all" doc:"during a build"`
	Catchup  *string `json:"catchup" doc:"how late a missed run may start, such as 24h"`
	Jitter   *string `json:"jitter" doc:"random delay of each run, such as 5m"`
	Paused   *bool   `json:"paused" doc:"pause or resume it; null: as it is"`
	Note     *string `json:"note" length:"0,500" doc:"why it is paused or resumed"`

	PauseOnFailure *bool `json:"pause_on_failure" doc:"pause it when a run fails"`
}

// readSchedule answers GET …/schedule.
func (o operation) readSchedule() (reply, error) {
	controller, err := o.connect()
	if err != nil {
		return reply{}, err
	}
	out, err := controller.ReadSchedule(o.ctx, o.index)
	return replySchedule(out, err)
}

func replySchedule(out control.Scheduled, err error) (reply, error) {
	if out.Nights == nil {
		out.Nights = []control.NightRun{}
	}
	return reply{status: http.StatusOK, body: out}, refuse(err)
}

// applySchedule answers PUT …/schedule.
func (o operation) applySchedule() (reply, error) {
	var body ScheduleRequest
	if err := o.read(&body); err != nil {
		return reply{}, err
	}
	change := desk.ScheduleChange{Set: map[string]string{}, Paused: body.Paused}
	for key, value := range map[string]*string{
		"cron": body.Cron, "timezone": body.Timezone, "overlap": body.Overlap, "catchup": body.Catchup,
		"jitter": body.Jitter,
	} {
		if value != nil {
			change.Set[key] = *value
		}
	}
	if body.PauseOnFailure != nil {
		change.Set["pause_on_failure"] = "false"
		if *body.PauseOnFailure {
			change.Set["pause_on_failure"] = "true"
		}
	}
	if body.Note != nil {
		if change.Note = *body.Note; len([]rune(change.Note)) > 500 {
			return reply{}, newFault("read body", "note", "it is longer than 500 characters", "")
		}
	}
	out, err := o.desk.ApplySchedule(o.ctx, o.index, change)
	return replySchedule(out, err)
}

// deleteSchedule answers DELETE …/schedule.
func (o operation) deleteSchedule() (reply, error) {
	controller, err := o.connect()
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, refuse(controller.DeleteSchedule(o.ctx, o.index))
}

// triggerSchedule answers POST …/schedule/trigger.
func (o operation) triggerSchedule() (reply, error) {
	controller, err := o.connect()
	if err != nil {
		return reply{}, err
	}
	out, err := controller.TriggerSchedule(o.ctx, o.index)
	return reply{status: http.StatusAccepted, body: out}, refuse(err)
}

// PublishRequest serves a generation.
type PublishRequest struct {
	Force  bool    `json:"force" doc:"serve a held generation even if another one than its parent is served now"`
	Reason *string `json:"reason" length:"0,500" doc:"for the audit trail"`
}

// publishGeneration answers POST …/generations/{generation}/publish: a generation that a gate held is approved, one
// that was published before is rolled back to.
func (o operation) publishGeneration() (reply, error) {
	var body PublishRequest
	generation, err := o.nameOf("generation")
	if err == nil {
		err = o.read(&body)
	}
	if err != nil {
		return reply{}, err
	}
	if body.Reason != nil {
		if len([]rune(*body.Reason)) > 500 {
			return reply{}, newFault("read body", "reason", "it is longer than 500 characters", "")
		}
		asks := control.OperatorOf(o.ctx)
		asks.Reason = *body.Reason
		o.ctx = control.WithOperator(o.ctx, asks)
	}
	controller, err := o.connect()
	if err != nil {
		return reply{}, err
	}
	kept, err := controller.ListGenerations(o.ctx, o.index)
	if err != nil {
		return reply{}, refuse(err)
	}
	request := control.MoveRequest{Action: core.ActionRollback, Index: o.index, Generation: generation}
	for _, one := range kept {
		if one.Generation == generation && one.State == core.GenerationHeld {
			request.Action, request.Force = core.ActionPublish, body.Force
		}
	}
	return o.move(controller, request)
}

// move changes what is served or kept.
func (o operation) move(controller control.Control, request control.MoveRequest) (reply, error) {
	out, err := controller.MoveGeneration(o.ctx, request)
	return reply{status: http.StatusOK, body: out}, refuse(err)
}

// changeGeneration returns what does one thing to a generation: discard, tag or untag.
func changeGeneration(action string) func(operation) (reply, error) {
	return func(o operation) (reply, error) {
		request := control.MoveRequest{Action: action, Index: o.index}
		var err error
		request.Generation, err = o.nameOf("generation")
		if err == nil && action != core.ActionDiscard {
			request.Name, err = o.nameOf("tag")
		}
		if err != nil {
			return reply{}, err
		}
		controller, err := o.connect()
		if err != nil {
			return reply{}, err
		}
		return o.move(controller, request)
	}
}

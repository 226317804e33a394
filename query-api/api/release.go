package api

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/desk"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/served"
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
func (o operation) readSchedule(controller control.Control) (reply, error) {
	return replySchedule(controller.ReadSchedule(o.ctx, o.index))
}

func replySchedule(out control.Scheduled, err error) (reply, error) {
	if out.Nights == nil {
		out.Nights = []control.NightRun{}
	}
	return reply{status: http.StatusOK, body: out}, err
}

// applySchedule answers PUT …/schedule.
func (o operation) applySchedule() (reply, error) {
	var body ScheduleRequest
	if err := o.read(&body); err != nil {
		return reply{}, err
	}
	change := desk.ScheduleChange{Set: map[string]string{}, Paused: body.Paused}
	if body.PauseOnFailure != nil {
		change.Set["pause_on_failure"] = strconv.FormatBool(*body.PauseOnFailure)
	}
	for key, value := range map[string]*string{
		"cron": body.Cron, "timezone": body.Timezone, "overlap": body.Overlap, "catchup": body.Catchup,
		"jitter": body.Jitter,
	} {
		if value != nil {
			change.Set[key] = *value
		}
	}
	var err error
	if change.Note, err = noteOf("note", body.Note); err != nil {
		return reply{}, err
	}
	return replySchedule(o.desk.ApplySchedule(o.ctx, o.index, change))
}

// deleteSchedule answers DELETE …/schedule.
func (o operation) deleteSchedule(controller control.Control) (reply, error) {
	return reply{status: http.StatusNoContent}, controller.DeleteSchedule(o.ctx, o.index)
}

// triggerSchedule answers POST …/schedule/trigger.
func (o operation) triggerSchedule(controller control.Control) (reply, error) {
	out, err := controller.TriggerSchedule(o.ctx, o.index)
	return reply{status: http.StatusAccepted, body: out}, err
}

// PublishRequest serves a generation.
type PublishRequest struct {
	Force  bool    `json:"force" doc:"serve a held generation even if another one than its parent is served now"`
	Reason *string `json:"reason" length:"0,500" doc:"for the audit trail"`
}

// publishGeneration answers POST …/generations/{generation}/publish: a generation that a gate held is approved, one
// that was published before is rolled back to.
func (o operation) publishGeneration(controller control.Control) (reply, error) {
	var body PublishRequest
	generation, err := o.nameOf("generation")
	if err == nil {
		err = o.read(&body)
	}
	asks := control.OperatorOf(o.ctx)
	if err == nil {
		asks.Reason, err = noteOf("reason", body.Reason)
	}
	if err != nil {
		return reply{}, err
	}
	kept, err := controller.ListGenerations(o.ctx, o.index)
	if err != nil {
		return reply{}, err
	}
	request := control.MoveRequest{
		Action: core.ActionRollback, Index: o.index, Generation: generation,
		KeepLabels: !middleware.CallerOf(o.ctx).Readers().All,
	}
	for _, one := range kept {
		if one.Generation == generation && one.State == core.GenerationHeld {
			request.Action, request.Force = core.ActionPublish, body.Force
		}
	}
	out, err := controller.MoveGeneration(control.WithOperator(o.ctx, asks), request)
	return reply{status: http.StatusOK, body: out}, err
}

// promoteBranch answers POST …/branches/{branch}/promote.
func (o operation) promoteBranch(controller control.Control) (reply, error) {
	name := o.PathValue("branch")
	if !core.ValidIndex(name) || !middleware.CallerOf(o.ctx).MayRead(name) {
		return reply{}, served.UnknownIndex(name)
	}
	branches, err := controller.ListBranches(o.ctx, o.index)
	if err != nil {
		return reply{}, err
	}
	if !slices.ContainsFunc(branches, func(branch core.Branch) bool { return branch.Name == name }) {
		return reply{}, fault.NotFound.At("find branch", name).
			Because("the index " + o.index + " has no branch of this name").
			Advise("to list its branches: unweaver branch " + o.index)
	}
	request := control.MoveRequest{
		Action: core.ActionPromote, Index: name, Base: o.index, // it may have changed since
		KeepLabels: !middleware.CallerOf(o.ctx).Readers().All,
	}
	out, err := controller.MoveGeneration(o.ctx, request)
	return reply{status: http.StatusOK, body: out}, err
}

// changeGeneration returns what does one thing to a generation: discard, tag or untag.
func changeGeneration(action string) func(operation, control.Control) (reply, error) {
	return func(o operation, controller control.Control) (reply, error) {
		request := control.MoveRequest{Action: action, Index: o.index}
		var err error
		request.Generation, err = o.nameOf("generation")
		if err == nil && action != core.ActionDiscard {
			request.Name, err = o.nameOf("tag")
		}
		if err != nil {
			return reply{}, err
		}
		out, err := controller.MoveGeneration(o.ctx, request)
		return reply{status: http.StatusOK, body: out}, err
	}
}

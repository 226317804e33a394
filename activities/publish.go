package activities

import (
	"cmp"
	"context"
	"slices"

	"go.temporal.io/sdk/activity"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/workflows"
)

// PublishBuild puts the built generation through the gates and makes it the served one.
func (a *Activities) PublishBuild(ctx context.Context, u workflows.Unit) (workflows.Outcome, error) {
	f := ofUnit(u.Stage)
	f.bad = checkUnit(u)
	return makeIn(ctx, a, u.Build, f, func(ctx context.Context, run *upkeep.Run) (workflows.Outcome, error) {
		published, err := run.Publish(ctx)
		return workflows.Outcome(published), err
	})
}

// collectAttempts is how often collecting is tried in one night.
const collectAttempts = 3

// CollectGarbage deletes scratch and what nothing names any more.
func (a *Activities) CollectGarbage(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return a.runWhole(ctx, u, func(inner context.Context, run *upkeep.Run) error {
		err := run.Collect(inner, holderOf(ctx))
		if err == nil {
			err = a.warnOfNames(inner, run)
		}
		// The generation is published: what cannot be collected is reported, and tried again by the next night.
		last := activity.GetInfo(ctx).Attempt >= collectAttempts
		if err == nil || inner.Err() != nil || (fault.KindOf(err) == fault.Transient && !last) {
			return err
		}
		problem := core.Problem{Code: string(fault.CodeOf(err)), Object: u.Stage, Detail: err.Error()}
		warned := run.Warn(inner, problem)
		if warned == nil {
			return nil
		}
		return makeFinal(err) // it cannot be recorded now: the end of the run reports it, once that can be written
	})
}

// warnOfNames reports webhooks that standing questions name and this worker's configuration does not.
func (a *Activities) warnOfNames(ctx context.Context, work *upkeep.Run) error {
	questions, err := work.Index.ListQuestions(ctx)
	if artifact.IsDamage(err) { // that is reported where they are asked
		return nil
	}
	var unknown []core.Problem
	for _, question := range questions {
		problem := core.Problem{
			Code: string(fault.BadConfig), Object: "watch",
			Detail: "notify.named has no webhook " + question.Notify + ", which standing questions name",
		}
		isKnown := question.Notify == "" || a.Notify != nil && a.Notify(work.Index.Name).Named[question.Notify] != ""
		if !isKnown && !slices.Contains(unknown, problem) {
			unknown = append(unknown, problem)
		}
	}
	return cmp.Or(err, work.Warn(ctx, unknown...))
}

// makeFinal makes an error one that is not tried again.
func makeFinal(err error) error {
	known := fault.As(err)
	if known == nil {
		return err
	}
	last := *known
	last.Kind = fault.Fatal
	return &last
}

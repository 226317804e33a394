package activities

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/workflows"
)

// plain are names of stages and ids of activities: they become parts of keys.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// checkBuild refuses an input that no program of ours sends. Inputs come from all who reach the engine: a name must
// be a name before it becomes a key. spec reports whether a configuration is wanted.
func checkBuild(b workflows.Build, stage string, spec bool) error {
	if err := (artifact.Index{Name: b.Index}).Check(); err != nil {
		return err
	}
	var digest core.Digest
	switch {
	case !core.ValidSlug(b.Generation):
		return newFault("name generation", b.Generation, "letters a-z, digits and hyphens, at most 63, no hyphen first")
	case (spec || b.Spec != "") && digest.UnmarshalText([]byte(b.Spec)) != nil:
		return newFault("read configuration", b.Spec, "want 64 hex digits")
	case !plain.MatchString(stage):
		return newFault("begin stage", stage, "it is not the name of a stage")
	case b.Fence < 0 || b.Attempt < 0:
		return newFault("begin run", b.Index, fmt.Sprintf("fence %d, attempt %d: below zero", b.Fence, b.Attempt))
	case b.Heartbeat < 0:
		return newFault("begin run", b.Index, "its heartbeat is below zero")
	}
	err := errors.Join(checkRef(b, b.Anew), checkFormat(b))
	if err == nil && stage == stageBackfill && !core.ValidSlug(b.Backfill) {
		err = newFault("name backfill", b.Backfill, "letters a-z, digits and hyphens, no hyphen first")
	}
	return err
}

// checkFormat refuses work of a run of another format, in such a way that a worker of that format may get it: what
// files of the run mean is not known here.
func checkFormat(b workflows.Build) error {
	if b.Shape.Format == workflows.Format {
		return nil
	}
	return fault.EngineDown.At("work on", b.Index+"/"+b.Generation).
		Because(fmt.Sprintf("it has workflow format %d, and this worker supports only %d", b.Shape.Format, workflows.Format)).
		Advise("update this worker to the version of the others; they do the work in the meantime")
}

// checkUnit refuses a piece of a stage that no stage has.
func checkUnit(u workflows.Unit) error {
	if u.N < 0 || u.Batch < 0 {
		return newFault("work on "+u.Stage, u.Index, fmt.Sprintf("unit %d, batch %d: below zero", u.N, u.Batch))
	}
	return nil
}

// checkEnd refuses references to what is no error of the run itself.
func checkEnd(end workflows.End) error {
	refs := []string{end.Ref}
	if end.Warning != nil {
		refs = append(refs, end.Warning.Ref)
	}
	for _, ref := range refs {
		if err := checkRef(end.Build, ref); err != nil {
			return err
		}
	}
	return nil
}

// checkRef refuses the reference of an error's text that lies anywhere but in the run's own scratch.
func checkRef(b workflows.Build, ref string) error {
	own := artifact.Index{Name: b.Index}.RunKey(b.Generation) + "/"
	if ref == "" || strings.HasPrefix(ref, own) && blob.CheckKey(ref) == nil {
		return nil
	}
	return newFault("read error of "+b.Index+"/"+b.Generation, ref, "it is outside the run")
}

func newFault(op, object, why string) error {
	return fault.InvalidParam.At(op, fault.QuoteName(object)).Because(why)
}

// refuseInput ends an activity whose input is none, before anything is opened for it: the code for the engine, the text
// for the log.
func (a *Activities) refuseInput(err error) error {
	code := string(fault.CodeOf(err))
	a.Log.Error("input refused", "code", code, "error", err.Error())
	return hideText(err)
}

// hideText maps an error whose text no artifact holds for the engine: history holds no text.
func hideText(err error) error {
	code := string(fault.CodeOf(err))
	return temporal.NewApplicationErrorWithOptions(code, code, temporal.ApplicationErrorOptions{
		NonRetryable: fault.KindOf(err) != fault.Transient, Details: []any{""},
	})
}

// commands are those that SteerRun takes.
var commands = map[string]bool{
	run.CommandPause: true, run.CommandResume: true, run.CommandCancel: true,
	run.CommandConcurrency: true, run.CommandBudget: true, run.CommandRates: true,
}

func checkSteer(steer workflows.Steer) error {
	switch b := steer.NewBudget; {
	case !commands[steer.Command]:
		return newFault("steer "+steer.Index, steer.Command, "it is not a command")
	case b != nil && (b.Calls < 0 || b.Tokens < 0 || b.Money < 0):
		return newFault("steer", steer.Index, "a budget must not be negative")
	}
	if l := steer.NewLimits; l != nil {
		if err := core.LiveLimits(*l).Check(); err != nil {
			return newFault("steer", steer.Index, err.Error())
		}
	}
	return nil
}

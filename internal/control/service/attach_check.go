package service

import (
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// checkApply refuses to join a build that applies changed types to other passages than those that are asked for.
func checkApply(run string, was, now core.Spec) error {
	if was.ApplyTo() == now.ApplyTo() {
		return nil
	}
	chosen := func(spec core.Spec) string {
		if spec.ApplyTo() == "" {
			return "without --extraction-to"
		}
		return "with --extraction-to " + spec.ApplyTo()
	}
	return fault.LeaseHeld.At("index", now.Index).
		Because("run " + run + " builds it " + chosen(was) + ", and this command asks for it " + chosen(now)).
		Advise("to join that run, run this command " + chosen(was) + "; to build with your choice: unweaver cancel " + run +
			", then run the same command again (paid results are kept)")
}

// checkAttachable refuses to join a build that stands still with other settings than those that are asked for: it would
// go on, or wait to be resumed, as it began. One that gets on is joined where its result is the same.
func checkAttachable(run string, state core.RunState, was, now core.Spec) error {
	status := state.Report.Status
	if status != core.StatusPaused && status != core.StatusWaiting {
		return nil
	}
	differs := now.ListDifferences(was)
	if len(differs) == 0 {
		return nil
	}
	why := status
	if reason := state.Report.Reason; reason != "" {
		why += " (" + reason + ")"
	}
	return fault.LeaseHeld.At("index", now.Index).
		Because("run " + run + " builds it and is " + why + "; it began with other settings: " + strings.Join(differs, "; ")).
		Advise("to continue with its settings: unweaver resume " + run + "; to build with your settings: unweaver " +
			"cancel " + run + ", then run the same command again (paid results are kept)")
}

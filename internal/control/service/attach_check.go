package service

import (
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

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

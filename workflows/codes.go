package workflows

import (
	"errors"
	"fmt"
	"strings"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
)

// Codes that workflows themselves give. The others are those of the activities' faults.
const (
	codePaused      = "paused"
	codeBudgetSpent = "budget_spent"
	codeBadConfig   = "bad_config"
	codeUsage       = "usage"
	codeCancelled   = "cancelled"
	codeRunEnded    = "run_ended"
	codeInternal    = "internal"
	codeStalled     = "stalled"

	// codeParentDamaged has a build begin again, once: a segment that an earlier one wrote cannot be read.
	codeParentDamaged = "parent_damaged"
	// codeOutgrown has a build that made a part of a generation begin again, once, and make all of it.
	codeOutgrown = "outgrown"

	// CodeActivityFailed stands for an activity that ended without telling why, as often as it may: a panic, a worker
	// killed in it again and again.
	CodeActivityFailed = "activity_failed"
)

// pausing are the codes that pause a run: waiting or a person can mend the cause, and resume costs nothing that was
// paid.
var pausing = map[string]bool{
	codePaused:             true,
	codeBudgetSpent:        true,
	CodeActivityFailed:     true,
	"model_auth":           true,
	"endpoint_refused":     true,
	"corpus_refused":       true,
	"model_quota":          true,
	"model_unreadable":     true,
	"model_refused":        true,
	"model_unknown":        true,
	"model_unavailable":    true,
	"model_rate_limited":   true,
	codeBadConfig:          true,
	"store_full":           true,
	"store_unavailable":    true,
	"store_denied":         true,
	"not_recorded":         true,
	"dimension_changed":    true,
	"bad_vector":           true,
	"bad_embeddings":       true,
	"embedder_unavailable": true,
	"engine_unavailable":   true,
	"generation_busy":      true,
	codeStalled:            true,
	"control_unreadable":   true,
	"parser_unavailable":   true,
}

// waited are those of them that mend by themselves as a rule: a run waits and tries again before it needs a person.
var waited = map[string]bool{
	"store_full":           true,
	"store_unavailable":    true,
	"model_unavailable":    true,
	"model_rate_limited":   true,
	"embedder_unavailable": true,
	"engine_unavailable":   true,
	"generation_busy":      true,
	"parser_unavailable":   true,
	codeStalled:            true,
}

// haltsStage reports whether a unit that ends with this code stops its stage without failing it. A cancelled run's
// activities may find the stop in the control record before their cancellation reaches them.
func haltsStage(code string) bool { return pausing[code] || code == codeCancelled }

// cause is why something did not go on: a code, and what there is to read about it.
type cause struct {
	code   string
	ref    string // of the text that the activity wrote
	detail string // that text, where no activity lived to write it
}

// halted is the error of a stage that stopped with units left, or of a run that a person asked to pause.
type halted struct{ cause }

func (h *halted) Error() string { return "halted: " + h.code }

// causeOf gives the cause of an error from the first activity error in its chain.
func causeOf(err error) cause {
	var stop *halted
	if errors.As(err, &stop) {
		return stop.cause
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		// Activities map every error they know of and give it a reference; without one it is an error of the program.
		if !app.HasDetails() {
			return cause{code: CodeActivityFailed, detail: describeUnknown(err)}
		}
		reported := cause{code: app.Type()}
		_ = app.Details(&reported.ref) // a reference of another type is none
		return reported
	}
	var panicked *temporal.PanicError
	var late *temporal.TimeoutError
	if errors.As(err, &late) && late.TimeoutType() != enums.TIMEOUT_TYPE_HEARTBEAT { // its worker lives, a call hangs
		return cause{code: codeStalled, detail: describeUnknown(err)}
	}
	if errors.As(err, &panicked) || errors.As(err, &late) {
		return cause{code: CodeActivityFailed, detail: describeUnknown(err)}
	}
	if temporal.IsCanceledError(err) {
		return cause{code: codeCancelled}
	}
	return cause{code: codeInternal, detail: describeUnknown(err)}
}

// longestDetail bounds the text of an error that is kept in histories, in bytes.
const longestDetail = 500

// describeUnknown describes what no activity described: which one ended, and how, as the engine reports it.
func describeUnknown(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	var failed *temporal.ActivityError
	if errors.As(err, &failed) && failed.Unwrap() != nil {
		text = fmt.Sprintf("%s ended without telling why: %v", failed.ActivityType().GetName(), failed.Unwrap())
	}
	if len(text) > longestDetail {
		text = strings.ToValidUTF8(text[:longestDetail], "") + "…"
	}
	return text
}

// newRefusal returns the error that answers an update which cannot be obeyed.
func newRefusal(format string, values ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, values...), codeUsage, nil)
}

// newEndedRefusal returns the error that answers an update which comes after the end of what it would change. Its code
// is that of an update which comes after the end of the workflow.
func newEndedRefusal(text string) error {
	return temporal.NewNonRetryableApplicationError(text, codeRunEnded, nil)
}

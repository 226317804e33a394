package workflows

import (
	"errors"
	"fmt"

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
	codeInternal    = "internal"
	codeStalled     = "stalled"

	// codeParentDamaged has a build begin anew, once: a segment that an earlier one wrote cannot be read.
	codeParentDamaged = "parent_damaged"
	// codeOutgrown has a build that made a part of a generation begin anew, once, and make all of it.
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

// Waited tells whether a run waits by itself for what this code stands for to end, before it needs a person.
func Waited(code string) bool { return waited[code] }

// Pausing tells whether a failure with this code pauses a run; any other ends it.
func Pausing(code string) bool { return pausing[code] }

// halting tells whether a unit that ends with this code stops its stage without failing it. A cancelled run's
// activities may find the stop in the control record before their cancellation reaches them.
func halting(code string) bool { return pausing[code] || code == codeCancelled }

// halted is the error of a stage that stopped with units left, or of a run that a person asked to pause.
type halted struct{ code, ref string }

func (h *halted) Error() string { return "halted: " + h.code }

// failure gives the code of an error, and the reference of its text, from the first activity error in its chain.
func failure(err error) (code, ref string) {
	var stop *halted
	if errors.As(err, &stop) {
		return stop.code, stop.ref
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		// Activities map every error they know of and give it a reference; without one it is an error of the program.
		if !app.HasDetails() {
			return CodeActivityFailed, ""
		}
		_ = app.Details(&ref) // a reference of another type is none
		return app.Type(), ref
	}
	var panicked *temporal.PanicError
	var late *temporal.TimeoutError
	if errors.As(err, &late) && late.TimeoutType() != enums.TIMEOUT_TYPE_HEARTBEAT { // its worker lives, a call hangs
		return codeStalled, ""
	}
	if errors.As(err, &panicked) || errors.As(err, &late) {
		return CodeActivityFailed, ""
	}
	if temporal.IsCanceledError(err) {
		return codeCancelled, ""
	}
	return codeInternal, ""
}

// refused is how an update that cannot be obeyed is answered.
func refused(format string, values ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, values...), codeUsage, nil)
}
